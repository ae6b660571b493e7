"""Steps that are joined to one launch, and the order in which most of them can be."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Final

from vyre.app.work_graph.description import Work, WorkPart, WorkStep
from vyre.app.work_graph.execution import Launch
from vyre.app.work_graph.structure import Structure, Unit, alone, structure_of
from vyre.domain.analysis.lane_facts import lane_facts
from vyre.domain.binding import plan_bindings
from vyre.domain.dispatch import DispatchConfig
from vyre.domain.fusion.joining import join_stages
from vyre.domain.fusion.stages import CannotJoin, JoinedStages, StageBarrier, StageCall
from vyre.domain.ir.bake import parameter_literal
from vyre.domain.specialization import spec_literals
from vyre.ports.backend import ResidentBuffer, ResidentStep

if TYPE_CHECKING:
    from vyre.domain.ir.expr import Literal

MOST: Final = 16
"""The most steps of one launch; longer programs take registers and time to compile, and save little more."""
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


def joined(work: Work, *, grid_barriers: bool) -> Structure:
    """Returns the structure in which neighbours are joined wherever the bytes stay the same.

    ``grid_barriers``: stages are joined too where all workgroups must wait for each other between them.
    """
    users = {key: set(use.steps) for key, use in work.temporaries.items() if use.fresh}
    first = _units(work.first, users, grid_barriers)
    return structure_of(first, [(_units(part, users, grid_barriers), part) for part in work.parts])


def stays_apart(step: WorkStep) -> str:
    """Returns why a step is never joined whatever its program is, or an empty text."""
    config = step.step.config
    if step.kernels > 1:
        return "its config asks for several launches"
    return next((why for name, why in _OWN if getattr(config, name) not in (None, False)), "")


def _units(part: WorkPart, users: dict[int, set[int]], grid_barriers: bool) -> tuple[Unit, ...]:
    """Returns the launches of a part: in the order of the list, or in another if that needs fewer of them."""
    usual = _joined_in_order(part.steps, users, grid_barriers)
    if len(usual) < 3 or len(part.steps) < 3:
        return usual
    order = _gathered(part)
    if order is None:
        return usual
    other = _joined_in_order([part.steps[place] for place in order], users, grid_barriers)
    return other if len(other) < len(usual) else usual


def _joined_in_order(steps: Sequence[WorkStep], users: dict[int, set[int]], grid_barriers: bool) -> tuple[Unit, ...]:
    units: list[Unit] = []
    start = 0
    why = "a launch of its own"
    while start < len(steps):
        group, reason = _group(steps, start, users, grid_barriers)
        if group is None:
            units.append(alone(steps[start], why))
            start += 1
        else:
            units.append(group)
            start += len(group.places)
        why = reason
    return tuple(units)


def _group(
    steps: Sequence[WorkStep], start: int, users: dict[int, set[int]], grid_barriers: bool
) -> tuple[Unit | None, str]:
    """Returns the launch of the steps from ``start`` on that can be joined, or None, and what ended it."""
    most = start
    reason = ""
    while most < min(len(steps), start + MOST) and not (reason := stays_apart(steps[most])):
        most += 1
    reason = f"apart from the launch before: {reason}" if reason else "the launch before is full"
    while most - start > 1:
        group = steps[start:most]
        found = join_group(group, users)
        if isinstance(found, JoinedStages):
            stop = _before_grid_barrier(found) if not grid_barriers else None
            if stop is None:
                return _unit(group, found), reason
            most, reason = start + stop, "apart from the launch before: all workgroups must have ended before it"
            continue
        reason = f"apart from the launch before: {found.reason}"
        most = min(start + max(1, found.stage), most - 1)
    return None, reason


def join_group(group: Sequence[WorkStep], users: dict[int, set[int]]) -> JoinedStages | CannotJoin:
    """Returns what ``join_stages`` finds for these steps.

    ``users``: the steps of each temporary array of which no older content is read; it needs no memory if all of them
    are among these.
    """
    numbers = {step.number for step in group}
    return join_stages([_call(step) for step in group], [key for key, steps in users.items() if steps <= numbers])


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


def _before_grid_barrier(found: JoinedStages) -> int | None:
    """Returns the number of stages before the first barrier of the grid, or None if there is none."""
    return next((number for number, barrier in enumerate(found.barriers, 1) if barrier is StageBarrier.GRID), None)


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
