"""Arrays of other libraries on the host: the protocols by which they show their memory.

``__array_interface__`` and DLPack show the memory itself; ``__array__`` may copy it.  No other library than NumPy is
imported.  Reading an address of memory that was freed ends the process, so the system's own call is asked first whether
it is there, where there is one.
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from vyre.domain.errors import InvalidInput, InvalidResource
from vyre.domain.ir.numpy_scalars import whole_number
from vyre.domain.printable import shown

if TYPE_CHECKING:
    import numpy.typing as npt

    Array: TypeAlias = npt.NDArray[Any]
    Borrowed: TypeAlias = tuple[Array, npt.NDArray[np.uint8], int, bool]

_ADDRESSES: Final = 1 << 63
"""The first address that no process has."""


class _Range(ctypes.Structure):
    _fields_ = (("address", ctypes.c_void_p), ("nbytes", ctypes.c_size_t))


@cache
def _reader() -> Any:
    """Returns ``process_vm_readv``; None on a system without it."""
    try:
        read = ctypes.CDLL(None, use_errno=True).process_vm_readv
    except (AttributeError, OSError, TypeError):
        return None
    read.restype = ctypes.c_ssize_t
    read.argtypes = (ctypes.c_int, *(ctypes.c_void_p, ctypes.c_ulong) * 2, ctypes.c_ulong)
    return read


def is_readable(first: int, behind: int) -> bool:
    """Returns whether the first and the last byte of a range of addresses can be read, as far as the system tells.

    The bytes between them are not looked at.
    """
    if not 0 < first < behind <= _ADDRESSES:
        return False
    read = _reader()
    if read is None:
        return True
    into = (ctypes.c_char * 2)()
    local = _Range(ctypes.addressof(into), 2)
    remote = (_Range * 2)(_Range(first, 1), _Range(behind - 1, 1))
    taken = read(os.getpid(), ctypes.addressof(local), 1, ctypes.addressof(remote), 2, 0)
    return bool(taken == 2 or (taken < 0 and ctypes.get_errno() != errno.EFAULT))


HOST_DEVICES: Final = frozenset((1, 3, 11, 13))
"""DLPack's types of devices whose memory the host reads: CPU, pinned memory of CUDA and ROCm, managed memory."""
_BYTE: Final = np.dtype(np.uint8)
_CUDA_ARRAY: Final = "__cuda_array_interface__"
_addressof: Final = ctypes.addressof
_byte_in: Final[Callable[[Any], ctypes.c_char]] = ctypes.c_char.from_buffer
_COPY: Final = "pass numpy.asarray(x) if a copy with NumPy's types is meant"


def foreign_array(data: object, name: str) -> Array | None:
    """Returns an array over the memory of an object that has one of the protocols, or over a copy of it; None for an
    object without any.

    Raises ``InvalidInput``, naming ``name``, for memory of a device, which has to be adopted, for missing values, which
    an array would lose, and for an object that breaks its protocol.
    """
    if isinstance(data, type):
        return None
    title = f"{name}: the {type(data).__name__}"
    if _has(data, _CUDA_ARRAY) or _device_of(data, title) not in HOST_DEVICES:
        raise InvalidInput(
            f"{title} is in the memory of a device",
            fix="make it a resident array with session.adopt(x), or copy it to the host.",
        )
    missing = getattr(data, "null_count", 0)
    if isinstance(missing, int) and missing > 0:
        raise InvalidInput(
            f"{title} has {missing} missing values, which an array would lose", fix="fill them, or drop them."
        )
    if _has(data, "__array_interface__"):
        return _by_interface(data, title)
    failed: Exception | None = None
    if _has(data, "__dlpack__"):
        try:
            return dlpack_array(data, name)
        except InvalidInput as error:
            failed = error
    if _has(data, "__array__"):
        try:
            return np.asarray(data)
        except Exception as error:
            raise InvalidInput(f"{title} becomes no array: {_said(error)}", fix="pass a NumPy array.") from error
    if failed is not None:
        raise failed
    return None


def shared_array(data: object, name: str) -> Array | None:
    """Returns an array over the very memory of an object: a NumPy array, or one of the protocols that show it.

    None for an object without any.  Raises ``InvalidInput`` for one that breaks its protocol.
    """
    if isinstance(data, np.ndarray):
        return data
    kind = type(data)
    if kind is type or isinstance(data, type):
        return None
    if hasattr(kind, "__dlpack__") and not _has(data, "__array_interface__"):
        return dlpack_array(data, name)
    return _by_interface(data, f"{name}: the {kind.__name__}") if _has(data, "__array_interface__") else None


def borrowed_bytes(data: object) -> Borrowed:
    """Returns an object as an array, its bytes, which keep it alive, their address, and whether they may be written.

    Copies nothing.

    Raises ``InvalidResource`` for an object that does not show its memory, and for memory with gaps, without alignment,
    with a mask or with Python objects.
    """
    if type(data) is np.ndarray:
        array = data
    else:
        try:
            lent = shared_array(data, "adopt")
        except InvalidInput as error:
            raise InvalidResource(error.message, fix=error.fix) from error
        if lent is None and _has(data, _CUDA_ARRAY):
            raise InvalidResource(
                f"the {type(data).__name__} is in the memory of a GPU, and this backend computes on the host",
                fix="adopt it in a session on that GPU, or copy it to the host.",
            )
        if lent is None or isinstance(lent, np.ma.MaskedArray):
            raise InvalidResource(
                f"a {type(data).__name__} shows no memory by DLPack or __array_interface__, or has a mask",
                fix="pass an array of the host, such as a NumPy array or a tensor on the CPU; upload other data.",
            )
        array = lent
    flags, dtype = array.flags, array.dtype
    if dtype.hasobject:
        raise InvalidResource(f"a {type(data).__name__} of Python objects is adopted", fix="adopt plain numbers.")
    if not flags.c_contiguous:
        raise InvalidResource(
            f"the memory of the {type(data).__name__} is not contiguous (shape {array.shape}, strides {array.strides})",
            fix="adopt a contiguous copy.",
        )
    if not array.nbytes:
        return array, np.empty(0, np.uint8), 0, flags.writeable
    flat = (array if array.ndim == 1 else array.reshape(-1)).view(_BYTE)
    writeable = flags.writeable
    address = _addressof(_byte_in(flat)) if writeable else flat.__array_interface__["data"][0]
    if address % dtype.itemsize and dtype.kind in "biuf":
        raise InvalidResource(
            f"the {type(data).__name__} has elements of {dtype.itemsize} bytes at the address {address:#x}, which is "
            "no multiple of that",
            fix="adopt an aligned copy.",
        )
    return array, flat, address, writeable


def dlpack_array(data: Any, name: str) -> Array:
    """Returns an array over memory of the host that an object exports by DLPack.

    It is read-only if the export says so, or has no version, in which it cannot say otherwise.

    Raises ``InvalidInput`` for an export that fails or describes no memory.
    """
    try:
        array = np.from_dlpack(data)
    except Exception as error:
        raise InvalidInput(
            f"{name}: the {type(data).__name__} fails to export its memory by DLPack: {_said(error)}",
            fix=f"pass a contiguous array of a type that NumPy has (bfloat16 as raw uint16); {_COPY}.",
        ) from error
    if array.nbytes and array.flags.owndata:  # made by NumPy, because the export has none
        raise _no_memory(0, array.nbytes, f"{name}: the {type(data).__name__}", "its DLPack export")
    return array


def _by_interface(data: Any, title: str) -> Array:
    what = "its __array_interface__"
    try:
        interface = data.__array_interface__
        if not isinstance(interface, Mapping):
            raise TypeError(f"it is a {type(interface).__name__}")
        version = interface.get("version")
        if version != 3:
            raise ValueError(f"its version is {shown(version)}, not 3")
        shape = tuple(map(whole_number, interface["shape"]))
        if any(size is None or size < 0 for size in shape):
            raise ValueError(f"its shape is {shown(shape)}")
        array = np.asarray(_Described(interface, data))
        if array.shape != shape:
            raise ValueError(f"its shape is {shown(shape)}, and NumPy finds {array.shape}")
    except Exception as error:
        raise InvalidInput(
            f"{title} describes no array by {what}: {_said(error)}",
            fix="export shape, typestr and data as version 3 describes them.",
        ) from error
    if array.nbytes:
        first, behind = np.lib.array_utils.byte_bounds(array)
        if not is_readable(int(first), int(behind)):
            raise _no_memory(int(first), array.nbytes, title, what)
    return array


class _Described:
    """Holds a checked description, so that it is read once, and its owner."""

    def __init__(self, interface: Mapping[str, Any], owner: object) -> None:
        self.__array_interface__ = dict(interface)
        self.owner = owner


def _no_memory(address: int, nbytes: int, title: str, what: str) -> InvalidInput:
    return InvalidInput(
        f"{title} has no memory at {address:#x}, where {what} says that {nbytes} bytes are",
        fix="pass an array whose memory has not been freed.",
    )


def _device_of(data: Any, title: str) -> int:
    """Returns DLPack's type of the device; the host's for an object without the protocol."""
    if not _has(data, "__dlpack_device__"):
        return 1
    try:
        return int(data.__dlpack_device__()[0])
    except Exception as error:
        raise InvalidInput(
            f"{title} tells no device by __dlpack_device__: {_said(error)}", fix="pass a NumPy array."
        ) from error


def _has(data: object, name: str) -> bool:
    try:
        return hasattr(data, name)
    except Exception:  # the property raises something else: it is there
        return True


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".rstrip(" .:")


def shape_of(data: object) -> tuple[int, ...] | None:
    """Returns the shape of an accepted input that is neither a NumPy array nor a buffer; None where it has none."""
    if isinstance(data, list | tuple):
        return np.shape(data)
    shape = getattr(data, "shape", None)
    if shape is None:
        interface = getattr(data, "__array_interface__", None)
        shape = interface.get("shape") if isinstance(interface, Mapping) else None
    return tuple(shape) if isinstance(shape, tuple | list) else None
