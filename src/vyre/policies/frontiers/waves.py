"""In which order do the waves of a frontier analysis run, with as few grid barriers as their dependencies allow?

Waves form layers: a wave is in the first layer after all waves on which it depends, and no barrier is needed inside a
layer.  O(waves + dependencies).

vyre-driver has the same layers, and cuts those of waves of unequal size by a budget.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

from vyre.domain.errors import PlanError
from vyre.policies.record import U32, U64, Reason, record, verdict, why_field

Dependencies: TypeAlias = tuple[tuple[U64, U64], ...]
"""Pairs of waves by index: the first runs before the second.  Pairs may repeat.

An index has 64 bits, so that an index of no wave, however large, is refused as an unknown wave.
"""


@record
class BarrierInputs:
    """The number of waves and their dependencies."""

    wave_count: U32
    dependencies: Dependencies


@verdict
class BarrierPlan:
    """Waves by index, in groups between which the whole grid waits."""

    groups: tuple[tuple[int, ...], ...]
    global_barriers: int
    why: Reason = why_field()

    @property
    def label(self) -> str:
        """Whether some wave waits for another, for telemetry."""
        return "some wait" if self.global_barriers else "none waits"


def plan_barriers(inputs: BarrierInputs) -> BarrierPlan:
    """Returns the least possible number of layers of waves, which is the longest chain of dependencies.

    The first layer ascends by index; later layers list their waves in the order in which they became ready.  Raises
    ``PlanError``: ``InvalidWave``, ``SelfDependency``, ``Cycle``.
    """
    count = inputs.wave_count
    for before, after in inputs.dependencies:
        if before >= count or after >= count:
            raise PlanError("InvalidWave", wave_count=count, before=before, after=after)
        if before == after:
            raise PlanError("SelfDependency", wave=before)
    layers, unscheduled = layers_of(count, inputs.dependencies)
    if unscheduled:
        raise PlanError("Cycle", unscheduled_waves=unscheduled)
    why = Reason("a chain of {} waves is the longest", (len(layers),))
    return BarrierPlan(tuple(map(tuple, layers)), max(len(layers) - 1, 0), why)


def layers_of(count: int, edges: Iterable[tuple[int, int]]) -> tuple[list[list[int]], int]:
    """Returns the layers of a graph of ``count`` nodes, and the number of nodes in no layer.

    These are the nodes on or behind a cycle.  The order is topological by in-degrees (Kahn): the first layer ascends,
    later ones list nodes in the order in which they became ready.
    """
    successors: list[list[int]] = [[] for _ in range(count)]
    waits_for = [0] * count
    for before, after in edges:
        successors[before].append(after)
        waits_for[after] += 1
    layers: list[list[int]] = []
    ready = [node for node, open_edges in enumerate(waits_for) if open_edges == 0]
    while ready:
        layers.append(ready)
        ready = list(_released(ready, successors, waits_for))
    return layers, count - sum(map(len, layers))


def _released(layer: Iterable[int], successors: list[list[int]], waits_for: list[int]) -> Iterator[int]:
    """Yields the nodes that wait for nothing more once ``layer`` has run."""
    for node in layer:
        for successor in successors[node]:
            waits_for[successor] -= 1
            if waits_for[successor] == 0:
                yield successor
