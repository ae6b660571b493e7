"""``Arguments`` derives types, static values, shapes and sizes of outputs from the arguments of a call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from enum import IntEnum
from math import prod
from types import MappingProxyType
from typing import Any, Final, NamedTuple, NoReturn, TypeAlias, TypeVar
from warnings import warn_explicit

import numpy as np

from vyre.app.host_memory import host_memory
from vyre.app.resident import ResidentArray
from vyre.domain.dispatch import axes_of
from vyre.domain.errors import InvalidConfig, InvalidInput, UnfitArguments
from vyre.domain.frontend.annotations import ArrayType, Like, StaticType
from vyre.domain.frontend.captures import is_array, is_plain
from vyre.domain.frontend.definition import KernelDefinition, Parameter
from vyre.domain.frontend.size_expressions import SizeExpression
from vyre.domain.geometry import LaneReach, ReachedExtent, grid_of_extent
from vyre.domain.interface import reach_of, uses_atomics
from vyre.domain.ir.caller import outside
from vyre.domain.ir.numpy_scalars import element_type, own_type, python_number, type_fix, whole_number
from vyre.domain.ir.program import Program
from vyre.domain.ir.size_parameters import size_parameters
from vyre.domain.ir.types import ScalarType
from vyre.domain.names import Dim3, Grid, Size
from vyre.domain.printable import kind_of, shown
from vyre.domain.value_identity import identity

_SIZES: Final = ("width", "height", "depth")
_MANY: Final = 16
_WARNED: Final[dict[str | tuple[str, type[Warning], int], int]] = {}
Values: TypeAlias = tuple[Any, ...]
"""One argument for each parameter, in order; None for an output that the caller leaves out."""
Shape: TypeAlias = tuple[int, ...]
Trait: TypeAlias = tuple[int, Callable[[Any], object]]
"""The position of an argument, and what of it a program, a grid or the size of an output depends on."""


class Resolved(NamedTuple):
    """Types, static values and sizes that follow from the arguments of a call.

    ``shapes``: those of all arrays, by name.  ``output_counts``: elements of outputs whose size the program leaves
    open.
    """

    types: tuple[ScalarType, ...]
    statics: tuple[Any, ...]
    shapes: dict[str, Shape]
    output_counts: dict[str, int]

    def sizes(self, program: Program) -> dict[str, int]:
        """Returns the sizes that the program takes as parameters of their own, by name."""
        return {name: self.shapes[array][axis] for name, (array, axis) in size_parameters(program).items()}


class Arguments:
    """The parameters of a kernel, to which it binds arguments and from which it resolves sizes."""

    def __init__(self, definition: KernelDefinition) -> None:
        self.title: Final = definition.name
        self.parameters: Final = definition.parameters
        self.names: Final = tuple(one.name for one in self.parameters)
        variables = {v.__name__: v for one in self.parameters for v in _type_variables(one)}
        self.generic: Final = tuple(sorted(variables))
        self._allowed: Final = {name: allowed for name, v in variables.items() if (allowed := _constraints(v))}
        self.statics: Final = tuple(one.name for one in self.parameters if isinstance(one.type, StaticType))
        self.arrays: Final = tuple(
            (place, one.name, one.type) for place, one in enumerate(self.parameters) if isinstance(one.type, ArrayType)
        )
        self._has_axes: Final = any(size != 1 for size in definition.workgroup[1:]) or any(
            array.axes > 1 for _, _, array in self.arrays
        )
        self.traits: Final[tuple[Trait, ...]] = tuple(self._traits())
        kinds = {one.name: _kind_of(one) for one in self.parameters}
        numbers = {self.names[n]: trait for n, trait in self.traits if trait not in (_dtype_trait, _shape_trait)}
        self.kinds: Final[Mapping[str, Callable[[Any], object]]] = kinds | numbers
        """The function, by name of each argument, that returns the part of it on which a launch depends.

        It raises ``TypeError`` for an argument that is converted first, such as a list.
        """

    # ---------------------------------------------------------------- binding
    def bound(self, positional: Sequence[Any], named: Mapping[str, Any]) -> Values:
        """Returns the arguments by position, for those of a call.  Raises ``UnfitArguments``."""
        values: dict[str, Any] = dict(zip(self.names, positional, strict=False))
        twice = [name for name in named if name in values]
        unknown = [name for name in named if name not in self.names]
        values.update(named)
        missing = [one.name for one in self.parameters if values.get(one.name) is None and not is_output(one)]
        if len(positional) > len(self.names) or twice or unknown or missing:
            self._refuse(len(positional), twice, unknown, missing)
        return tuple([values.get(name) for name in self.names])

    def _refuse(self, count: int, twice: list[str], unknown: list[str], missing: list[str]) -> NoReturn:
        signature = f"{self.title}({', '.join(self.names)})"
        if unknown:
            what, fix = f"has no parameter `{unknown[0]}`", f"its parameters are {', '.join(self.names) or 'none'}."
        elif twice:
            what, fix = f"got `{twice[0]}` twice", "give it by position or by name."
        elif count > len(self.names):
            what, fix = f"takes {len(self.names)} arguments, got {count}", "give each parameter once."
        else:
            what, fix = f"got nothing for `{missing[0]}`", f"give {', '.join(missing)}."
        raise UnfitArguments(f"{signature} {what}", fix=fix, loc=outside())

    def of_inputs(self, inputs: Any, out: Mapping[str, Any] = MappingProxyType({})) -> Values:
        """Returns the arguments by position, for the ``inputs`` of a session's methods.

        They are a mapping by name, or a sequence of all but outputs; ``out`` are arrays for outputs, by name.  Raises
        ``InvalidInput``.
        """
        passed = [one.name for one in self.parameters if not is_output(one)]
        if isinstance(inputs, Mapping):
            named = inputs
        elif isinstance(inputs, Sequence) and not isinstance(inputs, str | bytes | bytearray | memoryview):
            if len(inputs) != len(passed):
                raise InvalidInput(
                    f"{self.title} takes {len(passed)} inputs, got {len(inputs)}",
                    fix=f"pass exactly {', '.join(passed)}, in this order.",
                )
            named = dict(zip(passed, inputs, strict=True))
        else:
            raise InvalidInput(
                f"inputs is {kind_of(inputs)}", fix="pass a dict from the names of parameters to data, or a list."
            )
        missing = [name for name in passed if named.get(name) is None]
        unknown = [name for name in named if name not in self.names]
        if missing or unknown:
            wrong = f"input `{missing[0]}` is missing" if missing else f"{shown(unknown[0])} is no parameter"
            raise InvalidInput(f"{self.title}: {wrong}", fix=f"pass exactly {', '.join(passed) or 'nothing'}.")
        return tuple(
            [
                out.get(one.name) if is_output(one) and named.get(one.name) is None else named.get(one.name)
                for one in self.parameters
            ]
        )

    # ---------------------------------------------------------------- resolving
    def resolved(
        self,
        values: Values,
        output_counts: Mapping[str, Size] | None = None,
        chosen: Mapping[str, ScalarType] = MappingProxyType({}),
    ) -> Resolved:
        """Returns what follows from the arguments.  ``output_counts``: sizes that the caller gives otherwise;
        ``chosen``: types of type parameters, which arrays may only confirm.

        Raises ``InvalidInput``.
        """
        types = self._types(values, chosen)
        numbers = {name: number for name, value in self._by_name(values) if (number := whole_number(value)) is not None}
        statics = tuple(self.static(name, values[self.names.index(name)]) for name in self.statics)
        shapes: dict[str, Shape] = {}
        for place, name, array in self.arrays:
            if values[place] is not None:
                shapes[name] = self._passed_shape(name, array, values[place], types)
        passed = frozenset(shapes)
        counts: dict[str, int] = {}
        for _, name, array in self.arrays:
            if array.direction != "out":
                continue
            declared = self._declared(name, array, shapes, numbers, output_counts or {})
            passed_shape = shapes.get(name) if name in passed else None
            shape = declared if passed_shape is None else self._fitting(name, array, passed_shape, declared)
            if shape is None:
                raise InvalidInput(
                    f"`{name}` of {self.title} is not given, and its size is not declared",
                    fix=f'pass an array, or annotate it as Out[{_text(array)}, like("x")] or with sizes: (2,), (4, 8).',
                )
            shapes[name] = shape
            if not isinstance(array.size, Like | int | tuple):
                counts[name] = prod(shape)
        return Resolved(tuple(types[name] for name in self.generic), statics, shapes, counts)

    def _by_name(self, values: Values) -> list[tuple[str, Any]]:
        return list(zip(self.names, values, strict=True))

    def extent(
        self, program: Program, shapes: Mapping[str, Shape], workgroup: Dim3 | None = None
    ) -> ReachedExtent | None:
        """Returns the lanes along each axis whose indices the ids of a kernel's ``program`` reach.

        None where that says nothing, so that elements are counted as for any program.  Raises ``InvalidConfig`` for ids
        along several axes, some of which reach no array plainly.
        """
        reach = self.reach(program)
        if not self._has_axes and reach.reads <= {0}:
            return None
        sizes = {name: shapes[name] if array.axes > 1 else (prod(shapes[name]),) for _, name, array in self.arrays}
        size = workgroup or program.workgroup_size
        lanes = list(size)  # one workgroup along an axis that is not read
        for axis in reach.reads:
            parts = reach.axes[axis]
            if not parts and reach.reads == {0}:
                return None
            if not parts:
                raise InvalidConfig(
                    f"how many lanes {self.title} needs along {'xyz'[axis]} does not follow from the indices in which "
                    f"it uses its ids along {'xyz'[axis]}",
                    fix=f"say how many: {self.title}.over(({', '.join(_SIZES[: max(reach.reads) + 1])}))(...).",
                )
            lanes[axis] = max(part.count_lanes(sizes[part.buffer], size[axis]) for part in parts)
        return ReachedExtent(lanes[: max(reach.reads, default=0) + 1])

    def launched(
        self,
        program: Program,
        shapes: Mapping[str, Shape],
        grid: Grid | None,
        extent: Grid | None,
        workgroup: Dim3 | None = None,
    ) -> ReachedExtent | None:
        """Returns ``extent()`` where neither workgroups nor lanes are given, and checks what is given.

        Raises ``InvalidConfig`` for workgroups along y or z of whose ids the kernel reads none: lanes would do the same
        again.  Warns (``UserWarning``) of many more lanes than any array has elements.
        """
        if grid is None and extent is None:
            return self.extent(program, shapes, workgroup)
        size = workgroup or program.workgroup_size
        groups = grid_of_extent(axes_of("extent", extent), size) if grid is None else axes_of("grid", grid)
        meant = f"{self.title}[x, y] counts workgroups along x and y, and lanes are @vyre.kernel(workgroup=...)"
        for axis, count in enumerate(groups):
            if axis and count > 1 and axis not in self.reach(program).reads:
                raise InvalidConfig(
                    f"{self.title} gets {count} workgroups along {'xyz'[axis]}, and reads no id along that axis",
                    fix=f"{meant}: write {self.title}[{groups[0]}], or {self.title}.over(n) for n lanes.",
                )
        lanes, elements = prod(groups) * prod(size), max([prod(size), *map(prod, shapes.values())])
        many = lanes > elements * (_MANY if prod(size) not in groups[1:] else 4)
        if grid is not None and many and not uses_atomics(program):
            text = f"{self.title} runs {lanes} lanes, and no array has more than {elements} elements; {meant}."
            warn_explicit(text, UserWarning, outside().file, outside().line, registry=_WARNED)
        return None

    def reach(self, program: Program) -> LaneReach:
        """Returns the indices that the ids of a kernel's ``program`` reach."""
        return reach_of(program, {name: array.axes for _, name, array in self.arrays})

    def _types(self, values: Values, chosen: Mapping[str, ScalarType]) -> dict[str, ScalarType]:
        """Returns the types that are chosen, follow from arrays, and then, where none tells, from NumPy scalars."""
        types = dict(chosen)
        if not self.generic:
            return types
        for place, name, array in self.arrays:
            dtype = _dtype_of(values[place], name)
            if not isinstance(array.element, TypeVar) or dtype is None:
                continue
            known, parameter = element_type(dtype), array.element.__name__
            if known is None:
                raise InvalidInput(
                    f"`{name}` of {self.title} is an array of {dtype}, which vyre does not have",
                    fix=f"{type_fix(dtype) or 'pass x.astype(...) of a type that it has'}.",
                )
            if types.setdefault(parameter, known) is not known:
                raise InvalidInput(
                    f"`{name}` of {self.title} holds {known.text}, and {parameter} is {types[parameter].text} already",
                    fix="pass arrays of one type.",
                )
        for one, value in zip(self.parameters, values, strict=True):
            if isinstance(one.type, TypeVar) and one.type.__name__ not in types:
                known = own_type(value)
                if known is not None:
                    types[one.type.__name__] = known
        for parameter in self.generic:
            if parameter not in types:
                raise InvalidInput(
                    f"the type {parameter} of `{self.title}` follows from none of the arguments",
                    fix=f'pass a NumPy array or scalar of that type, or spec={{"{parameter}": f32}}.',
                )
            self.check_type(parameter, types[parameter])
        return types

    def check_type(self, parameter: str, element: ScalarType) -> None:
        """Raises ``InvalidInput`` for a type that the constraints or the bound of a type parameter do not name."""
        allowed = self._allowed.get(parameter, ())
        if allowed and element not in allowed:
            names = " or ".join(one.text for one in allowed)
            raise InvalidInput(
                f"{parameter} of `{self.title}` is {names}, and the arguments are {element.text}",
                fix=f"pass arrays and numbers of {names}, or name {element.text} in the TypeVar, too.",
            )

    def static(self, name: str, value: Any) -> Any:
        """Returns the value of a static parameter, a number of Python or NumPy.  Raises ``InvalidInput``."""
        kind = next(one.type.kind for one in self.parameters if one.name == name and isinstance(one.type, StaticType))
        number = python_number(value)
        if isinstance(number, IntEnum) and is_plain(number):
            number = int(number)
        if kind is float and type(number) is int:
            with suppress(OverflowError):
                number = value = float(number)
        if type(number) is not kind:
            raise InvalidInput(
                f"`{name}` of {self.title} is {shown(value)}, {kind_of(value)}",
                fix=f"pass {'an' if kind is int else 'a'} {kind.__name__}, from which the program is made.",
            )
        return value[()] if is_array(value) else value

    def _passed_shape(self, name: str, array: ArrayType, value: Any, types: Mapping[str, ScalarType]) -> Shape:
        if isinstance(value, np.ndarray | ResidentArray):
            shape = value.shape
        elif isinstance(value, bool | int | float | complex | np.generic | str):
            shape = ()  # refused with its name when it is converted
        elif isinstance(value, list | tuple):
            shape = _listed_shape(value)
        else:
            memory = host_memory(value, f"input `{name}`")
            element = array.element if isinstance(array.element, ScalarType) else types[array.element.__name__]
            shape = memory.shape if isinstance(memory, np.ndarray) else (memory.nbytes // element.size,)
        size = (array.size,) if isinstance(array.size, int) else array.size
        if not isinstance(size, tuple) or array.direction == "out" or not shape:
            pass  # of any size, or refused elsewhere
        elif prod(shape) != prod(size) if array.axes == 1 else shape != size:
            meant = f"{prod(size)} elements" if array.axes == 1 else f"the shape {size}"
            raise InvalidInput(
                f"`{name}` of {self.title} is annotated as {'In' if array.direction == 'in' else 'InOut'}"
                f"[{_text(array)}, {array.size}], which means {meant}, and got an array of the shape {shape}",
                fix=f"pass an array with {meant}, or leave the size out; arrays have 1, 2 or 3 axes.",
            )
        if array.axes == 1:
            return shape or (1,)
        if len(shape) != array.axes:
            its = f" with {len(shape)}" if shape else ""
            raise InvalidInput(
                f"`{name}` of {self.title} has {array.axes} axes, got {kind_of(value)}{its}",
                fix=f"pass an array with {array.axes} axes, such as x.reshape(...).",
            )
        return shape

    def _declared(
        self,
        name: str,
        array: ArrayType,
        shapes: Mapping[str, Shape],
        numbers: Mapping[str, int],
        counts: Mapping[str, Size],
    ) -> Shape | None:
        """Returns the shape that an output has by its declaration; None where it is left open."""
        size = array.size
        if isinstance(size, Like):
            if size.name in shapes:
                return shapes[size.name]
            model = next(other for _, known, other in self.arrays if known == size.name)
            return self._declared(size.name, model, shapes, numbers, counts)
        if isinstance(size, int):
            return (size,)
        if isinstance(size, tuple):
            return size
        if isinstance(size, SizeExpression):
            return self._evaluated(name, size, shapes, numbers)
        count = whole_number(counts.get(name))
        return None if count is None or array.axes != 1 else (count,)

    def _evaluated(
        self, name: str, size: SizeExpression, shapes: Mapping[str, Shape], numbers: Mapping[str, int]
    ) -> Shape:
        flat = {other: (prod(shapes[other]),) if array.axes == 1 else shapes[other] for _, other, array in self.arrays
                if other in shapes}  # fmt: skip
        try:
            shape = size.shape(flat, numbers)
        except ZeroDivisionError:
            shape = None
        except KeyError as error:
            raise InvalidInput(f"`{error.args[0]}` of {self.title} is no whole number", fix="pass an int.") from None
        if shape is None or min(shape) < 0:
            what = "divides by zero" if shape is None else f"is {', '.join(map(str, shape))}"
            raise InvalidInput(
                f"the size `{size.text}` of `{name}` of {self.title} {what} for these arguments",
                fix="pass arguments for which it is a size, or the output itself.",
            )
        return shape

    def _fitting(self, name: str, array: ArrayType, shape: Shape, declared: Shape | None) -> Shape:
        """Returns the shape of an output that the caller passes.  Raises ``InvalidInput`` if another is declared."""
        if declared is not None:
            fits = shape == declared if array.axes > 1 else prod(shape) == prod(declared)
            if not fits:
                raise InvalidInput(
                    f"`{name}` of {self.title} has the shape {shape}, and its declared size is {declared}",
                    fix=f"pass numpy.empty({declared}, ...), or leave it out.",
                )
        return shape

    # ---------------------------------------------------------------- traits
    def _traits(self) -> list[Trait]:
        sizes = any(isinstance(array.size, SizeExpression) for _, _, array in self.arrays)
        opened = any(array.direction == "out" and array.size is None for _, _, array in self.arrays)
        traits: list[Trait] = []
        for place, one in enumerate(self.parameters):
            if isinstance(one.type, StaticType):
                traits.append((place, identity))
            elif isinstance(one.type, TypeVar):
                traits.append((place, own_type))
            elif isinstance(one.type, ArrayType):
                if isinstance(one.type.element, TypeVar):
                    traits.append((place, _dtype_trait))
                if self._has_axes or sizes or (opened and one.type.direction == "out"):
                    traits.append((place, _shape_trait))
            elif sizes:
                traits.append((place, whole_number))
        return traits


def is_output(one: Parameter) -> bool:
    """Returns whether a caller may leave out the argument for a parameter."""
    return isinstance(one.type, ArrayType) and one.type.direction == "out"


def _listed_shape(values: Sequence[object]) -> Shape:
    """Returns the shape of numbers in lists; () for what is refused when it is converted."""
    try:
        return np.shape(values)  # type: ignore[arg-type]  # lists of anything
    except ValueError:
        return ()


def _dtype_trait(value: Any) -> object:
    return None if value is None else value.dtype


def _shape_trait(value: Any) -> object:
    return None if value is None else value.shape


def _kind_of(one: Parameter) -> Callable[[Any], object]:
    if not isinstance(one.type, ArrayType):
        return _number_kind
    return _generic_kind if isinstance(one.type.element, TypeVar) else _array_kind


def _array_kind(value: Any) -> object:
    if type(value) is not np.ndarray and type(value) is not ResidentArray:
        raise TypeError("an argument that is converted first")
    return value.shape


def _generic_kind(value: Any) -> object:
    return _array_kind(value), value.dtype


def _number_kind(value: object) -> bool:
    return value is None


def _dtype_of(value: Any, name: str) -> Any:
    """Returns the type of NumPy that an argument has; None where it tells none."""
    dtype = getattr(value, "dtype", None)
    if dtype is None or isinstance(dtype, np.dtype):
        return dtype
    memory = host_memory(value, f"input `{name}`")
    return memory.dtype if isinstance(memory, np.ndarray) else None


def _type_variables(one: Parameter) -> tuple[TypeVar, ...]:
    if isinstance(one.type, TypeVar):
        return (one.type,)
    if isinstance(one.type, ArrayType) and isinstance(one.type.element, TypeVar):
        return (one.type.element,)
    return ()


def _constraints(variable: TypeVar) -> tuple[ScalarType, ...]:
    """Returns the types that a type parameter may be, () for any; what is no type of vyre or NumPy says nothing."""
    named = variable.__constraints__ or (variable.__bound__,)
    types = [one if isinstance(one, ScalarType) else element_type(one) for one in named]
    return tuple([one for one in types if one is not None])


def _text(array: ArrayType) -> str:
    element = array.element.text if isinstance(array.element, ScalarType) else array.element.__name__
    return element if array.axes == 1 else f"{element}, {array.axes}"
