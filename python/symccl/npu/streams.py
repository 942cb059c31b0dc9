"""Streams and events. Kernels end before their call returns; what runs beside the caller are collectives."""

import torch

from .. import _npu
from .devices import _get_device_index

__all__ = [
    "Event",
    "Stream",
    "StreamContext",
    "SyncLaunchStream",
    "current_stream",
    "default_stream",
    "is_current_stream_capturing",
    "set_stream",
    "stream",
]

_NPU = int(torch._C._autograd.DeviceType.PrivateUse1)


class Stream(torch.Stream):
    """A stream of a device.

    Args:
        device: int, str or torch.device; None is the current device.
        priority: lower numbers are higher priorities, as everywhere in PyTorch; 0 is the usual one.
    """

    def __new__(cls, device=None, priority=0, **place):
        if place:  # stream_id, device_index, device_type: an existing stream
            return super().__new__(cls, **place)
        index = _get_device_index(device, optional=True)
        return super().__new__(cls, device=torch.device("npu", index), priority=priority)

    @property
    def priority(self):
        return _npu.stream_priority(self)

    @property
    def npu_stream(self):
        """The stream as a number."""
        return self.stream_id

    def wait_event(self, event):
        """Work that is given to this stream from now on starts after `event`."""
        event.wait(self)

    def wait_stream(self, stream):
        """Work that is given to this stream from now on starts after what `stream` has been given."""
        self.wait_event(stream.record_event())

    def record_event(self, event=None):
        event = Event() if event is None else event
        event.record(self)
        return event

    def set_data_preprocess_stream(self, is_data_preprocess_stream=False):
        """Has no effect: a scheduling hint of real devices."""

    def __repr__(self):
        return f"<torch_npu.npu.Stream device={self.device} npu_stream={self.npu_stream:#x}>"


class SyncLaunchStream(Stream):
    """A stream without a launch queue: every stream is one here."""


class Event(torch.Event):
    """A mark in a stream, of what had been given to it when the event was recorded.

    Args:
        enable_timing: elapsed_time() may be asked.
        blocking: has no effect, waits sleep anyway.
        interprocess: must be False.
    """

    def __new__(cls, enable_timing=False, blocking=False, interprocess=False):
        if interprocess:
            raise NotImplementedError("torch.npu.Event: interprocess=True is not emulated: events belong to a process")
        return super().__new__(cls, device="npu", enable_timing=enable_timing)

    def __init__(self, enable_timing=False, blocking=False, interprocess=False):
        self._timed = enable_timing

    def record(self, stream=None):
        super().record(current_stream() if stream is None else stream)

    def wait(self, stream=None):
        """Makes work that is given to `stream` (default: the current one) from now on wait for this event."""
        super().wait(current_stream() if stream is None else stream)

    def elapsed_time(self, end_event):
        """Milliseconds from this event to `end_event`. Both must be recorded, with enable_timing=True."""
        if not self._timed or not getattr(end_event, "_timed", True):  # torch.Event does not say
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        return _npu.elapsed_time(self.event_id, end_event.event_id)

    @property
    def npu_event(self):
        """The event as a number; 0 before it is recorded."""
        return self.event_id

    def __repr__(self):
        return f"<torch_npu.npu.Event {self.event_id:#x}>" if self.event_id else "<torch_npu.npu.Event uninitialized>"


def _as_ours(stream):
    return Stream(stream_id=stream.stream_id, device_index=stream.device_index, device_type=_NPU)


def current_stream(device=None):
    """The stream that this thread has selected for the device."""
    return _as_ours(torch._C._accelerator_getStream(_get_device_index(device, optional=True)))


def default_stream(device=None):
    return Stream(stream_id=0, device_index=_get_device_index(device, optional=True), device_type=_NPU)


def set_stream(stream):
    """Selects a stream and its device for this thread; None changes nothing."""
    if stream is not None:
        torch._C._accelerator_setStream(stream)


class StreamContext:
    """Context manager: this thread gives its work to `stream`. None changes nothing."""

    def __init__(self, stream):
        self.stream = stream
        self._previous = None

    def __enter__(self):
        if self.stream is not None:
            self._previous = (current_stream(), current_stream(self.stream.device))
            set_stream(self.stream)

    def __exit__(self, *exception):
        if self.stream is not None:
            here, there = self._previous
            set_stream(there)
            set_stream(here)
        return False


def stream(stream):
    return StreamContext(stream)


def is_current_stream_capturing():
    """False: graphs are not emulated."""
    return False
