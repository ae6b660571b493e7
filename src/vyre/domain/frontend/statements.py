"""The statements of a kernel: one rule for each kind of syntax.

Each rule returns whether the statement after it can be reached.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import Any, Final

from vyre.domain.frontend import operators
from vyre.domain.frontend.arrays import element, store
from vyre.domain.frontend.calls import fixed_items
from vyre.domain.frontend.expressions import expression, has_effect, index_operands, operands, test
from vyre.domain.frontend.inlining import return_value, returned_flag
from vyre.domain.frontend.lowering import LoopState, Lowering, Variable, closed, flexible
from vyre.domain.frontend.names import Kind
from vyre.domain.frontend.operands import Array, Constant, Items, Operand, Scalar, Thing
from vyre.domain.frontend.operators import integer, literal, scalar, standalone, typed
from vyre.domain.frontend.refused import refuse
from vyre.domain.ir.expr import Literal, Unary, Var
from vyre.domain.ir.limits import U32_MAX
from vyre.domain.ir.operators import UnaryOp
from vyre.domain.ir.stmt import Arm, Assign, Break, Continue, If, Let, Loop, Return, Stmt, Switch
from vyre.domain.ir.types import ScalarType

_U32: Final = ScalarType.U32
_BOOL: Final = ScalarType.BOOL
_MAX_ROUNDS: Final = U32_MAX


def run_body(k: Lowering, statements: list[ast.stmt]) -> bool:
    """Records the statements of a body; returns whether its end can be reached."""
    return _from(k, statements, 0)


def _from(k: Lowering, statements: list[ast.stmt], first: int) -> bool:
    number = k.frame.names.body(statements)
    for index in range(first, len(statements)):
        stmt = statements[index]
        for name in k.frame.names.declared.get((number, index), ()):
            if name not in k.frame.env:
                k.frame.holes[name] = k.hole()
        rest = index + 1
        if k.frame.returns is not None and rest < len(statements) and _has_return(stmt):
            return _then_rest(k, stmt, statements, rest)
        if not statement(k, stmt):
            return False
    return True


def statement(k: Lowering, node: ast.stmt) -> bool:
    """Records one statement; returns whether the next one can be reached."""
    rule = _RULES.get(type(node))
    if rule is None:
        refuse(k, node)
    return rule(k, node)


# ---------------------------------------------------------------- functions that return early
def _has_return(node: ast.stmt) -> bool:
    return not isinstance(node, ast.Return) and any(isinstance(one, ast.Return) for one in ast.walk(node))


def _always_returns(statements: list[ast.stmt]) -> bool:
    last = statements[-1] if statements else None
    if isinstance(last, ast.Return):
        return True
    return isinstance(last, ast.If) and _always_returns(last.body) and _always_returns(last.orelse)


def _then_rest(k: Lowering, stmt: ast.stmt, statements: list[ast.stmt], rest: int) -> bool:
    """Records a statement in which an inlined function may return, and those after it for lanes that have not."""
    if isinstance(stmt, ast.If):
        if _always_returns(stmt.body):
            return _branch(
                k, stmt, lambda: run_body(k, stmt.body), lambda: _both_bodies(k, stmt.orelse, statements, rest)
            )
        if _always_returns(stmt.orelse):
            return _branch(
                k, stmt, lambda: _both_bodies(k, stmt.body, statements, rest), lambda: run_body(k, stmt.orelse)
            )
    flag = returned_flag(k, stmt)
    if not statement(k, stmt):
        return False
    going = Unary(UnaryOp.LOGICAL_NOT, k.read(flag, stmt).expr, loc=k.loc(stmt))
    with k.open() as body:
        falls = _from(k, statements, rest)
    k.emit(If(going, closed(body), loc=k.loc(stmt)))
    return falls


def _both_bodies(k: Lowering, first: list[ast.stmt], statements: list[ast.stmt], rest: int) -> bool:
    return run_body(k, first) and _from(k, statements, rest)


# ---------------------------------------------------------------- assignments
def declare_parameters(k: Lowering, arguments: Mapping[str, Operand]) -> None:
    """Makes variables of the parameters that the function assigns."""
    for name, operand in arguments.items():
        if name in k.frame.names.plans:
            del k.frame.env[name]
            _set(k, name, operand, k.frame.source.tree)


def _assign(k: Lowering, node: ast.Assign) -> bool:
    if isinstance(node.value, ast.Call) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
        k.naming[id(node.value)] = node.targets[0].id
    found = expression(k, node.value)
    if len(node.targets) > 1 and isinstance(found, Scalar) and not isinstance(found.expr, Literal):
        found = k.let(found, "t", node)
    for target in node.targets:
        _to(k, target, found, node)
    return True


def _to(k: Lowering, target: ast.expr, found: Operand, node: ast.AST) -> None:
    match target:
        case ast.Name(id=name):
            _set(k, name, found, node)
        case ast.Tuple(elts=targets) | ast.List(elts=targets):
            _unpack(k, targets, found, node)
        case ast.Subscript():
            start = len(k.body)
            of = expression(k, target.value)
            if not isinstance(of, Array):
                k.fail(target, "only elements of arrays can be assigned", "assign the whole name.")
            indices = index_operands(k, target)
            store(k, of, indices, _evaluated_before(k, found, start, node), target)
        case ast.Attribute():
            k.fail(target, "attributes cannot be assigned in a kernel", "assign names and elements of arrays.")
        case _:
            refuse(k, target)


def _unpack(k: Lowering, targets: list[ast.expr], found: Operand, node: ast.AST) -> None:
    if not isinstance(found, Items):
        k.fail(node, "one value is assigned to several names", "give a tuple of as many items.")
    if len(found.items) != len(targets):
        k.fail(
            node, f"{len(found.items)} items are assigned to {len(targets)} names", "give as many as there are names."
        )
    # Python evaluates all items before it assigns the first one.
    items = [_kept(k, item, node) if len(targets) > 1 else item for item in found.items]
    for target, item in zip(targets, items, strict=True):
        _to(k, target, item, node)


def _kept(k: Lowering, item: Operand, node: ast.AST) -> Operand:
    return k.let(item, "t", node) if isinstance(item, Scalar) and item.changes else item


def _set(k: Lowering, name: str, found: Operand, node: ast.AST) -> None:
    """Gives a name a value."""
    frame = k.frame
    plan = k.plan(name)
    found = k.settled(found)
    if plan.kind is not Kind.VARIABLE:
        if isinstance(found, Scalar) and _is_made_here(found):
            found = k.let(found, name, node)
        frame.env[name] = found
        frame.assigned.add(name)
        return
    known = frame.env.get(name)
    if isinstance(known, Variable):
        _change(k, name, known, found, node)
    else:
        _declare(k, name, found, node)
    frame.assigned.add(name)


def _is_made_here(found: Scalar) -> bool:
    """Returns whether a value is evaluated by an assignment; a local that never changes only gets another name."""
    return found.changes or not isinstance(found.expr, Var) or found.dtype is None


def _declare(k: Lowering, name: str, found: Operand, node: ast.AST) -> None:
    """Declares a variable with its first value."""
    frame = k.frame
    if not isinstance(found, Scalar | Constant):
        k.fail(
            node,
            f"`{name}` is assigned more than once, and holds {_kind(found)}",
            "give each of them a name of its own.",
        )
    unique = k.unique(name)
    if isinstance(found, Constant) and found.own is None and not isinstance(found.value, bool):
        if found.value < 0:
            wanted = "f32" if isinstance(found.value, float) else "i32"
            if wanted == "i32":
                k.fail(
                    node,
                    f"the variable `{name}` starts with a negative number, and which signed type it has is not said",
                    f"annotate it: {name}: i32 = {found.value}.",
                )
        known = k.unknown(fractional=isinstance(found.value, float), negative=found.value < 0)
        variable = Variable(unique, known) if isinstance(known, ScalarType) else Variable(unique, None, known)
        value = literal(k, found, known, node) if isinstance(known, ScalarType) else flexible(known)
    else:
        value = standalone(k, found, node) if isinstance(found, Constant) else found
        variable = Variable(unique, value.dtype, value.cell)
    frame.env[name] = variable
    hole = frame.holes.pop(name, None)
    if hole is None:
        k.emit(Let(unique, value.expr, loc=k.loc(node)))
    else:
        k.fill(hole, variable, node)
        k.emit(Assign(unique, value.expr, loc=k.loc(node)))


def _kind(found: Operand) -> str:
    return {Array: "an array", Items: "a tuple"}.get(type(found), "something that is no number")


def _change(k: Lowering, name: str, variable: Variable, found: Operand, node: ast.AST) -> None:
    value = _fitted(k, name, variable, found, node)
    k.emit(Assign(variable.name, value.expr, loc=k.loc(node)))


def _fitted(k: Lowering, name: str, variable: Variable, found: Operand, node: ast.AST) -> Scalar:
    """Returns a value with the type of a variable."""
    if variable.dtype is None:
        root = variable.cell.root if variable.cell is not None else None
        variable.dtype = root.dtype if root is not None else None
    if variable.dtype is not None:
        return typed(k, found, variable.dtype, f"what is assigned to `{name}`", node)
    _, value = operators.common(k, k.read(variable, node), found, f"`{name}`", node)
    return value


def _ann_assign(k: Lowering, node: ast.AnnAssign) -> bool:
    if not isinstance(node.target, ast.Name):
        k.fail(node, "only names can be annotated", "leave the annotation out.")
    name = node.target.id
    dtype = k.annotation(node.annotation)
    if dtype is None:
        k.fail(node.annotation, "the annotation is no type of vyre", "write f32, i32, u32 or another scalar type.")
    if not dtype.is_executable:
        fix = f"write {dtype.widened.text}; arrays of {dtype.text} narrow what is stored to them."
        k.fail(node.annotation, f"no value has the type {dtype.text}, which exists in arrays only", fix)
    if node.value is None:
        k.fail(node, f"`{name}` is annotated and gets no value", f"write {name}: {dtype.text} = 0.")
    found = typed(k, expression(k, node.value), dtype, f"`{name}`", node.value)
    if isinstance(found.expr, Literal) and k.plan(name).kind is not Kind.VARIABLE:
        k.frame.env[name] = found
        k.frame.assigned.add(name)
    else:
        _set(k, name, found, node)
    return True


def _aug_assign(k: Lowering, node: ast.AugAssign) -> bool:
    target = node.target
    if isinstance(target, ast.Name):
        read = ast.copy_location(ast.Name(target.id, ast.Load()), target)
        a, b = operands(k, (read, node.value))
        _set(k, target.id, operators.binary(k, node.op, a, b, node), node)
    elif isinstance(target, ast.Subscript):
        of = expression(k, target.value)
        if not isinstance(of, Array):
            k.fail(target, "only elements of arrays can be assigned", "assign the whole name.")
        indices = [_index_once(k, index, target) for index in index_operands(k, target)]
        old, start = element(k, of, indices, target), len(k.body)
        added = expression(k, node.value)
        before = _evaluated_before(k, old, start, node)
        store(k, of, indices, operators.binary(k, node.op, before, added, node), target)
    else:
        refuse(k, target)
    return True


def _evaluated_before(k: Lowering, found: Operand, start: int, node: ast.AST) -> Operand:
    """Returns a value as it was before the statements from number ``start`` on, which may change what it reads."""
    if not (isinstance(found, Scalar) and found.changes and any(map(has_effect, k.body[start:]))):
        return found
    later = k.body[start:]
    del k.body[start:]
    named = k.let(found, "t", node)
    k.body.extend(later)
    return named


def _index_once(k: Lowering, index: Operand, node: ast.AST) -> Operand:
    if isinstance(index, Scalar) and index.changes:
        return k.let(index, "at", node)
    return index


def _expr(k: Lowering, node: ast.Expr) -> bool:
    if isinstance(node.value, ast.Constant):
        return True  # a docstring, or `...`
    found = expression(k, node.value)
    if not isinstance(node.value, ast.Call):
        k.fail(node, "this computes a value and drops it", "assign it, or leave the line out.")
    del found
    return True


def _pass(k: Lowering, node: ast.Pass) -> bool:
    return True


# ---------------------------------------------------------------- branches
def _if(k: Lowering, node: ast.If) -> bool:
    return _branch(k, node, lambda: run_body(k, node.body), lambda: run_body(k, node.orelse))


def _branch(k: Lowering, node: ast.If, then: Callable[[], bool], otherwise: Callable[[], bool]) -> bool:
    known = test(k, node.test)
    if isinstance(known, bool):
        return then() if known else otherwise()
    before = set(k.frame.assigned)
    with k.open() as first:
        falls = then()
    after_then = k.frame.assigned if falls else None
    k.frame.assigned = set(before)
    with k.open() as second:
        falls_too = otherwise()
    after_else = k.frame.assigned if falls_too else None
    k.frame.assigned = _merged(before, after_then, after_else)
    k.emit(If(known.expr, closed(first), closed(second), loc=k.loc(node)))
    return falls or falls_too


def _merged(before: set[str], *ways: set[str] | None) -> set[str]:
    """Returns the names that have a value whichever of the ways was taken; None is a way that does not get here."""
    found = [way for way in ways if way is not None]
    return set.intersection(*found) if found else before


def _match(k: Lowering, node: ast.Match) -> bool:
    subject = expression(k, node.subject)
    if isinstance(subject, Constant):
        return _known_match(k, node, subject)
    selector = scalar(k, subject, node.subject)
    selector = integer(k, selector, "what `match` looks at", node.subject)
    before, ways, falls, arms = set(k.frame.assigned), [], False, []
    default: tuple[Stmt, ...] | None = None
    for case in node.cases:
        if case.guard is not None:
            k.fail(case.guard, "`if` cannot stand in a `case`", "write an `if` in the body of the case.")
        if default is not None:
            k.fail(case.pattern, "a case follows `case _`, which takes everything", "write `case _` last.")
        k.frame.assigned = set(before)
        numbers = None if _takes_all(case.pattern) else _labels(k, case.pattern)
        with k.open() as body:
            reached = run_body(k, case.body)
        ways.append(k.frame.assigned if reached else None)
        falls |= reached
        if numbers is None:
            default = closed(body)
        else:
            dtype = selector.dtype or _U32
            labels = tuple(literal(k, number, dtype, case.pattern).expr for number in numbers)
            arms.append(
                Arm(tuple(one for one in labels if isinstance(one, Literal)), closed(body), loc=k.loc(case.pattern))
            )
    if default is None:
        ways.append(before)
        falls = True
    k.frame.assigned = _merged(before, *ways)
    _refuse_repeated(k, node, arms)
    k.emit(Switch(selector.expr, tuple(arms), default or (), loc=k.loc(node)))
    return falls


def _refuse_repeated(k: Lowering, node: ast.Match, arms: list[Arm]) -> None:
    seen: set[int] = set()
    for case, arm in zip(node.cases, arms, strict=False):
        for label in arm.labels:
            if label.bits in seen:
                k.fail(case.pattern, f"an earlier case takes {label.value}", "leave it out here.")
        seen |= {label.bits for label in arm.labels}


def _takes_all(pattern: ast.pattern) -> bool:
    return isinstance(pattern, ast.MatchAs) and pattern.pattern is None and pattern.name is None


def _labels(k: Lowering, pattern: ast.pattern) -> list[Constant]:
    if isinstance(pattern, ast.MatchOr):
        return [label for one in pattern.patterns for label in _labels(k, one)]
    if isinstance(pattern, ast.MatchValue):
        found = expression(k, pattern.value)
        if isinstance(found, Constant) and type(found.value) is int:
            return [found]
    k.fail(pattern, "a case takes integers only", "write `case 1 | 2:`, a captured constant with a dot, or `case _:`.")
    raise AssertionError


def _known_match(k: Lowering, node: ast.Match, subject: Constant) -> bool:
    for case in node.cases:
        if case.guard is not None:
            k.fail(case.guard, "`if` cannot stand in a `case`", "write an `if` in the body of the case.")
        if _takes_all(case.pattern) or any(label.value == subject.value for label in _labels(k, case.pattern)):
            return run_body(k, case.body)
    return True


# ---------------------------------------------------------------- loops
def _while(k: Lowering, node: ast.While) -> bool:
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
    ways = list(state.at_breaks)
    if not endless:
        ways.append(tested)
    k.frame.assigned = _merged(before, *ways) if ways else before
    zero, most, one = (Literal(_U32, number) for number in (0, _MAX_ROUNDS, 1))
    k.emit(Loop(name, zero, most, one, closed(body), loc=loc))
    return not endless or bool(ways) or k.frame.returns is not None


def _refuse_else(k: Lowering, node: ast.While | ast.For) -> None:
    if node.orelse:
        k.fail(node.orelse[0], "`else` cannot follow a loop in a kernel", "set a variable before `break`, and test it.")


def _for(k: Lowering, node: ast.For) -> bool:
    _refuse_else(k, node)
    if _is_range(k, node.iter):
        assert isinstance(node.iter, ast.Call)
        return _counted(k, node, node.iter)
    items = expression(k, node.iter)
    if isinstance(items, Array):
        fix = f"write `for i in range(len({items.name})):` and {items.name}[i]."
        k.fail(node.iter, f"the array `{items.name}` cannot be iterated over", fix)
    return _unrolled(k, node, fixed_items(k, items, node.iter))


def _is_range(k: Lowering, node: ast.expr) -> bool:
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or node.func.id in k.frame.env:
        return False
    found = expression(k, node.func)
    return isinstance(found, Thing) and found.value is range


def _unrolled(k: Lowering, node: ast.For, items: tuple[Operand, ...]) -> bool:
    """Repeats a body in the program for each item."""
    names = [one.id for one in ast.walk(node.target) if isinstance(one, ast.Name)]
    for name in names:
        if k.plan(name).kind is Kind.VARIABLE and isinstance(k.frame.env.get(name), Variable):
            k.fail(node.target, f"`{name}` is a variable already", "take another name for the loop.")
    state = LoopState(unrolled=True)
    for item in items:
        _bind_item(k, node.target, item)
        k.frame.loops.append(state)
        falls = run_body(k, node.body)
        k.frame.loops.pop()
        if not falls:
            return False
    return True


def _bind_item(k: Lowering, target: ast.expr, item: Operand) -> None:
    if isinstance(target, ast.Name):
        k.frame.env[target.id] = item
        k.frame.assigned.add(target.id)
    elif isinstance(target, ast.Tuple) and isinstance(item, Items) and len(item.items) == len(target.elts):
        for one, part in zip(target.elts, item.items, strict=True):
            _bind_item(k, one, part)
    else:
        k.fail(target, "the items do not fit the names of the loop", "give as many names as an item has parts.")


def _counted(k: Lowering, node: ast.For, call: ast.Call) -> bool:
    """Records a loop over ``range``."""
    if not isinstance(node.target, ast.Name):
        k.fail(node.target, "a loop over range() has one variable", "write `for k in range(...):`.")
    if call.keywords or not 1 <= len(call.args) <= 3:
        k.fail(call, "range() takes one to three arguments", "write range(stop), range(start, stop) or with a step.")
    given = operands(k, call.args)
    bounds: list[Operand] = [Constant(0), given[0]] if len(given) == 1 else list(given[:2])
    bounds.append(given[2] if len(given) == 3 else Constant(1))
    start, stop, step = _bounds(k, bounds, call)
    name, loc = node.target.id, k.loc(node)
    plan = k.plan(name)
    hint = name if plan.kind is Kind.LOOP else f"{name}_round"
    before = set(k.frame.assigned)
    nonempty = all(isinstance(one, Constant) for one in bounds) and len(_as_range(k, bounds, call)) > 0
    unique = k.unique(hint)
    at = Scalar(Var(unique, loc=loc), start.dtype, start.cell)
    state = LoopState(unrolled=False)
    held = k.frame.env.get(name)
    k.frame.loops.append(state)
    with k.open() as body:
        if plan.kind is Kind.LOOP:
            k.frame.env[name] = at
            k.frame.assigned.add(name)
        else:
            _set(k, name, at, node.target)
        run_body(k, node.body)
    k.frame.loops.pop()
    if plan.kind is Kind.LOOP and held is None:
        del k.frame.env[name]
    k.frame.assigned = before | {name} if nonempty and plan.kind is not Kind.LOOP else before
    k.emit(Loop(unique, start.expr, stop.expr, step.expr, closed(body), loc=loc))
    return True


def _as_range(k: Lowering, bounds: list[Operand], node: ast.AST) -> range:
    numbers = [bound.value for bound in bounds if isinstance(bound, Constant)]
    try:
        return range(*numbers)  # type: ignore[arg-type]
    except (TypeError, ValueError) as error:
        k.fail(node, str(error), "give ints, and a step that is not 0.")
    raise AssertionError


def _bounds(k: Lowering, bounds: list[Operand], node: ast.AST) -> tuple[Scalar, Scalar, Scalar]:
    """Returns start, stop and step as values of one integer type."""
    numbers = [bound for bound in bounds if isinstance(bound, Constant)]
    negative = any(number.value < 0 for number in numbers)
    if len(numbers) == 3:
        _as_range(k, bounds, node)
        known = k.unknown(whole=True, negative=negative)
        if isinstance(known, ScalarType):
            return tuple(literal(k, number, known, node) for number in numbers)  # type: ignore[return-value]
        unknown = flexible(known)
        return unknown, unknown, unknown
    scalars = [integer(k, bound, "an end of a range", node) for bound in bounds if not isinstance(bound, Constant)]
    given = scalars[0]
    for other in scalars[1:]:
        given, _ = operators.common(k, given, other, "range()", node)
    if given.dtype is None:
        return given, given, given
    if negative and not given.dtype.is_signed:
        k.fail(
            node,
            f"a bound or the step is negative, and the loop counts in {given.dtype.text}, the type of the other bounds",
            "count in a signed type: range(i32(n) - 1, -1, -1).",
        )
    found = [typed(k, bound, given.dtype, "an end of a range", node) for bound in bounds]
    return found[0], found[1], found[2]


def _break(k: Lowering, node: ast.Break) -> bool:
    loop = _innermost(k, node, "break")
    loop.at_breaks.append(set(k.frame.assigned))
    k.emit(Break(loc=k.loc(node)))
    return False


def _continue(k: Lowering, node: ast.Continue) -> bool:
    _innermost(k, node, "continue")
    k.emit(Continue(loc=k.loc(node)))
    return False


def _innermost(k: Lowering, node: ast.stmt, word: str) -> LoopState:
    loop = k.frame.loops[-1]
    if loop.unrolled:
        k.fail(node, f"`{word}` cannot stand in an unrolled loop", "use an `if`, or a loop over range().")
    return loop


def _return(k: Lowering, node: ast.Return) -> bool:
    if k.frame.returns is not None:
        return return_value(k, node)
    if node.value is not None and not (isinstance(node.value, ast.Constant) and node.value.value is None):
        k.fail(node, "a kernel returns nothing", "store the result to an array: annotate a parameter as Out[f32].")
    k.emit(Return(loc=k.loc(node)))
    return False


_RULES: Final[dict[type[ast.stmt], Callable[[Lowering, Any], bool]]] = {
    ast.Assign: _assign,
    ast.AnnAssign: _ann_assign,
    ast.AugAssign: _aug_assign,
    ast.Expr: _expr,
    ast.Pass: _pass,
    ast.If: _if,
    ast.Match: _match,
    ast.While: _while,
    ast.For: _for,
    ast.Break: _break,
    ast.Continue: _continue,
    ast.Return: _return,
}
