"""DLPack's capsules, written and read: memory that libraries lend each other with a function that gives it back."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from math import prod
from typing import Any, Final

from vyre.domain.errors import InvalidResource
from vyre.domain.unique import Unique

_DL_CODE: Final = {"i": 0, "u": 1, "f": 2, "b": 6}
_KINDS: Final = {code: kind for kind, code in _DL_CODE.items()}
_MAJOR: Final = 1
"""The major version of the structures that are read."""
_MOST_AXES: Final = 64
_READ_ONLY: Final = 1
_MOST_BYTES: Final = 1 << 62


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
_ManagedTensor._fields_ = (("dl_tensor", _Tensor), ("manager_ctx", ctypes.c_void_p), ("deleter", _Deleter))
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


def dlpack_capsule(owner: object, address: int, shape: Sequence[int], typestr: str, device: tuple[int, int]) -> object:
    """Returns a DLPack capsule of C-contiguous memory that ``owner`` keeps alive; ``device``: its type and number."""
    dims = (ctypes.c_int64 * max(1, len(shape)))(*shape)
    dtype = _DataType(_DL_CODE[typestr[1]], 8 * int(typestr[2:]), 1)
    tensor = _Tensor(address, _Device(*device), len(shape), dtype, dims, None, 0)
    managed = _ManagedTensor(tensor, None, _DELETE)
    export = _Export(managed, dims, owner)
    managed.manager_ctx = id(export)
    capsule: object = _new_capsule(ctypes.addressof(managed), _UNUSED, ctypes.cast(_DESTROY, ctypes.c_void_p))
    _incref(export)
    return capsule


# ---------------------------------------------------------------- in
_VERSIONED: Final = b"dltensor_versioned"
_set_name: Final = _python("PyCapsule_SetName", ctypes.c_int, ctypes.py_object, ctypes.c_char_p)
_USED: Final = b"used_dltensor"
_USED_VERSIONED: Final = b"used_dltensor_versioned"
"""Kept here: a capsule does not copy its name."""


class _VersionedTensor(ctypes.Structure):
    """DLPack's structure with a version, from 1.0 on."""


_VersionedDeleter: Final = ctypes.CFUNCTYPE(None, ctypes.POINTER(_VersionedTensor))
_VersionedTensor._fields_ = (
    ("major", ctypes.c_uint32),
    ("minor", ctypes.c_uint32),
    ("manager_ctx", ctypes.c_void_p),
    ("deleter", _VersionedDeleter),
    ("flags", ctypes.c_uint64),
    ("dl_tensor", _Tensor),
)


class Borrowed(Unique):
    """Contiguous memory that a capsule lent, which is given back with this object.

    ``address`` is that of the first byte, ``typestr`` the element type as NumPy writes it, and ``device`` its type and
    number as DLPack has them.
    """

    __slots__ = ("_managed", "address", "device", "nbytes", "readonly", "shape", "typestr")

    def __init__(
        self, managed: Any, address: int, shape: tuple[int, ...], typestr: str, nbytes: int, readonly: bool
    ) -> None:
        device = managed.contents.dl_tensor.device
        self.address: int = address
        self.shape: tuple[int, ...] = shape
        self.typestr: str = typestr
        self.nbytes: int = nbytes
        self.device: tuple[int, int] = (device.device_type, device.device_id)
        self.readonly: bool = readonly
        self._managed = managed

    def __del__(self) -> None:
        managed = getattr(self, "_managed", None)
        if managed is not None and managed.contents.deleter:
            managed.contents.deleter(managed)


def borrow(array: Any, *, expected: int) -> Borrowed:
    """Takes the memory that ``array`` lends by its method ``__dlpack__``, on devices of the type ``expected``.

    Raises ``InvalidResource`` for an export that fails, a capsule that was taken before, and memory that is not
    contiguous or not described; then nothing is taken.
    """
    title = f"the DLPack export of a {type(array).__name__}"
    try:
        capsule = array.__dlpack__()
    except Exception as error:
        raise InvalidResource(f"{title} fails: {type(error).__name__}: {error}".rstrip("."), fix=_FIX) from error
    capsule_id = id(capsule)
    managed: Any
    readonly = False
    if _is_valid(capsule_id, _UNUSED):
        managed, used = ctypes.cast(_pointer(capsule_id, _UNUSED), ctypes.POINTER(_ManagedTensor)), _USED
    elif _is_valid(capsule_id, _VERSIONED):
        managed, used = ctypes.cast(_pointer(capsule_id, _VERSIONED), ctypes.POINTER(_VersionedTensor)), _USED_VERSIONED
        tensor = managed.contents
        if tensor.major != _MAJOR:
            raise InvalidResource(f"{title} has version {tensor.major}.{tensor.minor}", fix=f"export version {_MAJOR}.")
        readonly = bool(tensor.flags & _READ_ONLY)
    elif _is_valid(capsule_id, _USED) or _is_valid(capsule_id, _USED_VERSIONED):
        raise InvalidResource(f"{title} returns a capsule that was taken before", fix="return a new one at each call.")
    else:
        raise InvalidResource(f"{title} is no capsule of it, but {type(capsule).__name__}", fix=_FIX)
    address, shape, typestr, nbytes = _described(managed.contents.dl_tensor, title, expected)
    _set_name(capsule, used)
    return Borrowed(managed, address, shape, typestr, nbytes, readonly)


_FIX: Final = "pass a contiguous array of a library that supports DLPack."


def _described(tensor: Any, title: str, expected: int) -> tuple[int, tuple[int, ...], str, int]:
    """Returns address, shape, element type and size of a tensor.  Raises ``InvalidResource``."""
    if tensor.device.device_type != expected:
        raise InvalidResource(
            f"{title} is on a device of type {tensor.device.device_type}, not {expected}",
            fix="copy it to the device of this session.",
        )
    axes = tensor.ndim
    if not 0 <= axes <= _MOST_AXES or (axes and not tensor.shape):
        raise InvalidResource(f"{title} has {axes} axes", fix=_FIX)
    shape = tuple(tensor.shape[:axes]) if axes else ()
    dtype = tensor.dtype
    size, rest = divmod(dtype.bits, 8)
    if dtype.code not in _KINDS or dtype.lanes != 1 or rest or size not in (1, 2, 4, 8):
        raise InvalidResource(
            f"{title} has elements of code {dtype.code}, {dtype.bits} bits and {dtype.lanes} lanes",
            fix="export numbers or truth values of 8 to 64 bits; view others as unsigned numbers.",
        )
    if any(count < 0 for count in shape) or prod(shape) * size > _MOST_BYTES:
        raise InvalidResource(f"{title} has the shape {shape}", fix=_FIX)
    if tensor.strides and prod(shape):
        wanted = 1
        for axis in reversed(range(axes)):
            if shape[axis] > 1 and tensor.strides[axis] != wanted:
                raise InvalidResource(f"{title} is not contiguous", fix="export a contiguous copy.")
            wanted *= shape[axis]
    nbytes = prod(shape) * size
    if nbytes and not tensor.data:
        raise InvalidResource(f"{title} has no memory, and {nbytes} bytes of it", fix=_FIX)
    address = (tensor.data or 0) + tensor.byte_offset
    return address, shape, f"{'|' if size == 1 else '<'}{_KINDS[dtype.code]}{size}", nbytes
