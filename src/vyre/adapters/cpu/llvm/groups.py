"""Workgroups of several vectors of lanes, and the barriers among them.

The flow around a barrier is the same for the whole workgroup, so it is ordinary control flow.  The statements between
two barriers are a loop over the vectors: a region.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from vyre.adapters.cpu.llvm import control, memory
from vyre.adapters.cpu.llvm.context import AssignedLocal, Flow, Kernel
from vyre.adapters.cpu.llvm.expressions import evaluate
from vyre.adapters.cpu.llvm.flow import assigned_in, twice, write_statement, write_statements
from vyre.adapters.cpu.llvm.group_ids import GroupIds
from vyre.adapters.cpu.llvm.lockstep import Lockstep
from vyre.adapters.cpu.llvm.regions import Kept, LaneMask, Regions, last_uses
from vyre.adapters.cpu.llvm.shapes import Agreement
from vyre.domain.ir import nodes as ir
from vyre.domain.ir.operators import BinaryOp
from vyre.domain.ir.types import ScalarType
from vyre.domain.ir.walk import containers, of_this_loop, unique_nodes


class Groups:
    """The workgroup-level text of one kernel."""

    def __init__(self, k: Kernel) -> None:
        self._k: Final = k
        self._regions: Final = Regions(k)
        body = k.program.body
        self._barriers: Final = containers(body, lambda stmt: isinstance(stmt, ir.Barrier))
        has_barrier = any(isinstance(s, ir.Barrier) for s in ir.walk_statements(body))
        self._in_steps: Final = k.chunks > 1 and has_barrier and not k.in_lockstep
        self._alive: LaneMask | None = None
        """The lanes that have not ended."""
        self._lane_assigned: Final[set[str]] = set()
        if self._in_steps:
            self._collect(body)
            if k.options.counting or self._ends_before_last(body):
                self._alive = LaneMask(k)

    # ---- the whole kernel
    def write(self) -> None:
        """Writes the loop over the workgroups."""
        k, w = self._k, self._k.w
        k.w.small = k.word(0)
        memory.reserve(k)
        if k.joined:
            self._write_joined()
            return
        begin = w.label("begin")
        some = w.pure("icmp ult i64 {}, {}", "%begin", "%end")
        w.branch(some, begin, "done")
        w.place(begin)
        before = w.reserve()
        entered = w.block
        w.open_loop("group")
        k.group = ids = GroupIds(w, k.word)
        number = w.here(f"phi i64 [ %begin, %{entered} ], [ %group.next, %group.latch ]")
        head = w.reserve()
        control.poll(k)
        memory.zero_shared(k)
        if (self._in_steps or k.in_lockstep) and memory.zeroes_private(k):
            self._regions.each_vector(lambda: memory.zero_private(k))
        if self._alive is not None:
            self._regions.each_vector(lambda: self._start_alive())
        if k.in_lockstep:
            Lockstep(k, self._regions).write()
        elif self._in_steps:
            k.write_statements = self._statements
            k.count_steps = self._count_steps if k.options.counting else None
            mark = k.locals.mark
            self._statements(k, k.program.body, 0)
            k.locals.leave(mark)
            k.write_statements = None
        else:
            self._regions.each_vector(lambda: self._whole())
        k.mask = None
        self._close_rounds("group", number, 1, "%end", lambda: ids.write(before, head, entered))

    def _write_joined(self) -> None:
        """Writes one loop over the lanes of all workgroups, whose vectors hold lanes of several of them.

        The stop flag is left to loops and to the caller, which hands out few workgroups at a time.
        """
        k, w = self._k, self._k.w
        first = w.pure(f"mul i64 {{}}, {k.size}", "%begin")
        last = w.pure(f"mul i64 {{}}, {k.size}", "%end")
        begin = w.label("begin")
        w.branch(w.pure("icmp ult i64 {}, {}", first, last), begin, "done")
        w.place(begin)
        before = w.block
        w.open_loop("lanes")
        counter = w.here(f"phi i64 [ {first}, %{before} ], [ %lanes.next, %lanes.latch ]")
        k.first_lane = w.pure("trunc i64 {} to i32", counter)
        if k.lanes > 1:
            iota = ", ".join(f"i64 {lane}" for lane in range(k.lanes))
            wide = k.vector_type("i64")
            numbers = w.pure(f"add {wide} {{}}, <{iota}>", k.splat("i64", counter))
            k.mask = w.pure(f"icmp ult {wide} {{}}, {{}}", numbers, k.splat("i64", last))
            k.note_bound(k.mask, ScalarType.U64, counter, last)
        self._whole()
        k.mask = None
        self._close_rounds("lanes", counter, k.lanes, last)

    def _close_rounds(self, loop: str, var: str, step: int, last: str, write: Callable[[], None] | None = None) -> None:
        """Ends the loop over workgroups or lanes, and the function; ``write`` writes more at the end of a round."""
        w = self._k.w
        w.jump(f"{loop}.latch")
        w.place(f"{loop}.latch")
        w.line(f"%{loop}.next = add i64 {var}, {step}")
        if write is not None:
            write()
        w.line(f"%{loop}.more = icmp ult i64 %{loop}.next, {last}")
        w.branch(f"%{loop}.more", loop, "done")
        w.close_loop("done")
        w.line("ret void")
        w.place("stopped")
        w.line("ret void")

    def _whole(self) -> None:
        k = self._k
        memory.zero_private(k)
        if k.mask is not None and (k.joined or k.size > k.lanes):
            twice(k, lambda: self._lanes(k.program.body), k.program.body)
        else:
            self._lanes(k.program.body)

    def _lanes(self, body: ir.Body) -> Flow:
        k = self._k
        mark = k.locals.mark
        flow = write_statements(k, body, 0)
        k.locals.leave(mark)
        return flow

    def _start_alive(self) -> None:
        assert self._alive is not None
        k = self._k
        self._alive.put(k, k.lane_mask())

    def _count_steps(self, loop: ir.Loop) -> str:
        """Counts a back edge for every lane that has not ended; returns an i1 that is true if one of them goes on."""
        k, alive = self._k, self._alive
        assert alive is not None

        def count() -> None:
            k.mask = k.both(k.mask, alive.load(k))
            alive.put(k, control.count(k, loop))

        alive.reset(k)
        self._regions.each_vector(count)
        return alive.any(k)

    # ---- between barriers
    def _statements(self, k: Kernel, body: ir.Body, first: int) -> Flow:
        """Writes the statements of a body from number ``first`` on, as the whole workgroup runs them."""
        k.write_statements = None
        outer = dict(self._regions.across)
        last = last_uses(body)
        run: list[ir.Stmt] = []
        flow = Flow.THROUGH
        for number in range(first, len(body)):
            stmt = body[number]
            if isinstance(stmt, ir.Let) and self._is_shared(stmt):
                self._group_let(stmt)
                continue
            if not isinstance(stmt, ir.Barrier) and not self._is_stepped(stmt):
                run.append(stmt)
                continue
            flow = self._region(run, last, number)
            run = []
            if flow is Flow.ENDED:
                break
            if isinstance(stmt, ir.Barrier):
                continue
            flow = self._step(stmt)
            if flow is Flow.PARTLY and number + 1 < len(body):
                following, end = k.w.label("some"), k.w.label("end")
                assert k.mask is not None
                mask = k.mask
                k.w.branch(k.any(mask), following, end)
                k.enter(following)
                k.mask = None
                self._statements(k, body, number + 1)
                k.w.jump(end)
                k.leave()
                k.w.place(end)
                k.forget(assigned_in(body))
                k.mask = mask
                run = []
                break
            if flow is not Flow.THROUGH:
                break
        if flow is Flow.THROUGH:
            flow = self._region(run, last, len(body))
        self._regions.across.clear()
        self._regions.across.update(outer)
        k.write_statements = self._statements
        return flow

    def _step(self, stmt: ir.Stmt) -> Flow:
        """Writes a statement of workgroup-level flow."""
        k = self._k
        mark = k.locals.mark
        self._declare_group_views()
        k.known.clear()
        if isinstance(stmt, ir.Let):
            value = evaluate(k, stmt.value)
            k.locals.leave(mark)
            slot = k.slot(value.dtype, is_uniform=True)
            k.write(slot, value)
            k.locals.declare(stmt.name, slot)
            return Flow.THROUGH
        k.write_statements = self._statements
        flow = write_statement(k, stmt)
        k.write_statements = None
        k.locals.leave(mark)
        return flow

    def _is_stepped(self, stmt: ir.Stmt) -> bool:
        """Returns whether a statement is workgroup-level flow."""
        k = self._k
        if isinstance(stmt, ir.Return):
            return True
        if isinstance(stmt, ir.Break | ir.Continue):
            return True
        if isinstance(stmt, ir.Assign):
            return isinstance(k.locals.get(stmt.name), AssignedLocal)
        if isinstance(stmt, ir.Let):
            return stmt.name in k.shapes.mutable and self._is_group_slot(stmt)
        if id(stmt) in self._barriers:
            return True
        if isinstance(stmt, ir.If | ir.Switch) and k.shapes.condition(stmt) is Agreement.WORKGROUP:
            leaves = any(isinstance(s, ir.Break | ir.Continue) for s in of_this_loop((stmt,)))
            return leaves or any(isinstance(s, ir.Return) for s in ir.walk_statements((stmt,)))
        if isinstance(stmt, ir.Block | ir.Region):
            return any(map(self._is_stepped, stmt.body))
        return False

    def _is_shared(self, stmt: ir.Let) -> bool:
        """Returns whether a local is one number for the whole workgroup, known before the lanes run."""
        k = self._k
        if stmt.name in k.shapes.mutable or k.shapes.local(stmt) is not Agreement.WORKGROUP:
            return False
        for node in unique_nodes((stmt.value,)):
            if isinstance(node, ir.Var) and node.name not in k.locals:
                return False
            if isinstance(node, ir.Load) and k.buffers[node.buffer].is_writable:
                return False
            if type(node) in ir.IMPURE:
                return False
        return True

    def _is_group_slot(self, stmt: ir.Let) -> bool:
        """Returns whether a variable is one number for the whole workgroup, assigned between the regions only."""
        return self._k.shapes.local(stmt) is Agreement.WORKGROUP and stmt.name not in self._lane_assigned

    def _group_let(self, stmt: ir.Let) -> None:
        k = self._k
        k.known.clear()
        k.locals.declare(stmt.name, evaluate(k, stmt.value))

    def _declare_group_views(self) -> None:
        """Lets workgroup-level expressions read kept locals: those of the first vector stand for all."""
        k = self._k
        k.chunk = "0"
        for name, across in self._regions.across.items():
            if isinstance(across, Kept):
                value = across.load(k)
                if not value.is_uniform:
                    kind = k.type_of(value)
                    value = k.uniform(value.dtype, k.w.pure(f"extractelement {kind} {{}}, i64 0", value.operand))
                k.locals.declare(name, value)
            else:
                k.known.clear()
                k.locals.declare(name, evaluate(k, across))

    def _region(self, run: list[ir.Stmt], last: dict[str, int], until: int) -> Flow:
        """Writes statements between barriers as a loop over the vectors; the result is ``THROUGH`` or ``ENDED``."""
        if not run:
            return Flow.THROUGH
        ends = (ir.Return, ir.Trap, ir.Loop) if self._k.options.counting else (ir.Return, ir.Trap)
        goes_on = self._regions.write(
            run,
            lambda name: last.get(name, -1) >= until,
            mask=self._alive,
            ends=any(isinstance(stmt, ends) for stmt in ir.walk_statements(tuple(run))),
            reach=self._reach,
        )
        return Flow.THROUGH if goes_on else Flow.ENDED

    def _reach(self, body: ir.Body) -> str:
        """Returns how many vectors a region can do anything in, an i64 operand; an empty text for all of them.

        It is less than all where every statement stands behind ``local id < bound`` along the only axis.
        """
        k, w = self._k, self._k.w
        if self._alive is not None or k.size != k.program.workgroup_size[0]:
            return ""
        bounds: list[ir.Expr | int] = []
        for stmt in body:
            if isinstance(stmt, ir.Let) and not any(type(n) in ir.ORDERED for n in unique_nodes((stmt.value,))):
                continue
            bound = _bound(stmt.condition) if isinstance(stmt, ir.If) and not stmt.otherwise else None
            if bound is None or (not isinstance(bound, int) and not self._is_known(bound)):
                return ""
            bounds.append(bound)
        most, fixed = "", 1
        mark = k.locals.mark
        self._declare_group_views()
        for bound in bounds:
            if isinstance(bound, int):
                fixed = max(fixed, min(-(-bound // k.lanes), k.chunks))
                continue
            k.known.clear()
            value = evaluate(k, bound)
            if not value.is_uniform:
                return ""
            wide = w.pure("zext i32 {} to i64", value.operand)
            count = w.pure(f"udiv i64 {{}}, {k.lanes}", w.pure(f"add i64 {{}}, {k.lanes - 1}", wide))
            most = _extreme(k, "umax", most, count) if most else count
        k.locals.leave(mark)
        if not most:
            return str(fixed)
        return _extreme(k, "umin", _extreme(k, "umax", most, str(fixed)), str(k.chunks))

    def _is_known(self, bound: ir.Expr) -> bool:
        """Returns whether a bound can be computed before a region: the lanes agree on it, and it reads no memory and no
        local of the region.
        """
        nodes = tuple(unique_nodes((bound,)))
        if any(type(n) in ir.ORDERED or _is_own(n) for n in nodes):
            return False
        names = [n.name for n in nodes if isinstance(n, ir.Var)]
        return all(name in self._k.locals for name in names) and not any(name in self._regions.across for name in names)

    # ---- analysis
    def _collect(self, body: ir.Body) -> None:
        """Collects the names that are assigned inside statements that one vector runs at a time."""
        for stmt in body:
            if isinstance(stmt, ir.Assign | ir.Let):
                continue
            if id(stmt) in self._barriers or isinstance(stmt, ir.Block | ir.Region):
                for nested in ir.bodies(stmt):
                    self._collect(nested)
            else:
                self._lane_assigned.update(assigned_in((stmt,)))

    def _ends_before_last(self, body: ir.Body) -> bool:
        """Returns whether lanes may end in another place than in the last region."""
        places = [n for n, stmt in enumerate(body) if id(stmt) in self._barriers or isinstance(stmt, ir.Barrier)]
        final = places[-1] if places else -1
        rest = body[final + 1 :]
        places_of_ends = body[: final + 1] if self._is_one_region(rest) else body
        return any(isinstance(s, ir.Return | ir.Trap) for s in ir.walk_statements(places_of_ends))

    def _is_one_region(self, body: ir.Body) -> bool:
        """Returns whether no statement of a body without barriers is workgroup-level flow, so that one region holds
        them all; a ``return`` at their end may be one.
        """
        for number, stmt in enumerate(body):
            if isinstance(stmt, ir.Assign) or (isinstance(stmt, ir.Let) and stmt.name in self._k.shapes.mutable):
                return False
            if isinstance(stmt, ir.If | ir.Switch) and self._k.shapes.condition(stmt) is Agreement.WORKGROUP:
                return False
            if isinstance(stmt, ir.Block | ir.Region) and not self._is_one_region(stmt.body):
                return False
            if isinstance(stmt, ir.Return) and number + 1 < len(body):
                return False
        return True


def _is_own(node: ir.Expr) -> bool:
    """Returns whether a node has a number of its own for each lane."""
    return isinstance(node, ir.SubgroupLane) or (
        isinstance(node, ir.LaunchId) and node.kind in (ir.IdKind.LOCAL, ir.IdKind.GLOBAL)
    )


def _extreme(k: Kernel, which: str, one: str, other: str) -> str:
    return k.w.call("i64", f"{which}.i64", ("i64", one), ("i64", other))


def _bound(condition: ir.Expr) -> ir.Expr | int | None:
    """Returns the u32 bound of a condition that implies ``local id < bound`` along x, or None."""
    if not isinstance(condition, ir.Binary):
        return None
    op, left, right = condition.op, condition.left, condition.right
    if op is BinaryOp.AND:
        left_bound = _bound(left)
        return left_bound if left_bound is not None else _bound(right)
    if op is BinaryOp.GT:
        op, left, right = BinaryOp.LT, right, left
    if not (isinstance(left, ir.LaunchId) and left.kind is ir.IdKind.LOCAL and left.axis == 0):
        return None
    if op is BinaryOp.LT:
        return right.bits if isinstance(right, ir.Literal) else right
    if op is BinaryOp.EQ and isinstance(right, ir.Literal):
        return right.bits + 1
    return None
