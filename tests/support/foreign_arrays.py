"""Doubles of arrays of other libraries: what each of them shows of itself, and what a broken one does."""

from __future__ import annotations

import ctypes
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from vyre.adapters import dlpack

Array: TypeAlias = npt.NDArray[Any]
CPU: Final = (1, 0)
CUDA: Final = (2, 0)


class Tensor:
    """As a ``torch.Tensor``: DLPack and ``__array__``, a type of its own, and no buffer protocol."""

    def __init__(self, array: Array, device: tuple[int, int] = CPU, *, grad: bool = False) -> None:
        self.array, self.device, self.grad, self.exports = array, device, grad, 0
        self.shape, self.dtype = tuple(array.shape), f"torch.{array.dtype}"

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device

    def __dlpack__(self, *, stream: object = None, max_version: object = None, **options: object) -> Any:
        self.exports += 1
        if self.grad:
            raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
        return self.array.__dlpack__(max_version=max_version)  # type: ignore[arg-type]  # as it was given

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if self.grad:
            raise RuntimeError("Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.")
        if self.device != CPU:
            raise TypeError("can't convert cuda:0 device type tensor to numpy.")
        return self.array


class Series:
    """As a ``pandas.Series``: ``__array__``, a type and a shape."""

    def __init__(self, array: Array) -> None:
        self.array, self.shape, self.dtype = array, array.shape, array.dtype

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.asarray(self.array, dtype)


class ArrowArray:
    """As a ``pyarrow.Array``: DLPack without missing values, and ``__array__``, which turns them into NaN."""

    def __init__(self, array: Array, null_count: int = 0, *, packed: bool = False) -> None:
        self.array, self.null_count, self.packed = array, null_count, packed

    def __dlpack_device__(self) -> tuple[int, int]:
        return CPU

    def __dlpack__(self, *, stream: object = None) -> Any:
        if self.null_count:
            raise TypeError("Can only use DLPack on arrays with no nulls.")
        if self.packed:
            raise TypeError("Bit-packed boolean data type not supported by DLPack.")
        return self.array.__dlpack__()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.where(np.arange(self.array.size) < self.null_count, np.float32(np.nan), self.array)


class Described:
    """Shows ``__array_interface__``: that of an array, with changes."""

    def __init__(self, array: Array, **changes: Any) -> None:
        self.array = array
        self.__array_interface__ = {**array.__array_interface__, **changes}


class CudaArray:
    """As a ``cupy.ndarray``: the interface of CUDA, and a conversion that has to be asked for."""

    def __init__(self, **interface: Any) -> None:
        self.__cuda_array_interface__ = {
            "shape": (8,), "typestr": "<f4", "data": (1 << 20, False), "version": 3, "strides": None, **interface
        }  # fmt: skip

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        raise TypeError("Implicit conversion to a NumPy array is not allowed. Please use `.get()`.")


_LENT: Final[list[object]] = []
"""The tensors that capsules point to, which outlive the capsules, whoever holds them."""


class Lender:
    """Exports a capsule of DLPack with any fields, without a version or with one; counts how often it came back."""

    def __init__(self, array: Array, device: tuple[int, int] = CPU, **fields: Any) -> None:
        self.array, self.device, self.fields, self.returned = array, device, fields, 0
        self.capsule: Any = None

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device

    def __dlpack__(self, **options: object) -> Any:
        if self.fields.get("twice") and self.capsule is not None:
            return self.capsule
        if "returns" in self.fields:
            return self.fields["returns"]
        fields, array = self.fields, self.array
        shape = fields.get("shape", array.shape)
        strides = fields.get("strides")
        dims = (ctypes.c_int64 * max(1, len(shape)))(*shape)
        steps = None if strides is None else (ctypes.c_int64 * len(strides))(*strides)
        dtype = dlpack._DataType(
            fields.get("code", {"f": 2, "u": 1, "i": 0}[array.dtype.kind]),
            fields.get("bits", 8 * array.dtype.itemsize),
            fields.get("lanes", 1),
        )
        address = fields.get("address", array.__array_interface__["data"][0])
        axes = fields.get("ndim", len(shape))
        device = dlpack._Device(*fields.get("on", self.device))
        tensor = dlpack._Tensor(address, device, axes, dtype, dims, steps, fields.get("byte_offset", 0))
        managed: Any
        if "version" in fields:
            gone = dlpack._VersionedDeleter(lambda _: self._back())
            major, minor = fields["version"]
            managed = dlpack._VersionedTensor(major, minor, None, gone, fields.get("flags", 0), tensor)
        else:
            gone = dlpack._Deleter(lambda _: self._back())
            managed = dlpack._ManagedTensor(tensor, None, gone)
        _LENT.append((self, dims, steps, gone, managed))
        name = b"dltensor_versioned" if "version" in fields else b"dltensor"
        self.capsule = dlpack._new_capsule(ctypes.addressof(managed), name, None)
        return self.capsule

    def _back(self) -> None:
        self.returned += 1
