"""Loops of the lanes of one vector.

Lanes that run the same rounds share a counter and ordinary jumps.  Other loops run until no lane is left in them; a
counter whose start and step the lanes share is one number even then, because lanes that are left have run as many
rounds.  For the same reason a counter whose start is affine stays affine if the lanes share the step, so that what it
indexes is accessed in one piece.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Final

from vyre.adapters.cpu.llvm import control, windows
from vyre.adapters.cpu.llvm.blocks import NO_LANES, Join
from vyre.adapters.cpu.llvm.bounds import FEW_ROUNDS, Bounds
from vyre.adapters.cpu.llvm.context import Flow, Kernel
from vyre.adapters.cpu.llvm.expressions import evaluate
from vyre.adapters.cpu.llvm.shapes import Agreement
from vyre.adapters.cpu.llvm.values import SCALAR
from vyre.domain.ir import nodes as ir
from vyre.domain.ir.walk import of_this_loop, unique_nodes

MOST_COPIED: Final = 64
"""The number of statements up to which a loop of one lane is written twice."""
WriteBody = Callable[[Kernel, ir.Body], Flow]


def write_loop(k: Kernel, stmt: ir.Loop, write_body: WriteBody) -> Flow:
    """Writes a loop for the active lanes."""
    start, stop, step = (evaluate(k, bound) for bound in (stmt.start, stmt.stop, stmt.step))
    bounds = Bounds(k, start, stop, step)
    if bounds.runs_never:
        return Flow.THROUGH
    if (not k.options.counting or _count_steps(k)) and bounds.is_uniform and k.shapes.rounds(stmt) <= Agreement.VECTOR:
        if k.lanes == 1 and not k.options.counting and bounds.steps_by_one and _is_tight(stmt):
            return _in_two_copies(k, stmt, bounds, write_body)
        return _Together(k, stmt, bounds).write(write_body)
    window = windows.window_of(k, stmt, bounds)
    if window is None:
        return _Apart(k, stmt, bounds).write(write_body)
    windows.write(k, stmt, bounds, window)
    return Flow.THROUGH


def _is_tight(stmt: ir.Loop) -> bool:
    """Returns whether a loop is short and the innermost one, and all of its lanes go on behind it."""
    inside = list(islice(ir.walk_statements(stmt.body), MOST_COPIED + 1))
    return len(inside) <= MOST_COPIED and not any(isinstance(s, ir.Loop | ir.Return | ir.Trap) for s in inside)


def _in_two_copies(k: Kernel, stmt: ir.Loop, bounds: Bounds, write_body: WriteBody) -> Flow:
    """Writes a loop of one lane twice: for few rounds whose counter is in the range of all buffers that it indexes, and
    for any rounds.

    The first copy neither compares the counter with lengths nor looks at the stop flag.
    """
    w = k.w
    nodes = [node for s in ir.walk_statements(stmt.body) for node in unique_nodes(ir.operands(s))]
    accesses = [a for a in (*nodes, *ir.walk_statements(stmt.body)) if isinstance(a, ir.Load | ir.Store | ir.Atomic)]
    indexed = [a for a in accesses if isinstance(a.index, ir.Var) and a.index.name == stmt.var]
    names = sorted({a.buffer for a in indexed if not k.proven(a)})
    usual = bounds.are_few(FEW_ROUNDS)
    for name in names:
        usual = w.pure("and i1 {}, {}", usual, bounds.stop_within(k.length(name)))
    short, long, end = w.label("short"), w.label("long"), w.label("end")
    w.branch(usual, short, long, likely=True)
    for label, is_short in ((short, True), (long, False)):
        k.enter(label)
        flow = _Together(k, stmt, bounds, in_range=names if is_short else None).write(write_body)
        assert flow is Flow.THROUGH
        w.jump(end)
        k.leave()
    w.place(end)
    k.forget({s.name for s in ir.walk_statements(stmt.body) if isinstance(s, ir.Assign)})
    return Flow.THROUGH


class _Together:
    """A loop whose rounds the lanes run together; its mask is that of its start, or empty.

    ``in_range`` are buffers in which every value of the counter is an index, in a copy for few rounds; None in others.
    """

    def __init__(self, k: Kernel, stmt: ir.Loop, bounds: Bounds, *, in_range: Sequence[str] | None = None) -> None:
        self._in_range: Final = in_range
        self._k: Final = k
        self._stmt: Final = stmt
        self._bounds: Final = bounds
        self._exit: Final = Join(k, "exit")
        self._advance: Final = Join(k, "advance")
        self._count_steps: Final = _count_steps(k)

    def leave(self) -> Flow:
        """Implements ``LoopFrame.leave``."""
        self._exit.arrive()
        return Flow.LEFT

    def skip(self) -> Flow:
        """Implements ``LoopFrame.skip``."""
        self._advance.arrive()
        return Flow.LEFT

    def end(self) -> None:
        """Implements ``LoopFrame.end``: the lanes reach the end of the round as an empty mask."""

    def write(self, write_body: WriteBody) -> Flow:
        """Writes the loop."""
        k, w, stmt, bounds = self._k, self._k.w, self._stmt, self._bounds
        mask = k.mask
        dtype = bounds.start.dtype
        element = SCALAR[dtype]
        assigned = {s.name for s in ir.walk_statements(stmt.body) if isinstance(s, ir.Assign)}
        outer = w.label("enter")
        if bounds.runs_always:
            w.jump(outer)
        else:
            self._exit.expect(k.lane_mask())
            w.branch(bounds.entered()[0], outer, self._exit.label)
        k.enter(outer)
        place = w.at_entry(f"alloca {element}")
        w.line(f"store {element} {bounds.start.operand}, ptr {place}")
        k.forget(assigned)
        head = w.label("loop")
        k.open_loop(head)
        counter = k.uniform(dtype, w.here(f"load {element}, ptr {place}"))
        w.open_scope()
        k.open_values()
        mark = k.locals.mark
        k.locals.declare(stmt.var, counter)
        k.loops.append(self)
        k.in_range.update((name, counter.operand) for name in self._in_range or ())
        flow = write_body(k, stmt.body)
        k.loops.pop()
        k.locals.leave(mark)
        if flow is Flow.PARTLY:
            going = w.label("going")
            self._exit.expect(NO_LANES)
            w.branch(k.any(k.lane_mask()), going, self._exit.label)
            w.place(going)
        k.mask = mask
        if flow is Flow.ENDED:
            self._exit.arrive(flow)
        elif flow is not Flow.LEFT:
            self._advance.arrive()
        k.leave()
        if self._advance.finish() is not Flow.LEFT:
            k.mask = mask
            if self._in_range is None and not bounds.is_short:
                control.poll(k)
            more = bounds.more(counter)[0]
            w.line(f"store {element} {bounds.next(counter).operand}, ptr {place}")
            w.open_scope()
            if self._count_steps is not None:
                counting = w.label("count")
                self._exit.expect(k.lane_mask())
                w.branch(more, counting, self._exit.label)
                w.place(counting)
                more = self._count_steps(stmt)
            self._exit.expect(k.lane_mask())
            w.branch(more, head, self._exit.label)
            w.close_scope()
        k.close_loop()
        k.leave()
        k.mask = mask
        outcome = self._exit.finish()
        k.forget(assigned)
        if outcome is Flow.THROUGH and k.mask == mask:
            return Flow.THROUGH
        return Flow.PARTLY if outcome is Flow.THROUGH else outcome


class _Apart:
    """A loop that lanes leave one by one."""

    def __init__(self, k: Kernel, stmt: ir.Loop, bounds: Bounds) -> None:
        self._k: Final = k
        self._stmt: Final = stmt
        self._bounds: Final = bounds
        inside = tuple(ir.walk_statements(stmt.body))
        masks = k.masks.place
        self._live: Final = k.w.at_entry(f"alloca {masks}")
        """The lanes that run the next round."""
        skips = any(isinstance(s, ir.Continue) for s in of_this_loop(stmt.body))
        self._skipped: Final = k.w.at_entry(f"alloca {masks}") if skips else None
        """The lanes that have skipped the rest of this round."""
        ends = k.options.counting or any(isinstance(s, ir.Return | ir.Trap) for s in inside)
        around = next((loop for loop in reversed(k.loops) if isinstance(loop, _Apart)), None)
        self._owns: Final = ends and around is None
        self._ended: str | None = None
        if ends:
            self._ended = k.w.at_entry(f"alloca {masks}") if around is None else around._ended
        """The lanes that have ended inside the outermost such loop, in one place that all loops in it share."""
        self._assigned: Final = {s.name for s in inside if isinstance(s, ir.Assign)}

    def leave(self) -> Flow:
        """Implements ``LoopFrame.leave``."""
        return Flow.ENDED

    def skip(self) -> Flow:
        """Implements ``LoopFrame.skip``."""
        assert self._skipped is not None
        self._add(self._skipped)
        return Flow.ENDED

    def end(self) -> None:
        """Implements ``LoopFrame.end``."""
        if self._owns:
            assert self._ended is not None
            self._add(self._ended)

    def _add(self, place: str) -> None:
        masks = self._k.masks
        masks.store(masks.combined("or", masks.load(place), masks.held(self._k.lane_mask())), place)

    def write(self, write_body: WriteBody) -> Flow:
        """Writes the loop."""
        k, w, stmt, bounds = self._k, self._k.w, self._stmt, self._bounds
        mask, masks = k.mask, k.masks
        dtype = bounds.start.dtype
        kind = SCALAR[dtype] if bounds.keeps_stride else k.vector_type(SCALAR[dtype])
        entering, exit_ = w.label("enter"), w.label("exit")
        entered, is_scalar = bounds.entered()
        first = k.both(mask, k.splat("i1", entered) if is_scalar else entered)
        assert first is not None
        if self._owns:
            w.line(f"store {masks.place} zeroinitializer, ptr {self._ended}")
        w.branch(k.any(first), entering, exit_)
        k.enter(entering)
        place = w.at_entry(f"alloca {kind}")
        start = bounds.start.operand if bounds.keeps_stride else k.vector(bounds.start)
        w.line(f"store {kind} {start}, ptr {place}")
        masks.store(first, self._live)
        masks.loops += 1
        k.forget(self._assigned)
        head = w.label("loop")
        k.open_loop(head)
        loaded_word = w.here(f"load {kind}, ptr {place}")
        counter = bounds.counter(loaded_word)
        k.take(masks.load(self._live))
        if self._skipped is not None:
            w.line(f"store {masks.place} zeroinitializer, ptr {self._skipped}")
        mark = k.locals.mark
        k.locals.declare(stmt.var, counter)
        k.loops.append(self)
        flow = write_body(k, stmt.body)
        left = NO_LANES if flow is Flow.ENDED or flow is Flow.LEFT else k.lane_mask()
        if self._skipped is not None:
            skipped = masks.load(self._skipped)
            left = skipped if left == NO_LANES else masks.combined("or", masks.held(left), skipped)
        if left == NO_LANES:
            w.jump(exit_)
        else:
            more, is_scalar = bounds.more(counter)
            together = more if is_scalar and not k.options.counting else ""
            if not together:
                left = masks.combined("and", left, k.splat("i1", more) if is_scalar else masks.held(more))
            k.mask = left
            if k.options.counting:
                left = k.mask = control.count(k, stmt)
            elif not bounds.is_short:
                control.poll(k)
            following = bounds.next(counter)
            text = following.operand if bounds.keeps_stride else k.vector(following)
            w.line(f"store {kind} {text}, ptr {place}")
            masks.store(left, self._live)
            going = k.any(left)
            w.branch(w.pure("and i1 {}, {}", together, going) if together else going, head, exit_)
        k.loops.pop()
        k.locals.leave(mark)
        k.close_loop()
        k.leave()
        masks.loops -= 1
        w.place(exit_)
        k.forget(self._assigned)
        k.mask = mask
        if self._ended is None:
            return Flow.THROUGH
        k.mask = k.both(mask, masks.inverse(masks.load(self._ended)))
        return Flow.PARTLY


def _count_steps(k: Kernel) -> Callable[[ir.Loop], str] | None:
    """Returns the function that counts a back edge of a loop that the whole workgroup runs together."""
    return k.count_steps if k.write_statements is not None else None
