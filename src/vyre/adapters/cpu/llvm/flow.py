"""Statements of the lanes of one vector: branches and loops under masks.

Code is written for a place only where at least one lane is active there: a branch that no lane takes is jumped over.
A condition on which the lanes of the vector agree is an ordinary branch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import reduce
from itertools import islice
from typing import Final

from vyre.adapters.cpu.llvm import async_copies, control, memory
from vyre.adapters.cpu.llvm.blocks import NO_LANES, Join
from vyre.adapters.cpu.llvm.context import AssignedLocal, Flow, Kernel
from vyre.adapters.cpu.llvm.expressions import atomic, evaluate
from vyre.adapters.cpu.llvm.loops import write_loop
from vyre.adapters.cpu.llvm.values import SCALAR, Value
from vyre.domain.errors import UnsupportedFeature
from vyre.domain.ir import nodes as ir
from vyre.domain.ir.operators import TRANSCENDENTALS, BinaryOp
from vyre.domain.ir.walk import unique_nodes
from vyre.domain.op_ids import INDIRECT_FIX
from vyre.domain.sites import trap_label

MOST_COPIED: Final = 4_000
"""The number of statements up to which code is written twice, for all lanes active and for some."""
MOST_SELECTED: Final = 16
"""The number of operators up to which a branch without memory accesses is computed and selected, not jumped over."""


def write_body(k: Kernel, body: Iterable[ir.Stmt]) -> Flow:
    """Writes the statements of a scope; locals declared in it end with it."""
    mark = k.locals.mark
    flow = k.write_statements(k, tuple(body), 0) if k.write_statements else write_statements(k, tuple(body), 0)
    k.locals.leave(mark)
    return flow


def write_statements(k: Kernel, body: ir.Body, first: int) -> Flow:
    """Writes the statements of a body from number ``first`` on.

    Where lanes may have ended, the rest of the body is jumped over if none is left.
    """
    result = Flow.THROUGH
    end: Join | None = None
    skipped: list[tuple[str, str]] = []
    for number in range(first, len(body)):
        k.known.clear()
        flow = write_statement(k, body[number])
        if flow is Flow.THROUGH:
            continue
        result = flow
        if flow is not Flow.PARTLY or number + 1 == len(body):
            break
        assert k.mask is not None
        if len(body) - number <= MOST_COPIED and _is_copied(k, body[number + 1 :]):
            result = twice(k, lambda: write_statements(k, body, number + 1), body[number + 1 :])  # noqa: B023
            break
        end = end or Join(k, "end")
        following = k.w.label("some")
        skipped.append((k.mask, k.w.block))
        k.w.branch(k.any(k.mask), following, end.label)
        k.enter(following)
        k.take(k.mask)
    if end is not None:
        # A mask that is found empty is kept where the lanes of the other way have it as well: no choice is needed then.
        kept = k.mask if result is Flow.THROUGH or result is Flow.PARTLY else None
        end.arrive(result)
        for mask, block in skipped:
            end.expect(mask if mask == kept else NO_LANES, block)
            k.leave()
        k.forget(assigned_in(body[first:]))
        result = Flow.ENDED if end.finish() is Flow.ENDED else Flow.PARTLY
    return result


def assigned_in(body: Iterable[ir.Stmt]) -> set[str]:
    """Returns the names that statements assign to, at any depth."""
    return {stmt.name for stmt in ir.walk_statements(tuple(body)) if isinstance(stmt, ir.Assign)}


# ---------------------------------------------------------------- two copies
def _is_copied(k: Kernel, body: ir.Body) -> bool:
    """Returns whether a part of the program is written twice: it is no small part, and no part of a copy or loop.

    Where a vector has one lane, that lane alone is all of them.
    """
    if k.copied or k.loops or k.lanes == 1:
        return False
    count = sum(1 for _ in islice(ir.walk_statements(body), MOST_COPIED + 1))
    return count <= MOST_COPIED and not _is_selected(body)


def twice(k: Kernel, write: Callable[[], Flow], body: ir.Body) -> Flow:
    """Writes code for the current mask twice: for the case that all lanes are active, and for that of some."""
    w, mask = k.w, k.mask
    assert mask is not None
    full, partial, some = w.label("full"), w.label("partial"), w.label("some")
    end = Join(k, "end")
    k.copied = True
    w.branch(k.every(mask), full, partial, likely=True)
    k.enter(full)
    k.mask = None
    flows = [write()]
    end.arrive(flows[-1])
    k.leave()
    k.enter(partial)
    k.mask = mask
    end.expect(NO_LANES)
    w.branch(k.any(mask), some, end.label)
    w.place(some)
    flows.append(write())
    end.arrive(flows[-1])
    k.leave()
    k.copied = False
    outcome = end.finish()
    k.forget(assigned_in(body))
    return outcome if outcome is Flow.ENDED else Flow.PARTLY


# ---------------------------------------------------------------- statements
def write_statement(k: Kernel, stmt: ir.Stmt) -> Flow:
    """Writes one statement for the active lanes."""
    k.locate(stmt)
    match stmt:
        case ir.Let():
            value = stmt.value
            result = atomic(k, value, used=k.is_read(stmt)) if isinstance(value, ir.Atomic) else evaluate(k, value)
            k.declare(stmt, result)
        case ir.Assign(name, value):
            slot = k.locals[name]
            assert isinstance(slot, AssignedLocal)
            k.write(slot, evaluate(k, value))
        case ir.Store():
            memory.store(k, stmt, evaluate(k, stmt.index), evaluate(k, stmt.value))
        case ir.If():
            return _if(k, stmt)
        case ir.Switch():
            return _switch(k, stmt)
        case ir.Loop():
            return write_loop(k, stmt, write_body)
        case ir.Break():
            return k.loops[-1].leave()
        case ir.Continue():
            return k.loops[-1].skip()
        case ir.Return():
            return end_lanes(k)
        case ir.Block(body) | ir.Region(_, body):
            return write_body(k, body)
        case ir.Barrier():
            pass
        case ir.AsyncLoad() | ir.AsyncStore():
            async_copies.start(k, stmt, evaluate(k, stmt.offset), evaluate(k, stmt.size))
        case ir.AsyncWait():
            async_copies.wait(k, stmt)
        case ir.Trap(address):
            control.trap(k, evaluate(k, address), trap_label(stmt))
            return end_lanes(k)
        case ir.GridLoop():
            raise AssertionError("grid loops are split into programs before")
        case ir.IndirectDispatch():
            raise UnsupportedFeature(feature="indirect dispatch", backend="cpu", fix=INDIRECT_FIX)
    return Flow.THROUGH


def _if(k: Kernel, stmt: ir.If) -> Flow:
    """Writes a chain of ``else if``; a link's condition is evaluated where those of all earlier links were false."""
    links, otherwise = ir.if_chain(stmt)
    opened: list[Callable[[Flow], Flow]] = []
    result: Flow | None = None
    for number, link in enumerate(links):
        if number:
            k.known.clear()
            k.locate(link)
        condition = evaluate(k, link.condition)
        if condition.number is not None:
            if condition.number:
                result = write_body(k, link.then)
                break
            continue
        if condition.is_uniform:
            opened.append(_scalar_link(k, link, condition))
        elif number + 1 == len(links) and k.mask is None and _may_copy(k, link, condition):
            result = _copied_link(k, link, condition)
            break
        else:
            opened.append(_masked_link(k, link, condition, is_last=number + 1 == len(links)))
    if result is None:
        result = write_body(k, otherwise)
    for close in reversed(opened):
        result = close(result)
    if opened:
        k.forget(assigned_in((stmt,)))
    return result


def _scalar_link(k: Kernel, link: ir.If, condition: Value) -> Callable[[Flow], Flow]:
    """Writes a branch on which the lanes agree; returns what ends it after its ``else`` was written."""
    w, mask = k.w, k.mask
    end = Join(k, "end")
    then, otherwise = w.label("then"), w.label("else")
    w.branch(condition.operand, then, otherwise)
    k.enter(then)
    first = write_body(k, link.then)
    end.arrive(first)
    k.leave()
    k.mask = mask
    k.enter(otherwise)

    def close(second: Flow) -> Flow:
        end.arrive(second)
        k.leave()
        outcome = end.finish()
        if outcome is Flow.THROUGH and {first, second} <= {Flow.THROUGH, Flow.LEFT}:
            k.mask = mask
            return Flow.THROUGH
        return outcome if outcome is not Flow.THROUGH else Flow.PARTLY

    return close


def _masked_link(k: Kernel, link: ir.If, condition: Value, *, is_last: bool) -> Callable[[Flow], Flow]:
    """Writes the lanes of a link; returns what ends it after its ``else`` was written for the other lanes."""
    mask = k.mask
    chosen = k.masks.held(condition.operand)
    taken = k.both(mask, chosen)
    inverse = k.masks.inverse(chosen)
    others = k.both(mask, inverse)
    after_then, first = _under(k, taken, lambda: write_body(k, link.then), link.then)
    if not _is_selected(link.then):
        k.forget(assigned_in(link.then))
    if is_last and not link.otherwise:
        k.mask = others

        def close_empty(second: Flow) -> Flow:
            return _united(k, mask, (after_then, first), (others, Flow.THROUGH))

        return close_empty
    begin = _begin_under(k, others, link.otherwise)

    def close(second: Flow) -> Flow:
        after_else, link_flow = begin(second)
        return _united(k, mask, (after_then, first), (after_else, link_flow))

    return close


def _under(k: Kernel, mask: str | None, write: Callable[[], Flow], body: ir.Body) -> tuple[str | None, Flow]:
    """Writes code for the lanes of a mask, jumped over if there are none; returns the mask after it."""
    if not body:
        return mask, Flow.THROUGH
    finish = _begin_under(k, mask, body)
    return finish(write())


def _begin_under(k: Kernel, mask: str | None, body: ir.Body) -> Callable[[Flow], tuple[str | None, Flow]]:
    w = k.w
    assert mask is not None
    k.mask = mask
    if _is_selected(body):
        return lambda flow: (mask, flow)
    end = Join(k, "end")
    some = w.label("some")
    end.expect(mask)
    w.branch(k.any(mask), some, end.label)
    k.enter(some)

    def finish(flow: Flow) -> tuple[str | None, Flow]:
        end.arrive(flow)
        k.leave()
        outcome = end.finish()
        if flow is Flow.THROUGH:
            return mask, Flow.THROUGH
        if flow is Flow.ENDED or flow is Flow.LEFT:
            return NO_LANES, Flow.ENDED
        return k.lane_mask(), outcome if outcome is Flow.ENDED else Flow.PARTLY

    return finish


def _united(k: Kernel, mask: str | None, one: tuple[str | None, Flow], other: tuple[str | None, Flow]) -> Flow:
    """Goes on with the lanes of two disjoint masks."""
    if one[1] is Flow.THROUGH and other[1] is Flow.THROUGH:
        k.mask = mask
        return Flow.THROUGH
    if one[1] is Flow.ENDED or other[1] is Flow.ENDED:
        left = other if one[1] is Flow.ENDED else one
        k.mask = left[0]
        return Flow.ENDED if left[1] is Flow.ENDED else Flow.PARTLY
    assert one[0] is not None and other[0] is not None
    k.mask = k.masks.combined("or", one[0], other[0])
    return Flow.PARTLY


def _may_copy(k: Kernel, link: ir.If, condition: Value) -> bool:
    """Returns whether a branch is written twice, which does not pay if it is known that some lane does not take it."""
    return not k.masks.lacks_lane(condition.operand) and _is_copied(k, (link,))


def _copied_link(k: Kernel, link: ir.If, condition: Value) -> Flow:
    """Writes a branch that all lanes are likely to take together: once for all lanes, and once for any."""
    w, chosen = k.w, condition.operand
    full, partial = w.label("full"), w.label("partial")
    end = Join(k, "end")
    k.copied = True
    w.branch(k.every(chosen), full, partial, likely=True)
    k.enter(full)
    first = write_body(k, link.then)
    end.arrive(first)
    k.leave()
    k.mask = None
    k.enter(partial)
    close = _masked_link(k, link, condition, is_last=True)
    second = close(write_body(k, link.otherwise) if link.otherwise else Flow.THROUGH)
    k.forget(assigned_in((link,)))
    end.arrive(second)
    k.leave()
    k.copied = False
    outcome = end.finish()
    k.forget(assigned_in((link,)))
    if first is Flow.THROUGH and second is Flow.THROUGH:
        k.mask = None
        return Flow.THROUGH
    return outcome if outcome is Flow.ENDED else Flow.PARTLY


def _is_selected(body: ir.Body) -> bool:
    """Returns whether a branch only computes values, and few of them."""
    operators = 0
    for stmt in body:
        if not isinstance(stmt, ir.Assign | ir.Let):
            return False
        for node in unique_nodes(ir.operands(stmt)):
            if isinstance(node, ir.Load | ir.Atomic) or _is_long(node):
                return False
            operators += 1
    return operators <= MOST_SELECTED


def _is_long(node: ir.Expr) -> bool:
    if isinstance(node, ir.Unary):
        return node.op in TRANSCENDENTALS
    return isinstance(node, ir.Binary) and node.op in (BinaryOp.DIV, BinaryOp.MOD)


def _switch(k: Kernel, stmt: ir.Switch) -> Flow:
    """Writes the bodies of the arms in order, each for its lanes."""
    selector = evaluate(k, stmt.selector)
    if not any(arm.labels for arm in stmt.arms):
        return write_body(k, stmt.default)
    if selector.is_uniform:
        return _scalar_switch(k, stmt, selector)
    mask = rest = k.mask
    parts: list[tuple[str | None, Flow]] = []
    for arm in stmt.arms:
        if not arm.labels:
            continue
        body, chosen = arm.body, k.masks.held(lanes_of_arm(k, selector, arm))
        inverse = k.masks.inverse(chosen)
        taken = k.both(mask, chosen)
        rest = k.both(rest, inverse)
        parts.append(_under(k, taken, lambda: write_body(k, body), body))  # noqa: B023
        k.forget(assigned_in(body))
    parts.append(_under(k, rest, lambda: write_body(k, stmt.default), stmt.default))
    k.forget(assigned_in(stmt.default))
    if all(flow is Flow.THROUGH for _, flow in parts):
        k.mask = mask
        return Flow.THROUGH
    left = [part for part, flow in parts if flow is not Flow.ENDED]
    if not left:
        k.mask = NO_LANES
        return Flow.ENDED
    united = left[0]
    for part in left[1:]:
        assert united is not None and part is not None
        united = k.masks.combined("or", united, part)
    k.mask = united
    return Flow.PARTLY


def lanes_of_arm(k: Kernel, selector: Value, arm: ir.Arm) -> str:
    """Returns the lanes whose selector is one of the labels of an arm, of which there is one at least."""
    element, operand = SCALAR[selector.dtype], k.vector(selector)
    form = f"icmp eq {k.vector_type(element)} {{}}, "
    equal = (k.w.pure(form + k.splat(element, str(label.bits)), operand) for label in arm.labels)
    return reduce(lambda one, other: k.masks.combined("or", one, other), equal)


def _scalar_switch(k: Kernel, stmt: ir.Switch, selector: Value) -> Flow:
    w, mask = k.w, k.mask
    element = SCALAR[selector.dtype]
    end = Join(k, "end")
    default = w.label("default")
    arms = [(w.label("arm"), arm) for arm in stmt.arms if arm.labels]
    cases = " ".join(f"{element} {label.bits}, label %{name}" for name, arm in arms for label in arm.labels)
    w.line(f"switch {element} {selector.operand}, label %{default} [ {cases} ]")
    flows: list[Flow] = []
    for name, body in [*((name, arm.body) for name, arm in arms), (default, stmt.default)]:
        k.enter(name)
        k.mask = mask
        flows.append(write_body(k, body))
        end.arrive(flows[-1])
        k.leave()
    outcome = end.finish()
    k.forget(assigned_in((stmt,)))
    if outcome is Flow.THROUGH and set(flows) <= {Flow.THROUGH, Flow.LEFT}:
        k.mask = mask
        return Flow.THROUGH
    return outcome if outcome is not Flow.THROUGH else Flow.PARTLY


def end_lanes(k: Kernel) -> Flow:
    """Ends the active lanes."""
    for loop in k.loops:
        loop.end()
    return Flow.ENDED
