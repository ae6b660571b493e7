"""``@vyre.kernel``: a Python function as a kernel."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from threading import Lock
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final, Generic, ParamSpec, TypeAlias, TypeVar, overload

import numpy as np

from vyre.domain.errors import InvalidInput, KernelSourceError, UnfitArguments
from vyre.domain.frontend.annotations import ArrayType, Like, StaticType
from vyre.domain.frontend.definition import SIZE_NAMES, KernelDefinition, Parameter, Specialized
from vyre.domain.frontend.inlined import Inlined
from vyre.domain.frontend.size_expressions import SizeExpression
from vyre.domain.ir import arguments
from vyre.domain.ir.caller import outside
from vyre.domain.ir.numpy_scalars import Size, element_type, own_type, python_number, value_type, whole_number
from vyre.domain.ir.program import Program
from vyre.domain.ir.types import ScalarType
from vyre.domain.shown import shown

if TYPE_CHECKING:
    from vyre.app.pipeline import Pipeline
    from vyre.app.session import Session
    from vyre.domain.names import Grid

P = ParamSpec("P")
R = TypeVar("R")
Key: TypeAlias = tuple[Any, ...]
DEFAULT_WORKGROUP: Final = 256


class Kernel(Generic[P]):
    """A kernel in plain Python; call it with its arguments, or pass it to a session where a program is wanted.

    ``saxpy(2.0, xs, ys)`` runs it on the session of the enclosing ``with session:``, or on the default session of the
    process.  Arrays given for ``InOut`` and ``Out`` are written in place; ``Out`` arrays that are left out are
    returned.
    ``saxpy[grid](...)`` runs that many workgroups, ``saxpy.over(extent)(...)`` that many lanes.
    """

    def __init__(self, definition: KernelDefinition) -> None:
        self.definition: Final = definition
        self.__name__ = definition.name
        self.__doc__ = definition.function.__doc__
        self.__wrapped__ = definition.function
        self._programs: dict[Key, Specialized] = {}
        self._lock = Lock()
        parameters = definition.parameters
        self._generic: Final = tuple(sorted({v.__name__ for one in parameters for v in _type_variables(one)}))
        self._statics: Final = tuple(one.name for one in parameters if isinstance(one.type, StaticType))

    # ------------------------------------------------------------ programs
    @property
    def program(self) -> Program:
        """Returns the program.  Raises ``KernelSourceError``, and ``InvalidInput`` for a generic kernel."""
        if self._generic or self._statics:
            names = (*self._generic, *self._statics)
            given = ", ".join(f"{name}=..." for name in names)
            raise InvalidInput(
                f"`{self.__name__}` is generic over {', '.join(names)}, so it has no single program",
                fix=f"write {self.__name__}.specialize({given}).",
            )
        return self._specialized((), ())

    def specialize(self, **values: Any) -> Program:
        """Returns the program for types and static values, by name: ``kernel.specialize(T=f32, n=16)``."""
        names = (*self._generic, *self._statics)
        if set(values) != set(names):
            raise UnfitArguments(
                f"`{self.__name__}` is generic over {', '.join(names) or 'nothing'}",
                fix=f"give {', '.join(f'{name}=...' for name in names)}."
                if names
                else f"write {self.__name__}.program.",
                loc=outside(),
            )
        types = tuple(_type_of(name, values[name]) for name in self._generic)
        statics = tuple(self._static(name, values[name]) for name in self._statics)
        return self._specialized(types, statics)

    def _specialized(self, types: tuple[ScalarType, ...], statics: tuple[int | float | bool, ...]) -> Program:
        key = types, tuple((type(one), one) for one in statics)
        found = self._programs.get(key)
        if found is None or not found.is_current():
            with self._lock:
                found = self._programs.get(key)
                if found is None or not found.is_current():
                    found = self.definition.specialized(
                        dict(zip(self._generic, types, strict=True)), dict(zip(self._statics, statics, strict=True))
                    )
                    self._programs[key] = found
        return found.program

    def _static(self, name: str, value: Any) -> int | float | bool:
        kind = next(
            one.type.kind for one in self.definition.parameters if one.name == name and isinstance(one.type, StaticType)
        )
        number = python_number(value)
        if kind is float and type(number) is int:
            number = float(number)
        if type(number) is not kind:
            raise InvalidInput(f"`{name}` of {self.__name__} is {shown(value)}, no {kind.__name__}", fix="pass one.")
        return number

    def compile(self, session: Session | None = None, **values: Any) -> Pipeline:
        """Compiles the kernel ahead of its first call; ``values`` as for ``specialize``."""
        from vyre.app.kernels.current_session import current_session

        program = self.specialize(**values) if values else self.program
        return (session or current_session()).compile(program)

    # ------------------------------------------------------------ calls
    def __call__(self, *given: Any, **named: Any) -> Any:
        """Runs the kernel."""
        return self._run(given, named, None, None)

    def __getitem__(self, grid: Grid) -> Launcher:
        return Launcher(self, grid, None)

    def over(self, extent: Grid) -> Launcher:
        """Returns the kernel with so many lanes along each axis; the grid covers them."""
        return Launcher(self, None, extent)

    def _run(self, given: tuple[Any, ...], named: Mapping[str, Any], grid: Any, extent: Any) -> Any:
        from vyre.app.kernels.current_session import current_session

        values = self._bound(given, named)
        call = self.resolve(values)
        session = current_session()
        if grid is None and extent is None:
            extent = call.extent
        pipeline = session.compile(call.program, grid=grid, extent=extent, output_counts=call.output_counts or None)
        result = pipeline(call.inputs)
        returned = []
        for one in self.definition.parameters:
            if not isinstance(one.type, ArrayType) or one.type.direction == "in":
                continue
            array = values.get(one.name)
            if array is None:
                found = result[one.name]
                shape = call.shapes.get(one.name)
                returned.append(found if shape is None else found.reshape(shape))
            else:
                array.reshape(-1)[...] = result[one.name].reshape(-1)
        if not returned:
            return None
        return returned[0] if len(returned) == 1 else tuple(returned)

    def _bound(self, given: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, Any]:
        parameters = self.definition.parameters
        values = dict(zip((one.name for one in parameters), given, strict=False))
        wrong = len(given) > len(parameters) or any(name in values for name in named)
        values.update(named)
        names = [one.name for one in parameters]
        needed = [one.name for one in parameters if not _is_optional(one)]
        missing = [name for name in needed if values.get(name) is None]
        if wrong or missing or any(name not in names for name in values):
            raise UnfitArguments(
                f"the arguments do not fit {self.__name__}({', '.join(names)})",
                fix=f"give {', '.join(missing)}." if missing else "give each argument once.",
                loc=outside(),
            )
        return values

    def resolve(self, values: Mapping[str, Any]) -> ResolvedCall:
        """Returns the program and the inputs for arguments by name."""
        types: dict[str, ScalarType] = {}
        sizes: dict[str, tuple[int, ...]] = {}
        for one in self.definition.parameters:
            value = values.get(one.name)
            if isinstance(one.type, ArrayType):
                if value is not None:
                    sizes[one.name] = self._array_shape(one, one.type, value, types)
            elif isinstance(one.type, TypeVar) and value is not None:
                known = own_type(value) or value_type(getattr(value, "dtype", None))
                if known is not None:
                    types.setdefault(one.type.__name__, known)
        for name in self._generic:
            if name not in types:
                raise InvalidInput(
                    f"the type {name} of `{self.__name__}` follows from none of the arguments",
                    fix="pass a NumPy array or scalar of that type.",
                )
        statics = tuple(self._static(name, values[name]) for name in self._statics)
        program = self._specialized(tuple(types[name] for name in self._generic), statics)
        return self._call(program, values, sizes)

    def _array_shape(
        self, one: Parameter, wanted: ArrayType, value: Any, types: dict[str, ScalarType]
    ) -> tuple[int, ...]:
        shape = tuple(getattr(value, "shape", ()) or ())
        if isinstance(wanted.element, TypeVar):
            known = element_type(getattr(value, "dtype", None))
            if known is not None and types.setdefault(wanted.element.__name__, known) is not known:
                name = wanted.element.__name__
                raise InvalidInput(
                    f"`{one.name}` of {self.__name__} holds {known.text}, and {name} is {types[name].text} already",
                    fix="pass arrays of one type.",
                )
        if wanted.axes > 1 and len(shape) != wanted.axes:
            raise InvalidInput(
                f"`{one.name}` of {self.__name__} has {wanted.axes} axes, got {shown(value)} with {len(shape)}",
                fix=f"pass an array with {wanted.axes} axes, such as x.reshape(...).",
            )
        return shape

    def _call(self, program: Program, values: Mapping[str, Any], shapes: dict[str, tuple[int, ...]]) -> ResolvedCall:
        inputs: dict[str, Any] = {}
        counts: dict[str, int] = {}
        for one in self.definition.parameters:
            if isinstance(one.type, ArrayType) and one.type.direction == "out":
                size = self._output_shape(one, one.type, values, shapes)
                shapes[one.name] = size
                if not isinstance(one.type.size, Like | int | tuple):
                    counts[one.name] = int(np.prod(size, dtype=np.int64))
            elif not isinstance(one.type, StaticType):
                inputs[one.name] = values[one.name]
        extent = None
        for one in self.definition.parameters:
            if not isinstance(one.type, ArrayType):
                continue
            shape = shapes[one.name]
            for axis in range(one.type.axes - 1, 0, -1):
                inputs[f"{one.name}_{SIZE_NAMES[axis - 1]}"] = shape[-axis]
            if one.type.axes > 1 and one.type.direction != "in" and extent is None:
                extent = tuple(reversed(shape))
        return ResolvedCall(program, inputs, counts, shapes, extent)

    def _output_shape(
        self, one: Parameter, wanted: ArrayType, values: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]]
    ) -> tuple[int, ...]:
        given = shapes.get(one.name)
        if given is not None:
            return given
        size = wanted.size
        if isinstance(size, Like):
            return shapes[size.name]
        if isinstance(size, int):
            return (size,)
        if isinstance(size, tuple):
            return size
        if isinstance(size, SizeExpression):
            numbers = {name: int(value) for name, value in values.items() if whole_number(value) is not None}
            try:
                found = size.shape(shapes, numbers)
            except ZeroDivisionError:
                found = (-1,)
            if min(found) < 0:
                raise InvalidInput(
                    f"the size `{size.text}` of `{one.name}` of {self.__name__} is {shown(found)} for these arguments",
                    fix="pass arrays that are long enough, or the output itself.",
                )
            return found
        raise InvalidInput(
            f"`{one.name}` of {self.__name__} is not given, and its size is not declared",
            fix='pass an array, or annotate it as Out[f32, like("x")].',
        )

    def __repr__(self) -> str:
        return f"<vyre.kernel {self.__name__}>"


class ResolvedCall:
    """What one call runs: the program, its inputs by name, sizes of outputs, and the lanes where they are known."""

    __slots__ = ("extent", "inputs", "output_counts", "program", "shapes")

    def __init__(
        self,
        program: Program,
        inputs: dict[str, Any],
        output_counts: dict[str, int],
        shapes: dict[str, tuple[int, ...]],
        extent: tuple[int, ...] | None,
    ) -> None:
        self.program = program
        self.inputs = inputs
        self.output_counts = output_counts
        self.shapes = shapes
        self.extent = extent


class Launcher:
    """A kernel with a number of workgroups or of lanes; call it with the arguments of the kernel."""

    __slots__ = ("_extent", "_grid", "_kernel")

    def __init__(self, kernel: Kernel[...], grid: Any, extent: Any) -> None:
        self._kernel = kernel
        self._grid = grid
        self._extent = extent

    def __call__(self, *given: Any, **named: Any) -> Any:
        """Runs the kernel."""
        return self._kernel._run(given, named, self._grid, self._extent)


def _type_variables(one: Parameter) -> tuple[TypeVar, ...]:
    if isinstance(one.type, TypeVar):
        return (one.type,)
    if isinstance(one.type, ArrayType) and isinstance(one.type.element, TypeVar):
        return (one.type.element,)
    return ()


def _is_optional(one: Parameter) -> bool:
    return isinstance(one.type, ArrayType) and one.type.direction == "out"


def _type_of(name: str, given: Any) -> ScalarType:
    found = given if isinstance(given, ScalarType) else element_type(given)
    if found is None:
        raise InvalidInput(f"{name}={shown(given)} is no type", fix=f"write {name}=f32 or the like.")
    return found


@overload
def kernel(function: Callable[P, None], /) -> Kernel[P]: ...
@overload
def kernel(*, workgroup: Size | tuple[Size, ...] = ...) -> Callable[[Callable[P, None]], Kernel[P]]: ...
def kernel(
    function: Callable[P, None] | None = None, /, *, workgroup: Size | tuple[Size, ...] = DEFAULT_WORKGROUP
) -> Kernel[P] | Callable[[Callable[P, None]], Kernel[P]]:
    """Makes a kernel of a Python function: ``@vyre.kernel(workgroup=256)``.

    The function's source becomes a program, and its body is never run as Python.  ``workgroup``: the number of lanes of
    a workgroup along x, or a tuple of up to three axes.  Raises ``KernelSourceError`` where Python keeps no source of
    the function, and for parameters that are not annotated; the body is checked at the first use.
    """
    names = dict(sys._getframe(1).f_locals)
    size = arguments.workgroup_size(workgroup)

    def make(decorated: Callable[P, None]) -> Kernel[P]:
        if not isinstance(decorated, FunctionType):
            raise KernelSourceError(f"{shown(decorated)} is no Python function", fix="decorate a `def`.", loc=outside())
        return Kernel(KernelDefinition(decorated, size, names))

    return make if function is None else make(function)


def function(decorated: Callable[P, R], /) -> Inlined[P, R]:
    """Makes a function that kernels may call: ``@vyre.function``.  Its statements become part of the kernel.

    Called by Python, it is the Python function that it was made of.
    """
    if not isinstance(decorated, FunctionType):
        raise KernelSourceError(f"{shown(decorated)} is no Python function", fix="decorate a `def`.", loc=outside())
    return Inlined(decorated, dict(sys._getframe(1).f_locals))
