"""Loops of the lanes of one vector.

Lanes that run the same rounds share a counter and ordinary jumps.  Other loops run until no lane is left in them; a
counter whose start and step the lanes share is one number even then, because lanes that are left have run as many
rounds.  For the same reason a counter whose start is affine stays affine if the lanes share the step, so that what it
indexes is accessed in one piece.  Bounds are compared by distance, ``stop - i > step``, so that nothing wraps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Final

from vyre.adapters.cpu.llvm import budget
from vyre.adapters.cpu.llvm.addressing import extended
from vyre.adapters.cpu.llvm.context import Flow, Kernel
from vyre.adapters.cpu.llvm.expressions import evaluate
from vyre.adapters.cpu.llvm.joins import NO_LANES, Join
from vyre.adapters.cpu.llvm.shapes import Agreement
from vyre.adapters.cpu.llvm.values import SCALAR, Shape, Value
from vyre.domain.ir.expr import Atomic, Load, Var
from vyre.domain.ir.stmt import (
    Assign,
    Body,
    Continue,
    Loop,
    Return,
    Stmt,
    Store,
    Trap,
    bodies,
    operands,
    walk_statements,
)
from vyre.domain.ir.types import ScalarType
from vyre.domain.ir.walk import unique_nodes

FEW_ROUNDS: Final = 256
"""The number of rounds up to which a loop does not look at the stop flag."""
MOST_COPIED: Final = 64
"""The number of statements up to which a loop of one lane is written twice."""
WriteBody = Callable[[Kernel, Body], Flow]


def write_loop(k: Kernel, stmt: Loop, write_body: WriteBody) -> Flow:
    """Writes a loop for the active lanes."""
    start, stop, step = (evaluate(k, bound) for bound in (stmt.start, stmt.stop, stmt.step))
    bounds = Bounds(k, start, stop, step)
    if bounds.runs_never:
        return Flow.THROUGH
    if (not k.options.counting or _count_steps(k)) and bounds.is_uniform and k.shapes.rounds(stmt) <= Agreement.VECTOR:
        if k.lanes == 1 and not k.options.counting and bounds.steps_by_one and _is_tight(stmt):
            return _in_two_copies(k, stmt, bounds, write_body)
        return _Together(k, stmt, bounds).write(write_body)
    return _Apart(k, stmt, bounds).write(write_body)


def _is_tight(stmt: Loop) -> bool:
    """Returns whether a loop is short and the innermost one, and all of its lanes go on behind it."""
    inside = list(islice(walk_statements(stmt.body), MOST_COPIED + 1))
    return len(inside) <= MOST_COPIED and not any(isinstance(s, Loop | Return | Trap) for s in inside)


def _in_two_copies(k: Kernel, stmt: Loop, bounds: Bounds, write_body: WriteBody) -> Flow:
    """Writes a loop of one lane twice: for few rounds whose counter is in the range of all buffers that it indexes, and
    for any rounds.

    The first copy neither compares the counter with lengths nor looks at the stop flag.
    """
    w = k.w
    nodes = [node for s in walk_statements(stmt.body) for node in unique_nodes(operands(s))]
    accesses = [a for a in (*nodes, *walk_statements(stmt.body)) if isinstance(a, Load | Store | Atomic)]
    indexed = [a for a in accesses if isinstance(a.index, Var) and a.index.name == stmt.var]
    names = sorted({a.buffer for a in indexed if not k.proven(a)})
    usual = bounds.are_few(FEW_ROUNDS)
    for name in names:
        usual = w.pure("and i1 {}, {}", usual, bounds.stop_within(k.length(name)))
    short, long, end = w.label("short"), w.label("long"), w.label("end")
    w.branch(usual, short, long, likely=True)
    for label, is_short in ((short, True), (long, False)):
        w.open_scope()
        k.open_values()
        w.place(label)
        flow = _Together(k, stmt, bounds, in_range=names if is_short else None).write(write_body)
        assert flow is Flow.THROUGH
        w.jump(end)
        k.close_values()
        w.close_scope()
    w.place(end)
    k.forget({s.name for s in walk_statements(stmt.body) if isinstance(s, Assign)})
    return Flow.THROUGH


class Bounds:
    """The bounds of a loop, with the comparisons on them; ``counter`` is a value of their type."""

    def __init__(self, k: Kernel, start: Value, stop: Value, step: Value) -> None:
        self._k: Final = k
        self.start: Final = start
        self._stop: Final = stop
        self.step: Final = step
        self._dtype: Final = start.dtype
        self._signed: Final = "s" if start.dtype.is_signed else "u"
        self._number: Final = None if step.number is None else _signed(start.dtype.bits, step.number, self._signed)

    @property
    def is_uniform(self) -> bool:
        """Tells whether the lanes agree on all bounds."""
        return all(bound.is_uniform for bound in (self.start, self._stop, self.step))

    @property
    def keeps_stride(self) -> bool:
        """Tells whether the counters of neighbouring lanes always differ by the same constant, which may be 0."""
        return self.start.shape is not Shape.VARYING and self.step.is_uniform

    @property
    def runs_never(self) -> bool:
        """Tells whether constants show that no lane runs a round."""
        if self._number == 0:
            return True
        numbers = (self.start.number, self._stop.number)
        if self._number is None or None in numbers:
            return False
        first, last = (_signed(self._dtype.bits, n or 0, self._signed) for n in numbers)
        return first >= last if self._number > 0 else first <= last

    @property
    def steps_by_one(self) -> bool:
        """Tells whether the loop counts u32 up by one."""
        return self._number == 1 and self._dtype is ScalarType.U32

    def are_few(self, most: int) -> str:
        """Returns whether a loop that steps by one runs no more rounds, an i1 operand; only if it runs any."""
        count = self._arithmetic("sub", self._stop, self.start)
        return self._compare("icmp ule", count, self._k.number(self._dtype, most))[0]

    def stop_within(self, length: str) -> str:
        """Returns whether the stop of a u32 is no more than a length, an i64 operand; an i1 operand."""
        return self._k.w.pure("icmp ule i64 {}, {}", extended(self._k, self._stop), length)

    @property
    def is_short(self) -> bool:
        """Tells whether constants show that there are few rounds."""
        start, stop = self.start.number, self._stop.number
        if not self._number or start is None or stop is None:
            return False
        return abs(stop - start) <= FEW_ROUNDS * abs(self._number)

    def entered(self) -> tuple[str, bool]:
        """Returns an i1, or a vector of them, that is true for lanes that run a round; and whether it is an i1."""
        up, down = f"icmp {self._signed}lt", f"icmp {self._signed}gt"
        if self._number == 0:
            return "false", True
        if self._number is not None:
            return self._compare(up if self._number > 0 else down, self.start, self._stop)
        zero = self._k.number(self._dtype, 0)
        if self._signed == "u":
            return self._conjunction(
                self._compare(up, self.start, self._stop), self._compare("icmp ne", self.step, zero)
            )
        rising = self._conjunction(self._compare(up, self.start, self._stop), self._compare(down, self.step, zero))
        falling = self._conjunction(self._compare(down, self.start, self._stop), self._compare(up, self.step, zero))
        return self._combined("or", rising, falling)

    def more(self, counter: Value) -> tuple[str, bool]:
        """Returns an i1, or a vector of them, that is true for lanes that run a round after that of ``counter``."""
        if self._number in (1, -1):
            following = self._arithmetic("add", counter, self.step)
            return self._compare(f"icmp {self._signed}{'lt' if self._number > 0 else 'gt'}", following, self._stop)
        up = self._compare("icmp ugt", self._arithmetic("sub", self._stop, counter), self.step)
        if self._signed == "u" or (self._number or 0) > 0:
            return up
        zero = self._k.number(self._dtype, 0)
        size = self._arithmetic("sub", zero, self.step)
        down = self._compare("icmp ugt", self._arithmetic("sub", counter, self._stop), size)
        if self._number is not None:
            return down
        rising = self._compare("icmp sgt", self.step, zero)
        return self._combined("or", self._conjunction(rising, up), self._conjunction(self._inverse(rising), down))

    def counter(self, operand: str) -> Value:
        """Returns a counter of the shape of ``start``: ``operand`` is a scalar if ``keeps_stride``, else a vector."""
        if not self.keeps_stride:
            return self._k.varying(self._dtype, operand)
        if self.start.is_uniform:
            return self._k.uniform(self._dtype, operand)
        return self._k.affine(self._dtype, operand, self.start.stride)

    def next(self, counter: Value) -> Value:
        """Returns the counter of the next round."""
        if counter.shape is Shape.AFFINE and self.step.is_uniform:
            base = self._k.w.pure(f"add {SCALAR[self._dtype]} {{}}, {{}}", counter.operand, self.step.operand)
            return self._k.affine(self._dtype, base, counter.stride)
        return self._arithmetic("add", counter, self.step)

    def _arithmetic(self, op: str, a: Value, b: Value) -> Value:
        k, element = self._k, SCALAR[self._dtype]
        if a.is_uniform and b.is_uniform:
            return k.uniform(self._dtype, k.w.pure(f"{op} {element} {{}}, {{}}", a.operand, b.operand))
        return k.varying(self._dtype, k.w.pure(f"{op} {k.vector_type(element)} {{}}, {{}}", k.vector(a), k.vector(b)))

    def _compare(self, predicate: str, a: Value, b: Value) -> tuple[str, bool]:
        k, element = self._k, SCALAR[self._dtype]
        if a.is_uniform and b.is_uniform:
            return k.w.pure(f"{predicate} {element} {{}}, {{}}", a.operand, b.operand), True
        return k.w.pure(f"{predicate} {k.vector_type(element)} {{}}, {{}}", k.vector(a), k.vector(b)), False

    def _inverse(self, one: tuple[str, bool]) -> tuple[str, bool]:
        text, is_scalar = one
        kind, all_ones = ("i1", "true") if is_scalar else (self._k.vector_type("i1"), self._k.all_lanes)
        return self._k.w.pure(f"xor {kind} {{}}, {all_ones}", text), is_scalar

    def _conjunction(self, one: tuple[str, bool], other: tuple[str, bool]) -> tuple[str, bool]:
        return self._combined("and", one, other)

    def _combined(self, op: str, one: tuple[str, bool], other: tuple[str, bool]) -> tuple[str, bool]:
        k = self._k
        if one[1] and other[1]:
            return k.w.pure(f"{op} i1 {{}}, {{}}", one[0], other[0]), True
        a, b = (k.splat("i1", text) if is_scalar else text for text, is_scalar in (one, other))
        return k.w.pure(f"{op} {k.vector_type('i1')} {{}}, {{}}", a, b), False


class _Together:
    """A loop whose rounds the lanes run together; its mask is that of its start, or empty.

    ``in_range`` are buffers in which every value of the counter is an index, in a copy for few rounds; None in others.
    """

    def __init__(self, k: Kernel, stmt: Loop, bounds: Bounds, *, in_range: Sequence[str] | None = None) -> None:
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
        assigned = {s.name for s in walk_statements(stmt.body) if isinstance(s, Assign)}
        outer = w.label("enter")
        self._exit.expect(k.lane_mask())
        w.branch(bounds.entered()[0], outer, self._exit.label)
        w.open_scope()
        k.open_values()
        w.place(outer)
        place = w.at_entry(f"alloca {element}")
        w.line(f"store {element} {bounds.start.operand}, ptr {place}")
        k.forget(assigned)
        head = w.label("loop")
        w.open_loop(head)
        k.open_values()
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
        k.close_values()
        w.close_scope()
        if self._advance.finish() is not Flow.LEFT:
            k.mask = mask
            if self._in_range is None and not bounds.is_short:
                budget.poll(k)
            more = bounds.more(counter)[0]
            w.line(f"store {element} {bounds.next(counter).operand}, ptr {place}")
            w.open_scope()
            if self._count_steps is not None:
                counting = w.label("count")
                self._exit.expect(k.lane_mask())
                w.branch(more, counting, self._exit.label)
                w.place(counting)
                more = self._count_steps()
            self._exit.expect(k.lane_mask())
            w.branch(more, head, self._exit.label)
            w.close_scope()
        k.close_values()
        k.close_values()
        w.close_loop()
        w.close_scope()
        k.mask = mask
        found = self._exit.finish()
        k.forget(assigned)
        if found is Flow.THROUGH and k.mask == mask:
            return Flow.THROUGH
        return Flow.PARTLY if found is Flow.THROUGH else found


class _Apart:
    """A loop that lanes leave one by one."""

    def __init__(self, k: Kernel, stmt: Loop, bounds: Bounds) -> None:
        self._k: Final = k
        self._stmt: Final = stmt
        self._bounds: Final = bounds
        inside = tuple(walk_statements(stmt.body))
        masks = k.masks.place
        self._live: Final = k.w.at_entry(f"alloca {masks}")
        """The lanes that run the next round."""
        skips = any(isinstance(s, Continue) for s in of_this_loop(stmt.body))
        self._skipped: Final = k.w.at_entry(f"alloca {masks}") if skips else None
        """The lanes that have skipped the rest of this round."""
        ends = k.options.counting or any(isinstance(s, Return | Trap) for s in inside)
        around = next((loop for loop in reversed(k.loops) if isinstance(loop, _Apart)), None)
        self._owns: Final = ends and around is None
        self._ended: str | None = None
        if ends:
            self._ended = k.w.at_entry(f"alloca {masks}") if around is None else around._ended
        """The lanes that have ended inside the outermost such loop, in one place that all loops in it share."""
        self._assigned: Final = {s.name for s in inside if isinstance(s, Assign)}

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
        w.open_scope()
        k.open_values()
        w.place(entering)
        place = w.at_entry(f"alloca {kind}")
        start = bounds.start.operand if bounds.keeps_stride else k.vector(bounds.start)
        w.line(f"store {kind} {start}, ptr {place}")
        masks.store(first, self._live)
        masks.loops += 1
        k.forget(self._assigned)
        head = w.label("loop")
        w.open_loop(head)
        k.open_values()
        found = w.here(f"load {kind}, ptr {place}")
        counter = bounds.counter(found)
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
                left = k.mask = budget.count(k)
            elif not bounds.is_short:
                budget.poll(k)
            following = bounds.next(counter)
            text = following.operand if bounds.keeps_stride else k.vector(following)
            w.line(f"store {kind} {text}, ptr {place}")
            masks.store(left, self._live)
            going = k.any(left)
            w.branch(w.pure("and i1 {}, {}", together, going) if together else going, head, exit_)
        k.loops.pop()
        k.locals.leave(mark)
        k.close_values()
        k.close_values()
        w.close_loop()
        w.close_scope()
        masks.loops -= 1
        w.place(exit_)
        k.forget(self._assigned)
        k.mask = mask
        if self._ended is None:
            return Flow.THROUGH
        k.mask = k.both(mask, masks.inverse(masks.load(self._ended)))
        return Flow.PARTLY


def _count_steps(k: Kernel) -> Callable[[], str] | None:
    """Returns the function that counts a back edge of a loop that the whole workgroup runs together."""
    return k.count_steps if k.write_statements is not None else None


def of_this_loop(body: Body) -> list[Stmt]:
    """Returns the statements of a body, those of loops in it left out."""
    found: list[Stmt] = []
    stack = list(body)
    while stack:
        stmt = stack.pop()
        found.append(stmt)
        if not isinstance(stmt, Loop):
            for nested in bodies(stmt):
                stack.extend(nested)
    return found


def _signed(bits: int, number: int, sign: str) -> int:
    return number - (1 << bits) if sign == "s" and number >> (bits - 1) else number
