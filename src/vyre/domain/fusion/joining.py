"""``join_stages``: launches that run one after the other as one program.

1. Every stage is written in the words of one program: locals, constants and buffers get names of their own, an array
   that several stages use becomes one buffer, ``return`` becomes a guard, and so does the grid of a stage that is
   smaller than that of the others.
2. One traversal finds the elements that the lanes of all stages access, and from them what must stand between two
   stages: nothing, a barrier of the workgroup, or one of the grid.
3. Stages under equal guards share one branch, loads of what the lane has stored become the stored value, and stores
   to temporaries that nobody reads any more vanish.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from math import prod
from typing import Final, NamedTuple

from vyre.domain.analysis.lane_facts import lane_facts
from vyre.domain.fusion.dependences import Dependences, place_barriers, stage_accesses
from vyre.domain.fusion.examination import ExaminedStages, examine
from vyre.domain.fusion.forwarding import Forwarding, read_buffers, without_overwritten, without_stores
from vyre.domain.fusion.guards import merge_guards
from vyre.domain.fusion.indices import Indices
from vyre.domain.fusion.memory import Joined
from vyre.domain.fusion.outputs import covers, place_zeroing
from vyre.domain.fusion.returns import without_returns
from vyre.domain.fusion.rewriting import Rewriter, map_body
from vyre.domain.fusion.shared import in_workgroup_memory, shared_arrays
from vyre.domain.fusion.stages import CannotJoin, JoinedStages, Refused, StageBarrier, StageCall
from vyre.domain.fusion.words import StageWords, check_stage
from vyre.domain.grid_sync import fresh_names
from vyre.domain.ir.expr import Binary, BufferLength, Expr, IdKind, LaunchId, Literal
from vyre.domain.ir.operators import BinaryOp, Ordering
from vyre.domain.ir.program import Program
from vyre.domain.ir.rebuilding import rebuilt
from vyre.domain.ir.stmt import Barrier, Body, If, Stmt
from vyre.domain.ir.types import ScalarType
from vyre.domain.names import Dim3
from vyre.domain.record import U32_MAX
from vyre.domain.validation.validator import check_rules

_BARRIERS: Final = {
    StageBarrier.NONE: (),
    StageBarrier.WORKGROUP: (Barrier(),),
    StageBarrier.GRID: (Barrier(Ordering.GRID_SYNC),),
}
SHARED_NBYTES: Final = 16 << 10
"""The bytes of workgroup memory in which temporaries live, unless a caller says otherwise."""
_MOST_FORWARDED: Final = 1 << 31
"""The elements of the largest array of which values are forwarded: a negative index is none of a larger one's."""
_NEEDS_BARRIER: Final = frozenset({"V036", "V123"})
"""Rules that the stages without the barriers between them need not keep."""


def join_stages(
    stages: Sequence[StageCall], temporary: Collection[Hashable] = (), *, shared_nbytes: int = SHARED_NBYTES
) -> JoinedStages | CannotJoin:
    """Returns one program for launches that run in this order, or why there is none.

    ``temporary`` holds the identities of arrays whose content nobody reads after the stages, and whose content before
    them does not matter.  Those that pass values inside workgroups live in workgroup memory, of which the program has
    at most ``shared_nbytes`` beside what the stages declare themselves.  The programs must be valid
    (``InvalidProgram``).
    """
    if not stages:
        return CannotJoin("there is no stage", 0)
    try:
        return _Joining(stages, frozenset(temporary)).result(shared_nbytes)
    except Refused as refused:
        return CannotJoin(refused.reason, refused.stage)


def examine_stages(stages: Sequence[StageCall]) -> ExaminedStages | CannotJoin:
    """Returns the accesses of stages to each other's memory, or why they cannot be compared.

    The programs must be valid (``InvalidProgram``).
    """
    if not stages:
        return CannotJoin("there is no stage", 0)
    try:
        return _Joining(stages, frozenset()).examined()
    except Refused as refused:
        return CannotJoin(refused.reason, refused.stage)


def outputs_to_zero(call: StageCall) -> tuple[int, ...]:
    """Returns the outputs of a launch, by position among its bindings, of which some element may keep the zero that
    the launch puts there.  Raises ``Refused`` for a program that is never joined.
    """
    if not any(buffer.is_output for buffer in call.program.abi_buffers):
        return ()
    joining = _Joining((call,), frozenset())
    analysis = joining.analysed()
    memory = joining.memory
    return tuple(
        position
        for position, buffer in enumerate(call.program.abi_buffers)
        if buffer.is_output
        and not covers(call, memory.of[0, position], memory.of[0, position].first, analysis.bare[0], analysis.indices)
    )


class _Analysed(NamedTuple):
    """``bare`` and ``bodies``: the stages without and with guards of their grids."""

    bare: list[Body]
    bodies: list[Body]
    indices: Indices
    dependences: Dependences


class _Joining:
    def __init__(self, stages: Sequence[StageCall], temporary: frozenset[Hashable]) -> None:
        self._stages = stages
        self._temporary = temporary
        for number, call in enumerate(stages):
            check_stage(number, call)
        self._workgroup = _common_workgroup(stages)
        self._grid = _common_grid(stages, self._workgroup)
        self._words = StageWords(stages, temporary)
        self.memory = self._words.memory
        self._last = len(stages) - 1

    # ---- the words of one program
    def _rewritten(self, stage: int) -> Body:
        """Returns the body of a stage in the words of the joined program, without a guard for its grid."""
        call = self._stages[stage]
        program = call.program
        other_shape = call.workgroup != self._workgroup
        rewriter = Rewriter(
            stage,
            self._words.views(stage),
            self._words.names,
            call.spec,
            call.grid if other_shape or call.grid != self._grid else None,
            call.workgroup if other_shape else None,
        )
        return rewriter.body(without_returns(program.body, *fresh_names(program, "ended")))

    def _guarded(self, stage: int, body: Body) -> Body:
        condition = self._guard(stage)
        return body if condition is None else (If(condition, body),)

    def _guard(self, stage: int) -> Expr | None:
        """Returns the condition for the lanes that the stage's own launch has, or None if all may run it."""
        call = self._stages[stage]
        same_shape = call.workgroup == self._workgroup
        kind = IdKind.GROUP if same_shape else IdKind.GLOBAL
        own = call.grid if same_shape else _lanes(call)
        whole = self._grid if same_shape else _product(self._grid, self._workgroup)
        axes = [axis for axis in range(3) if own[axis] < whole[axis]]
        if axes == [0]:
            lengths = {b.name: b.count for b in call.program.buffers if not b.is_bound}
            lengths |= {b.name: n for b, n in zip(call.program.abi_buffers, call.counts, strict=True)}
            active = lane_facts(call.program).active_lanes(lengths)
            if active is not None and active <= _lanes(call)[0]:
                return None  # the stage's own conditions keep the other lanes out
        condition: Expr | None = None
        for axis in axes:
            inside = Binary(BinaryOp.LT, LaunchId(kind, axis), Literal(ScalarType.U32, own[axis]))
            condition = inside if condition is None else Binary(BinaryOp.AND, condition, inside)
        return condition

    # ---- the joined program
    def analysed(self) -> _Analysed:
        """Returns the stages in the words of one program, with what their accesses say."""
        bare = [self._rewritten(stage) for stage in range(len(self._stages))]
        return self._analysis(bare, [self._guarded(stage, body) for stage, body in enumerate(bare)])

    def _analysis(self, bare: list[Body], bodies: list[Body]) -> _Analysed:
        bound = [joined for joined in self.memory.all if id(joined) not in self._words.values]
        plain = self._words.program(tuple(stmt for body in bodies for stmt in body), bound, self._workgroup)
        self._check(plain, but=_NEEDS_BARRIER)
        lengths = {joined.name: joined.length for joined in self.memory.all if not joined.is_parameter}
        indices = Indices(plain, self._grid, lengths, self._known_integers())
        groups = prod(self._grid)
        dependences = Dependences(
            [stage_accesses(body, indices) for body in bodies], indices, groups, groups * prod(self._workgroup)
        )
        return _Analysed(bare, bodies, indices, dependences)

    def _known_integers(self) -> dict[str, int]:
        """Returns the parameters that are known integers of 32 bits, by their names in the joined program."""
        integers: dict[str, int] = {}
        for joined in self.memory.all:
            if joined.is_parameter and id(joined) not in self._words.values:
                value = self._stages[joined.first.stage].values.get(joined.first.buffer.name)
                if value is not None and value.dtype in (ScalarType.U32, ScalarType.I32):
                    integers[joined.name] = value.bits
        return integers

    def examined(self) -> ExaminedStages:
        """Returns what decisions about the stages need."""
        bare, _, indices, dependences = self.analysed()
        return examine(self._stages, self.memory, self._workgroup, bare, indices, dependences)

    def result(self, shared_nbytes: int) -> JoinedStages:
        """Returns the joined program.  Raises ``Refused``."""
        bare, bodies, indices, dependences = self.analysed()
        barriers = place_barriers(len(bodies), dependences)
        place_zeroing(self._stages, self.memory, bare, indices)
        names = self._words.names
        shared = shared_arrays(self.memory, bodies, barriers, indices, self._temporary, names, shared_nbytes)
        if shared:
            self._words.unbound += [array.held for array in shared.values()]
            moved = [in_workgroup_memory(body, shared, indices) for body in bodies]
            bare, bodies, indices, dependences = self._analysis(bare, moved)
        pointwise = {
            joined.name: joined.element
            for joined in self.memory.all
            if joined.is_written and joined.length <= _MOST_FORWARDED and dependences.is_pointwise(joined.name)
        }
        atomics = {access.buffer for access in indices.accesses.values() if access.atomic is not None}
        for name in atomics:
            pointwise.pop(name, None)
        body = self._joined_body(bodies, barriers, indices, pointwise)
        kept = self._kept(body)
        dropped = {joined.name for joined in self.memory.all} - {joined.name for joined in kept}
        body = self._with_lengths(without_stores(body, dropped), kept)
        program = self._words.program(body, kept, self._workgroup)
        self._check(program)
        if check_rules(program).order_sensitive:
            raise Refused("together with the stages before, its result depends on the order of atomics", self._last)
        return JoinedStages(
            program,
            self._grid,
            tuple((joined.first.stage, joined.first.position) for joined in kept),
            frozenset(joined.identity for joined in self.memory.all if joined.name in dropped),
            barriers,
        )

    def _check(self, program: Program, but: frozenset[str] = frozenset()) -> None:
        error = next((error for error in check_rules(program).errors if error.code not in but), None)
        if error is not None:
            raise Refused(f"the joined program is not valid: [{error.code}] {error.message}", self._last)

    def _joined_body(
        self,
        bodies: Sequence[Body],
        barriers: Sequence[StageBarrier],
        indices: Indices,
        pointwise: dict[str, ScalarType],
    ) -> Body:
        runs: list[Body] = [bodies[0]]
        for barrier, body in zip(barriers, bodies[1:], strict=True):
            if barrier is StageBarrier.NONE:
                runs[-1] += body
            else:
                runs += (_BARRIERS[barrier], body)
        written = {joined.name for joined in self.memory.all if joined.is_written}
        written |= {buffer.name for buffer in self._words.unbound}
        forwarding = Forwarding(indices, pointwise, self._words.names)
        statements: list[Stmt] = []
        for run in runs:
            merged = merge_guards(run, indices, written)
            statements += forwarding.cleaned(without_overwritten(forwarding.body(merged, {}), pointwise))
        return tuple(statements)

    def _kept(self, body: Body) -> list[Joined]:
        """Returns the buffers that need memory: all but temporaries that nobody reads, and constant parameters."""
        read = read_buffers(body)
        return [
            joined
            for joined in self.memory.all
            if id(joined) not in self._words.values
            and (joined.is_parameter or joined.identity not in self._temporary or joined.name in read)
        ]

    def _with_lengths(self, body: Body, kept: Sequence[Joined]) -> Body:
        """Returns a body that asks for the lengths of no buffer but those that are kept."""
        stays = {joined.name for joined in kept}
        by_length = {joined.length: joined.name for joined in reversed(kept) if not joined.is_parameter}
        gone: dict[str, Expr] = {}
        for joined in self.memory.all:
            if joined.name not in stays and not joined.is_parameter:
                name = by_length.get(joined.length)
                gone[joined.name] = Literal(ScalarType.U32, joined.length) if name is None else BufferLength(name)
        if not gone:
            return body

        def rule(node: Expr) -> Expr:
            return gone.get(node.buffer, node) if isinstance(node, BufferLength) else node

        return map_body(body, lambda expr, known: rebuilt(expr, rule, known), lambda stmt: stmt)


def _lanes(call: StageCall) -> Dim3:
    return _product(call.grid, call.workgroup)


def _product(left: Dim3, right: Dim3) -> Dim3:
    return left[0] * right[0], left[1] * right[1], left[2] * right[2]


def _common_workgroup(stages: Sequence[StageCall]) -> Dim3:
    """Returns the workgroup of the joined program: that of the stages whose lanes work in groups, if they agree."""
    shapes = {call.workgroup for call in stages}
    if len(shapes) == 1:
        return stages[0].workgroup
    bound: Dim3 | None = None
    for number, call in enumerate(stages):
        facts = lane_facts(call.program)
        what = None
        if facts.barriers:
            what = "barriers"
        elif facts.subgroup_operations:
            what = "subgroup operations"
        elif facts.workgroup_memory:
            what = "workgroup memory"
        elif facts.shared_writes:
            what = "elements that several lanes may write"
        if what is None:
            continue
        if bound is not None and call.workgroup != bound:
            raise Refused(f"it has {what} and other workgroups than the stages before", number)
        bound = call.workgroup
    return bound or stages[0].workgroup


def _common_grid(stages: Sequence[StageCall], workgroup: Dim3) -> Dim3:
    """Returns the workgroups that cover the lanes of all stages along each axis."""
    groups = [1, 1, 1]
    most = 0
    for number, call in enumerate(stages):
        lanes = _lanes(call)
        most = max(most, prod(lanes))
        for axis in range(3):
            groups[axis] = max(groups[axis], -(-lanes[axis] // workgroup[axis]))
            if groups[axis] * workgroup[axis] > U32_MAX + 1:
                raise Refused("the ids of its lanes would not fit 32 bits in larger workgroups", number)
        if prod(groups) * prod(workgroup) > 2 * (most + prod(workgroup)):
            raise Refused("its grid has another shape than those of the stages before", number)
    return groups[0], groups[1], groups[2]
