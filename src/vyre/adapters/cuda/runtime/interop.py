"""Device memory shared with other libraries: ``__cuda_array_interface__`` and DLPack out, adoption in.

Another library would crash on addresses of an emulated device; there both exports raise ``BufferError``, unless a test
enables them.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from vyre.domain.errors import InvalidResource

CUDA_ARRAY_INTERFACE: Final = "__cuda_array_interface__"
_CAI_VERSION: Final = 3
_KDL_CUDA: Final = 2
_DL_CODE: Final = {"i": 0, "u": 1, "f": 2, "b": 6}


# ---------------------------------------------------------------- out
def array_interface(address: int, shape: Sequence[int], typestr: str, *, readonly: bool) -> dict[str, Any]:
    """Returns the array interface, version 3; its stream is None, because no work is pending on the memory between
    calls.
    """
    return {
        "shape": tuple(shape),
        "typestr": typestr,
        "data": (address, readonly),
        "version": _CAI_VERSION,
        "strides": None,
        "stream": None,
    }


class _Device(ctypes.Structure):
    _fields_ = (("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32))


class _DataType(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", _Device),
        ("ndim", ctypes.c_int32),
        ("dtype", _DataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _ManagedTensor(ctypes.Structure):
    """DLPack's unversioned structure, which every consumer reads."""


_Deleter: Final = ctypes.CFUNCTYPE(None, ctypes.POINTER(_ManagedTensor))
_CapsuleDestructor: Final = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_ManagedTensor._fields_ = (
    ("dl_tensor", _Tensor),
    ("manager_ctx", ctypes.c_void_p),
    ("deleter", _Deleter),
)
_UNUSED: Final = b"dltensor"


def _python(name: str, result: Any, *arguments: Any) -> Any:
    """Returns a function of Python's C API."""
    function = getattr(ctypes.pythonapi, name)
    function.restype, function.argtypes = result, arguments
    return function


_incref: Final = _python("Py_IncRef", None, ctypes.py_object)
_decref: Final = _python("Py_DecRef", None, ctypes.py_object)
_new_capsule: Final = _python("PyCapsule_New", ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
# These take the capsule by address: its destructor must not create a reference to it.
_is_valid: Final = _python("PyCapsule_IsValid", ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)
_pointer: Final = _python("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)


class _Export:
    """Owns an exported structure and the memory that it points to.

    The consumer holds one reference, which the deleter drops.
    """

    __slots__ = ("dims", "managed", "owner")

    def __init__(self, managed: _ManagedTensor, dims: Any, owner: object) -> None:
        self.managed, self.dims, self.owner = managed, dims, owner


def _delete(managed: Any) -> None:
    _decref(ctypes.cast(managed.contents.manager_ctx, ctypes.py_object))


def _destroy(capsule: int) -> None:
    """Deletes the structure of a capsule that was never consumed, and that therefore still owns it."""
    if _is_valid(capsule, _UNUSED):
        _delete(ctypes.cast(_pointer(capsule, _UNUSED), ctypes.POINTER(_ManagedTensor)))


_DELETE: Final = _Deleter(_delete)
_DESTROY: Final = _CapsuleDestructor(_destroy)


def dlpack_capsule(owner: object, address: int, shape: Sequence[int], typestr: str, ordinal: int) -> object:
    """Returns a DLPack capsule of C-contiguous memory that ``owner`` keeps alive."""
    dims = (ctypes.c_int64 * max(1, len(shape)))(*shape)
    dtype = _DataType(_DL_CODE[typestr[1]], 8 * int(typestr[2:]), 1)
    tensor = _Tensor(address, _Device(_KDL_CUDA, ordinal), len(shape), dtype, dims, None, 0)
    managed = _ManagedTensor(tensor, None, _DELETE)
    export = _Export(managed, dims, owner)
    managed.manager_ctx = id(export)
    capsule: object = _new_capsule(ctypes.addressof(managed), _UNUSED, ctypes.cast(_DESTROY, ctypes.c_void_p))
    _incref(export)
    return capsule


def dlpack_device(ordinal: int) -> tuple[int, int]:
    """Returns the device in DLPack's form: the type CUDA, and the ordinal."""
    return _KDL_CUDA, ordinal


def refuse_export(what: str) -> BufferError:
    """Returns the error of an export from an emulated device."""
    return BufferError(
        f"{what} of emulated device memory has no address that another library could use. "
        "Fix: download it, or pass export_fake=True in a test of your own exporter code"
    )


# ---------------------------------------------------------------- in
class ForeignArray(NamedTuple):
    """Contiguous device memory that another library describes by ``__cuda_array_interface__``.

    ``synchronise``: its producer may still be writing on some stream.
    """

    address: int
    nbytes: int
    readonly: bool
    synchronise: bool


def read_array_interface(array: object) -> ForeignArray:
    """Returns the array that ``array`` exports.  Raises ``InvalidResource`` if it is not a contiguous device array."""
    interface = getattr(array, CUDA_ARRAY_INTERFACE, None)
    if not isinstance(interface, Mapping):
        raise InvalidResource(
            f"a {type(array).__name__} has no {CUDA_ARRAY_INTERFACE}",
            fix="pass an array that lives on this GPU (CuPy, Numba, PyTorch, JAX), or upload host data.",
        )
    try:
        shape = tuple(int(n) for n in interface["shape"])
        typestr = str(interface["typestr"])
        address, readonly = int(interface["data"][0]), bool(interface["data"][1])
        itemsize = int(typestr[2:])
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise InvalidResource(
            f"the {CUDA_ARRAY_INTERFACE} of a {type(array).__name__} is malformed: {error!r}",
            fix="export shape, typestr and data as version 3 describes them.",
        ) from None
    if interface.get("mask") is not None:
        raise InvalidResource("a masked array cannot be adopted", fix="pass its data.")
    strides = interface.get("strides")
    nbytes = itemsize
    for axis in reversed(range(len(shape))):
        if strides is not None and shape[axis] > 1 and strides[axis] != nbytes:
            raise InvalidResource("the array is not contiguous", fix="adopt a contiguous copy.")
        nbytes *= shape[axis]
    return ForeignArray(address, nbytes, readonly, interface.get("stream") is not None)
