"""Numbers and types of NumPy among the arguments of the builder, recognised without importing NumPy.

A NumPy scalar, or an array without axes, stands for the Python number of its value; its own type matters only where
nothing else gives the number a type.  A ``numpy.dtype`` or the class of a NumPy scalar stands for the scalar type with
the same memory format.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from vyre.domain.float_mode import FACTORS, PROBE, PRODUCT, in_default_mode
from vyre.domain.ir.types import ScalarType

if TYPE_CHECKING:
    import numpy as np

    NumpyNumber: TypeAlias = np.bool_ | np.integer[Any] | np.floating[Any]
    """A scalar of NumPy that is a truth value or a real number."""
    NumpyInteger: TypeAlias = np.integer[Any]
    """A scalar of NumPy that is a whole number."""
    NumpyType: TypeAlias = np.dtype[Any] | type[NumpyNumber]
    """A type of NumPy: ``numpy.dtype("<f4")`` or ``numpy.float32``."""
else:

    class NumpyNumber(Protocol):
        """A scalar of NumPy that is a truth value or a real number."""

    class NumpyInteger(Protocol):
        """A scalar of NumPy that is a whole number."""

    class NumpyType(Protocol):
        """A type of NumPy: ``numpy.dtype("<f4")`` or ``numpy.float32``."""


Size: TypeAlias = int | NumpyInteger
"""A whole number of Python or NumPy that is known while the program is being built, such as a count of elements."""
PYTHON_NUMBERS: Final = frozenset({bool, int, float})
"""The classes of Python's numbers."""
_REAL: Final = "biuf"
"""The kinds of dtype whose scalars are truth values and real numbers."""
_ELEMENTS: Final = {t.numpy_name: t for t in ScalarType if t not in (ScalarType.BOOL, ScalarType.BF16)}
"""The scalar type of each array interface string, such as ``<f4``.

``bool`` and ``bf16`` have none of their own: host arrays of them are ``<u4`` and ``<u2``.
"""
_VALUES: Final = {**_ELEMENTS, "|b1": ScalarType.BOOL}


def python_number(value: object) -> Any:
    """Returns the number in a NumPy scalar or an array without axes, and any other value unchanged."""
    if type(value) in PYTHON_NUMBERS or not is_numpy(value):
        return value
    array: Any = value
    if array.shape != () or array.dtype.kind not in _REAL:
        return value
    number = array.item() if PROBE * FACTORS == PRODUCT else in_default_mode(array.item)()
    return number if type(number) in PYTHON_NUMBERS else value  # a longdouble is no Python number


def whole_number(value: object) -> int | None:
    """Returns an int that is no bool, or the int in a NumPy scalar, as a plain int; None for everything else."""
    number = python_number(value)
    return int(number) if isinstance(number, int) and not isinstance(number, bool) else None


def own_type(value: object) -> ScalarType | None:
    """Returns the executable type to which the type of a NumPy number widens; None for everything else."""
    scalar: Any = value
    own = value_type(scalar.dtype) if type(value) not in PYTHON_NUMBERS and is_numpy(value) else None
    return None if own is None else own.widened


def element_type(dtype: object) -> ScalarType | None:
    """Returns the type of buffer elements that have the format of a dtype or a scalar class of NumPy, or None.

    ``bfloat16`` of the package ``ml_dtypes``, as a dtype or a class, is ``bf16``.
    """
    return ScalarType.BF16 if is_bfloat16(dtype) else _ELEMENTS.get(_interface(dtype))


def is_bfloat16(dtype: object) -> bool:
    """Returns whether a dtype or a class is ``bfloat16`` of the package ``ml_dtypes``."""
    kind = dtype if isinstance(dtype, type) else getattr(dtype, "type", None)
    return isinstance(kind, type) and kind.__name__ == "bfloat16" and kind.__module__ == "ml_dtypes"


def value_type(dtype: object) -> ScalarType | None:
    """Returns the type that values of a dtype or a scalar class of NumPy have, or None.

    It is ``bool`` for NumPy's bool, and the type of elements for all others.
    """
    return _VALUES.get(_interface(dtype))


def type_fix(dtype: object) -> str | None:
    """Returns what to write instead of a dtype of NumPy that vyre does not have, or None."""
    text = _interface(dtype)
    little = f"<{text[1:]}"
    if text[:1] == ">" and little in _ELEMENTS:
        return f'use vyre.{_ELEMENTS[little].text}, and pass x.astype("{little}"): memory of kernels is little-endian'
    return "declare a buffer for each field" if getattr(dtype, "names", None) else None


def is_numpy(thing: object) -> bool:
    """Returns whether a thing is a scalar or an array of NumPy; masked arrays are none."""
    kind: Any = type(thing)
    return _is_of_numpy(kind)


@lru_cache(maxsize=512)
def _is_of_numpy(kind: type) -> bool:
    names = {f"{base.__module__}.{base.__name__}" for base in kind.__mro__}
    return bool(names & {"numpy.generic", "numpy.ndarray"}) and "numpy.ma.MaskedArray" not in names


_TIMES: Final = ("datetime64", "timedelta64")
"""Classes whose scalars need a unit: NumPy warns of those that are made without one."""


def _interface(kind: object) -> str:
    """Returns the array interface string of a dtype or a scalar class of NumPy, or an empty text."""
    dtype: Any = kind
    if isinstance(kind, type):
        if kind.__module__ != "numpy" or not _is_of_numpy(kind) or kind.__name__ in _TIMES:
            return ""
        try:
            dtype = kind().dtype
        except (AttributeError, TypeError):  # numpy.object_ makes None; abstract classes and numpy.void make nothing
            return ""
    elif not any(base.__module__ == "numpy" and base.__name__ == "dtype" for base in type(kind).__mro__):
        return ""
    return str(dtype.str)
