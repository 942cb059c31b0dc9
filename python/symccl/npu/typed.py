"""The classes of the old tensor types: torch.npu.FloatTensor(2, 3), isinstance(x, torch.npu.HalfTensor)."""

import torch

_DTYPES = {
    "Bool": torch.bool,
    "Byte": torch.uint8,
    "Char": torch.int8,
    "Short": torch.int16,
    "Int": torch.int32,
    "Long": torch.int64,
    "Half": torch.float16,
    "BFloat16": torch.bfloat16,
    "Float": torch.float32,
    "Double": torch.float64,
}


class _TensorType(type):
    def __instancecheck__(cls, instance):
        return isinstance(instance, torch.Tensor) and instance.device.type == "npu" and instance.dtype == cls.dtype

    def __call__(cls, *arguments, device="npu"):
        """Sizes (uninitialised), a torch.Size, a sequence of values, another tensor, or nothing (empty)."""
        options = {"dtype": cls.dtype, "device": device}
        if len(arguments) == 1 and not isinstance(arguments[0], int | torch.Size):
            return torch.as_tensor(arguments[0], **options)
        if len(arguments) == 1 and isinstance(arguments[0], torch.Size):
            arguments = tuple(arguments[0])
        return torch.empty(arguments or (0,), **options)


class _StorageType(type):
    def __instancecheck__(cls, instance):
        typed = isinstance(instance, torch.TypedStorage) and instance.dtype == cls.dtype
        return typed and instance._untyped_storage.device.type == "npu"

    def __call__(cls, size=0):
        """An uninitialised storage of `size` elements."""
        bytes_ = torch.UntypedStorage(size * cls.dtype.itemsize, device="npu")
        return torch.TypedStorage(wrap_storage=bytes_, dtype=cls.dtype, _internal=True)


def _make(kind, metaclass):
    names = {}
    for name, dtype in _DTYPES.items():
        names[name + kind] = metaclass(name + kind, (), {"dtype": dtype, "__module__": "torch.npu", "is_npu": True})
    return names


tensor_types = _make("Tensor", _TensorType)
storage_types = _make("Storage", _StorageType)
