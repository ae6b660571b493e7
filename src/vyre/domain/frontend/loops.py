"""Loops: ``while``, ``for`` over a range, and ``for`` over what is known while the kernel is being built."""

from __future__ import annotations

import ast
from typing import Final

from vyre.domain.frontend import operators
from vyre.domain.frontend.assignment import refuse_array, set_name
from vyre.domain.frontend.blocks import merged, run_body, unless_returned
from vyre.domain.frontend.call_arguments import whole_argument
from vyre.domain.frontend.evaluation import expression, kept, operands, test
from vyre.domain.frontend.known import fixed_items
from vyre.domain.frontend.lowering import LoopState, Lowering, Returns, closed, flexible
from vyre.domain.frontend.names import Kind
from vyre.domain.frontend.operands import Array, Constant, Items, Operand, Scalar, Thing
from vyre.domain.frontend.operators import integer, literal, typed
from vyre.domain.frontend.returns import has_return, returned_flag
from vyre.domain.ir.expr import Literal, Unary, Var
from vyre.domain.ir.limits import U32_MAX
from vyre.domain.ir.operators import UnaryOp
from vyre.domain.ir.stmt import Break, If, Loop
from vyre.domain.ir.types import ScalarType

_U32: Final = ScalarType.U32
_BOOL: Final = ScalarType.BOOL
_MAX_ROUNDS: Final = U32_MAX


def while_loop(k: Lowering, node: ast.While) -> bool:
    """Records ``while``; returns whether the statement after it can be reached."""
    _refuse_else(k, node)
    before = set(k.frame.assigned)
    name, loc = k.unique("round"), k.loc(node)
    state = LoopState(unrolled=False)
    k.frame.loops.append(state)
    with k.open() as body:
        known = test(k, node.test)
        if known is False:
            k.frame.loops.pop()
            return True
        if isinstance(known, bool):
            known = literal(k, Constant(True), _BOOL, node)
        endless = isinstance(known.expr, Literal)
        k.emit(If(Unary(UnaryOp.LOGICAL_NOT, known.expr, loc=loc), (Break(loc=loc),), loc=loc))
        tested = set(k.frame.assigned)
        run_body(k, node.body)
    k.frame.loops.pop()
    ways = state.at_breaks if endless else [*state.at_breaks, tested]
    k.frame.assigned = merged(before, *ways)
    zero, most, one = (Literal(_U32, number) for number in (0, _MAX_ROUNDS, 1))
    k.emit(Loop(name, zero, most, one, closed(body), loc=loc))
    return bool(ways)


def _refuse_else(k: Lowering, node: ast.While | ast.For) -> None:
    if node.orelse:
        k.fail(node.orelse[0], "`else` cannot follow a loop in a kernel", "set a variable before `break`, and test it.")


def counted_or_unrolled(k: Lowering, node: ast.For) -> bool:
    """Records ``for``; returns whether the statement after it can be reached."""
    _refuse_else(k, node)
    if _is_range(k, node.iter):
        assert isinstance(node.iter, ast.Call)
        return _counted(k, node, node.iter)
    items = expression(k, node.iter)
    if isinstance(items, Array):
        fix = f"write `for i in range(len({items.name})):` and {items.name}[i]."
        k.fail(node.iter, f"the array `{items.name}` cannot be iterated over", fix)
    return _unrolled(k, node, fixed_items(k, items, node.iter))


def innermost_loop(k: Lowering, node: ast.stmt, word: str) -> LoopState:
    """Returns the loop that ``break`` or ``continue`` is about."""
    loop = k.frame.loops[-1]
    if loop.unrolled:
        k.fail(node, f"`{word}` cannot stand in an unrolled loop", "use an `if`, or a loop over range().")
    if loop.whole_grid:
        k.fail(
            node,
            f"`{word}` cannot stand in a grid loop, whose rounds all lanes of the grid run together",
            "put a condition around the rest of the round; the loop ends after a round that leaves its flag 0.",
        )
    return loop


# ---------------------------------------------------------------- unrolled loops
def _unrolled(k: Lowering, node: ast.For, items: tuple[Operand, ...]) -> bool:
    """Repeats a body in the program for each item."""
    items = tuple(kept(k, item, node) for item in items)
    returns = k.frame.returns
    may_return = returns is not None and has_return(node) and not k.frame.is_in_loop and len(items) > 1
    flag = returned_flag(k, returns, node) if may_return and isinstance(returns, Returns) else None
    for index, item in enumerate(items):
        if flag is None or index == 0:
            falls = _round(k, node, item)
        else:
            falls = unless_returned(k, flag, node, lambda item=item: _round(k, node, item))  # type: ignore[misc]
        if not falls:
            return False
    return True


def _round(k: Lowering, node: ast.For, item: Operand) -> bool:
    _bind_item(k, node.target, item)
    k.frame.loops.append(LoopState(unrolled=True))
    falls = run_body(k, node.body)
    k.frame.loops.pop()
    return falls


def _bind_item(k: Lowering, target: ast.expr, item: Operand) -> None:
    if isinstance(target, ast.Name):
        if k.plan(target.id).kind is Kind.VARIABLE:
            set_name(k, target.id, item, target)
            return
        refuse_array(k, item, target)
        k.frame.env[target.id] = item
        k.frame.assigned.add(target.id)
    elif isinstance(target, ast.Tuple) and isinstance(item, Items) and len(item.items) == len(target.elts):
        for one, part in zip(target.elts, item.items, strict=True):
            _bind_item(k, one, part)
    else:
        k.fail(target, "the items do not fit the names of the loop", "give as many names as an item has parts.")


# ---------------------------------------------------------------- loops over a range
def _is_range(k: Lowering, node: ast.expr) -> bool:
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or node.func.id in k.frame.env:
        return False
    callee = expression(k, node.func)
    return isinstance(callee, Thing) and callee.value is range


def _counted(k: Lowering, node: ast.For, call: ast.Call) -> bool:
    """Records a loop over ``range``."""
    if not isinstance(node.target, ast.Name):
        k.fail(node.target, "a loop over range() has one variable", "write `for k in range(...):`.")
    limits = _limits(k, call)
    start, stop, step = _typed_limits(k, limits, call)
    name, loc = node.target.id, k.loc(node)
    is_variable = k.plan(name).kind is Kind.VARIABLE
    before = set(k.frame.assigned)
    values = _known_values(k, limits, call)
    unique = k.unique(f"{name}_round" if is_variable else name)
    if values and min(values[0], values[-1]) >= 0:
        k.greatest[unique] = max(values[0], values[-1])
    counter = Scalar(Var(unique, loc=loc), start.dtype, start.cell)
    k.frame.loops.append(LoopState(unrolled=False))
    with k.open() as body:
        if is_variable:
            set_name(k, name, counter, node.target)
        else:
            k.frame.env[name] = counter
            k.frame.assigned.add(name)
        run_body(k, node.body)
    k.frame.loops.pop()
    k.frame.assigned = before | {name} if is_variable and values else before
    k.emit(Loop(unique, start.expr, stop.expr, step.expr, closed(body), loc=loc))
    return True


def _limits(k: Lowering, call: ast.Call) -> list[Operand]:
    """Returns start, stop and step as they are given."""
    if call.keywords or not 1 <= len(call.args) <= 3:
        k.fail(call, "range() takes one to three arguments", "write range(stop), range(start, stop) or with a step.")
    arguments = operands(k, call.args)
    ends = [Constant(0), arguments[0]] if len(arguments) == 1 else arguments[:2]
    return [*ends, arguments[2] if len(arguments) == 3 else Constant(1)]


def _known_values(k: Lowering, limits: list[Operand], node: ast.AST) -> range:
    """Returns the values of a loop variable, none if they are not known while the kernel is being built."""
    numbers = [limit for limit in limits if isinstance(limit, Constant)]
    return _as_range(k, numbers, node) if len(numbers) == 3 else range(0)


def _as_range(k: Lowering, numbers: list[Constant], node: ast.AST) -> range:
    start, stop, step = (whole_argument(k, number, "an end of range()", node) for number in numbers)
    if step == 0:
        k.fail(node, "the step of range() is 0", "give a step that is not 0.")
    return range(start, stop, step)


def _typed_limits(k: Lowering, limits: list[Operand], node: ast.AST) -> tuple[Scalar, Scalar, Scalar]:
    """Returns start, stop and step as values of one integer type."""
    numbers = [limit for limit in limits if isinstance(limit, Constant)]
    negative = any(number.value < 0 for number in numbers)
    if len(numbers) == 3:
        _as_range(k, numbers, node)
        known = k.unknown(whole=True, negative=negative)
        if isinstance(known, ScalarType):
            start, stop, step = (literal(k, number, known, node) for number in numbers)
            return start, stop, step
        unknown = flexible(known)
        return unknown, unknown, unknown
    scalars = [integer(k, limit, "an end of a range", node) for limit in limits if not isinstance(limit, Constant)]
    bound = scalars[0]
    for other in scalars[1:]:
        bound, _ = operators.common(k, bound, other, "range()", node)
    if bound.dtype is None:
        if bound.cell is not None:
            bound.cell.root.negative |= negative
        return bound, bound, bound
    if negative and not bound.dtype.is_signed:
        k.fail(
            node,
            f"a bound or the step is negative, and the loop counts in {bound.dtype.text}, the type of the other bounds",
            "count in a signed type: range(i32(n) - 1, -1, -1).",
        )
    if isinstance(limits[2], Constant):
        _as_range(k, [Constant(0), Constant(0), limits[2]], node)
    start, stop, step = (typed(k, limit, bound.dtype, "an end of a range", node) for limit in limits)
    return start, stop, step
