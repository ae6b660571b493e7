"""Calls in a kernel: ids, memory, conversions, functions of Python, ``math``, NumPy and vyre, and inlined functions."""

from __future__ import annotations

import ast
import builtins
import math
from collections.abc import Callable, Sequence
from math import prod
from typing import Any, Final, TypeAlias

from vyre.domain.frontend import intrinsics, operators
from vyre.domain.frontend.arrays import length, position
from vyre.domain.frontend.functions import INSTEAD, OF_MATH, OF_NUMPY, OF_VYRE_BINARY, OF_VYRE_UNARY
from vyre.domain.frontend.inlined import Inlined
from vyre.domain.frontend.lowering import MAX_UNROLLED, Lowering
from vyre.domain.frontend.operands import PLACEHOLDER, Array, Constant, Items, Method, Operand, Scalar, Thing
from vyre.domain.frontend.operators import condition, literal, scalar, standalone, typed
from vyre.domain.ir import functions as of_vyre
from vyre.domain.ir.buffers import Access
from vyre.domain.ir.expr import (
    Atomic,
    Bitcast,
    Cast,
    Expr,
    Fma,
    IdKind,
    LaunchId,
    Literal,
    Narrow,
    Pack,
    Select,
    SpecConst,
    SubgroupAdd,
    SubgroupBallot,
    SubgroupLane,
    SubgroupShuffle,
    SubgroupSize,
    Unary,
    Unpack,
    WrapCast,
)
from vyre.domain.ir.numpy_scalars import is_numpy, own_type, python_number, value_type
from vyre.domain.ir.operators import (
    ATOMIC_ELEMENTS,
    FLOATS,
    INTEGERS,
    UNARY,
    AtomicOp,
    BinaryOp,
    Ordering,
    UnaryOp,
    binary_result,
    bitcast_is_legal,
    narrow_is_legal,
    unary_result,
)
from vyre.domain.ir.stmt import Barrier, Trap
from vyre.domain.ir.types import ScalarType
from vyre.domain.shown import shown

Rule: TypeAlias = "Callable[[Lowering, list[Operand], ast.Call], Operand]"
_U32: Final = ScalarType.U32
_NOTHING: Final = Thing(None)
_SPEC_TYPES: Final = (ScalarType.U32, ScalarType.I32, ScalarType.F32, ScalarType.BOOL)


def call(k: Lowering, node: ast.Call) -> Operand:
    """Returns the result of a call."""
    from vyre.domain.frontend.expressions import expression

    callee = expression(k, node.func)
    if isinstance(callee, Method):
        return _method(k, callee, node)
    if not isinstance(callee, Thing):
        k.fail(node, f"`{ast.unparse(node.func)}` is called and is no function", "call functions only.")
    function = callee.value
    if isinstance(function, Inlined):
        from vyre.domain.frontend.inlining import inline

        return inline(k, function, node)
    dtype = _as_type(function)
    if dtype is not None:
        return _converted(k, dtype, _plain(k, node, 1)[0], node)
    entry = _RULES.get(function) if _is_hashable(function) else None
    if entry is not None:
        names, least, rule = entry
        return rule(k, _bound(k, node, names, least), node)
    return _of_library(k, function, node)


def _is_hashable(function: Any) -> bool:
    try:
        hash(function)
    except TypeError:
        return False
    return True


def _as_type(function: Any) -> ScalarType | None:
    if isinstance(function, ScalarType):
        return function
    return value_type(function) if isinstance(function, type) else None


# ---------------------------------------------------------------- arguments
def _plain(k: Lowering, node: ast.Call, count: int) -> list[Operand]:
    """Returns so many arguments, given by position."""
    from vyre.domain.frontend.expressions import operands

    _refuse_stars(k, node)
    if node.keywords or len(node.args) != count:
        given = len(node.args) + len(node.keywords)
        plural = "s" if count != 1 else ""
        k.fail(node, f"`{ast.unparse(node.func)}` takes {count} argument{plural}, and {given} are given", "repair it.")
    return operands(k, node.args)


def _bound(k: Lowering, node: ast.Call, names: tuple[str, ...], least: int) -> list[Operand]:
    """Returns the arguments in the order of the parameters ``names``, without those that are left out at the end."""
    from vyre.domain.frontend.expressions import operands

    _refuse_stars(k, node)
    if names and names[-1] == "*":
        if node.keywords or len(node.args) < least:
            k.fail(node, f"`{ast.unparse(node.func)}` takes at least {least} arguments, by position", "repair it.")
        return operands(k, node.args)
    slots: list[ast.expr | None] = [None] * len(names)
    for index, argument in enumerate(node.args[: len(names)]):
        slots[index] = argument
    wrong = len(node.args) > len(names)
    for keyword in node.keywords:
        if keyword.arg in names and slots[names.index(keyword.arg)] is None:
            slots[names.index(keyword.arg)] = keyword.value
        else:
            wrong = True
    given = len(slots)
    while given and slots[given - 1] is None:
        given -= 1
    found = [slot for slot in slots[:given] if slot is not None]
    if wrong or given < least or len(found) != given:
        k.fail(
            node,
            f"the arguments do not fit `{ast.unparse(node.func)}({', '.join(names)})`",
            f"give {least} to {len(names)} arguments." if least != len(names) else f"give {least} arguments.",
        )
    return operands(k, found)


def _refuse_stars(k: Lowering, node: ast.Call) -> None:
    if any(isinstance(one, ast.Starred) for one in node.args) or any(one.arg is None for one in node.keywords):
        k.fail(node, "`*` and `**` cannot stand in a call of a kernel", "write each argument.")


def _whole(k: Lowering, operand: Operand, what: str, node: ast.AST) -> int:
    if not isinstance(operand, Constant) or not isinstance(operand.value, int) or isinstance(operand.value, bool):
        k.fail(node, f"{what} is not known while the kernel is being built", "give an int, or a captured constant.")
    return int(operand.value)


# ---------------------------------------------------------------- ids, barriers, memory
def _launch_id(kind: IdKind) -> Rule:
    def rule(k: Lowering, given: list[Operand], node: ast.Call) -> Operand:
        axis = _whole(k, given[0], "the axis", node) if given else 0
        if not 0 <= axis <= 2:
            k.fail(node, f"there is no axis {axis}", "use 0 for x, 1 for y or 2 for z.")
        return Scalar(LaunchId(kind, axis, loc=k.loc(node)), _U32)

    return rule


def _subgroup_lane(k: Lowering, given: list[Operand], node: ast.Call) -> Operand:
    return Scalar(SubgroupLane(loc=k.loc(node)), _U32)


def _subgroup_size(k: Lowering, given: list[Operand], node: ast.Call) -> Operand:
    return Scalar(SubgroupSize(loc=k.loc(node)), _U32)


def _barrier(ordering: Ordering) -> Rule:
    def rule(k: Lowering, given: list[Operand], node: ast.Call) -> Operand:
        k.emit(Barrier(ordering, loc=k.loc(node)))
        return _NOTHING

    return rule


def _trap(k: Lowering, given: list[Operand], node: ast.Call) -> Operand:
    address, tag = given
    if not isinstance(tag, Thing) or not isinstance(tag.value, str):
        k.fail(node, "the tag of a trap is no text", 'write vyre.trap(number, "what happened").')
    value = typed(k, address, _U32, "the address of a trap", node)
    k.emit(Trap(value.expr, tag.value, loc=k.loc(node)))
    return _NOTHING


def _memory(access: Access, hint: str) -> Rule:
    def rule(k: Lowering, given: list[Operand], node: ast.Call) -> Operand:
        dtype = _type_argument(k, given[0], node)
        sizes = given[1].items if isinstance(given[1], Items) else (given[1],)
        counts = [_whole(k, size, "a size of the array", node) for size in sizes]
        if not 1 <= len(counts) <= 3 or min(counts) < 1:
            k.fail(node, f"the array has the sizes {tuple(counts)}", "give one to three positive sizes.")
        if any(not loop.unrolled for frame in k.frames for loop in frame.loops):
            k.fail(node, "memory is declared in a loop", "declare it before the loop, and set it to zero in the loop.")
        inner = tuple(Literal(_U32, count) for count in counts[1:])
        return k.declare(_assigned_name(k, node) or hint, dtype, access, prod(counts), inner, node)

    return rule


def _assigned_name(k: Lowering, node: ast.Call) -> str | None:
    return k.naming.get(id(node))


def _type_argument(k: Lowering, operand: Operand, node: ast.AST) -> ScalarType:
    dtype = _as_type(operand.value) if isinstance(operand, Thing) else None
    if dtype is None:
        k.fail(node, "the first argument is no type", "give one, such as f32.")
    return dtype


def _spec(k: Lowering, given: list[Operand], node: ast.Call) -> Operand:
    name, default = given
    if not isinstance(name, Thing) or not isinstance(name.value, str) or not name.value:
        k.fail(node, "the name of a constant is no text", 'write vyre.spec("tile", 16).')
    value = scalar(k, default, node)
    if not isinstance(value.expr, Literal) or value.dtype not in _SPEC_TYPES:
        k.fail(node, f"the default of `{name.value}` is no constant of u32, i32, f32 or bool", "give a number.")
    return Scalar(SpecConst(name.value, value.expr, loc=k.loc(node)), value.dtype)


# ---------------------------------------------------------------- what is known while the kernel is being built
def _static(k: Lowering, given: list[Operand], node: ast.Call) -> Operand:
    (operand,) = given
    if isinstance(operand, Scalar | Array | Method):
        k.fail(
            node, "vyre.static(...) is not known while the kernel is being built", "give numbers, tuples and ranges."
        )
    return operand


def fixed_items(k: Lowering, operand: Operand, node: ast.AST) -> tuple[Operand, ...]:
    """Returns the items of a tuple or of a range of numbers."""
    if isinstance(operand, Items):
        return operand.items
    if isinstance(operand, Thing) and isinstance(operand.value, range):
        if len(operand.value) > MAX_UNROLLED:
            fix = "write `for k in range(...)`, which is a loop of the kernel."
            k.fail(node, f"{len(operand.value)} rounds are too many to unroll", fix)
        return tuple(map(Constant, operand.value))
    k.fail(node, "this is no tuple and no range of numbers", "give one that is known while the kernel is being built.")
    raise AssertionError


def _range(k: Lowering, given: list[Operand], node: ast.Call) -> Operand:
    numbers = [_whole(k, one, "an end of the range", node) for one in given]
    try:
        return Thing(range(*numbers))
    except ValueError as error:
        k.fail(node, str(error), "give a step that is not 0.")
    raise AssertionError


def _enumerate(k: Lowering, given: list[Operand], node: ast.Call) -> Operand:
    start = _whole(k, given[1], "the start", node) if len(given) > 1 else 0
    items = fixed_items(k, given[0], node)
    return Items(tuple(Items((Constant(start + n), item)) for n, item in enumerate(items)))


def _zip(k: Lowering, given: list[Operand], node: ast.Call) -> Operand:
    columns = [fixed_items(k, one, node) for one in given]
    return Items(tuple(Items(row) for row in zip(*columns, strict=False)))


def _reversed(k: Lowering, given: list[Operand], node: ast.Call) -> Operand:
    return Items(fixed_items(k, given[0], node)[::-1])


def _tuple(k: Lowering, given: list[Operand], node: ast.Call) -> Operand:
    return Items(fixed_items(k, given[0], node))


def _len(k: Lowering, given: list[Operand], node: ast.Call) -> Operand:
    (operand,) = given
    if isinstance(operand, Array):
        return length(k, operand, node)
    if isinstance(operand, Items):
        return Constant(len(operand.items))
    if isinstance(operand, Thing) and isinstance(operand.value, range | str):
        return Constant(len(operand.value))
    k.fail(node, "len() is asked of something that has no length", "ask it of an array or a tuple.")
    raise AssertionError


# ---------------------------------------------------------------- numbers
def _converted(k: Lowering, dtype: ScalarType, operand: Operand, node: ast.AST) -> Operand:
    """Returns ``f32(x)`` and the like: a conversion, or a literal of a number."""
    if not dtype.is_executable:
        wide = dtype.widened.text
        fix = (
            f"compute in {wide}; a store to an array of {dtype.text} narrows, and vyre.narrow({dtype.text}, x) rounds."
        )
        k.fail(node, f"no value has the type {dtype.text}, which exists in arrays only", fix)
    operand = k.settled(operand)
    if isinstance(operand, Constant):
        number = operand.value
        if dtype is ScalarType.BOOL:
            return literal(k, Constant(bool(number)), dtype, node)
        if isinstance(number, bool):
            number = int(number)
        if isinstance(number, float) and dtype.is_integer:
            if not math.isfinite(number):
                k.fail(node, f"{dtype.text}({number}) has no value", "use a finite number.")
            number = int(number)
        return literal(k, Constant(number), dtype, node)
    value = scalar(k, operand, node)
    if value.dtype is dtype:
        return value
    return Scalar(Cast(dtype, value.expr, loc=k.loc(node)), dtype, None, value.changes)


def _int(k: Lowering, given: list[Operand], node: ast.Call) -> Operand:
    (operand,) = given
    if isinstance(operand, Constant):
        return Constant(int(operand.value))
    value = scalar(k, operand, node)
    if value.dtype is not None and not value.dtype.is_integer:
        k.fail(node, "int() of a value has no type of its own in a kernel", "write i32(x) or u32(x), which truncate.")
    return value


def _float(k: Lowering, given: list[Operand], node: ast.Call) -> Operand:
    (operand,) = given
    if isinstance(operand, Constant):
        return Constant(float(operand.value))
    if isinstance(operand, Thing) and isinstance(operand.value, str):
        try:
            return Constant(float(operand.value))
        except ValueError:
            pass
    value = scalar(k, operand, node)
    if value.dtype is not None and not value.dtype.is_float:
        k.fail(node, "float() of a value has no type of its own in a kernel", "write f32(x) or f64(x).")
    return value


def _bool(k: Lowering, given: list[Operand], node: ast.Call) -> Operand:
    (operand,) = given
    return Constant(bool(operand.value)) if isinstance(operand, Constant) else condition(k, operand, node)


def _smallest(k: Lowering, given: list[Operand], node: ast.Call) -> Operand:
    return _extreme(k, given, node, ast.Lt(), BinaryOp.MIN)


def _largest(k: Lowering, given: list[Operand], node: ast.Call) -> Operand:
    return _extreme(k, given, node, ast.Gt(), BinaryOp.MAX)


def _extreme(k: Lowering, given: list[Operand], node: ast.Call, beats: ast.cmpop, op: BinaryOp) -> Operand:
    if len(given) == 1:
        given = list(fixed_items(k, given[0], node))
    if not given:
        k.fail(node, "the smallest or largest of nothing is asked for", "give at least one value.")
    found = given[0]
    for other in given[1:]:
        found, other = k.settled(found), k.settled(other)
        if isinstance(found, Constant) and isinstance(other, Constant):
            won = other.value < found.value if isinstance(beats, ast.Lt) else other.value > found.value
            found = other if won else found
            continue
        a, b = operators.common(k, found, other, f"`{ast.unparse(node.func)}`", node)
        if a.dtype is ScalarType.BOOL:
            k.fail(node, "truth values have no order", "write `and` or `or`.")
        if a.dtype is None or a.dtype in INTEGERS:
            found = operators.made(k, op, a, b, node)
            continue
        # Python compares, so that NaN and the sign of zero are those of the first operand that is not beaten.
        a, b = _reusable(k, a, node), _reusable(k, b, node)
        test = operators.compare(k, beats, b, a, node)
        assert isinstance(test, Scalar)
        changes = a.changes or b.changes
        found = Scalar(Select(test.expr, b.expr, a.expr, loc=k.loc(node)), a.dtype, None, changes)
    return found


def _reusable(k: Lowering, value: Scalar, node: ast.AST) -> Scalar:
    return operators._named(k, value, node)


def _abs(k: Lowering, given: list[Operand], node: ast.Call) -> Operand:
    (operand,) = given
    if isinstance(operand, Constant):
        return Constant(abs(operand.value), operand.own)
    return unary_function(k, UnaryOp.ABS, operand, node)


def _round(k: Lowering, given: list[Operand], node: ast.Call) -> Operand:
    (operand,) = given
    if isinstance(operand, Constant):
        return Constant(round(operand.value), operand.own)
    value = scalar(k, operand, node)
    if value.dtype is None or value.dtype.is_integer:
        return value
    return unary_function(k, UnaryOp.ROUND_EVEN, value, node)


def _divmod(k: Lowering, given: list[Operand], node: ast.Call) -> Operand:
    a, b = given
    if isinstance(a, Constant) and isinstance(b, Constant):
        return Items(tuple(operators.binary(k, op, a, b, node) for op in (ast.FloorDiv(), ast.Mod())))
    a, b = (operators._named(k, one, node) if isinstance(one, Scalar) else one for one in given)
    quotient, rest = operators.floor_division(k, a, b, node), operators.remainder(k, a, b, node)
    return Items((quotient, rest))


def unary_function(k: Lowering, op: UnaryOp, operand: Operand, node: ast.AST) -> Scalar:
    """Returns an operation of one operand."""
    value = scalar(k, operand, node)
    if value.dtype is None:
        if value.cell is not None and not (UNARY[op].operands & INTEGERS):
            value.cell.root.fractional = True
        return Scalar(PLACEHOLDER, None, value.cell, value.changes)
    dtype = unary_result(op, value.dtype)
    if dtype is None:
        allowed = ", ".join(operators.spelled(t) for t in ScalarType if t in UNARY[op].operands)
        k.fail(node, f"`{UNARY[op].text}` is not defined for {value.dtype.text}", f"convert to one of {allowed}.")
    return Scalar(Unary(op, value.expr, loc=k.loc(node)), dtype, None, value.changes)


def _of_library(k: Lowering, function: Any, node: ast.Call) -> Operand:
    module = str(getattr(function, "__module__", None) or ("numpy" if type(function).__module__ == "numpy" else ""))
    name = str(getattr(function, "__name__", type(function).__name__))
    op: UnaryOp | None = None
    if function is getattr(math, name, None):
        op = OF_MATH.get(name)
    elif module.partition(".")[0] == "numpy":
        op = OF_NUMPY.get(name)
    if op is None:
        written = ast.unparse(node.func)
        if name in INSTEAD and (module in ("builtins", "math") or module.startswith("numpy")):
            k.fail(node, f"`{written}` cannot be called in a kernel", INSTEAD[name])
        if module in ("builtins", "math") or module.startswith("numpy"):
            fix = "docs/python.md lists the functions of Python, math and NumPy that kernels have."
            k.fail(node, f"`{written}` cannot be called in a kernel", fix)
        k.fail(
            node,
            f"`{written}` is an ordinary Python function, which a kernel cannot call",
            f"write @vyre.function above `def {name}`.",
        )
    (operand,) = _plain(k, node, 1)
    if isinstance(operand, Constant):
        try:
            found = function(operand.value)
        except (ArithmeticError, ValueError) as error:
            k.fail(node, f"Python cannot compute this constant: {error}", "repair it.")
        number = python_number(found)
        return Constant(number, own_type(found) if is_numpy(found) else None)
    return unary_function(k, op, operand, node)


# ---------------------------------------------------------------- functions of vyre
def _unary_of(op: UnaryOp) -> Rule:
    def rule(k: Lowering, given: list[Operand], node: ast.Call) -> Operand:
        return unary_function(k, op, given[0], node)

    return rule


def _binary_of(op: BinaryOp) -> Rule:
    def rule(k: Lowering, given: list[Operand], node: ast.Call) -> Operand:
        name = ast.unparse(node.func)
        if op in (BinaryOp.ROTATE_LEFT, BinaryOp.ROTATE_RIGHT):
            value = scalar(k, given[0], node)
            count = given[1]
            dtype = value.dtype or _U32
            right = literal(k, count, dtype, node) if isinstance(count, Constant) else scalar(k, count, node)
            return _checked(k, op, value, right, name, node)
        a, b = operators.common(k, given[0], given[1], f"`{name}`", node)
        return _checked(k, op, a, b, name, node)

    return rule


def _checked(k: Lowering, op: BinaryOp, a: Scalar, b: Scalar, name: str, node: ast.AST) -> Scalar:
    if a.dtype is not None and b.dtype is not None and binary_result(op, a.dtype, b.dtype) is None:
        k.fail(node, f"`{name}` is not defined for {a.dtype.text} and {b.dtype.text}", "convert the operands.")
    return operators.made(k, op, a, b, node)


def _select(k: Lowering, given: list[Operand], node: ast.Call) -> Operand:
    return operators.select(k, condition(k, given[0], node), given[1], given[2], node)


def _fma(k: Lowering, given: list[Operand], node: ast.Call) -> Operand:
    x, y = operators.common(k, given[0], given[1], "`fma`", node)
    x, z = operators.common(k, x, given[2], "`fma`", node)
    x, y = operators.common(k, x, y, "`fma`", node)
    if x.dtype is None:
        return x
    if x.dtype not in FLOATS:
        k.fail(node, f"`fma` is not defined for {x.dtype.text}", "use f32 or f64.")
    changes = x.changes or y.changes or z.changes
    return Scalar(Fma(x.expr, y.expr, z.expr, loc=k.loc(node)), x.dtype, None, changes)


def _narrowing(kind: type[Narrow] | type[Pack] | type[Unpack]) -> Rule:
    def rule(k: Lowering, given: list[Operand], node: ast.Call) -> Operand:
        target = _type_argument(k, given[0], node)
        if not narrow_is_legal(target):
            k.fail(
                node, f"`{ast.unparse(node.func)}` is not defined for {target.text}", "use u8 u16 i8 i16 f16 or bf16."
            )
        wanted = _U32 if kind is Unpack else target.widened
        value = typed(k, given[1], wanted, "the operand", node)
        dtype = _U32 if kind is Pack else target.widened
        return Scalar(kind(target, value.expr, loc=k.loc(node)), dtype, None, value.changes)

    return rule


def _wrap_cast(k: Lowering, given: list[Operand], node: ast.Call) -> Operand:
    target = _type_argument(k, given[0], node)
    value = scalar(k, given[1], node)
    if target not in INTEGERS or value.dtype not in FLOATS:
        k.fail(node, "wrap_cast makes integers of f32 or f64", "write wrap_cast(i32, x).")
    return Scalar(WrapCast(target, value.expr, loc=k.loc(node)), target, None, value.changes)


def _subgroup_add(k: Lowering, given: list[Operand], node: ast.Call) -> Operand:
    value = scalar(k, given[0], node)
    if value.dtype is ScalarType.BOOL:
        k.fail(node, "truth values are not added up", "convert: u32(a).")
    return Scalar(SubgroupAdd(value.expr, loc=k.loc(node)), value.dtype, value.cell, value.changes)


def _subgroup_ballot(k: Lowering, given: list[Operand], node: ast.Call) -> Operand:
    value = condition(k, given[0], node)
    return Scalar(SubgroupBallot(value.expr, loc=k.loc(node)), _U32, None, value.changes)


def _subgroup_shuffle(k: Lowering, given: list[Operand], node: ast.Call) -> Operand:
    value = scalar(k, given[0], node)
    lane = typed(k, given[1], _U32, "the lane of a shuffle", node)
    expr = SubgroupShuffle(value.expr, lane.expr, loc=k.loc(node))
    return Scalar(expr, value.dtype, value.cell, value.changes or lane.changes)


# ---------------------------------------------------------------- methods
def _method(k: Lowering, method: Method, node: ast.Call) -> Operand:
    if isinstance(method.of, Array):
        return _atomic(k, method.of, method.name, node)
    (target,) = _plain(k, node, 1)
    dtype = _type_argument(k, target, node)
    if method.name == "cast":
        return _converted(k, dtype, method.of, node)
    value = standalone(k, method.of, node) if isinstance(method.of, Constant) else method.of
    if value.dtype is None:
        return Scalar(PLACEHOLDER, dtype)
    if not bitcast_is_legal(value.dtype, dtype):
        k.fail(
            node,
            f"{value.dtype.text} cannot be bitcast to {dtype.text}",
            "bitcast between u32, i32 and f32, or between u64, i64 and f64.",
        )
    return Scalar(Bitcast(dtype, value.expr, loc=k.loc(node)), dtype, None, value.changes)


def _atomic(k: Lowering, array: Array, name: str, node: ast.Call) -> Operand:
    op = AtomicOp[name.removeprefix("atomic_").upper()]
    compares = op is AtomicOp.COMPARE_EXCHANGE
    ordering = _ordering(k, node)
    parameters = ("index", "expected", "value") if compares else ("index", "value")
    rest = ast.copy_location(
        ast.Call(node.func, node.args, [one for one in node.keywords if one.arg != "ordering"]), node
    )
    given = _bound(k, rest, parameters, len(parameters))
    if array.is_private:
        fix = f"write {array.name}[i] = ...: no other lane has the array."
        k.fail(node, f"`{array.name}` is memory of one lane, on which there are no atomics", fix)
    if not array.is_writable:
        k.fail(node, f"`{array.name}` is read-only; an atomic reads and writes it", "annotate it as InOut or Out.")
    if array.element not in ATOMIC_ELEMENTS:
        k.fail(
            node,
            f"`{array.name}` holds {array.element!r}, on which there are no atomics",
            "use an array of u32, i32 or u64; add floats up in workgroup memory, or as integers in fixed point.",
        )
    at = given[0]
    index = position(k, array, list(at.items) if isinstance(at, Items) else [at], node)
    expected = typed(k, given[1], array.dtype, "the expected value", node) if compares else None
    value = typed(k, given[-1], array.dtype, "the operand of an atomic", node)
    compared: Expr | None = None if expected is None else expected.expr
    atomic = Atomic(op, array.name, index.expr, compared, value.expr, ordering, loc=k.loc(node))
    return k.let(Scalar(atomic, array.dtype), "old", node)


def _ordering(k: Lowering, node: ast.Call) -> Ordering:
    from vyre.domain.frontend.expressions import expression

    for keyword in node.keywords:
        if keyword.arg == "ordering":
            found = expression(k, keyword.value)
            held = getattr(found, "value", None)
            if isinstance(held, Ordering):
                return held
            k.fail(node, f"ordering={shown(held)} is no memory ordering", "give one, such as vyre.Ordering.RELAXED.")
    return Ordering.SEQ_CST


_RULES: Final[dict[object, tuple[tuple[str, ...], int, Rule]]] = {
    intrinsics.global_id: (("axis",), 0, _launch_id(IdKind.GLOBAL)),
    intrinsics.local_id: (("axis",), 0, _launch_id(IdKind.LOCAL)),
    intrinsics.group_id: (("axis",), 0, _launch_id(IdKind.GROUP)),
    intrinsics.num_groups: (("axis",), 0, _launch_id(IdKind.NUM_GROUPS)),
    intrinsics.subgroup_lane: ((), 0, _subgroup_lane),
    intrinsics.subgroup_size: ((), 0, _subgroup_size),
    intrinsics.barrier: ((), 0, _barrier(Ordering.SEQ_CST)),
    intrinsics.grid_sync: ((), 0, _barrier(Ordering.GRID_SYNC)),
    intrinsics.trap: (("address", "tag"), 2, _trap),
    intrinsics.workgroup_array: (("dtype", "shape"), 2, _memory(Access.WORKGROUP, "tile")),
    intrinsics.private_array: (("dtype", "shape"), 2, _memory(Access.PRIVATE, "private")),
    intrinsics.spec: (("name", "default"), 2, _spec),
    intrinsics.static: (("value",), 1, _static),
    builtins.range: (("*",), 1, _range),
    builtins.enumerate: (("iterable", "start"), 1, _enumerate),
    builtins.zip: (("*",), 1, _zip),
    builtins.reversed: (("sequence",), 1, _reversed),
    builtins.tuple: (("iterable",), 1, _tuple),
    builtins.len: (("obj",), 1, _len),
    builtins.int: (("x",), 1, _int),
    builtins.float: (("x",), 1, _float),
    builtins.bool: (("x",), 1, _bool),
    builtins.min: (("*",), 1, _smallest),
    builtins.max: (("*",), 1, _largest),
    builtins.abs: (("x",), 1, _abs),
    builtins.round: (("number",), 1, _round),
    builtins.divmod: (("x", "y"), 2, _divmod),
    of_vyre.select: (("condition", "on_true", "on_false"), 3, _select),
    of_vyre.fma: (("a", "b", "c"), 3, _fma),
    of_vyre.narrow: (("dtype", "x"), 2, _narrowing(Narrow)),
    of_vyre.pack: (("dtype", "x"), 2, _narrowing(Pack)),
    of_vyre.unpack: (("dtype", "word"), 2, _narrowing(Unpack)),
    of_vyre.wrap_cast: (("dtype", "x"), 2, _wrap_cast),
    of_vyre.subgroup_add: (("value",), 1, _subgroup_add),
    of_vyre.subgroup_ballot: (("condition",), 1, _subgroup_ballot),
    of_vyre.subgroup_shuffle: (("value", "lane"), 2, _subgroup_shuffle),
    **{function: (("x",), 1, _unary_of(op)) for function, op in OF_VYRE_UNARY.items()},
    **{function: (("a", "b"), 2, _binary_of(op)) for function, op in OF_VYRE_BINARY.items()},
}


def names_of_functions() -> Sequence[str]:
    """Returns the names of the functions of Python, ``math``, NumPy and vyre that kernels can call, sorted."""
    known = {str(getattr(function, "__name__", function)) for function in _RULES}
    return sorted(known | {f"math.{name}" for name in OF_MATH} | {f"numpy.{name}" for name in OF_NUMPY})
