"""Random numbers: every ordinal has a generator of its own, apart from the CPU's."""

from .. import _npu
from .devices import _get_device_index

__all__ = [
    "default_generators",
    "get_rng_state",
    "get_rng_state_all",
    "initial_seed",
    "manual_seed",
    "manual_seed_all",
    "seed",
    "seed_all",
    "set_rng_state",
    "set_rng_state_all",
]

default_generators = tuple(_npu.default_generator(index) for index in range(_npu.device_count()))


def _generator(device):
    index = _get_device_index(device, optional=True)
    if not 0 <= index < len(default_generators):
        raise AssertionError(
            f"Invalid device id: {index} (this process has npu:0 to npu:{len(default_generators) - 1})"
        )
    return default_generators[index]


def get_rng_state(device="npu"):
    """The generator's state as a CPU ByteTensor."""
    return _generator(device).get_state()


def set_rng_state(new_state, device="npu"):
    _generator(device).set_state(new_state.cpu())


def get_rng_state_all():
    return [generator.get_state() for generator in default_generators]


def set_rng_state_all(new_states):
    for device, state in enumerate(new_states):
        set_rng_state(state, device)


def manual_seed(seed):
    """Seeds the current device's generator."""
    _generator(None).manual_seed(int(seed))


def manual_seed_all(seed):
    for generator in default_generators:
        generator.manual_seed(int(seed))


def seed():
    """Seeds the current device's generator with a number that nobody chose, and returns it."""
    return _generator(None).seed()


def seed_all():
    """Seeds all generators with one number that nobody chose."""
    manual_seed_all(default_generators[0].seed())


def initial_seed():
    return _generator(None).initial_seed()
