"""Operands are the values of the expressions of a kernel while the kernel is being built.

Their fields are never assigned again.  Type checkers see to that, because frozen dataclasses take four times as long to
make, and a kernel makes one for each of its expressions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from vyre.domain.frontend.cells import Cell
from vyre.domain.ir.buffers import Access
from vyre.domain.ir.expr import Expr, Literal
from vyre.domain.ir.numpy_scalars import PYTHON_NUMBERS, is_numpy, python_number, value_type
from vyre.domain.ir.types import ScalarType

PLACEHOLDER: Final = Literal(ScalarType.U32, 0)
"""Stands for expressions whose type is not known yet; the walk in which they stand only finds types."""


@dataclass(slots=True, eq=False)
class Scalar:
    """A value of a lane.

    ``dtype`` is its type; where it is None, ``cell`` stands for the type and ``expr`` for nothing.  ``changes`` tells
    whether a later statement may change what the expression reads.  ``is_narrow``: it started as a number of NumPy of
    a type that no value has, in which Python would compute with it.
    """

    expr: Final[Expr]
    dtype: Final[ScalarType | None]
    cell: Final[Cell | None] = None
    changes: Final[bool] = False
    is_narrow: Final[bool] = False


class Constant:
    """A number that is known, and has no type of its own: it takes that of what stands beside it.

    ``held`` is the number of Python or NumPy that the kernel names, with which Python computes; ``value`` is its plain
    number.  ``own`` is the type to which a number of NumPy widens, None for numbers of Python, and ``is_narrow`` tells
    whether it has another one.
    """

    __slots__ = ("held", "is_narrow", "own", "value")

    def __init__(self, number: Any) -> None:
        kind = type(number)
        own: ScalarType | None = None
        if kind in PYTHON_NUMBERS:
            value = number
        elif is_numpy(number):
            own, value = value_type(number.dtype), python_number(number)
        else:
            value = int(number) if isinstance(number, int) else float(number)
        self.held: Final[Any] = number
        self.value: Final[int | float | bool] = value
        self.own: Final[ScalarType | None] = None if own is None else own.widened
        self.is_narrow: Final[bool] = own is not None and not own.is_executable


@dataclass(slots=True, eq=False)
class Array:
    """A buffer.  ``dtype`` is the type of a loaded element.

    ``sizes``: the sizes of the axes after the first, u32; none for one axis.
    """

    name: Final[str]
    element: Final[ScalarType]
    access: Final[Access]
    sizes: Final[tuple[Expr, ...]] = ()
    count: Final[int] = 0

    @property
    def dtype(self) -> ScalarType:
        """Returns the type of an element in expressions."""
        return self.element.widened

    @property
    def axes(self) -> int:
        """Returns the number of axes."""
        return 1 + len(self.sizes)

    @property
    def is_private(self) -> bool:
        """Returns whether every lane has the memory for itself."""
        return self.access is Access.PRIVATE

    @property
    def is_writable(self) -> bool:
        """Returns whether a kernel may store to it."""
        return self.access not in (Access.READ_ONLY, Access.UNIFORM)


def indices_of(axes: int) -> str:
    """Returns words for the indices of an array with so many axes."""
    return ", ".join(("plane", "row", "column")[3 - axes :]) if axes > 1 else "i"


@dataclass(slots=True, eq=False)
class Items:
    """A tuple."""

    items: Final[tuple[Operand, ...]]


@dataclass(slots=True, eq=False)
class Thing:
    """Any other Python object that the kernel names: a module, a function, a type, a text, None.

    ``is_dtype``: it is the type of an array's elements, which in Python is a ``numpy.dtype``.
    """

    value: Final[Any]
    is_dtype: Final[bool] = False


@dataclass(slots=True, eq=False)
class Method:
    """A method of an array or of a value, before it is called."""

    of: Final[Array | Scalar | Constant]
    name: Final[str]


Operand: TypeAlias = Scalar | Constant | Array | Items | Thing | Method
"""Anything that an expression may evaluate to."""
