"""Statements: one function per kind of node.

Control flow is laid out in program order: a loop has one entry, at its head, and ``then`` comes before ``else``.
"""

from __future__ import annotations

from vyre.adapters.cuda.decisions.ptxas_hazard_table import Fence
from vyre.adapters.cuda.ptx import async_copies, barriers, control, memory
from vyre.adapters.cuda.ptx.context import Kernel
from vyre.adapters.cuda.ptx.expressions import atomic, evaluate
from vyre.adapters.cuda.ptx.operands import Address
from vyre.adapters.cuda.ptx.values import Value, copy_of, in_register
from vyre.adapters.cuda.ptx.writer import CLASS_OF, MOVE
from vyre.domain.errors import UnsupportedFeature
from vyre.domain.ir import nodes as ir
from vyre.domain.ir.operators import Ordering
from vyre.domain.op_ids import INDIRECT_FIX
from vyre.domain.sites import trap_label


def write_body(k: Kernel, body: ir.Body) -> None:
    """Writes the statements of a scope; locals declared in it end with it."""
    mark = k.locals.mark
    for stmt in body:
        k.known.clear()
        k.w.mark((stmt.loc,))
        _write(k, stmt)
    k.locals.leave(mark)


def _write(k: Kernel, stmt: ir.Stmt) -> None:
    match stmt:
        case ir.Let():
            _let(k, stmt)
        case ir.Assign(name, value):
            source, target = evaluate(k, value), k.locals[name]
            k.w.line(f"{MOVE[CLASS_OF[target.dtype]]} {target.operand}, {source.operand};")
        case ir.Store():
            _store(k, stmt)
        case ir.If():
            _if(k, stmt)
        case ir.Switch():
            _switch(k, stmt)
        case ir.Loop():
            _loop(k, stmt)
        case ir.Break():
            k.w.line(f"bra {k.loops[-1][1]};")
        case ir.Continue():
            k.w.line(f"bra {k.loops[-1][0]};")
        case ir.Return():
            k.leave()
        case ir.Block(body) | ir.Region(_, body):
            write_body(k, body)
        case ir.Barrier(ordering):
            (barriers.grid if ordering is Ordering.GRID_SYNC else barriers.workgroup)(k)
        case ir.AsyncLoad() | ir.AsyncStore():
            offset, size = (_kept(k, evaluate(k, operand)) for operand in ir.operands(stmt))
            async_copies.issue(k, stmt, offset, size)
        case ir.AsyncWait():
            async_copies.wait(k, stmt)
        case ir.Trap(address):
            trap(k, evaluate(k, address), trap_label(stmt))
        case ir.GridLoop():
            raise AssertionError("grid loops are split into programs before")
        case ir.IndirectDispatch():
            raise UnsupportedFeature(feature="indirect dispatch", backend="cuda", fix=INDIRECT_FIX)


def _let(k: Kernel, stmt: ir.Let) -> None:
    if isinstance(stmt.value, ir.Atomic):
        value = atomic(k, stmt.value, used=k.facts.is_read(stmt))
    else:
        value = evaluate(k, stmt.value)
    if stmt.name in k.mutable:
        register = copy_of(k.w, value)
        k.mutable_registers.add(register)
        value = Value(register, value.dtype)
    else:
        value = _kept(k, value)
    k.locals.declare(stmt.name, value)


def _kept(k: Kernel, value: Value) -> Value:
    """Returns a value that later assignments do not change."""
    if value.operand in k.mutable_registers:
        return Value(copy_of(k.w, value), value.dtype, number=value.number)
    return value


def _store(k: Kernel, stmt: ir.Store) -> None:
    wide = memory.grouped(k, stmt)
    if wide is not None and not wide.last:  # the index is pure, and needed only where the group is stored
        memory.keep_for_wide_store(k, stmt, wide, evaluate(k, stmt.value))
        return
    index, value = evaluate(k, stmt.index), evaluate(k, stmt.value)
    memory.store(k, stmt, index, value)


def _if(k: Kernel, stmt: ir.If) -> None:
    """Writes a chain of ``else if``; a link's condition is evaluated where those of all earlier links were false."""
    w, ends = k.w, list[str]()
    links, otherwise = ir.if_chain(stmt)
    for number, link in enumerate(links):
        if number:
            k.known.clear()
            w.mark((link.loc,))
        condition = evaluate(k, link.condition)
        if not link.then and not link.otherwise:
            break
        bra = "bra.uni" if k.facts.branches_together(link) else "bra"
        w.mark((link.loc,))
        predicate = in_register(w, condition)
        ends.append(w.label())
        if not link.otherwise:
            w.line(f"@!{predicate} {bra} {ends[-1]};")
            write_body(k, link.then)
        elif not link.then:
            w.line(f"@{predicate} {bra} {ends[-1]};")
        else:
            following = w.label()
            w.line(f"@!{predicate} {bra} {following};")
            write_body(k, link.then)
            w.line(f"bra.uni {ends[-1]};")
            w.place(following)
    write_body(k, otherwise)
    for end in reversed(ends):
        w.place(end)


def _switch(k: Kernel, stmt: ir.Switch) -> None:
    """Writes the bodies of the arms in order, each behind its label, and before them the way to the right one."""
    selector = _kept(k, evaluate(k, stmt.selector))
    arms = [arm for arm in stmt.arms if arm.labels]
    if not any(arm.body for arm in arms) and not stmt.default:
        return
    k.w.mark((stmt.loc,))
    uniform = ".uni" if k.facts.branches_together(stmt) else ""
    control.write_switch(k, selector, arms, stmt.default, uniform, write_body)


def _loop(k: Kernel, stmt: ir.Loop) -> None:
    """Writes a loop with its test at the end.

    The test compares the remaining distance, ``to - i > step``, so that nothing overflows; it takes one branch per
    iteration.
    """
    start, stop, step = (_kept(k, evaluate(k, bound)) for bound in (stmt.start, stmt.stop, stmt.step))
    if not stmt.body or control.runs_never(start, stop, step):
        return
    w = k.w
    again, advance, end = w.label(), w.label(), w.label()
    bra = "bra.uni" if k.facts.branches_together(stmt) else "bra"
    bounds = control.loop_bounds(w, start, stop, step)
    for never in bounds.never():
        w.line(f"@{never} {bra} {end};")
    dtype = start.dtype
    if Fence.LOOPS in k.facts.fences and not k.facts.counts_together(stmt):
        nothing = w.emit("r", "and.b32", k.zero(), w.special("%tid.x"))
        if dtype.bits == 64:
            nothing = w.emit("rd", "cvt.u64.u32", nothing)
        counter = w.emit(CLASS_OF[dtype], f"add.u{dtype.bits}", bounds.first, nothing)
    else:
        counter = w.emit(CLASS_OF[dtype], f"mov.b{dtype.bits}", bounds.first)
    rounds = None if k.looks is None else k.looks.counts(stmt)
    w.place(again)
    mark = k.locals.mark
    k.locals.declare(stmt.var, Value(counter, dtype))
    k.loops.append((advance, end))
    write_body(k, stmt.body)
    k.loops.pop()
    k.locals.leave(mark)
    w.mark((stmt.loc,))
    w.place(advance)
    if k.looks is not None:
        k.looks.look(stmt, rounds, end)
    more = bounds.more(counter)
    w.line(f"add.u{dtype.bits} {counter}, {counter}, {bounds.stride};")
    w.line(f"@{more} bra {again};")
    w.place(end)


def trap(k: Kernel, address: Value, tag: str) -> None:
    """Writes a trap with a tag and the value ``address``: the lane records itself and ends.

    The record is eight words: flag, address, 1-based index of the tag, global id x, y, z, a lock, 0.  It keeps the
    trapping lane of the lowest linear global id, whatever the order in which lanes trap.
    """
    k.uses_trap = True
    if tag not in k.trap_tags:
        k.trap_tags.append(tag)
    w = k.w
    record, where = k.parameter_address("trap"), in_register(w, address)
    code = w.emit("r", "mov.b32", k.trap_tags.index(tag) + 1)
    mine = [k.global_id(axis) for axis in range(3)]
    again, busy = w.label(), w.label()
    one, zero = w.emit("r", "mov.b32", 1), w.emit("r", "mov.b32", 0)
    w.place(again)
    lock = w.emit("r", "atom.acquire.gpu.global.cas.b32", Address(record, 24), zero, one)
    taken = w.emit("p", "setp.ne.u32", lock, 0)
    # The critical section comes first in the text, so that waiting lanes of the same warp do not block the holder.
    w.line(f"@{taken} bra {busy};")
    flag = w.emit("r", "ld.relaxed.gpu.global.u32", Address(record))
    lower = w.emit("p", "setp.eq.u32", flag, 0)
    equal = w.emit("p", "setp.ne.u32", flag, 0)
    for axis in (2, 1, 0):
        theirs = w.emit("r", "ld.relaxed.gpu.global.u32", Address(record, 12 + 4 * axis))
        less = w.emit("p", "setp.lt.u32", mine[axis], theirs)
        lower = w.emit("p", "or.pred", lower, w.emit("p", "and.pred", equal, less))
        equal = w.emit("p", "and.pred", equal, w.emit("p", "setp.eq.u32", mine[axis], theirs))
    for offset, word in ((4, where), (8, code), (12, mine[0]), (16, mine[1]), (20, mine[2]), (0, one)):
        w.line(f"@{lower} st.relaxed.gpu.global.u32 [{record}+{offset}], {word};")
    w.line("fence.acq_rel.gpu;")
    w.line(f"st.relaxed.gpu.global.u32 [{record}+24], {zero};")
    k.leave()
    w.place(busy)
    w.line(f"bra {again};")
