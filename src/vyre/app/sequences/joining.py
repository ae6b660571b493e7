"""Steps that are joined to one launch, and the order in which most of them can be."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from vyre.app.fusing import FusionLimits, plan_groups
from vyre.app.resident_dispatch import BoundWork
from vyre.app.sequences.description import Work, WorkPart, WorkStep
from vyre.app.sequences.execution import Launch
from vyre.app.sequences.host_steps import HOST_STEP, HostCall
from vyre.app.sequences.structure import Structure, Unit, alone, structure_of
from vyre.app.sequences.temporary import TemporaryBuffer
from vyre.domain.analysis.lane_facts import lane_facts
from vyre.domain.binding import plan_bindings
from vyre.domain.device import DeviceProfile
from vyre.domain.dispatch import DispatchConfig
from vyre.domain.fusion.examination import live_locals
from vyre.domain.fusion.rounds import LoopArgument, join_rounds
from vyre.domain.fusion.stages import CannotJoin, JoinedStages, StageBarrier, StageCall
from vyre.domain.ir.bake import parameter_literal
from vyre.domain.ir.expr import Literal
from vyre.domain.launch import Launch as Launched
from vyre.domain.launch_costs import LaunchCosts
from vyre.domain.specialization import spec_literals
from vyre.policies.journal import DecisionSink
from vyre.ports.requests import ResidentStep, Resource
from vyre.ports.resident_buffer import ResidentBuffer

_OWN: Final = (
    ("step_budget", "it has a step budget"),
    ("timeout_s", "it has a timeout"),
    ("race_check", "it is checked for races"),
    ("cooperative", "its config asks for a cooperative launch"),
    ("profile", "its config names a profile"),
    ("ulp_budget", "its config has an error budget"),
    ("max_output_bytes", "its config bounds the bytes of its outputs"),
    ("speculation", "its config asks for speculation"),
    ("persistent_thread", "its config asks for persistent threads"),
)


def joined(work: Work, limits: FusionLimits, sink: DecisionSink | None = None) -> Structure:
    """Returns the structure in which neighbours are joined as the policies of fusion decide, within ``limits``.

    ``sink`` receives the decisions.
    """
    users = {key: set(use.steps) for key, use in work.temporaries.items() if use.fresh}
    join = _Joiner(users, partly_shared(_bound_by(step.step for step in work.steps)), limits, sink)
    return structure_of(join.units(work.first), [(join.units(part), part) for part in work.parts])


def limits_of(profile: DeviceProfile, costs: LaunchCosts, *, forced: bool) -> FusionLimits:
    """Returns what bounds a launch on a device; ``forced``: steps are joined wherever the bytes stay the same."""
    usual = FusionLimits()
    launch = costs.launch
    return FusionLimits(
        shared_nbytes=profile.max_shared_memory_bytes or usual.shared_nbytes,
        most_lanes=profile.max_invocations_per_workgroup or usual.most_lanes,
        most_groups=profile.max_grid_size,
        grid_barriers=forced,
        eager=forced,
        launch_ns=float(launch.median_ns) if launch is not None else usual.launch_ns,
        bytes_per_ns=float(profile.mem_bw_gbps or usual.bytes_per_ns),
    )


def partly_shared(memory: Iterable[Resource]) -> frozenset[Range]:
    """Returns the resident memory among this that overlaps with other such memory, without being equal.

    The bytes that stages of one launch share are known by the identity of their memory, which overlapping ranges have
    none of.
    """
    ranges = {range_of(each) for each in memory if isinstance(each, ResidentBuffer) and each.nbytes}
    overlapping: set[Range] = set()
    widest = Range(0, 0, 0)  # the range before that reaches furthest
    for one in sorted(ranges):
        if one.root != widest.root:
            widest = one
            continue
        if one.start < widest.stop:
            overlapping |= {one, widest}
        if one.stop > widest.stop:
            widest = one
    return frozenset(overlapping)


def _bound_by(steps: Iterable[ResidentStep]) -> Iterable[Resource]:
    return (resource for step in steps for resource in step.resources)


class Range(NamedTuple):
    """The bytes of an allocation, which is known by its identity, from ``start`` to ``stop``."""

    root: int
    start: int
    stop: int


def range_of(buffer: ResidentBuffer) -> Range:
    """Returns the bytes of a handle."""
    return Range(id(buffer.root), buffer.offset, buffer.offset + buffer.nbytes)


def stays_apart(step: WorkStep, partly: Collection[Range] = ()) -> str:
    """Returns why a step is never joined whatever its program is, or an empty text; ``partly``: ``partly_shared``."""
    if step.kernels > 1:
        return "its config asks for several launches"
    return _stands_alone(step.step, partly)


def _stands_alone(step: ResidentStep, partly: Collection[Range], *but: str) -> str:
    """Returns why a step is a launch of its own, or an empty text; the fields ``but`` of its config do not matter."""
    if isinstance(step, HostCall):
        return HOST_STEP
    if any(isinstance(resource, ResidentBuffer) and resource.shares_memory for resource in step.resources):
        return "it uses memory of another library, which other arrays may share"
    if any(isinstance(resource, ResidentBuffer) and range_of(resource) in partly for resource in step.resources):
        return "it uses a part of an array that overlaps with a part that another step uses"
    reasons = (why for name, why in _OWN if name not in but and getattr(step.config, name) not in (None, False))
    return next(reasons, "")


class JoinedRound(NamedTuple):
    """A step that runs all rounds of other steps.  ``barriers``: those of the grid in a round, beside that at its end.

    The number of rounds run goes to the first u32 of the memory that it was made with.
    """

    step: ResidentStep
    barriers: int


def joined_rounds(
    works: Sequence[BoundWork], flag: ResidentBuffer, limit: int, rounds: ResidentBuffer, limits: FusionLimits
) -> JoinedRound | str:
    """Returns one step that repeats these until they leave the u32 in ``flag`` at 0, at most ``limit`` times, or why
    there is none.
    """
    stages: list[StageCall] = []
    launches: list[ResidentStep] = []
    partly = partly_shared((flag, *_bound_by(work.step for work in works)))
    for number, (step, launch, *_) in enumerate(works):
        if why := _stands_alone(step, partly, "timeout_s"):
            return f"step {number} is a launch of its own: {why}"
        stages += [stage_of(step, launch, number)] * step.config.launches
        launches += [step] * step.config.launches
        if len(stages) > limits.most_stages:
            return f"a round has more than {limits.most_stages} launches"
    round_ = join_rounds(stages, range_of(flag))
    if isinstance(round_, CannotJoin):
        return f"launch {round_.stage} of a round cannot be joined to those before: {round_.reason}"
    if any(n > most for n, most in zip(round_.grid, limits.most_groups or round_.grid, strict=True)):
        return f"the launch would have {round_.grid} workgroups"
    if (live := live_locals(round_.program)) > limits.most_live:
        return f"{live} locals of a lane would be alive at once"
    own: dict[LoopArgument, Resource] = {
        LoopArgument.FLAG: flag,
        LoopArgument.LIMIT: memoryview(limit.to_bytes(4, "little")),
        LoopArgument.ROUNDS: rounds,
    }
    resources = [
        own[argument] if isinstance(argument, LoopArgument) else launches[argument[0]].resources[argument[1]]
        for argument in round_.arguments
    ]
    timeouts = [step.config.timeout_s for step in launches if step.config.timeout_s is not None]
    config = DispatchConfig(grid=round_.grid, timeout_s=min(timeouts, default=None))
    return JoinedRound(ResidentStep(round_.program, tuple(resources), config), round_.barriers)


class _Joiner:
    """Joins the steps of one sequence.

    ``users``: the steps of each temporary array of which no older content is read; it needs no memory if all of them
    are in one launch.  ``partly``: the memory that ``partly_shared`` found.
    """

    def __init__(
        self, users: Mapping[int, set[int]], partly: Collection[Range], limits: FusionLimits, sink: DecisionSink | None
    ) -> None:
        self._users, self._partly, self._limits, self._sink = users, partly, limits, sink

    def units(self, part: WorkPart) -> tuple[Unit, ...]:
        """Returns the launches of a part: in the order of the list, or in another if that needs fewer of them."""
        usual = self._in_order(part.steps)
        if len(usual) < 3 or len(part.steps) < 3:
            return usual
        order = _gathered(part)
        if order is None:
            return usual
        other = self._in_order([part.steps[place] for place in order])
        return other if len(other) < len(usual) else usual

    def _in_order(self, steps: Sequence[WorkStep]) -> tuple[Unit, ...]:
        numbers = {step.number for step in steps}
        groups = plan_groups(
            [stage_of(step.step, step.work.launch, step.number) for step in steps],
            [key for key, users in self._users.items() if users <= numbers],
            alone={place: reason for place, step in enumerate(steps) if (reason := stays_apart(step, self._partly))},
            limits=self._limits,
            sink=self._sink,
        )
        units: list[Unit] = []
        for group in groups:
            if group.joined is None:
                why = f"apart from the launch before: {group.why}" if units else "a launch of its own"
                units += (alone(steps[place], why) for place in group.stages)
            else:
                units.append(_unit([steps[place] for place in group.stages], group.joined))
        return tuple(units)


def stage_of(step: ResidentStep, launch: Launched, number: int) -> StageCall:
    """Returns a launch for joining; ``number`` tells its host bytes from those of others."""
    program = step.program
    identities: list[Hashable] = []
    nbytes: list[int] = []
    values: dict[str, Literal] = {}
    for position, (binding, resource) in enumerate(zip(plan_bindings(program).bindings, step.resources, strict=True)):
        nbytes.append(resource.nbytes)
        if isinstance(resource, ResidentBuffer):
            identities.append(id(resource) if isinstance(resource, TemporaryBuffer) else range_of(resource))
            continue
        identities.append((number, position))
        if binding.buffer.is_push:
            values[binding.buffer.name] = parameter_literal(program, binding.buffer.name, bytes(resource))
    spec = step.config.spec
    literals = spec_literals(program, spec) if spec else {}
    return StageCall(
        program, launch.grid, launch.workgroup, launch.counts, tuple(identities), values, literals, tuple(nbytes)
    )


_BETWEEN: Final = {
    StageBarrier.NONE: "values pass in registers or memory of the same lane",
    StageBarrier.WORKGROUP: "workgroups wait between stages",
    StageBarrier.GRID: "all workgroups wait between stages",
}


def _unit(group: Sequence[WorkStep], program: JoinedStages) -> Unit:
    resources = tuple(group[stage].step.resources[position] for stage, position in program.arguments)
    step = ResidentStep(program.program, resources, DispatchConfig(grid=program.grid))
    sizes = tuple(group[stage].work.launch.nbytes[position] for stage, position in program.arguments)
    widest = max(program.barriers, key=lambda barrier: barrier.value, default=StageBarrier.NONE)
    return Unit(
        Launch(step, 1, sum(sizes)),
        tuple(one.place for one in group),
        f"{len(group)} steps are one launch; {_BETWEEN[widest]}",
        sizes,
        frozenset(key for key in program.unallocated if isinstance(key, int)),
    )


# ---------------------------------------------------------------- the order
def _gathered(part: WorkPart) -> list[int] | None:
    """Returns an order in which steps that share memory stand together, or None where the order is to stay.

    It keeps every order that memory or the caller requires.  Steps that may fail keep all steps before and after them
    where they are, because a failure leaves what was written until then.
    """
    before = [set(own) | set(stated) for own, stated in zip(part.order.predecessors, part.stated, strict=True)]
    last = -1
    for place, step in enumerate(part.steps):
        if stays_apart(step) or lane_facts(step.step.program).traps:
            before[place] |= set(range(place))
            last = place
        elif last >= 0:
            before[place].add(last)
    memory = [{access.resource for access in step.accesses} for step in part.steps]
    left = list(range(len(part.steps)))
    order: list[int] = []
    done: set[int] = set()
    used: set[int] = set()
    while left:
        ready = [place for place in left if before[place] <= done]
        chosen = next((place for place in ready if memory[place] & used), ready[0])
        if not memory[chosen] & used:
            used = set()
        used |= memory[chosen]
        order.append(chosen)
        done.add(chosen)
        left.remove(chosen)
    return None if order == sorted(order) else order
