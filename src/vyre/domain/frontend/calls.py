"""Calls in a kernel: ids, memory, conversions, functions of Python, ``math``, NumPy and vyre, and inlined functions."""

from __future__ import annotations

import ast
import builtins
import math
from collections.abc import Callable, Sequence
from math import prod
from types import FunctionType
from typing import Any, Final, NoReturn, TypeAlias

from vyre.domain.errors import BuildError
from vyre.domain.frontend import intrinsics, known, operators, python_functions
from vyre.domain.frontend.call_arguments import (
    as_type,
    bound,
    called,
    counted,
    positional,
    type_argument,
    whole_argument,
)
from vyre.domain.frontend.comparisons import is_known, known_object
from vyre.domain.frontend.evaluation import expression
from vyre.domain.frontend.functions import INSTEAD, OF_MATH, OF_NUMPY, OF_VYRE_BINARY, OF_VYRE_UNARY
from vyre.domain.frontend.inlined import Inlined
from vyre.domain.frontend.inlining import inline
from vyre.domain.frontend.lowering import Lowering
from vyre.domain.frontend.methods import call_method
from vyre.domain.frontend.operands import Constant, Items, Method, Operand, Scalar, Thing
from vyre.domain.frontend.operators import condition, literal, scalar, typed
from vyre.domain.frontend.python_functions import converted, unary_function
from vyre.domain.ir import functions as of_vyre
from vyre.domain.ir import nodes as ir
from vyre.domain.ir.buffers import Access
from vyre.domain.ir.definitions import Definition
from vyre.domain.ir.definitions_in_use import warn_of_deprecated
from vyre.domain.ir.foreign_names import KERNEL, plain
from vyre.domain.ir.operators import (
    BOOL,
    FLOATS,
    INTEGERS,
    SUBGROUP,
    BinaryOp,
    Ordering,
    SubgroupOp,
    UnaryOp,
    binary_result,
    narrow_is_legal,
)
from vyre.domain.ir.program import ProgramSource
from vyre.domain.ir.types import ScalarType

Rule: TypeAlias = "Callable[[Lowering, list[Operand], ast.Call], Operand]"
_U32: Final = ScalarType.U32
_LANES: Final = 32
_NOTHING: Final = Thing(None)
_SPEC_TYPES: Final = (ScalarType.U32, ScalarType.I32, ScalarType.F32, ScalarType.BOOL)


def call(k: Lowering, node: ast.Call) -> Operand:
    """Returns the result of a call."""
    callee = expression(k, node.func)
    if isinstance(callee, Method):
        return call_method(k, callee, node)
    if not isinstance(callee, Thing):
        k.fail(node, f"`{called(node)}` is called and is no function", "call functions only.")
    function = callee.value
    if isinstance(function, Inlined):
        return inline(k, function, node)
    dtype = as_type(function)
    if dtype is not None:
        return converted(k, dtype, positional(k, node, 1)[0], node)
    entry = _RULES.get(function) if _is_hashable(function) else None
    if entry is not None:
        names, least, rule = entry
        return rule(k, bound(k, node, names, least), node)
    return _of_library(k, function, node)


def _is_hashable(function: Any) -> bool:
    try:
        hash(function)
    except TypeError:
        return False
    return True


# ---------------------------------------------------------------- ids, barriers, memory
def _launch_id(kind: ir.IdKind) -> Rule:
    def rule(k: Lowering, arguments: list[Operand], node: ast.Call) -> Operand:
        axis = whole_argument(k, arguments[0], "the axis", node) if arguments else 0
        if not 0 <= axis <= 2:
            k.fail(node, f"there is no axis {axis}", "use 0 for x, 1 for y or 2 for z.")
        return Scalar(ir.LaunchId(kind, axis, loc=k.loc(node)), _U32)

    return rule


def _subgroup_lane(k: Lowering, arguments: list[Operand], node: ast.Call) -> Operand:
    return Scalar(ir.SubgroupLane(loc=k.loc(node)), _U32)


def _subgroup_size(k: Lowering, arguments: list[Operand], node: ast.Call) -> Operand:
    return Scalar(ir.SubgroupSize(loc=k.loc(node)), _U32)


def _barrier(ordering: Ordering) -> Rule:
    def rule(k: Lowering, arguments: list[Operand], node: ast.Call) -> Operand:
        k.emit(ir.Barrier(ordering, loc=k.loc(node)))
        return _NOTHING

    return rule


def _grid_loop(k: Lowering, arguments: list[Operand], node: ast.Call) -> Operand:
    k.fail(node, "grid_loop() is no value", "write `with vyre.grid_loop(limit, flag) as rounds:`.")


def _trap(k: Lowering, arguments: list[Operand], node: ast.Call) -> Operand:
    address, tag = arguments
    if not isinstance(tag, Thing) or not isinstance(tag.value, str):
        k.fail(node, "the tag of a trap is no text", 'write vyre.trap(number, "what happened").')
    value = typed(k, address, _U32, "the address of a trap", node)
    k.emit(ir.Trap(value.expr, tag.value, loc=k.loc(node)))
    return _NOTHING


def _memory(access: Access, hint: str) -> Rule:
    def rule(k: Lowering, arguments: list[Operand], node: ast.Call) -> Operand:
        dtype = type_argument(k, arguments[0], node)
        sizes = arguments[1].items if isinstance(arguments[1], Items) else (arguments[1],)
        counts = [whole_argument(k, size, "a size of the array", node) for size in sizes]
        if not 1 <= len(counts) <= 3 or min(counts) < 1:
            k.fail(node, f"the array has the sizes {tuple(counts)}", "give one to three positive sizes.")
        if any(not loop.unrolled for frame in k.frames for loop in frame.loops):
            k.fail(node, "memory is declared in a loop", "declare it before the loop, and set it to zero in the loop.")
        inner = tuple(ir.Literal(_U32, count) for count in counts[1:])
        return k.declare(_assigned_name(k, node) or hint, dtype, access, prod(counts), inner, node)

    return rule


def _assigned_name(k: Lowering, node: ast.Call) -> str | None:
    return k.naming.get(id(node))


def _spec(k: Lowering, arguments: list[Operand], node: ast.Call) -> Operand:
    name, default = arguments
    if not isinstance(name, Thing) or not isinstance(name.value, str) or not name.value:
        k.fail(node, "the name of a constant is no text", 'write vyre.spec("tile", 16).')
    value = scalar(k, default, node)
    if not isinstance(value.expr, ir.Literal) or value.dtype not in _SPEC_TYPES:
        k.fail(node, f"the default of `{name.value}` is no constant of u32, i32, f32 or bool", "give a number.")
    return Scalar(ir.SpecConst(name.value, value.expr, loc=k.loc(node)), value.dtype)


def _call(k: Lowering, operands: list[Operand], node: ast.Call) -> Operand:
    named, *arguments = operands
    if not isinstance(named, Thing) or not isinstance(named.value, str | Definition):
        k.fail(node, "the first argument of call() names no operation", 'write vyre.call("acme.gelu", x).')
    return _operation(k, named.value, arguments, node)


def _operation(k: Lowering, named: str | Definition, arguments: Sequence[Operand], node: ast.Call) -> Operand:
    """Returns the call of a defined operation; its definition becomes part of the program."""
    try:
        definition = k.definitions.named(named) if isinstance(named, str) else k.definitions.add(named)
    except BuildError as error:
        k.fail(node, error.message, error.fix)
    parameters = definition.parameters
    if len(arguments) != len(parameters):
        takes = ", ".join(f"{each.name}: {each.dtype.text}" for each in parameters)
        k.fail(node, f"`{definition.id}` takes {counted(len(parameters))}, got {len(arguments)}", f"pass ({takes}).")
    values = [
        typed(k, value, each.dtype, f"argument `{each.name}` of {definition.id}", node)
        for each, value in zip(parameters, arguments, strict=True)
    ]
    place = k.loc(node)
    warn_of_deprecated(definition, place)
    expr = ir.Call(definition.id, tuple([value.expr for value in values]), loc=place)
    return Scalar(expr, definition.result_type, None, any(value.changes for value in values))


def _of_library(k: Lowering, function: Any, node: ast.Call) -> Operand:
    """Returns the result of a function of ``math`` or NumPy; every other function is refused."""
    module = str(getattr(function, "__module__", None) or ("numpy" if type(function).__module__ == "numpy" else ""))
    name = str(getattr(function, "__name__", type(function).__name__))
    if module == "numpy" and name == "dtype":
        (named,) = positional(k, node, 1)
        if is_known(named):
            return Thing(operators.computed(k, function, node, known_object(named)))
    op: UnaryOp | None = None
    if function is getattr(math, name, None):
        op = OF_MATH.get(name)
    elif module.partition(".")[0] == "numpy":
        op = OF_NUMPY.get(name)
    if op is None:
        _refuse_function(k, function, module, name, node)
    (operand,) = positional(k, node, 1)
    if isinstance(operand, Constant):
        return operators.constant(k, operators.computed(k, function, node, operand.held), node)
    return unary_function(k, op, operand, node)


def _refuse_function(k: Lowering, function: Any, module: str, name: str, node: ast.Call) -> NoReturn:
    """Raises the error for a function that kernels do not have."""
    problem = f"`{called(node)}` cannot be called in a kernel"
    if module in ("builtins", "math") or module.startswith("numpy"):
        known = "docs/python.md lists the functions of Python, math and NumPy that kernels have."
        k.fail(node, problem, INSTEAD.get(name, known))
    if isinstance(function, ProgramSource):
        fix = "call one after the other, or write what they share as a function with @vyre.function."
        k.fail(node, f"`{called(node)}` is a kernel, and a kernel calls no other one", fix)
    if not isinstance(function, FunctionType) or module.partition(".")[0] == "vyre":
        k.fail(node, problem, f"{KERNEL.get(plain(name), 'call it outside, and pass what it gives')}.")
    k.fail(
        node,
        f"`{called(node)}` is an ordinary Python function, which a kernel cannot call",
        f"write it as `def {called(node)}(...)`, with @vyre.function above it."
        if name == "<lambda>"
        else f"write @vyre.function above `def {name}`.",
    )


# ---------------------------------------------------------------- functions of vyre
def _unary_of(op: UnaryOp) -> Rule:
    def rule(k: Lowering, arguments: list[Operand], node: ast.Call) -> Operand:
        return unary_function(k, op, arguments[0], node)

    return rule


def _binary_of(op: BinaryOp) -> Rule:
    def rule(k: Lowering, arguments: list[Operand], node: ast.Call) -> Operand:
        name = called(node)
        if op in (BinaryOp.ROTATE_LEFT, BinaryOp.ROTATE_RIGHT):
            value = scalar(k, arguments[0], node)
            count = arguments[1]
            dtype = value.dtype or _U32
            right = literal(k, count, dtype, node) if isinstance(count, Constant) else scalar(k, count, node)
            return _checked(k, op, value, right, name, node)
        a, b = operators.common(k, arguments[0], arguments[1], f"`{name}`", node)
        return _checked(k, op, a, b, name, node)

    return rule


def _checked(k: Lowering, op: BinaryOp, a: Scalar, b: Scalar, name: str, node: ast.AST) -> Scalar:
    if a.dtype is not None and b.dtype is not None and binary_result(op, a.dtype, b.dtype) is None:
        k.fail(node, f"`{name}` is not defined for {a.dtype.text} and {b.dtype.text}", "convert the operands.")
    return operators.made(k, op, a, b, node)


def _select(k: Lowering, arguments: list[Operand], node: ast.Call) -> Operand:
    return operators.select(k, condition(k, arguments[0], node), arguments[1], arguments[2], node)


def _fma(k: Lowering, arguments: list[Operand], node: ast.Call) -> Operand:
    x, y = operators.common(k, arguments[0], arguments[1], "`fma`", node)
    x, z = operators.common(k, x, arguments[2], "`fma`", node)
    x, y = operators.common(k, x, y, "`fma`", node)
    if x.dtype is None:
        return x
    if x.dtype not in FLOATS:
        k.fail(node, f"`fma` is not defined for {x.dtype.text}", "use f32 or f64.")
    changes = x.changes or y.changes or z.changes
    return Scalar(ir.Fma(x.expr, y.expr, z.expr, loc=k.loc(node)), x.dtype, None, changes)


def _narrowing(kind: type[ir.Narrow] | type[ir.Pack] | type[ir.Unpack]) -> Rule:
    def rule(k: Lowering, arguments: list[Operand], node: ast.Call) -> Operand:
        target = type_argument(k, arguments[0], node)
        if not narrow_is_legal(target):
            k.fail(node, f"`{called(node)}` is not defined for {target.text}", "use u8 u16 i8 i16 f16 or bf16.")
        wanted = _U32 if kind is ir.Unpack else target.widened
        value = typed(k, arguments[1], wanted, "the operand", node)
        dtype = _U32 if kind is ir.Pack else target.widened
        return Scalar(kind(target, value.expr, loc=k.loc(node)), dtype, None, value.changes)

    return rule


def _wrap_cast(k: Lowering, arguments: list[Operand], node: ast.Call) -> Operand:
    target = type_argument(k, arguments[0], node)
    value = scalar(k, arguments[1], node)
    if target not in INTEGERS or value.dtype not in FLOATS:
        k.fail(node, "wrap_cast makes integers of f32 or f64", "write wrap_cast(i32, x).")
    return Scalar(ir.WrapCast(target, value.expr, loc=k.loc(node)), target, None, value.changes)


def _over_lanes(op: SubgroupOp) -> Rule:
    row = SUBGROUP[op]

    def rule(k: Lowering, arguments: list[Operand], node: ast.Call) -> Operand:
        value = (condition if BOOL in row.operands else scalar)(k, arguments[0], node)
        if value.dtype is not None and value.dtype not in row.operands:
            fix = "convert: u32(a)." if value.dtype is BOOL else "convert it, or use its bits: x.view(u32)."
            k.fail(node, f"`{called(node)}` is not defined for {value.dtype.text}", fix)
        return Scalar(ir.SubgroupReduce(op, value.expr, loc=k.loc(node)), value.dtype, value.cell, value.changes)

    return rule


def _subgroup_ballot(k: Lowering, arguments: list[Operand], node: ast.Call) -> Operand:
    value = condition(k, arguments[0], node)
    return Scalar(ir.SubgroupBallot(value.expr, loc=k.loc(node)), _U32, None, value.changes)


def _subgroup_broadcast(k: Lowering, arguments: list[Operand], node: ast.Call) -> Operand:
    lane = typed(k, arguments[1], _U32, "the lane of a broadcast", node).expr
    if type(lane) is not ir.Literal or lane.bits >= _LANES:
        fix = "write subgroup_shuffle(value, lane) for others."
        k.fail(node, "the lane of a broadcast is no number of 0 to 31", fix)
    return _subgroup_shuffle(k, arguments, node)


def _subgroup_shuffle(k: Lowering, arguments: list[Operand], node: ast.Call) -> Operand:
    value = scalar(k, arguments[0], node)
    lane = typed(k, arguments[1], _U32, "the lane of a shuffle", node)
    expr = ir.SubgroupShuffle(value.expr, lane.expr, loc=k.loc(node))
    return Scalar(expr, value.dtype, value.cell, value.changes or lane.changes)


_RULES: Final[dict[object, tuple[tuple[str, ...], int, Rule]]] = {
    intrinsics.global_id: (("axis",), 0, _launch_id(ir.IdKind.GLOBAL)),
    intrinsics.local_id: (("axis",), 0, _launch_id(ir.IdKind.LOCAL)),
    intrinsics.group_id: (("axis",), 0, _launch_id(ir.IdKind.GROUP)),
    intrinsics.num_groups: (("axis",), 0, _launch_id(ir.IdKind.NUM_GROUPS)),
    intrinsics.subgroup_lane: ((), 0, _subgroup_lane),
    intrinsics.subgroup_size: ((), 0, _subgroup_size),
    intrinsics.barrier: ((), 0, _barrier(Ordering.SEQ_CST)),
    intrinsics.grid_sync: ((), 0, _barrier(Ordering.GRID_SYNC)),
    intrinsics.grid_loop: (("limit", "flag"), 2, _grid_loop),
    intrinsics.trap: (("address", "tag"), 2, _trap),
    intrinsics.workgroup_array: (("dtype", "shape"), 2, _memory(Access.WORKGROUP, "tile")),
    intrinsics.private_array: (("dtype", "shape"), 2, _memory(Access.PRIVATE, "private")),
    intrinsics.spec: (("name", "default"), 2, _spec),
    intrinsics.static: (("value",), 1, known.static_of),
    intrinsics.call: (("*",), 1, _call),
    builtins.range: (("*",), 1, known.range_of),
    builtins.enumerate: (("iterable", "start"), 1, known.enumerate_of),
    builtins.zip: (("*", "strict"), 1, known.zip_of),
    builtins.reversed: (("sequence",), 1, known.reversed_of),
    builtins.tuple: (("iterable",), 1, known.tuple_of),
    builtins.len: (("obj",), 1, known.len_of),
    builtins.int: (("x",), 1, python_functions.int_of),
    builtins.float: (("x",), 1, python_functions.float_of),
    builtins.bool: (("x",), 1, python_functions.bool_of),
    builtins.min: (("*",), 1, python_functions.smallest_of),
    builtins.max: (("*",), 1, python_functions.largest_of),
    builtins.abs: (("x",), 1, python_functions.abs_of),
    builtins.round: (("number",), 1, python_functions.round_of),
    builtins.divmod: (("x", "y"), 2, python_functions.divmod_of),
    of_vyre.select: (("condition", "on_true", "on_false"), 3, _select),
    of_vyre.fma: (("a", "b", "c"), 3, _fma),
    of_vyre.narrow: (("dtype", "x"), 2, _narrowing(ir.Narrow)),
    of_vyre.pack: (("dtype", "x"), 2, _narrowing(ir.Pack)),
    of_vyre.unpack: (("dtype", "word"), 2, _narrowing(ir.Unpack)),
    of_vyre.wrap_cast: (("dtype", "x"), 2, _wrap_cast),
    **{getattr(of_vyre, row.text): (("value",), 1, _over_lanes(op)) for op, row in SUBGROUP.items()},
    of_vyre.subgroup_ballot: (("condition",), 1, _subgroup_ballot),
    of_vyre.subgroup_broadcast: (("value", "lane"), 2, _subgroup_broadcast),
    of_vyre.subgroup_shuffle: (("value", "lane"), 2, _subgroup_shuffle),
    **{function: (("x",), 1, _unary_of(op)) for function, op in OF_VYRE_UNARY.items()},
    **{function: (("a", "b"), 2, _binary_of(op)) for function, op in OF_VYRE_BINARY.items()},
}


def names_of_functions() -> Sequence[str]:
    """Returns the names of the functions of Python, ``math``, NumPy and vyre that kernels can call, sorted."""
    known = {str(getattr(function, "__name__", function)) for function in _RULES}
    return sorted(known | {f"math.{name}" for name in OF_MATH} | {f"numpy.{name}" for name in OF_NUMPY})
