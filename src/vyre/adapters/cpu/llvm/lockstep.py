"""Lockstep: all vectors of a workgroup run each phase of a statement before any of them begins the next one.

This is the canonical schedule of programs whose results depend on the order of atomics.  Statements whose phases do not
depend on one another share one region, a loop over the vectors.  Around regions the flow is that of the workgroup: a
branch runs if a lane takes it, a loop runs rounds until no lane is left in it.  Which lanes take part is told by masks
in scratch memory, as are all locals that live from one region to the next.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from vyre.adapters.cpu.llvm import control
from vyre.adapters.cpu.llvm.bounds import Bounds
from vyre.adapters.cpu.llvm.context import Flow, Kernel
from vyre.adapters.cpu.llvm.expressions import evaluate
from vyre.adapters.cpu.llvm.flow import lanes_of_arm
from vyre.adapters.cpu.llvm.phases import Accesses, Phases
from vyre.adapters.cpu.llvm.regions import Hook, Kept, LaneMask, Regions, last_uses
from vyre.adapters.cpu.llvm.values import SCALAR, Value
from vyre.domain.ir import nodes as ir
from vyre.domain.ir.walk import of_this_loop, unique_nodes

_STRUCTURED: Final = (ir.If, ir.Switch, ir.Loop, ir.Block, ir.Region)


class Lockstep:
    """Writes a program that ``phases.split`` has prepared."""

    def __init__(self, k: Kernel, regions: Regions) -> None:
        self._k: Final = k
        self._regions: Final = regions
        self._phases: Final = Phases(k.program, counting=k.options.counting)
        self._mask: LaneMask | None = None
        """The active lanes; None if they are all lanes of the workgroup."""

    def write(self) -> None:
        """Writes the program for one workgroup."""
        k = self._k
        if self._phases.loses_lanes(k.program.body):
            self._mask = self._regions.mask()
            alive = self._mask
            alive.reset(k)
            self._regions.each_vector(lambda: alive.put(k, k.lane_mask()))
        self._body(k.program.body)

    # ---- bodies
    def _body(self, body: ir.Body, after: Hook | None = None) -> None:
        """Writes the statements of a scope for the current mask; ``after`` runs for every vector at its end."""
        k = self._k
        scope = self._regions.open()
        last = last_uses(body)
        run, end = _Run(), _End(k)
        for number, stmt in enumerate(body):
            if isinstance(stmt, ir.Let) and stmt.name not in k.shapes.mutable and self._is_common(stmt.value):
                k.known.clear()
                k.locals.declare(stmt.name, evaluate(k, stmt.value))
                continue
            phases = self._phases.of(stmt)
            is_whole = not phases.conflicts or not isinstance(stmt, _STRUCTURED)
            head = phases if is_whole else self._phases.head(stmt)
            waits = not is_whole and (run.loses or isinstance(stmt, ir.Block | ir.Region))
            if run.statements and (waits or run.accesses.clashes(head)):
                if not self.region(run.statements, lambda name: last.get(name, -1) >= number, loses=run.loses):  # noqa: B023
                    run = _Run()
                    break
                if run.loses:
                    end.guard(self._mask)
                run = _Run()
            if is_whole:
                run.add(stmt, phases, loses=self._phases.loses_lanes((stmt,)))
                continue
            self._structured(stmt, run.statements, lambda name: last.get(name, -1) >= number)  # noqa: B023
            run = _Run()
            if number + 1 < len(body) and self._phases.loses_lanes((stmt,)):
                end.guard(self._mask)
        if end.is_open:
            self.region(run.statements, lambda name: False, loses=run.loses)
            end.close()
            run = _Run()
        self.region(run.statements, lambda name: False, loses=run.loses, after=after)
        self._regions.close(scope)

    def region(
        self,
        statements: list[ir.Stmt],
        is_needed: Callable[[str], bool],
        *,
        loses: bool = False,
        inside: Hook | None = None,
        after: Hook | None = None,
    ) -> bool:
        """Writes statements and hooks, if there are any, as one loop over the vectors for the current mask.

        Returns whether a lane may reach the end of the statements.
        """
        if not statements and inside is None and after is None:
            return True
        return self._regions.write(
            statements, is_needed, mask=self._mask, ends=loses, inside=inside, after=after, once=True
        )

    def _structured(self, stmt: ir.Stmt, run: list[ir.Stmt], is_needed: Callable[[str], bool]) -> None:
        """Writes a statement with bodies; what waits to run before it runs with its head."""
        self._k.locate(stmt)
        match stmt:
            case ir.If():
                self._if(stmt, run, is_needed)
            case ir.Switch():
                self._switch(stmt, run, is_needed)
            case ir.Loop():
                self._loop(stmt, run, is_needed)
            case _:
                for body in ir.bodies(stmt):
                    self._body(body)

    def _is_common(self, expr: ir.Expr, *, now: bool = False) -> bool:
        """Returns whether an expression is one number for the workgroup, which can be computed before a region.

        With ``now``, nothing waits to run before it, and it may read memory that the program writes.
        """
        k = self._k
        for node in unique_nodes((expr,)):
            match node:
                case ir.Var(name):
                    local = k.locals.get(name)
                    if not isinstance(local, Value):
                        return False
                case ir.Load(buffer):
                    if k.buffers[buffer].is_private or (not now and k.buffers[buffer].is_writable):
                        return False
                case ir.LaunchId(kind, axis):
                    if kind in (ir.IdKind.LOCAL, ir.IdKind.GLOBAL) and k.program.workgroup_size[axis] != 1:
                        return False
            if type(node) in ir.OF_LANES:
                return False
        return True

    # ---- branches
    def _if(self, stmt: ir.If, run: list[ir.Stmt], is_needed: Callable[[str], bool]) -> None:
        k, mask = self._k, self._mask
        links, final = ir.if_chain(stmt)
        opened: list[Callable[[], None]] = []
        for number, link in enumerate(links):
            k.locate(link)
            if self._is_common(link.condition, now=True):
                self.region(run, is_needed)
                run = []
                k.known.clear()
                condition = evaluate(k, link.condition)
                if condition.number is None:
                    opened.append(self._common_link(link, condition))
                    continue
                if condition.number:
                    final = link.then
                    break
                continue
            rest = number + 1 < len(links) or bool(final)
            opened.append(self._masked_link(link, run, is_needed, rest=rest))
            run = []
        self.region(run, is_needed)
        self._body(final)
        for close in reversed(opened):
            close()
        self._mask = mask

    def _common_link(self, link: ir.If, condition: Value) -> Callable[[], None]:
        """Writes a branch that all lanes take or none; returns what ends it after its ``else`` was written."""
        k, w = self._k, self._k.w
        then, otherwise, end = w.label("then"), w.label("else"), w.label("end")
        w.branch(condition.operand, then, otherwise)
        k.enter(then)
        self._body(link.then)
        w.jump(end)
        k.leave()
        k.enter(otherwise)

        def close() -> None:
            w.jump(end)
            k.leave()
            w.place(end)

        return close

    def _masked_link(
        self, link: ir.If, run: list[ir.Stmt], is_needed: Callable[[str], bool], *, rest: bool
    ) -> Callable[[], None]:
        """Writes the branch of some lanes; returns what ends it after its ``else`` was written, if there is a rest."""
        k, w, around = self._k, self._k.w, self._mask
        loses = self._phases.loses_lanes((link,))
        taken, others = self._regions.mask(), self._regions.mask()

        def divide() -> None:
            chosen = k.vector(evaluate(k, link.condition))
            taken.put(k, k.both(k.mask, chosen) or chosen)
            inverse = k.masks.inverse(chosen)
            others.put(k, k.both(k.mask, inverse) or inverse)

        self.region(run, is_needed, inside=Hook(divide, (taken, others), (link.condition,)))
        self._branch(taken, link.then)
        end = w.label("end")
        self._mask = others
        if rest:
            some = w.label("some")
            w.branch(others.any(k), some, end)
            k.enter(some)

        def close() -> None:
            if rest:
                w.jump(end)
                k.leave()
                w.place(end)
            if loses:
                self._unite(around, (taken, others))
            self._mask = around
            self._regions.release(taken, others)

        return close

    def _branch(self, mask: LaneMask, body: ir.Body) -> None:
        """Writes a body for the lanes of a mask, jumped over if there are none."""
        if not body:
            return
        k, w, around = self._k, self._k.w, self._mask
        some, end = w.label("some"), w.label("end")
        w.branch(mask.any(k), some, end)
        k.enter(some)
        self._mask = mask
        self._body(body)
        self._mask = around
        w.jump(end)
        k.leave()
        w.place(end)

    def _unite(self, around: LaneMask | None, parts: tuple[LaneMask, ...]) -> None:
        """Sets the mask around branches to the lanes that are left in them."""
        assert around is not None
        k = self._k

        def unite() -> None:
            left = parts[0].load(k)
            for part in parts[1:]:
                left = k.masks.combined("or", left, part.load(k))
            around.put(k, left)

        around.reset(k)
        self._regions.each_vector(unite)

    def _switch(self, stmt: ir.Switch, run: list[ir.Stmt], is_needed: Callable[[str], bool]) -> None:
        """Writes the bodies of the arms in order, each for its lanes."""
        k = self._k
        arms = [arm for arm in stmt.arms if arm.labels]
        parts = tuple(self._regions.mask() for _ in range(len(arms) + 1))

        def divide() -> None:
            selector = evaluate(k, stmt.selector)
            rest = k.lane_mask()
            for part, arm in zip(parts, arms, strict=False):
                chosen = lanes_of_arm(k, selector, arm)
                part.put(k, k.both(k.mask, chosen) or chosen)
                rest = k.masks.combined("and", rest, k.masks.inverse(chosen))
            parts[-1].put(k, rest)

        self.region(run, is_needed, inside=Hook(divide, parts, (stmt.selector,)))
        for part, body in zip(parts, [*(arm.body for arm in arms), stmt.default], strict=True):
            self._branch(part, body)
        if self._phases.loses_lanes((stmt,)):
            self._unite(self._mask, parts)
        self._regions.release(*parts)

    # ---- loops
    def _loop(self, stmt: ir.Loop, run: list[ir.Stmt], is_needed: Callable[[str], bool]) -> None:
        k = self._k
        bounds = (stmt.start, stmt.stop, stmt.step)
        stays = not k.options.counting and not self._phases.loses_lanes(stmt.body)
        if stays and all(self._is_common(bound, now=True) for bound in bounds):
            self.region(run, is_needed)
            k.known.clear()
            self._common_loop(stmt, Bounds(k, *(evaluate(k, bound) for bound in bounds)))
        else:
            _MaskedLoop(k, self._regions, self._phases, stmt).write(self, run, is_needed)

    def _common_loop(self, stmt: ir.Loop, bounds: Bounds) -> None:
        """Writes a loop whose rounds all active lanes run, and which none of them leaves."""
        k, w = self._k, self._k.w
        if bounds.runs_never:
            return
        dtype = bounds.start.dtype
        element = SCALAR[dtype]
        place = w.at_entry(f"alloca {element}")
        some, head, end = w.label("some"), w.label("loop"), w.label("exit")
        w.branch(bounds.entered()[0], some, end)
        k.enter(some)
        w.line(f"store {element} {bounds.start.operand}, ptr {place}")
        k.open_loop(head)
        mark = k.locals.mark
        counter = k.uniform(dtype, w.here(f"load {element}, ptr {place}"))
        k.locals.declare(stmt.var, counter)
        self._body(stmt.body)
        control.poll(k)
        w.line(f"store {element} {bounds.next(counter).operand}, ptr {place}")
        w.branch(bounds.more(counter)[0], head, end)
        k.locals.leave(mark)
        k.close_loop()
        k.leave()
        w.place(end)

    def rounds(self, body: ir.Body, mask: LaneMask, after: Hook) -> None:
        """Writes the body of a loop for the lanes of a mask, and ``after`` for every vector at the end of a round."""
        around = self._mask
        self._mask = mask
        self._body(body, after)
        self._mask = around

    def end(self, ended: LaneMask) -> None:
        """Takes the lanes that have ended inside a loop out of the mask around it."""
        k, mask = self._k, self._mask
        assert mask is not None

        def keep() -> None:
            going = k.masks.inverse(ended.load(k))
            mask.put(k, k.masks.combined("and", mask.load(k), going))

        mask.reset(k)
        self._regions.each_vector(keep)

    def common(self, bound: ir.Expr) -> Value | None:
        """Returns a bound of a loop if it is one number for the workgroup and does not depend on what waits to run."""
        if not self._is_common(bound):
            return None
        self._k.known.clear()
        return evaluate(self._k, bound)


class _MaskedLoop:
    """A loop that lanes leave one by one: it runs rounds until no lane of the workgroup is left in it."""

    def __init__(self, k: Kernel, regions: Regions, phases: Phases, stmt: ir.Loop) -> None:
        self._k: Final = k
        self._regions: Final = regions
        self._stmt: Final = stmt
        skips = any(isinstance(inner, ir.Continue) for inner in of_this_loop(stmt.body))
        self._live: Final = regions.mask()
        """The lanes in the current round, and at its end those of the next one."""
        self._skipped: Final = regions.mask() if skips else None
        """The lanes that have skipped the rest of this round."""
        self._ended: Final = regions.mask() if phases.ends_lanes(stmt) else None
        """The lanes that have ended inside the loop."""
        self._bounds: Final[list[Value | Kept | None]] = []
        """Start, stop and step: one number, or kept for each vector as soon as they were evaluated."""

    def leave(self) -> Flow:
        """Implements ``LoopFrame.leave``."""
        return Flow.ENDED

    def skip(self) -> Flow:
        """Implements ``LoopFrame.skip``."""
        assert self._skipped is not None
        self._skipped.add(self._k)
        return Flow.ENDED

    def end(self) -> None:
        """Implements ``LoopFrame.end``."""
        assert self._ended is not None
        self._ended.add(self._k)

    def write(self, around: Lockstep, run: list[ir.Stmt], is_needed: Callable[[str], bool]) -> None:
        """Writes the loop."""
        k, w, stmt, live = self._k, self._k.w, self._stmt, self._live
        self._bounds.extend(around.common(bound) for bound in (stmt.start, stmt.stop, stmt.step))
        reads = (stmt.start, stmt.stop, stmt.step)
        around.region(run, is_needed, inside=Hook(self._begin, (live,), reads), after=Hook(self._clear))
        some, head, exit_ = w.label("enter"), w.label("loop"), w.label("exit")
        w.branch(live.any(k), some, exit_)
        k.enter(some)
        scope = self._regions.open()
        start, step, place, element = self._bounds[0], self._bounds[2], "", ""
        if isinstance(start, Value):
            element = SCALAR[start.dtype]
            place = w.at_entry(f"alloca {element}")
            w.line(f"store {element} {start.operand}, ptr {place}")
        k.open_loop(head)
        if isinstance(start, Value):
            start = k.uniform(start.dtype, w.here(f"load {element}, ptr {place}"))
            k.locals.declare(stmt.var, start)
        elif start is not None:
            self._regions.across[stmt.var] = start
        counter = start
        assert counter is not None
        k.loops.append(self)
        around.rounds(stmt.body, live, Hook(lambda: self._close(counter), (live,)))
        k.loops.pop()
        control.poll(k)
        if isinstance(counter, Value):
            assert isinstance(step, Value)
            w.line(f"store {element} {Bounds(k, counter, step, step).next(counter).operand}, ptr {place}")
        w.branch(live.any(k), head, exit_)
        k.close_loop()
        self._regions.close(scope)
        k.leave()
        w.place(exit_)
        if self._ended is not None:
            around.end(self._ended)
        self._regions.release(*(mask for mask in (live, self._ended, self._skipped) if mask is not None))
        for bound in self._bounds[1:]:
            if isinstance(bound, Kept):
                k.scratch.release(bound.offset, bound.nbytes)

    def _begin(self) -> None:
        """Evaluates the bounds, and finds the lanes that run the first round."""
        k, stmt, known = self._k, self._stmt, self._bounds
        start, stop, step = (
            bound_value if isinstance(bound_value, Value) else evaluate(k, bound)
            for bound, bound_value in zip((stmt.start, stmt.stop, stmt.step), known, strict=True)
        )
        entered, is_scalar = Bounds(k, start, stop, step).entered()
        lanes = k.splat("i1", entered) if is_scalar else entered
        self._live.put(k, k.both(k.mask, lanes) or lanes)
        if known[0] is None or known[2] is None:  # the counter differs between vectors
            known[0] = self._kept(start, is_uniform=start.is_uniform and step.is_uniform)
        for place, value in ((1, stop), (2, step)):
            if known[place] is None:
                known[place] = self._kept(value, is_uniform=value.is_uniform)

    def _kept(self, value: Value, *, is_uniform: bool) -> Kept:
        kept = Kept(self._k, value.dtype, is_uniform=is_uniform)
        kept.store(self._k, value)
        return kept

    def _clear(self) -> None:
        """Notes that no lane has skipped a round or ended."""
        for mask in (self._skipped, self._ended):
            if mask is not None:
                mask.clear(self._k)

    def _close(self, counter: Value | Kept) -> None:
        """Ends a round of one vector: finds the lanes that run the next one."""
        k = self._k
        left = self._live.load(k)
        if self._skipped is not None:
            left = k.masks.combined("or", left, self._skipped.load(k))
            self._skipped.clear(k)
        loaded = [bound.load(k) if isinstance(bound, Kept) else bound for bound in (counter, *self._bounds[1:])]
        value, stop, step = (bound for bound in loaded if bound is not None)
        bounds = Bounds(k, value, stop, step)
        more, is_scalar = bounds.more(value)
        left = k.masks.combined("and", left, k.splat("i1", more) if is_scalar else more)
        if k.options.counting:
            k.mask = left
            left = control.count(k, self._stmt)
        if isinstance(counter, Kept):
            counter.store(k, bounds.next(value))
        self._live.put(k, left)


class _Run:
    """Statements that wait to be written as one region."""

    def __init__(self) -> None:
        self.statements: Final[list[ir.Stmt]] = []
        self.accesses: Final = Accesses()
        self.loses = False
        """Whether fewer lanes may reach the end than the start."""

    def add(self, stmt: ir.Stmt, accesses: Accesses, *, loses: bool) -> None:
        """Adds a statement."""
        self.statements.append(stmt)
        self.accesses.add(accesses)
        self.loses = self.loses or loses


class _End:
    """The end of a body, to which the workgroup jumps where no lane is left."""

    def __init__(self, k: Kernel) -> None:
        self._k: Final = k
        self._label = ""
        self._scopes = 0

    @property
    def is_open(self) -> bool:
        """Tells whether something jumps to the end."""
        return self._scopes > 0

    def guard(self, mask: LaneMask | None) -> None:
        """Jumps to the end if a mask is empty."""
        assert mask is not None
        k, following = self._k, self._k.w.label("some")
        self._label = self._label or k.w.label("end")
        k.w.branch(mask.any(k), following, self._label)
        k.enter(following)
        self._scopes += 1

    def close(self) -> None:
        """Places the end."""
        k = self._k
        k.w.jump(self._label)
        for _ in range(self._scopes):
            k.leave()
        k.w.place(self._label)
