"""Host memory that a caller passes: an array of typed elements, or raw bytes."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from vyre.adapters.host.foreign import foreign_array
from vyre.domain.byte_view import byte_view
from vyre.domain.errors import InvalidInput
from vyre.domain.ir.numpy_scalars import is_bfloat16
from vyre.domain.ir.types import DataType, ScalarType

if TYPE_CHECKING:
    import numpy.typing as npt

Array: TypeAlias = "npt.NDArray[Any]"
_RAW_FORMATS: Final = frozenset("Bbc")
_BYTE_ORDERS: Final = "@=<>!"


def host_dtype(element: ScalarType) -> np.dtype[Any]:
    """Returns the NumPy type of a host array: ``bool`` and ``bool8`` are ``bool_``, ``bf16`` is raw ``uint16``."""
    return _DTYPES[element]


_DTYPES: Final = {
    element: np.dtype(np.bool_) if element is ScalarType.BOOL else np.dtype(element.numpy_name)
    for element in ScalarType
}


def raw_bits(array: Array, element: DataType) -> Array:
    """Returns an array of ``ml_dtypes.bfloat16`` for a buffer of bf16 as its raw bits; others are returned as such."""
    return array.view(_DTYPES[ScalarType.BF16]) if element is ScalarType.BF16 and is_bfloat16(array.dtype) else array


def host_memory(data: object, name: str) -> Array | memoryview:
    """Returns an array over the memory of ``data`` if its elements have a type, else a read-only view of its bytes.

    Nothing is copied.  Memory is raw if the buffer protocol describes it as bytes (formats ``B``, ``b`` and ``c``); any
    other format gives the element type, as in a NumPy array.  Raises ``InvalidInput``, naming ``name``, for an object
    without memory, raw memory that is not contiguous, an element type that NumPy does not know, Python objects, and a
    masked array, whose mask would be lost.  Arrays of other libraries may be copied (``foreign_arrays``).
    """
    if not isinstance(data, np.ndarray):
        view = None
        with suppress(TypeError, ValueError):
            view = memoryview(data)  # type: ignore[arg-type]  # refused below
        if view is None:
            foreign = foreign_array(data, name)
            if foreign is None:
                return byte_view(data, name=name)  # type: ignore[arg-type]  # raises, and says why it has no bytes
            return whole_array(foreign, name)
        if view.format.lstrip(_BYTE_ORDERS) in _RAW_FORMATS:
            return byte_view(view, name=name)
        try:
            data = np.asarray(view)
        except (TypeError, ValueError, RuntimeError):
            raise InvalidInput(
                f"{name}: {type(data).__name__} holds elements of the unknown format {view.format!r}",
                fix="pass a NumPy array, or memoryview(x).cast('B') if it is raw memory.",
            ) from None
    return whole_array(data, name)


def whole_array(array: Array, name: str) -> Array:
    """Returns ``array``; raises ``InvalidInput`` for a masked array and for an array of Python objects."""
    if isinstance(array, np.ma.MaskedArray):
        raise InvalidInput(
            f"{name} is a masked array, and its mask would be lost", fix="pass x.filled(value), or x.data without it."
        )
    if array.dtype.hasobject:
        raise InvalidInput(f"{name} holds Python objects", fix="convert it, as x.astype(numpy.float32) does.")
    return array


def bytes_of(array: Array) -> memoryview:
    """Returns the bytes of an array that has elements, to be read or written."""
    return array.data.cast("B")
