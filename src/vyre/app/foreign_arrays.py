"""Conversion of arguments that are no NumPy arrays: arrays of other libraries, and numbers in lists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np

from vyre.domain.errors import InvalidInput
from vyre.domain.float_mode import in_default_mode
from vyre.domain.ir.types import ScalarType, TypeKind
from vyre.domain.printable import shown

if TYPE_CHECKING:
    import numpy.typing as npt

    Array: TypeAlias = npt.NDArray[Any]


class SupportsArray(Protocol):
    """An object that NumPy turns into an array, such as a ``pandas.Series``."""

    def __array__(self) -> npt.NDArray[Any]: ...


class SupportsArrayInterface(Protocol):
    """An object that describes its memory as NumPy does."""

    @property
    def __array_interface__(self) -> dict[str, Any]: ...


class SupportsDLPack(Protocol):
    """An object that exports its memory by DLPack, such as a ``torch.Tensor``."""

    def __dlpack__(self) -> Any: ...
    def __dlpack_device__(self) -> tuple[Any, Any]: ...


Numbers: TypeAlias = (
    "Sequence[float | bool] | Sequence[Sequence[float | bool]] | Sequence[Sequence[Sequence[float | bool]]]"
)
"""Numbers in lists or tuples.  Type checkers know up to three axes, so that they refuse a text, a sequence of texts."""
ForeignArray: TypeAlias = "SupportsArray | SupportsArrayInterface | SupportsDLPack"


@in_default_mode
def listed_array(values: Sequence[object], element: ScalarType, dtype: np.dtype[Any], title: str) -> Array:
    """Returns an array of Python's numbers for a buffer of ``element``; ``dtype`` is the type of its arrays.

    As for scalar parameters, whole numbers stand for integers and floats, floats for floats only, and truth values for
    themselves.  Raises ``InvalidInput`` for anything else, for rows of different lengths, and for numbers that do not
    fit.
    """
    use = f"pass numpy.array(..., dtype=numpy.{dtype.name})"
    if element is ScalarType.BF16:
        raise InvalidInput(f"{title} is a {type(values).__name__} for bf16", fix=f"{use} of its raw bits.")
    try:
        listed = np.array(values)
        if listed.dtype.kind in "fO":  # ints of more than 64 bits become floats or objects, as other things do
            ints = np.array(values, object)
            if all(type(each) is int for each in ints.flat):
                listed = ints.astype(np.float64) if element.is_float else ints
    except (ValueError, TypeError, OverflowError) as error:
        raise InvalidInput(
            f"{title} holds {element.text}, and the list makes no array of it: {error}",
            fix=f"give numbers that fit, in rows of one length, or {use}.",
        ) from None
    if not listed.size:
        return listed.astype(dtype)
    is_bool = element.kind is TypeKind.BOOL
    kinds = "b" if is_bool else "iuf" if element.is_float else "iu"
    exact = kinds == "iu" and listed.dtype == object and all(type(each) is int for each in listed.flat)
    if listed.dtype.kind not in kinds and not exact:
        what = "Python objects" if listed.dtype == object else listed.dtype
        raise InvalidInput(f"{title} holds {element.text}, and the list is one of {what}", fix=f"{use}.")
    if is_bool:
        return listed
    if element.is_float:
        wide = listed.astype(np.float64)
        with np.errstate(all="ignore"):
            array = wide.astype(dtype)
        wrong = np.isinf(array) & np.isfinite(wide)
    else:
        limits = np.iinfo(dtype)
        wrong = np.asarray((listed < int(limits.min)) | (listed > int(limits.max)), np.bool_)
        array = listed if wrong.any() else listed.astype(dtype)
    if wrong.any():
        place = int(np.argmax(wrong.reshape(-1)))
        value = listed.reshape(-1).tolist()[place]
        raise InvalidInput(
            f"{title} holds {element.text}, and the list has {shown(value)} at place {place}",
            fix="give numbers that fit.",
        )
    return array
