"""Waves: launches of a part that may run at once, in the order in which resident workers take them."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from math import prod

from vyre.app.sequences.description import Work, WorkPart, accesses_of
from vyre.app.sequences.execution import Waves
from vyre.app.sequences.host_steps import HostCall
from vyre.app.sequences.structure import Structure, Unit
from vyre.domain.analysis.lane_facts import lane_facts
from vyre.domain.record import U32_MAX
from vyre.policies.concurrency.hazards import HazardInputs, hazard_graph
from vyre.policies.frontiers.frontier_ir import FrontierDomain, FrontierIr, FrontierNode, plan_frontier_ir
from vyre.policies.frontiers.waves import BarrierInputs, plan_barriers
from vyre.policies.journal import DecisionSink, decide
from vyre.ports.requests import ResidentStep
from vyre.ports.resident_buffer import ResidentBuffer


def waves_of(work: Work, structure: Structure, sink: DecisionSink | None = None) -> tuple[Waves, ...]:
    """Returns the waves of ``first`` and of each part of a structure; ``sink`` receives the decisions.

    A launch is in the first wave behind all launches that its memory or the caller wants before it.  One that may fail
    is in a wave of its own behind all launches before it, because a failure leaves what was written until then.
    """
    listed = (structure.first, *(units for units, _ in structure.parts))
    return tuple(_waves(part, units, sink) for part, units in zip((work.first, *work.parts), listed, strict=True))


def waves_of_steps(part: WorkPart, units: Sequence[Unit], sink: DecisionSink | None = None) -> Waves:
    """Returns the waves of launches of a part with a step each, for one kernel that runs the waves: nodes of a frontier
    program, whose items are their lanes.
    """
    nodes = tuple(
        FrontierNode(number, FrontierDomain.DATAFLOW, min(prod(step.work.launch.grid), U32_MAX))
        for number, step in enumerate(part.steps)
    )
    frontier = decide(sink, plan_frontier_ir, FrontierIr(nodes, _order(part, units, sink)))
    return tuple(wave.node_ids for wave in frontier.waves)


def _waves(part: WorkPart, units: Sequence[Unit], sink: DecisionSink | None) -> Waves:
    return decide(sink, plan_barriers, BarrierInputs(len(units), _order(part, units, sink))).groups


def _order(part: WorkPart, units: Sequence[Unit], sink: DecisionSink | None) -> tuple[tuple[int, int], ...]:
    """Returns the launches that must run before others, as pairs in ascending order."""
    edges = set(_of_memory(part, units, sink))
    if any(part.stated):  # a step that is written out several times owns several units
        owners: defaultdict[str, deque[int]] = defaultdict(deque)
        for number, unit in enumerate(units):
            for place in unit.places:
                owners[place].append(number)
        owner = [owners[step.place].popleft() for step in part.steps]
        edges.update((owner[step], owner[after]) for after, before in enumerate(part.stated) for step in before)
    alone = -1  # the last launch in a wave of its own
    for number, unit in enumerate(units):
        if stands_alone(unit.launch.step):
            edges.update((before, number) for before in range(max(alone, 0), number))
            alone = number
        elif alone >= 0:
            edges.add((alone, number))
    return tuple(sorted((before, after) for before, after in edges if before != after))


def stands_alone(step: ResidentStep) -> bool:
    """Returns whether no other step may run beside this one: it may fail, or other arrays may share its memory."""
    config = step.config
    if isinstance(step, HostCall):
        return True
    if config.step_budget is not None or config.timeout_s is not None or lane_facts(step.program).traps:
        return True
    return any(isinstance(resource, ResidentBuffer) and resource.shares_memory for resource in step.resources)


def _of_memory(part: WorkPart, units: Sequence[Unit], sink: DecisionSink | None) -> list[tuple[int, int]]:
    if [unit.places for unit in units] == [(step.place,) for step in part.steps]:
        return list(part.order.edges)
    numbers: dict[int, int] = {}
    operations = tuple(accesses_of(unit.launch.step, unit.sizes, numbers) for unit in units)
    return list(decide(sink, hazard_graph, HazardInputs(operations)).edges)
