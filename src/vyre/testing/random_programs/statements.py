"""Random statements: bodies in which every name is in scope, every barrier uniform, every loop short."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final

from vyre.domain.ir import nodes as ir
from vyre.domain.ir.operators import AtomicOp, BinaryOp, Ordering
from vyre.domain.ir.types import EXECUTABLE_TYPES, ScalarType
from vyre.testing.random_programs.expressions import INTEGER_TYPES, U32, ExpressionWriter, Flow, Local
from vyre.testing.random_programs.memory import PLAIN, Level, Order, Use, UsedBuffer, u32

BARRIER_ORDERINGS: Final = (Ordering.SEQ_CST, Ordering.ACQ_REL, Ordering.RELEASE, Ordering.ACQUIRE)
_MAX_NESTING: Final = 4
_U32_MAX: Final = 0xFFFF_FFFF


@dataclass(slots=True)
class StatementWriter:
    expressions: ExpressionWriter
    traps: bool
    segments: int
    serial: int = 0

    # Bodies

    def program_body(self, size: int) -> ir.Body:
        out: list[ir.Stmt] = []
        for segment in range(self.segments):
            if segment:
                self._grid_sync(out)
            out += self.body(size)
        return tuple(out)

    def body(self, size: int) -> list[ir.Stmt]:
        """Statements of the current flow's innermost scope."""
        out: list[ir.Stmt] = []
        for _ in range(size):
            if self.expressions.exhausted:
                break
            self._statement(out)
        if self.expressions.choices.chance(25 if self.flow.depth else 5):
            self._ending(out)
        return out

    @property
    def flow(self) -> Flow:
        return self.expressions.flow

    @contextmanager
    def _in(self, flow: Flow) -> Iterator[None]:
        outer, self.expressions.flow = self.expressions.flow, flow
        try:
            yield
        finally:
            self.expressions.flow = outer

    def _nested_body(self, size: int, **changes: object) -> ir.Body:
        with self._in(self.flow.nested(**changes)):
            return tuple(self.body(size))

    def _statement(self, out: list[ir.Stmt]) -> None:
        writer, flow = self.expressions, self.flow
        writer.pay()
        options: list[tuple[int, Callable[[list[ir.Stmt]], None]]] = [
            (5, self._let),
            (8, self._write),
            (2, self._swap),
            (2, self._draw_tickets),
        ]
        if any(self._assignable()):
            options.append((4, self._assign))
        if not flow.plain:
            options.append((3, self._async_copy))
            if flow.depth < _MAX_NESTING:
                options += [(4, self._if), (2, self._loop), (1, self._while), (1, self._block), (2, self._for_one_lane)]
                options += [(2, self._switch), (1, self._else_if), (2, self._wide_loop)]
            if writer.level is Level.WORKGROUP:
                options.append((2, self._barrier))
                if flow.depth < _MAX_NESTING and any(s.buffer.is_workgroup for s in writer.memory.slots):
                    options.append((3, self._phased_loop))
        writer.choices.weighted(options)(out)

    # Names

    def _fresh(self, stem: str) -> str:
        """A name that nothing visible has; names are used again once they are out of scope."""
        taken = {local.name for local in self.flow.visible()}
        if self.expressions.choices.chance(3):
            stem = self.expressions.choices.pick(("if", "a b", "é", '"'))
        return next(name for name in (f"{stem}{k}" for k in range(10_000)) if name not in taken)

    def _declare(self, local: Local) -> None:
        self.flow.scopes[-1].append(local)

    def _assignable(self) -> Iterator[Local]:
        return (v for v in self.flow.visible() if v.mutable and v.usable and v.level <= self.expressions.level)

    # Simple statements

    def _let(self, out: list[ir.Stmt]) -> None:
        choices, writer = self.expressions.choices, self.expressions
        dtype = choices.pick((U32, *EXECUTABLE_TYPES))
        level = choices.pick((Level.LANE, Level.LANE, Level.WORKGROUP, Level.SUBGROUP))
        mutable = choices.chance(40)
        writer.unstable, writer.effects = False, level is Level.LANE
        value = writer.value(dtype, choices.between(1, 4), level)
        writer.effects = False
        name = self._fresh("v")
        stable = not writer.unstable and not mutable
        self._declare(Local(name, dtype, min(level, writer.level), mutable, stable))
        out.append(ir.Let(name, value))

    def _assign(self, out: list[ir.Stmt]) -> None:
        writer = self.expressions
        target = writer.choices.pick(list(self._assignable()))
        writer.effects = target.level is Level.LANE
        out.append(ir.Assign(target.name, writer.value(target.dtype, 3, target.level)))
        writer.effects = False

    def _write(self, out: list[ir.Stmt]) -> None:
        """A store, or an atomic whose result is unused, as the use of some buffer allows."""
        writer = self.expressions
        slots = [s for s in writer.memory.slots if not s.is_constant and self._is_writable(s)]
        if not slots:
            self._let(out)
            return
        slot = writer.choices.pick(slots)
        if slot.name in self.flow.single or slot.use in PLAIN:
            index = writer.index(slot)
            writer.effects = True
            out.append(ir.Store(slot.name, index, writer.value(slot.element.widened, writer.choices.between(1, 4))))
            writer.effects = False
        elif slot.use is Use.SPLAT:
            out.append(ir.Store(slot.name, writer.index(slot), slot.splat))
        else:
            name = self._fresh("old")
            used = slot.use is not Use.REDUCED and writer.choices.chance(50)
            value = writer.atomic(slot)
            out.append(ir.Let(name, ir.Cast(slot.element, value) if used else value))
            self._declare(Local(name, slot.element, Level.LANE, mutable=False, stable=False, usable=used))

    def _swap(self, out: list[ir.Stmt]) -> None:
        """Reads elements, overwrites them, and writes elsewhere what it read: values must not follow memory."""
        writer = self.expressions
        slots = [s for s in writer.memory.slots if self._is_writable(s) and s.use in (Use.OWNED, Use.FREE, Use.PRIVATE)]
        if not slots:
            self._write(out)
            return
        slot = writer.choices.pick(slots)
        dtype, index = slot.element.widened, writer.index(slot)
        name = self._fresh("was")
        writer.pay(10)
        out.append(ir.Let(name, writer.moved(ir.Load(slot.name, index), dtype)))
        self._declare(Local(name, dtype, Level.LANE, mutable=False, stable=False))
        out.append(ir.Store(slot.name, index, writer.value(dtype, 1)))
        others = [s for s in slots if s.element.widened is dtype]
        target = writer.choices.pick(others)
        out.append(ir.Store(target.name, writer.index(target), ir.Var(name)))

    def _draw_tickets(self, out: list[ir.Stmt]) -> None:
        """Two used atomics on one element: their old values tell the order of the lanes and of the statements."""
        writer = self.expressions
        contended = [s for s in writer.memory.slots if s.use is Use.FREE_ATOMIC and writer.is_here(s)]
        if not contended:
            self._leave_messages(out)
            return
        slot = writer.choices.pick(contended)
        for _ in range(2):
            name = self._fresh("ticket")
            writer.pay(4)
            op = AtomicOp.ADD if writer.choices.chance(60) else AtomicOp.EXCHANGE
            out.append(ir.Let(name, ir.Atomic(op, slot.name, u32(0), None, writer.value(slot.element, 1))))
            self._declare(Local(name, slot.element, Level.LANE, mutable=False, stable=False))
            out += [
                ir.Store(target.name, writer.index(target), ir.Var(name))
                for target in writer.memory.slots
                if target.element is slot.element and target.use in PLAIN and self._is_writable(target)
            ]

    def _leave_messages(self, out: list[ir.Stmt]) -> None:
        """All lanes write one element, then read it: the value tells which lane came last."""
        writer = self.expressions
        slots = [s for s in writer.memory.slots if s.use is Use.FREE and writer.is_here(s)]
        if not slots:
            self._write(out)
            return
        slot = writer.choices.pick(slots)
        dtype = slot.element.widened
        out.append(ir.Store(slot.name, u32(0), ir.Cast(dtype, writer.lane(slot.buffer.is_workgroup))))
        name = self._fresh("message")
        out.append(ir.Let(name, ir.Load(slot.name, u32(0))))
        self._declare(Local(name, dtype, Level.LANE, mutable=False, stable=False))
        out.append(ir.Store(slot.name, writer.index(slot), ir.Var(name)))

    def _is_writable(self, slot: UsedBuffer) -> bool:
        if not self.expressions.is_here(slot):
            return False
        if slot.name in self.flow.single:
            return True
        return slot.use not in (Use.READ, Use.SINGLE, Use.SPANS)

    # Structure

    def _size(self) -> int:
        return self.expressions.choices.weighted(((2, 1), (3, 2), (2, 3), (1, 0)))

    def _inner_level(self) -> Level:
        """A uniformity for a nested flow, at most that of this one."""
        levels = (Level.LANE, Level.LANE, Level.WORKGROUP, Level.SUBGROUP)
        return min(self.expressions.level, self.expressions.choices.pick(levels))

    def _if(self, out: list[ir.Stmt]) -> None:
        level = self._inner_level()
        condition = self.expressions.condition(level)
        then = self._arm(level)
        otherwise = self._arm(level) if self.expressions.choices.chance(50) else ()
        out.append(ir.If(condition, then, otherwise))

    def _else_if(self, out: list[ir.Stmt]) -> None:
        """A chain of two to five links, seldom of many, all on one level of nesting."""
        choices = self.expressions.choices
        level = self._inner_level()
        links = [(self.expressions.condition(level), self._arm(level))]
        around = replace(self.flow.nested(level=level, straight=False), depth=self.flow.depth)
        with self._in(around):
            for _ in range(choices.between(8, 70) if choices.chance(3) else choices.between(1, 4)):
                links.append((self.expressions.condition(level), self._arm(level)))
                if self.expressions.exhausted:
                    break
            otherwise = self._arm(level) if choices.chance(50) else ()
        for condition, body in reversed(links):
            otherwise = (ir.If(condition, body, otherwise),)
        out += otherwise

    def _switch(self, out: list[ir.Stmt]) -> None:
        writer, choices = self.expressions, self.expressions.choices
        dtype = choices.pick(INTEGER_TYPES)
        level = self._inner_level()
        most = choices.between(20, 60) if choices.chance(3) else choices.between(2, 7)
        selector = writer.value(dtype, 2, level)
        if choices.chance(75):
            selector = ir.Binary(BinaryOp.BIT_AND, selector, ir.Literal(dtype, choices.pick((3, 7, 15, 1))))
        edges = (1 << (dtype.bits - 1), (1 << dtype.bits) - 1, (1 << (dtype.bits - 1)) - 1)
        labels = [ir.Literal(dtype, bits) for bits in (*range(most), *edges)]
        arms: list[ir.Arm] = []
        while labels and not (arms and (writer.exhausted or choices.chance(25))):
            taken = [labels.pop(choices.below(len(labels)))]
            while labels and choices.chance(30):
                taken.append(labels.pop(choices.below(len(labels))))
            arms.append(ir.Arm(tuple(taken), self._arm(level)))
        out.append(ir.Switch(selector, tuple(arms), self._arm(level) if choices.chance(60) else ()))

    def _arm(self, level: Level) -> ir.Body:
        with self._in(self.flow.nested(level=level, straight=False)):
            out: list[ir.Stmt] = []
            if self.expressions.order is not Order.INDEPENDENT and self.expressions.choices.chance(30):
                self._draw_tickets(out)
            return (*out, *self.body(self._size()))

    def _block(self, out: list[ir.Stmt]) -> None:
        body = self._nested_body(self._size())
        label = self.expressions.choices.pick((None, "stage.a", "stage b"))
        source = self.expressions.choices.pick((None, "origin"))
        out.append(ir.Block(body) if label is None else ir.Region(label, body, source))

    def _for_one_lane(self, out: list[ir.Stmt]) -> None:
        """A branch that one lane of the grid, or of each workgroup, takes: some buffers are its own."""
        writer = self.expressions
        slots = [s for s in writer.memory.slots if s.use is Use.SINGLE and writer.is_here(s)]
        if not slots:
            self._if(out)
            return
        slot = writer.choices.pick(slots)
        condition = ir.Binary(BinaryOp.EQ, writer.lane(slot.buffer.is_workgroup), u32(slot.single_lane))
        single = self.flow.single | {slot.name}
        out.append(ir.If(condition, self._nested_body(self._size(), level=Level.LANE, straight=False, single=single)))

    def _loop_body(
        self, var: str, level: Level, times: int, size: int, dtype: ScalarType = U32, **changes: object
    ) -> ir.Body:
        writer = self.expressions
        outer = self.flow
        exits = writer.choices.chance(40)
        if exits and writer.choices.chance(70):
            level = Level.LANE
        flow = outer.nested(
            level=level,
            straight=False,
            times=outer.times * max(times, 1),
            loop=level,
            loops=max(outer.loops, level),
            **changes,
        )
        with self._in(flow):
            self._declare(Local(var, dtype, min(level, flow.level), mutable=False, stable=False))
            out: list[ir.Stmt] = self.body(size)
            if exits and not writer.exhausted and writer.level >= level:
                exit_: ir.Stmt = ir.Break() if writer.choices.chance(50) else ir.Continue()
                leave = ir.If(self._exit_condition(var, dtype, level), (exit_,))
                if writer.choices.chance(50) or (
                    out and isinstance(out[-1], ir.Return | ir.Trap | ir.Break | ir.Continue)
                ):
                    out.insert(0, leave)
                else:
                    out.append(leave)
        return tuple(out)

    def _exit_condition(self, var: str, dtype: ScalarType, level: Level) -> ir.Expr:
        """Over the loop variable and what was visible before the loop."""
        with self._in(replace(self.flow, scopes=(*self.flow.scopes[:-1], []))):
            bound = self.expressions.value(dtype, 1, level)
        op = self.expressions.choices.pick((BinaryOp.GT, BinaryOp.EQ, BinaryOp.NE, BinaryOp.GE))
        return ir.Binary(op, ir.Var(var), bound)

    def _loop(self, out: list[ir.Stmt]) -> None:
        level = self._inner_level()
        writer, choices = self.expressions, self.expressions.choices
        start: ir.Expr = u32(0)
        step: ir.Expr = u32(1)
        times = choices.pick((0, 1, 2, 3, 9))
        stop: ir.Expr = u32(times)
        match choices.below(8):
            case 1:
                first, stride = choices.between(0, 5), choices.between(1, 3)
                start, step, stop = u32(first), u32(stride), u32(first + stride * times)
            case 2:  # the next value would wrap
                stride = choices.pick((7, 0x8000_0000, _U32_MAX))
                start, step, stop, times = u32(_U32_MAX - 15), u32(stride), u32(_U32_MAX), 3
            case 3:
                name = self._fresh("s")
                writer.unstable = False
                out.append(ir.Let(name, writer.value(U32, 2, level)))
                self._declare(Local(name, U32, level, mutable=False, stable=not writer.unstable))
                start = ir.Var(name)
                stop = ir.Binary(BinaryOp.ADD, start, ir.Binary(BinaryOp.BIT_AND, writer.value(U32, 1, level), u32(3)))
                times = 3
            case 4:
                step = writer.value(U32, 1, level)
                step = u32(2) if isinstance(step, ir.Literal) else step
                stop, times = u32(times), max(times, 1)
            case 5:
                stop, times = ir.Binary(BinaryOp.MIN, writer.value(U32, 2, level), u32(times + 1)), times + 1
            case 6:
                start, stop, times = u32(9), u32(choices.between(0, 9)), 0
            case 7:  # the same for each lane in its own way
                start = ir.Binary(BinaryOp.MAX, writer.value(U32, 2, level), u32(_U32_MAX - 15))
                step = ir.Binary(BinaryOp.BIT_OR, writer.value(U32, 1, level), u32(8))
                stop, times = u32(_U32_MAX), 2
        var = self._fresh("k")
        out.append(ir.Loop(var, start, stop, step, self._loop_body(var, level, times, self._size())))

    def _wide_loop(self, out: list[ir.Stmt]) -> None:
        """A loop of any integer type, upwards or downwards, often up to the limits of the type."""
        dtype = self.expressions.choices.pick(INTEGER_TYPES[::-1])
        level = self._inner_level()
        start, stop, step, times = self._wide_bounds(dtype, level)
        var = self._fresh("n")
        out.append(ir.Loop(var, start, stop, step, self._loop_body(var, level, times, self._size(), dtype)))

    def _wide_bounds(self, dtype: ScalarType, level: Level) -> tuple[ir.Expr, ir.Expr, ir.Expr, int]:
        """Start, stop and step of a loop, and how often it runs at most."""
        writer, choices = self.expressions, self.expressions.choices
        low = -(1 << (dtype.bits - 1)) if dtype.is_signed else 0
        high = low + (1 << dtype.bits) - 1
        down = dtype.is_signed and choices.chance(50)

        def lit(value: int) -> ir.Literal:
            return ir.Literal.of(dtype, value)

        match choices.below(7):
            case 0:
                first, stride, times = choices.between(-5 if low else 0, 5), choices.between(1, 3), choices.below(4)
                last = first + stride * times
                return (
                    (lit(last), lit(first), lit(-stride), times)
                    if down
                    else (lit(first), lit(last), lit(stride), times)
                )
            case 1:  # the next value would wrap
                stride = choices.pick((7, high, high // 2 + 1, 1 << (dtype.bits - 2)))
                if down:
                    return lit(low + 15), lit(low), lit(choices.pick((-stride, low))), 3
                return lit(high - 15), lit(high), lit(stride), 3
            case 2:  # the distance exceeds what a signed type holds
                if down:
                    return lit(high), lit(low), lit(choices.pick((low, low + 1, -(high // 2)))), 5
                return lit(low), lit(high), lit(choices.pick((high, high // 2, high // 2 + 1))), 5
            case 3:  # each lane in its own way
                value, other = writer.value(dtype, 2, level), writer.value(dtype, 1, level)
                if down:
                    step = ir.Binary(BinaryOp.BIT_AND, ir.Binary(BinaryOp.BIT_OR, other, lit(low)), lit(-8))
                    return ir.Binary(BinaryOp.MIN, value, lit(low + 15)), lit(low), step, 2
                step = ir.Binary(BinaryOp.BIT_OR, ir.Binary(BinaryOp.BIT_AND, other, lit(high)), lit(8))
                return ir.Binary(BinaryOp.MAX, value, lit(high - 15)), lit(high), step, 2
            case 4:  # the direction differs from lane to lane
                around = 9 if low else 0
                stop = ir.Binary(
                    BinaryOp.MAX, ir.Binary(BinaryOp.MIN, writer.value(dtype, 2, level), lit(9)), lit(-around)
                )
                either = ir.Select(writer.value(ScalarType.BOOL, 1, level), lit(3), lit(-4 if low else 2))
                return lit(choices.between(-3 if low else 0, 3)), stop, either, 5
            case 5:  # a step that may be zero, or lead away
                step = ir.Binary(BinaryOp.MOD, writer.value(dtype, 2, level), lit(5))
                return lit(0), lit(choices.between(-3 if low else 0, 3)), step, 3
            case _:
                return lit(9), lit(choices.between(0, 9) if not down else 9), lit(-2 if down else 1), 0

    def _while(self, out: list[ir.Stmt]) -> None:
        """``loop 0 .. 2^32-1`` with a Break that ends it soon."""
        level = self._inner_level()
        writer = self.expressions
        times = writer.choices.between(1, 4)
        bound: ir.Expr = u32(times)
        if writer.choices.chance(50):  # evaluated inside the loop, whose flow is not known yet
            writer.subgroups = False
            bound = ir.Binary(BinaryOp.MIN, writer.value(U32, 1, level), bound)
            writer.subgroups = True
        var = self._fresh("w")
        leave = ir.If(ir.Binary(BinaryOp.GE, ir.Var(var), bound), (ir.Break(),))
        body = self._loop_body(var, level, times, self._size())
        out.append(ir.Loop(var, u32(0), u32(_U32_MAX), u32(1), (leave, *body)))

    # Barriers

    def _barrier(self, out: list[ir.Stmt]) -> None:
        writer = self.expressions
        out.append(ir.Barrier(writer.choices.pick(BARRIER_ORDERINGS)))
        if self.flow.straight:
            writer.memory.change_uses(writer.choices, writer.order, workgroup=True)

    def _phased_loop(self, out: list[ir.Stmt]) -> None:
        """A uniform loop over phases: workgroup memory changes its use at each barrier, as in a reduction."""
        writer, choices = self.expressions, self.expressions.choices
        if not self.flow.straight:
            self._barrier(out)
            return
        self._barrier(out)
        times = choices.between(1, 3)
        var = self._fresh("p")
        level = Level.WORKGROUP
        # No loop to leave or to continue: that would skip barriers.
        flow = self.flow.nested(level=level, straight=False, times=self.flow.times * times, loop=None, loops=level)
        body: list[ir.Stmt] = []
        with self._in(flow):
            self._declare(Local(var, U32, level, mutable=False, stable=False))
            for _ in range(2):
                for _ in range(choices.between(1, 2)):
                    self._statement(body)
                body.append(ir.Barrier(choices.pick(BARRIER_ORDERINGS)))
                writer.memory.change_uses(choices, writer.order, workgroup=True)
        stop = u32(times) if choices.chance(60) else ir.Binary(BinaryOp.MIN, writer.value(U32, 1, level), u32(times))
        out.append(ir.Loop(var, u32(0), stop, u32(1), tuple(body)))

    def _grid_sync(self, out: list[ir.Stmt]) -> None:
        writer = self.expressions
        sync: ir.Stmt = ir.Barrier(Ordering.GRID_SYNC)
        match writer.choices.below(4):
            case 1:
                sync = ir.Block((sync,))
            case 2:
                sync = ir.Region("sync", (sync,))
        out.append(sync)
        for local in self.flow.visible():
            local.usable &= local.stable
        writer.segment += 1
        writer.memory.change_uses(writer.choices, writer.order, workgroup=False)
        writer.memory.change_uses(writer.choices, writer.order, workgroup=True)

    # Asynchronous copies

    def _async_copy(self, out: list[ir.Stmt]) -> None:
        writer, choices = self.expressions, self.expressions.choices
        here = [s for s in writer.memory.slots if writer.is_here(s) and not s.buffer.is_push]
        sources = [s for s in here if s.is_constant or s.use in (Use.READ, Use.FREE)]
        targets = [s for s in here if not s.is_constant and self._takes_copies(s)]
        if not sources or not targets:
            self._write(out)
            return
        target = choices.pick(targets)
        source = choices.pick([s for s in sources if s is not target] or sources)
        tag = f"copy{self.serial}"
        self.serial += 1
        if target.use is Use.SPANS:
            lane = writer.lane(target.buffer.is_workgroup)
            offset: ir.Expr = ir.Binary(BinaryOp.MUL, lane, u32(target.span)) if target.span > 1 else lane
            issue: ir.Stmt = ir.AsyncStore(source.name, target.name, offset, u32(choices.between(0, target.span)), tag)
        else:
            size_in_bytes = writer.memory.counts[source.name] * source.element.size
            offset, size = writer.index_value(size_in_bytes, Level.LANE), self._copy_size()
            form = ir.AsyncStore if choices.chance(50) else ir.AsyncLoad
            issue = form(source.name, target.name, offset, size, tag)
        out.append(issue)
        with self._in(replace(self.flow, plain=True)):
            for _ in range(choices.below(3)):
                self._statement(out)
        out.append(ir.AsyncWait(tag))

    def _copy_size(self) -> ir.Expr:
        choices = self.expressions.choices
        if choices.chance(70):
            return u32(choices.pick((4, 8, 1, 0, 13, 64)))
        return ir.Binary(BinaryOp.MOD, self.expressions.value(U32, 1), u32(40))

    def _takes_copies(self, slot: UsedBuffer) -> bool:
        return slot.use in (Use.SPANS, Use.FREE) or slot.name in self.flow.single

    # Leaving

    def _ending(self, out: list[ir.Stmt]) -> None:
        """A statement after which the list ends, where the rules of uniformity allow one."""
        writer, flow = self.expressions, self.flow
        if flow.plain:
            return
        options: list[tuple[int, Callable[[], ir.Stmt]]] = []
        if flow.loop is not None and writer.level >= flow.loop:
            options += [(3, ir.Break), (3, ir.Continue)]
        last = writer.segment == self.segments - 1
        uniform = writer.level is Level.WORKGROUP
        if last and (uniform or flow.loops is Level.LANE) and flow.depth:
            options.append((3, ir.Return))
            if self.traps:
                options.append((6, self._trap))
        if not options:
            return
        ending = writer.choices.weighted(options)()
        out.append(ending)
        if isinstance(ending, ir.Return | ir.Trap) and not uniform:
            writer.ended = True

    def _trap(self) -> ir.Stmt:
        writer = self.expressions
        address = writer.value(U32, 2)
        return ir.Trap(address, writer.choices.pick(("assert", "out of range", "ü")))
