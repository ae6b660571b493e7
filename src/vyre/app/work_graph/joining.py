"""Steps that are joined to one launch, and the order in which most of them can be."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from vyre.app.fusing import FusionLimits, plan_groups
from vyre.app.work_graph.description import Work, WorkPart, WorkStep
from vyre.app.work_graph.execution import Launch
from vyre.app.work_graph.structure import Structure, Unit, alone, structure_of
from vyre.domain.analysis.lane_facts import lane_facts
from vyre.domain.binding import plan_bindings
from vyre.domain.dispatch import DispatchConfig
from vyre.domain.fusion.stages import JoinedStages, StageBarrier, StageCall
from vyre.domain.ir.bake import parameter_literal
from vyre.domain.specialization import spec_literals
from vyre.ports.backend import ResidentBuffer, ResidentStep

if TYPE_CHECKING:
    from vyre.domain.device import DeviceProfile
    from vyre.domain.ir.expr import Literal
    from vyre.domain.launch_costs import LaunchCosts
    from vyre.policies.journal import DecisionSink

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
    join = _Joiner(users, limits, sink)
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


def stays_apart(step: WorkStep) -> str:
    """Returns why a step is never joined whatever its program is, or an empty text."""
    config = step.step.config
    if step.kernels > 1:
        return "its config asks for several launches"
    if any(isinstance(resource, ResidentBuffer) and resource.shares_memory for resource in step.step.resources):
        return "it uses memory of another library, which other arrays may share"
    return next((why for name, why in _OWN if getattr(config, name) not in (None, False)), "")


class _Joiner:
    """Joins the steps of one work graph.

    ``users``: the steps of each temporary array of which no older content is read; it needs no memory if all of them
    are in one launch.
    """

    def __init__(self, users: Mapping[int, set[int]], limits: FusionLimits, sink: DecisionSink | None) -> None:
        self._users, self._limits, self._sink = users, limits, sink

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
            [_call(step) for step in steps],
            [key for key, users in self._users.items() if users <= numbers],
            alone={place: reason for place, step in enumerate(steps) if (reason := stays_apart(step))},
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


def _call(step: WorkStep) -> StageCall:
    program, launch = step.step.program, step.work.launch
    identities: list[Hashable] = []
    nbytes: list[int] = []
    values: dict[str, Literal] = {}
    for position, (binding, resource) in enumerate(
        zip(plan_bindings(program).bindings, step.step.resources, strict=True)
    ):
        nbytes.append(resource.nbytes)
        if isinstance(resource, ResidentBuffer):
            identities.append(id(resource))
            continue
        identities.append((step.number, position))
        if binding.buffer.is_push:
            values[binding.buffer.name] = parameter_literal(program, binding.buffer.name, bytes(resource))
    spec = step.step.config.spec
    literals = spec_literals(program, spec) if spec else {}
    return StageCall(
        program, launch.grid, launch.workgroup, launch.counts, tuple(identities), values, literals, tuple(nbytes)
    )


_BETWEEN: Final = {
    StageBarrier.NONE: "values pass in registers or memory of the same lane",
    StageBarrier.WORKGROUP: "workgroups wait between stages",
    StageBarrier.GRID: "all workgroups wait between stages",
}


def _unit(group: Sequence[WorkStep], found: JoinedStages) -> Unit:
    resources = tuple(group[stage].step.resources[position] for stage, position in found.arguments)
    step = ResidentStep(found.program, resources, DispatchConfig(grid=found.grid))
    nbytes = sum(group[stage].work.launch.nbytes[position] for stage, position in found.arguments)
    widest = max(found.barriers, key=lambda barrier: barrier.value, default=StageBarrier.NONE)
    return Unit(
        Launch(step, 1, nbytes),
        tuple(one.place for one in group),
        f"{len(group)} steps are one launch; {_BETWEEN[widest]}",
        frozenset(key for key in found.unallocated if isinstance(key, int)),
    )


# ---------------------------------------------------------------- the order
def _gathered(part: WorkPart) -> list[int] | None:
    """Returns an order in which steps that share memory stand together, or None where the order is to stay.

    It keeps every order that memory or the caller requires.  Steps that may fail keep all steps before and after them
    where they are, because a failure leaves what was written until then.
    """
    before = [set(found) | set(stated) for found, stated in zip(part.order.predecessors, part.stated, strict=True)]
    last = -1
    for place, step in enumerate(part.steps):
        if _may_fail(step):
            before[place] |= set(range(place))
            last = place
        elif last >= 0:
            before[place].add(last)
    memory = [{access.resource for access in step.accesses} for step in part.steps]
    left = list(range(len(part.steps)))
    order: list[int] = []
    done: set[int] = set()
    held: set[int] = set()
    while left:
        ready = [place for place in left if before[place] <= done]
        chosen = next((place for place in ready if memory[place] & held), ready[0])
        if not memory[chosen] & held:
            held = set()
        held |= memory[chosen]
        order.append(chosen)
        done.add(chosen)
        left.remove(chosen)
    return None if order == sorted(order) else order


def _may_fail(step: WorkStep) -> bool:
    return bool(stays_apart(step)) or lane_facts(step.step.program).traps
