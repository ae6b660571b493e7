"""Columns of NumPy for graphs: whole numbers that are checked and brought to one type."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from vyre.domain.errors import InvalidInput
from vyre.domain.printable import kind_of

Words: TypeAlias = "npt.NDArray[np.uint32]"
Bytes: TypeAlias = "npt.NDArray[np.uint8]"
Longs: TypeAlias = "npt.NDArray[np.uint64]"


def column(name: str, values: npt.ArrayLike, dtype: type[np.unsignedinteger[Any]], length: int | None = None) -> Any:
    """Returns a column of whole numbers as a contiguous array of ``dtype``; the very array if it is one.

    Raises ``InvalidInput`` for anything but a sequence of integers that fit the type, and for another length.
    """
    array = np.asarray(values)
    if array.ndim != 1:
        raise InvalidInput(f"{name} has {array.ndim} axes", fix="pass a column: an array of one axis.")
    whole = array.dtype.kind in "iu"
    if not whole and not isinstance(values, np.ndarray):  # NumPy makes floats of an empty list, and of great numbers
        objects = np.asarray(values, object)
        whole = all(type(value) is int for value in objects)
        array = objects if whole else array
    if not whole:
        raise InvalidInput(
            f"{name} is {kind_of(values)} of {array.dtype}",
            fix=f"pass whole numbers: {name}.astype(np.{dtype.__name__}).",
        )
    if length is not None and array.size != length:
        raise InvalidInput(f"{name} has {array.size} elements, and {length} are needed", fix="pass one for each.")
    if array.dtype != dtype:
        limit = int(np.iinfo(dtype).max)
        if array.size and (int(array.min()) < 0 or int(array.max()) > limit):
            wrong = int(array.min()) if int(array.min()) < 0 else int(array.max())
            raise InvalidInput(f"{name} holds {wrong}", fix=f"pass numbers from 0 to {limit}.")
    return np.ascontiguousarray(array, dtype)


def pairs(name: str, values: npt.ArrayLike) -> Words:
    """Returns pairs of whole numbers as an array of u32 and of shape (k, 2).

    Raises ``InvalidInput`` for another shape, and as ``column`` does.
    """
    array = np.asarray(values)
    if array.size == 0:
        return np.zeros((0, 2), np.uint32)
    if array.ndim != 2 or array.shape[1] != 2:
        raise InvalidInput(f"{name} has the shape {array.shape}", fix="pass pairs: an array of shape (k, 2).")
    flat: Words = column(name, array.ravel(), np.uint32)
    return flat.reshape(-1, 2)
