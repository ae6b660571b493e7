"""``KernelDefinition``: a Python function with its parameters, from which programs are made."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import replace
from math import prod
from types import FunctionType
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from vyre.domain.errors import KernelSourceError
from vyre.domain.float_mode import in_default_mode
from vyre.domain.frontend.annotations import MAX_AXES, ArrayType, Like, StaticType, unwrapped
from vyre.domain.frontend.asides import racing_loads
from vyre.domain.frontend.assignment import declare_parameters
from vyre.domain.frontend.blocks import run_body
from vyre.domain.frontend.captured_names import read
from vyre.domain.frontend.captures import Capture, Captured, guard
from vyre.domain.frontend.carrying import names_in
from vyre.domain.frontend.expressions import EXPRESSIONS
from vyre.domain.frontend.flattening import flattened
from vyre.domain.frontend.inlined import annotation_of
from vyre.domain.frontend.lowering import Frame, Lowering, Misguessed, Rules
from vyre.domain.frontend.names import names_of
from vyre.domain.frontend.operands import Array, Constant, Operand, Scalar, Thing
from vyre.domain.frontend.size_expressions import RefusedSize, SizeExpression
from vyre.domain.frontend.source import Places, Source, carried_source, nested_too_deep, source_of
from vyre.domain.frontend.statements import STATEMENTS
from vyre.domain.ir.arguments import workgroup_size
from vyre.domain.ir.buffers import Access, Buffer, MemoryKind
from vyre.domain.ir.expr import Expr, Literal, Load
from vyre.domain.ir.numpy_scalars import value_type
from vyre.domain.ir.program import Program
from vyre.domain.ir.size_parameters import SIZE_NAMES
from vyre.domain.ir.types import ScalarType

_U32: Final = ScalarType.U32
_ACCESS: Final = {"in": Access.READ_ONLY, "inout": Access.READ_WRITE, "out": Access.READ_WRITE}


class Parameter(NamedTuple):
    """A parameter of a kernel; ``type`` is how it is passed."""

    name: str
    type: ArrayType | StaticType | ScalarType | TypeVar
    node: ast.arg


Types: TypeAlias = Mapping[str, ScalarType]
"""The types that the type parameters of a generic kernel stand for, by name."""
Statics: TypeAlias = Mapping[str, int | float | bool]
Axes: TypeAlias = tuple[int | str, ...]


class Specialized:
    """A program, and the captures on which it depends.

    ``unchanged`` sees at little cost whether the captures still are the same objects.
    """

    __slots__ = ("_captures", "program", "unchanged")

    def __init__(self, program: Program, captures: tuple[Capture, ...]) -> None:
        self.program: Final = program
        self._captures = captures
        self.unchanged: Callable[[], bool] = guard(captures)

    def is_current(self) -> bool:
        """Returns whether all captures still have the values that are in the program."""
        if not self.unchanged():
            present: list[Capture] = []
            for one in self._captures:
                again = one.again()
                if again is None:
                    return False
                present.append(again)
            self._captures = tuple(present)
            self.unchanged = guard(self._captures)
        return True


class KernelDefinition:
    """A function that becomes programs: one for each combination of types and static values."""

    def __init__(
        self, function: FunctionType, workgroup: Axes, local_names: Mapping[str, Any], lines: tuple[str, ...] = ()
    ) -> None:
        """``lines``: the text of the function, where another process has read it."""
        self.function: Final = function
        self.workgroup: Final = workgroup
        """The lanes along each axis; a name is that of the static parameter that tells them."""
        self.source: Final[Source] = carried_source(function, lines) if lines else source_of(function)
        self._local_names = local_names
        self.parameters: Final[tuple[Parameter, ...]] = self._read_parameters()
        numbers = {one.name for one in self.parameters if isinstance(one.type, StaticType) and one.type.kind is int}
        if unknown := [size for size in workgroup if isinstance(size, str) and size not in numbers]:
            fix = f"annotate a parameter: {unknown[0]}: Static[int], or give a number."
            self.source.fail(self.source.tree, f"workgroup: `{unknown[0]}` is no static parameter", fix)
        try:
            self._names = names_of(self.source.tree, frozenset(one.name for one in self.parameters))
        except RecursionError:
            raise nested_too_deep(self.source.code) from None

    @property
    def name(self) -> str:
        """Returns the name of the function."""
        return self.function.__name__

    def remaking(self) -> tuple[object, ...]:
        """Returns the arguments with which another process makes it from the function."""
        return self.workgroup, names_in(self.source, self.function, self._local_names), self.source.lines

    # ------------------------------------------------------------ parameters
    def _read_parameters(self) -> tuple[Parameter, ...]:
        tree, source = self.source.tree, self.source
        arguments = tree.args
        for star in (arguments.vararg, arguments.kwarg):
            if star is not None:
                source.fail(star, "a kernel takes no *args and no **kwargs", "give each parameter a name.")
        for default in (*arguments.defaults, *arguments.kw_defaults):
            if default is not None:
                source.fail(default, "parameters of kernels have no defaults", "pass the value, or capture a constant.")
        if tree.returns is not None and not (isinstance(tree.returns, ast.Constant) and tree.returns.value is None):
            source.fail(tree.returns, "a kernel returns nothing", "annotate a parameter as Out[f32] and store to it.")
        parameters: list[Parameter] = []
        for node in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
            if node.annotation is None and not parameters and node.arg in ("self", "cls"):
                fix = f"define it outside of the class, or write @staticmethod above it, without `{node.arg}`."
                source.fail(node, "a kernel is a function and no method of a class", fix)
            if node.annotation is None:
                fix = f"write {node.arg}: In[f32], InOut[f32], Out[f32] for an array, {node.arg}: f32 for a number."
                source.fail(node, f"the parameter `{node.arg}` has no annotation", fix)
            parameters.append(Parameter(node.arg, self._parameter_type(node), node))
        declared = tuple(parameters)
        return tuple(self._with_size(one, declared) for one in declared)

    def _with_size(self, one: Parameter, declared: tuple[Parameter, ...]) -> Parameter:
        """Returns a parameter with the size that its annotation declares, read and checked."""
        if not isinstance(one.type, ArrayType) or one.type.size is None:
            return one
        array, size = one.type, one.type.size
        arrays = {other.name: other.type for other in declared if isinstance(other.type, ArrayType)}
        if isinstance(size, Like):
            self._check_model(one, size.name, arrays)
            return one
        if isinstance(size, str):
            passed = {name: other.axes for name, other in arrays.items() if other.direction != "out"}
            numbers = frozenset(other.name for other in declared if _is_whole(other.type))
            try:
                size = SizeExpression(size, passed, numbers)
            except RefusedSize as error:
                fix = f"write numbers, len({next(iter(passed), 'x')}), {next(iter(passed), 'x')}.shape[0], + - * // %, "
                self.source.fail(
                    one.node, f"the size `{array.size}` of `{one.name}`: {error}", f"{fix}min, max and commas."
                )
        axes = 1 if isinstance(size, int) else size.axes if isinstance(size, SizeExpression) else len(size)
        if axes != array.axes and (array.axes != 1 or axes > MAX_AXES):
            self.source.fail(
                one.node,
                f"`{one.name}` has {array.axes} axes, and a size of {axes}",
                f"give one size for each axis, such as {('4, ' * array.axes)[:-2]}.",
            )
        return one._replace(type=replace(array, size=size, axes=axes))

    def _check_model(self, one: Parameter, model: str, arrays: Mapping[str, ArrayType]) -> None:
        """Refuses an output that is like no array, like itself by way of others, or like one with other axes."""
        seen, name = {one.name}, model
        while name in arrays and name not in seen:
            seen.add(name)
            size = arrays[name].size
            if not isinstance(size, Like):
                break
            name = size.name
        else:
            self.source.fail(one.node, f"there is no other array `{name}`", "name an array parameter of this kernel.")
        mine, other = arrays[one.name].axes, arrays[model].axes
        if mine != other and mine != 1:
            self.source.fail(
                one.node,
                f"`{one.name}` has {mine} axes, and `{model}` has {other}",
                f'write Out[{arrays[one.name].element}, "..."] with the size of each axis.',
            )

    def _parameter_type(self, node: ast.arg) -> ArrayType | StaticType | ScalarType | TypeVar:
        annotated = unwrapped(self.annotation(node.annotation, node.arg))
        if isinstance(annotated, ArrayType | StaticType | TypeVar):
            return annotated
        dtype = annotated if isinstance(annotated, ScalarType) else value_type(annotated)
        if dtype is not None:
            return dtype
        assert node.annotation is not None
        written = ast.unparse(node.annotation)
        instead = {"int": "i32 or u32, or Static[int]", "float": "f32 or f64", "bool": "bool_"}.get(written)
        fix = (
            f"write {instead}." if instead else "write In[f32], InOut[f32] or Out[f32] for an array, f32 for a number."
        )
        self.source.fail(node, f"`{node.arg}` is annotated as {written}, which is no type of vyre", fix)

    def annotation(self, node: ast.expr | None, parameter: str | None = None) -> Any:
        """Returns what an annotation means; ``parameter`` is the name of the parameter that has it."""
        assert node is not None
        return annotation_of(self.function, self.source, self._local_names, node, parameter)

    # ------------------------------------------------------------ programs
    def specialized(self, types: Types, statics: Statics) -> Specialized:
        """Returns the program for some types and static values.

        Raises ``KernelSourceError`` and ``InvalidProgram``.
        """
        try:
            return self._specialized(types, statics)
        except KernelSourceError as error:
            raise error.with_traceback(None) from None  # the frames of the walk say nothing about the kernel
        except RecursionError:
            raise nested_too_deep(self.source.code) from None

    def _specialized(self, types: Types, statics: Statics) -> Specialized:
        from vyre.domain.validation.validator import check_rules

        if self.function.__code__ is not self.source.code:
            fix = "decorate the function that is meant with @vyre.kernel."
            self.source.fail(self.source.tree, f"`{self.name}` has got other code since it became a kernel", fix)
        walk = self.walked(types, statics)
        program = self._program(walk, statics)
        report = check_rules(program)
        if not report.ok:
            raise report.error(self._excerpt(types, statics))
        return Specialized(program, tuple(walk.captures.values()))

    def _program(self, walk: Lowering, statics: Statics) -> Program:
        place = self.source.place(self.source.tree)
        body, definitions = flattened(walk.finish(), walk.unique), walk.definitions.all()
        sizes = tuple([(name, *size) for name, size in walk.sizes.items()])
        lanes = workgroup_size(tuple([statics[size] if isinstance(size, str) else size for size in self.workgroup]))
        return Program(tuple(walk.buffers), lanes, body, self.name, definitions=definitions, loc=place, sizes=sizes)

    def _excerpt(self, types: Types, statics: Statics) -> str:
        """Returns the line that the first error of an invalid program means; the program is made again to find it."""
        from vyre.domain.validation.validator import check_rules

        places = Places()
        errors = check_rules(self._program(self.walked(types, statics, places=places), statics)).errors
        return places.excerpt(errors[0].loc) if errors else ""

    @in_default_mode
    def walked(
        self,
        types: Types,
        statics: Statics,
        *,
        guess: bool = True,
        places: Places | None = None,
    ) -> Lowering:
        """Returns the walk that has made the program.

        ``guess``: whether types of variables that start as bare numbers are guessed first, which changes no program.
        ``places`` receives the syntax at each location.
        """
        known: Mapping[int, ScalarType] | None = None if guess else {}
        racing: frozenset[int] = frozenset()
        while True:
            frame = Frame(self.source, self._names, Captured(self.function, types))
            k = Lowering(frame, known, self.annotation, Rules(EXPRESSIONS, STATEMENTS), places)
            k.racing = racing
            try:
                self._walk(k, types, statics)
            except (KernelSourceError, Misguessed):
                if known is not None or not k.cells:
                    raise
                known = {}
                continue
            if known == {} and k.cells:
                known = {n: cell.result for n, cell in enumerate(k.cells)}
            elif (branches := racing_loads(k)) <= racing:
                return k
            else:
                racing |= branches

    def _walk(self, k: Lowering, types: Types, statics: Statics) -> None:
        frame = k.frame
        read(k, self.function, "__code__")
        parameters = self._operands(k, types, statics)
        for name, operand in parameters.items():
            frame.env[name] = operand
            frame.assigned.add(name)
        for one in getattr(self.function, "__type_params__", ()):
            if one.__name__ in types:
                frame.env[one.__name__] = Thing(types[one.__name__])
                frame.assigned.add(one.__name__)
        declare_parameters(k, parameters)
        run_body(k, self.source.tree.body)

    def _operands(self, k: Lowering, types: Types, statics: Statics) -> dict[str, Operand]:
        """Declares the parameters; returns what each means in the body."""
        operands: dict[str, Operand] = {}
        sized: list[tuple[str, ArrayType, ScalarType, ast.arg]] = []
        for one in self.parameters:
            if isinstance(one.type, StaticType):
                operands[one.name] = Constant(statics[one.name])
                continue
            k.reserve(one.name)
            if isinstance(one.type, ArrayType):
                element = _resolved(one.type.element, types)
                k.buffers.append(self._array_buffer(k, one, element))
                sized.append((one.name, one.type, element, one.node))
                continue
            dtype = _resolved(one.type, types)
            operands[one.name] = self._scalar(k, one.name, dtype, one.node)
        for name, array, element, node in sized:
            sizes: list[Expr] = []
            for axis in range(array.axes - 1, 0, -1):
                size_name = k.unique(f"{name}_{SIZE_NAMES[axis - 1]}")
                k.sizes[size_name] = self._model(name), -axis
                size = self._scalar(k, size_name, _U32, node)
                sizes.append(size.expr)
            operands[name] = Array(name, element, _ACCESS[array.direction], tuple(sizes))
        return operands

    def _model(self, name: str) -> str:
        """Returns the array from which an array has its shape; its own name for an array that is like no other."""
        arrays = {one.name: one.type for one in self.parameters if isinstance(one.type, ArrayType)}
        while isinstance(size := arrays[name].size, Like):
            name = size.name
        return name

    def _array_buffer(self, k: Lowering, one: Parameter, element: ScalarType) -> Buffer:
        assert isinstance(one.type, ArrayType)
        size = one.type.size
        return Buffer.make(
            one.name,
            k.binding(),
            _ACCESS[one.type.direction],
            element,
            size if isinstance(size, int) else prod(size) if isinstance(size, tuple) else 0,
            is_output=one.type.direction == "out",
            like=size.name if isinstance(size, Like) else None,
            loc=k.loc(one.node),
        )

    def _scalar(self, k: Lowering, name: str, dtype: ScalarType, node: ast.AST) -> Scalar:
        loc = k.loc(node)
        k.buffers.append(Buffer.make(name, k.binding(), Access.UNIFORM, dtype, 1, kind=MemoryKind.PUSH, loc=loc))
        return Scalar(Load(name, Literal(_U32, 0, loc=loc), loc=loc), dtype.widened)


def _resolved(dtype: ScalarType | TypeVar, types: Types) -> ScalarType:
    return dtype if isinstance(dtype, ScalarType) else types[dtype.__name__]


def _is_whole(kind: ArrayType | StaticType | ScalarType | TypeVar) -> bool:
    """Returns whether a parameter is a whole number, which sizes may be made of."""
    if isinstance(kind, StaticType):
        return kind.kind is int
    return isinstance(kind, ScalarType) and kind.is_integer
