"""The statements of a kernel: one rule for each kind of syntax.

Each rule returns whether the statement after it can be reached.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import Any, Final

from vyre.domain.frontend import intrinsics, operators
from vyre.domain.frontend.arrays import element, store
from vyre.domain.frontend.assignment import array_of, assign_to, refuse_array, set_name
from vyre.domain.frontend.blocks import elif_of, merged, run_body
from vyre.domain.frontend.call_arguments import bound
from vyre.domain.frontend.captured_names import annotated_type
from vyre.domain.frontend.evaluation import expression, index_operands, kept, kept_before, operands, test
from vyre.domain.frontend.loops import counted_or_unrolled, innermost_loop, while_loop
from vyre.domain.frontend.lowering import Hole, LoopState, Lowering, closed
from vyre.domain.frontend.names import Kind
from vyre.domain.frontend.operands import Array, Constant, Operand, Scalar, Thing
from vyre.domain.frontend.operators import integer, scalar, typed, written
from vyre.domain.frontend.refused import refuse
from vyre.domain.frontend.returns import return_value
from vyre.domain.ir.buffers import Access
from vyre.domain.ir.expr import Expr, Literal, Var
from vyre.domain.ir.stmt import Arm, Break, Continue, GridLoop, If, Return, Stmt, Switch
from vyre.domain.ir.types import ScalarType

_U32: Final = ScalarType.U32
_OF_LANES: Final = (Access.WORKGROUP, Access.PRIVATE)


def _with(k: Lowering, node: ast.With) -> bool:
    """Records ``with``, of which kernels know grid loops only."""
    item = node.items[0]
    call = item.context_expr
    if len(node.items) > 1 or not isinstance(call, ast.Call) or not _is_grid_loop(k, call.func):
        refuse(k, node)
    limit, operand = bound(k, call, ("limit", "flag"), 2)
    most = typed(k, limit, _U32, "the limit of a grid loop", call)
    flag = _flag(k, operand, call)
    target = item.optional_vars
    if target is not None and not isinstance(target, ast.Name):
        k.fail(target, "a grid loop gives one number", "write `with vyre.grid_loop(limit, flag) as rounds:`.")
    name = target.id if target is not None else "rounds"
    loc, unique = k.loc(node), k.unique(name)
    before = set(k.frame.assigned)
    k.frame.loops.append(LoopState(unrolled=False, whole_grid=True))
    with k.open() as body:
        run_body(k, node.body)
    k.frame.loops.pop()
    k.frame.assigned = before
    k.emit(GridLoop(unique, most.expr, flag.name, closed(body), loc=loc))
    if target is not None:
        rounds = Scalar(Var(unique, loc=loc), _U32)
        if k.plan(name).kind is Kind.VARIABLE:
            set_name(k, name, rounds, target)
        else:
            k.frame.env[name] = rounds
            k.frame.assigned.add(name)
    return True


def _is_grid_loop(k: Lowering, node: ast.expr) -> bool:
    callee = expression(k, node)
    return isinstance(callee, Thing) and callee.value is intrinsics.grid_loop


def _flag(k: Lowering, array: Operand, call: ast.Call) -> Array:
    if isinstance(array, Array) and array.element is _U32 and array.is_writable and array.access not in _OF_LANES:
        return array
    text = written(call.args[1]) if len(call.args) > 1 else "flag"
    k.fail(call, f"`{text}` cannot be the flag of a grid loop", "give a parameter that is InOut[u32] or Out[u32].")


# ---------------------------------------------------------------- assignments
def _assign(k: Lowering, node: ast.Assign) -> bool:
    if isinstance(node.value, ast.Call) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
        k.naming[id(node.value)] = node.targets[0].id
    value = expression(k, node.value)
    if len(node.targets) > 1:
        value = _once(k, value, node)
    for target in node.targets:
        assign_to(k, target, value, node)
    return True


def _once(k: Lowering, value: Operand, node: ast.AST) -> Operand:
    """Returns a value that several names get, evaluated once."""
    return operators.named(k, value, node) if isinstance(value, Scalar) and not value.changes else kept(k, value, node)


def _ann_assign(k: Lowering, node: ast.AnnAssign) -> bool:
    if not isinstance(node.target, ast.Name):
        k.fail(node, "only names can be annotated", "leave the annotation out.")
    name = node.target.id
    dtype = annotated_type(k, node.annotation)
    if dtype is None:
        text = operators.written(node.annotation)
        k.fail(node.annotation, f"the annotation `{text}` is no type of vyre", "write f32, i32, u32 or bool_, say.")
    if not dtype.is_executable:
        fix = f"write {dtype.widened.text}; arrays of {dtype.text} narrow what is stored to them."
        k.fail(node.annotation, f"no value has the type {dtype.text}, which exists in arrays only", fix)
    if node.value is None:
        k.fail(node, f"`{name}` is annotated and gets no value", f"write {name}: {dtype.text} = 0.")
    value = expression(k, node.value)
    refuse_array(k, value, node)
    first = typed(k, value, dtype, f"`{name}`", node.value, node.value)
    if isinstance(first.expr, Literal) and k.plan(name).kind is not Kind.VARIABLE:
        k.frame.env[name] = first
        k.frame.assigned.add(name)
    else:
        set_name(k, name, first, node)
    return True


def _aug_assign(k: Lowering, node: ast.AugAssign) -> bool:
    target = node.target
    if isinstance(target, ast.Name):
        read = ast.copy_location(ast.Name(target.id, ast.Load()), target)
        a, b = operands(k, (read, node.value))
        set_name(k, target.id, operators.binary(k, node.op, a, b, node), node)
    elif isinstance(target, ast.Subscript):
        of = array_of(k, target)
        indices = [kept(k, index, target, "at") for index in index_operands(k, target)]
        old, start = element(k, of, indices, target), len(k.body)
        added = expression(k, node.value)
        before = kept_before(k, old, start, node)
        store(k, of, indices, operators.binary(k, node.op, before, added, node), target)
    else:
        refuse(k, target)
    return True


def _expr(k: Lowering, node: ast.Expr) -> bool:
    if isinstance(node.value, ast.Constant):
        return True  # a docstring, or `...`
    expression(k, node.value)
    if not isinstance(node.value, ast.Call):
        k.fail(node, "this computes a value and drops it", "assign it, or leave the line out.")
    return True


def _pass(k: Lowering, node: ast.Pass) -> bool:
    return True


# ---------------------------------------------------------------- branches
def _if(k: Lowering, node: ast.If) -> bool:
    """Records ``if`` and the ``elif`` after it, one after the other, so that the length of the chain is no depth."""
    opened: list[tuple[ast.If, Expr, list[Stmt | Hole], list[Stmt | Hole], set[str], set[str] | None]] = []
    while True:
        known = test(k, node.test)
        if isinstance(known, bool):
            following = node.body if known else node.orelse
        else:
            before = set(k.frame.assigned)
            with k.open() as first:
                falls = run_body(k, node.body)
            opened.append((node, known.expr, first, k.begin(), before, k.frame.assigned if falls else None))
            k.frame.assigned = set(before)
            following = node.orelse
        following_if = None if following is node.body else elif_of(k, following)
        if following_if is None:
            break
        node = following_if
    falls = run_body(k, following)
    for link, expr, first, second, before, after_then in reversed(opened):
        after_else = k.frame.assigned if falls else None
        k.end()
        k.frame.assigned = merged(before, after_then, after_else)
        k.emit(If(expr, closed(first), closed(second), loc=k.loc(link)))
        falls = falls or after_then is not None
    return falls


def _match(k: Lowering, node: ast.Match) -> bool:
    _check_cases(k, node)
    subject = expression(k, node.subject)
    if isinstance(subject, Constant):
        return _known_match(k, node, subject)
    selector = integer(k, scalar(k, subject, node.subject), "what `match` looks at", node.subject)
    before = set(k.frame.assigned)
    ways: list[set[str] | None] = []
    arms: list[Arm] = []
    default: tuple[Stmt, ...] | None = None
    for case in node.cases:
        k.frame.assigned = set(before)
        labels = None if _takes_all(case.pattern) else _labels(k, selector, case.pattern)
        with k.open() as body:
            reached = run_body(k, case.body)
        ways.append(k.frame.assigned if reached else None)
        if labels is None:
            default = closed(body)
        else:
            arms.append(Arm(labels, closed(body), loc=k.loc(case.pattern)))
    if default is None:
        ways.append(before)
    _refuse_repeated(k, node, arms)
    k.frame.assigned = merged(before, *ways)
    k.emit(Switch(selector.expr, tuple(arms), default or (), loc=k.loc(node)))
    return any(way is not None for way in ways)


def _check_cases(k: Lowering, node: ast.Match) -> None:
    for number, case in enumerate(node.cases, 1):
        if case.guard is not None:
            k.fail(case.guard, "`if` cannot stand in a `case`", "write an `if` in the body of the case.")
        if _takes_all(case.pattern) and number < len(node.cases):
            k.fail(
                node.cases[number].pattern, "a case follows `case _`, which takes everything", "write `case _` last."
            )


def _refuse_repeated(k: Lowering, node: ast.Match, arms: list[Arm]) -> None:
    seen: set[int] = set()
    for case, arm in zip(node.cases, arms, strict=False):
        for label in arm.labels:
            if label.bits in seen:
                k.fail(case.pattern, f"an earlier case takes {label.value}", "leave it out here.")
            seen.add(label.bits)


def _takes_all(pattern: ast.pattern) -> bool:
    return isinstance(pattern, ast.MatchAs) and pattern.pattern is None and pattern.name is None


def _labels(k: Lowering, selector: Scalar, pattern: ast.pattern) -> tuple[Literal, ...]:
    """Returns the numbers that a pattern takes, in the type of what is looked at; none while that is unknown."""
    labels = []
    for number in _numbers(k, pattern):
        _, label = operators.common(k, selector, number, "a case", pattern)
        if label.dtype is not None and isinstance(label.expr, Literal):
            labels.append(label.expr)
    return tuple(labels)


def _numbers(k: Lowering, pattern: ast.pattern) -> list[Constant]:
    if isinstance(pattern, ast.MatchOr):
        return [number for one in pattern.patterns for number in _numbers(k, one)]
    if isinstance(pattern, ast.MatchValue):
        value = expression(k, pattern.value)
        if isinstance(value, Constant) and type(value.value) is int:
            return [value]
    if isinstance(pattern, ast.MatchAs) and pattern.pattern is not None:
        k.fail(pattern, "`as` cannot stand in a `case`", "give what `match` looks at a name before it.")
    if isinstance(pattern, ast.MatchAs) and pattern.name is not None:
        k.fail(
            pattern,
            f"`case {pattern.name}` takes everything in Python, and gives it a name",
            f"write `case _:` for everything else; for a constant write its number, or its name with a dot, "
            f"`case module.{pattern.name}:`.",
        )
    k.fail(pattern, "a case takes integers only", "write `case 1 | 2:`, a captured constant with a dot, or `case _:`.")


def _known_match(k: Lowering, node: ast.Match, subject: Constant) -> bool:
    """Records the one case that takes a number which is known while the kernel is being built."""
    for case in node.cases:
        if _takes_all(case.pattern) or any(one.value == subject.value for one in _numbers(k, case.pattern)):
            return run_body(k, case.body)
    return True


# ---------------------------------------------------------------- ends of loops and functions
def _break(k: Lowering, node: ast.Break) -> bool:
    loop = innermost_loop(k, node, "break")
    loop.at_breaks.append(set(k.frame.assigned))
    k.emit(Break(loc=k.loc(node)))
    return False


def _continue(k: Lowering, node: ast.Continue) -> bool:
    innermost_loop(k, node, "continue")
    k.emit(Continue(loc=k.loc(node)))
    return False


def _return(k: Lowering, node: ast.Return) -> bool:
    if k.frame.returns is not None:
        return_value(k, k.frame.returns, node)
        return False
    if node.value is not None and not (isinstance(node.value, ast.Constant) and node.value.value is None):
        k.fail(node, "a kernel returns nothing", "store the result to an array: annotate a parameter as Out[f32].")
    k.emit(Return(loc=k.loc(node)))
    return False


STATEMENTS: Final[Mapping[type[ast.stmt], Callable[[Lowering, Any], bool]]] = {
    ast.Assign: _assign,
    ast.AnnAssign: _ann_assign,
    ast.AugAssign: _aug_assign,
    ast.Expr: _expr,
    ast.Pass: _pass,
    ast.If: _if,
    ast.Match: _match,
    ast.While: while_loop,
    ast.For: counted_or_unrolled,
    ast.With: _with,
    ast.Break: _break,
    ast.Continue: _continue,
    ast.Return: _return,
}
"""The rules by kind of syntax."""
