"""The annotations of a kernel's parameters: ``In[f32]``, ``InOut[f32, 2]``, ``Out[f32, like("x")]``, ``Static[int]``.

At run time ``In[f32]`` is an ``ArrayType``, which says how the parameter is passed.  To type checkers ``In[f32]`` is a
sequence of numbers, so that the body of a kernel reads as Python.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias, TypeVar

from vyre.domain.errors import KernelSourceError
from vyre.domain.frontend.size_expressions import SizeExpression
from vyre.domain.frozen import frozen
from vyre.domain.ir.caller import outside
from vyre.domain.ir.numpy_scalars import element_type, whole_number
from vyre.domain.ir.types import ScalarType
from vyre.domain.printable import shown

T = TypeVar("T")
MAX_AXES: Final = 3


@frozen
class Like:
    """The size of an output: that of the array ``name``."""

    name: str

    def __repr__(self) -> str:
        return f'like("{self.name}")'


@frozen
class ArrayType:
    """How an array is passed to a kernel.

    ``direction`` is "in", "inout" or "out".  ``element`` is a type, or the type parameter of a generic kernel.
    ``axes`` is 1, 2 or 3.  ``size``: a number of elements or a tuple of sizes, which every array that is passed must
    have; of an output that the caller does not pass also ``Like``, or an expression of lengths (as text until the
    kernel reads it).  None: the caller passes an array of any size, or says ``output_counts``.
    """

    direction: str
    element: ScalarType | TypeVar
    axes: int = 1
    size: Like | int | tuple[int, ...] | str | SizeExpression | None = None

    def __repr__(self) -> str:
        """Returns the annotation as it is written, which ``inspect.signature`` and ``help`` show."""
        element = self.element.__name__ if isinstance(self.element, TypeVar) else self.element.text
        axes = (self.axes,) if self.axes > 1 else ()
        size = self.size.text if isinstance(self.size, SizeExpression) else self.size
        parts = ", ".join([element, *map(repr, axes), *((repr(size),) if size is not None else ())])
        return f"{_NAMES[self.direction]}[{parts}]"


_NAMES: Final = {"in": "In", "inout": "InOut", "out": "Out"}


@frozen
class StaticType:
    """A parameter whose value becomes part of the program."""

    kind: type[int] | type[float] | type[bool]

    def __repr__(self) -> str:
        return f"Static[{self.kind.__name__}]"


def like(name: str) -> Like:
    """Returns the size of the array parameter ``name``, for ``Out[f32, like("x")]``."""
    if not isinstance(name, str):
        raise KernelSourceError(
            f"like({shown(name)}) names no parameter", fix='write like("x") for a parameter x.', loc=outside()
        )
    return Like(name)


def _array_type(direction: str, parameters: Any) -> ArrayType:
    parts = parameters if isinstance(parameters, tuple) else (parameters,)
    element, axes = _element(direction, parts[0]), 1
    size: Like | int | tuple[int, ...] | str | None = None
    for part in map(_unliteral, parts[1:]):
        number = whole_number(part)
        if direction == "out" and number == 1 and len(parts) == 2:
            size = 1  # every array has an axis, so that 1 alone can only count elements
        elif number is not None and 1 <= number <= MAX_AXES and axes == 1 and size is None:
            axes = number
        elif direction == "out" and size is None and isinstance(part, Like | str):
            size = part
        elif size is None and isinstance(part, tuple) and part:
            size = tuple(_axis_size(one) for one in part)
        elif size is None and number is not None and number > MAX_AXES:
            size = number
        else:
            name = _NAMES[direction]
            more = ', or Out[f32, like("x")]' if direction == "out" else ""
            raise KernelSourceError(
                f"{name}[...] cannot hold {shown(part)}",
                fix=f"write {name}[f32], {name}[f32, 2] for rows and columns{more}.",
                loc=outside(),
            )
    return ArrayType(direction, element, axes, size)


def unwrapped(annotation: Any) -> Any:
    """Returns what an annotation says: ``Annotated[Out[f32], like("x")]`` is ``Out[f32, like("x")]``.

    Type checkers refuse a call in a type, and leave what stands in ``Annotated`` to others.
    """
    more = getattr(annotation, "__metadata__", None)
    if more is None:
        return annotation
    of = annotation.__origin__
    if not isinstance(of, ArrayType):
        return of
    own = (of.element, *((of.axes,) if of.axes > 1 else ()), *((of.size,) if of.size is not None else ()))
    return _array_type(of.direction, (*own, *more))


def _axis_size(size: Any) -> int:
    number = whole_number(size)
    if number is None or number < 1:
        raise KernelSourceError(
            f"{shown(size)} is no size of an axis",
            fix='give whole numbers from 1 on, or a text such as "len(x) + 1".',
            loc=outside(),
        )
    return number


def _unliteral(part: Any) -> Any:
    """Returns what is in ``Literal[2]`` and ``Literal["len(x) - 2"]``, which type checkers want in the place of 2."""
    arguments = getattr(part, "__args__", None)
    return arguments[0] if arguments is not None and len(arguments) == 1 else part


def _element(direction: str, annotated: Any) -> ScalarType | TypeVar:
    if isinstance(annotated, ScalarType | TypeVar):
        return annotated
    element = element_type(annotated)
    if element is None:
        name = _NAMES[direction]
        raise KernelSourceError(
            f"{name}[{shown(annotated)}] holds no type of vyre",
            fix=f"write {name}[f32], {name}[u8] or the like.",
            loc=outside(),
        )
    return element


if TYPE_CHECKING:
    from vyre.domain.frontend.typed_arrays import In as In, InOut as InOut, Out as Out  # isort: skip

    Static: TypeAlias = Annotated[T, "static"]
else:

    class _Subscripted:
        def __new__(cls, *arguments: object) -> Any:
            raise KernelSourceError(
                f"{cls.__name__} is an annotation and cannot be called",
                fix=f"write x: {cls.__name__}[f32].",
                loc=outside(),
            )

    class In(_Subscripted):
        """An array that a kernel reads: ``x: In[f32]``, or ``In[f32, 2]`` with rows and columns."""

        def __class_getitem__(cls, parameters: Any) -> ArrayType:
            return _array_type("in", parameters)

    class InOut(_Subscripted):
        """An array that a kernel reads and writes, in place."""

        def __class_getitem__(cls, parameters: Any) -> ArrayType:
            return _array_type("inout", parameters)

    class Out(_Subscripted):
        """An array that a kernel writes; it starts as zeros.  A caller may leave it out if its size is declared."""

        def __class_getitem__(cls, parameters: Any) -> ArrayType:
            return _array_type("out", parameters)

    class Static(_Subscripted):
        """A parameter whose value becomes part of the program: ``n: Static[int]``."""

        def __class_getitem__(cls, kind: Any) -> StaticType:
            if kind not in (int, float, bool):
                raise KernelSourceError(
                    f"Static[{shown(kind)}] is no kind of number", fix="write Static[int].", loc=outside()
                )
            return StaticType(kind)
