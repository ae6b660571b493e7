"""From raw times of experiments to launch costs.

An experiment at two sizes tells a line: what it takes as a whole, and what it takes for each part.  Both sizes are
timed in the same round, so that what drifts from round to round cancels; each round gives one sample of either cost.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple, TypeAlias

from vyre.ports.cost_probe import CostExperiment, CostProbe, ExperimentTimer

GIB: Final = 1 << 30
Samples: TypeAlias = "dict[str, list[int]]"
"""By cost, in the order of the rounds, ns."""


class Line(NamedTuple):
    """``whole`` and ``part``: the costs that an experiment at these sizes tells; one size tells only the whole.

    ``unit``: parts for which the cost of a part is given.
    """

    experiment: CostExperiment
    sizes: tuple[int, ...]
    whole: str | None = None
    part: str | None = None
    unit: int = 1

    def samples(self, times: tuple[int, ...]) -> Iterator[tuple[str, int]]:
        """Costs by name, from the times at the sizes; none is negative, however the times are disturbed."""
        if len(times) == 1:
            whole, part = times[0], 0
        else:
            (small, large), (less, more) = self.sizes, times
            whole = (less * large - more * small) // (large - small)
            part = (more - less) * self.unit // (large - small)
        for name, found in ((self.whole, whole), (self.part, part)):
            if name is not None:
                yield name, max(0, found)


LINES: Final = (
    Line(CostExperiment.ROUND_TRIP, (1,), whole="round_trip"),
    Line(CostExperiment.LAUNCHES, (8, 40), part="launch"),
    Line(CostExperiment.KERNELS, (8, 40), part="launch_gap"),
    Line(CostExperiment.GRAPH_RECORD, (4, 36), "graph_record", "graph_record_node"),
    Line(CostExperiment.GRAPH_UPDATE, (4, 36), "graph_update", "graph_update_node"),
    Line(CostExperiment.GRAPH_REPLAY, (4, 132), "graph_replay", "graph_replay_node"),
    Line(CostExperiment.GRAPH_KERNELS, (4, 36), part="graph_gap"),
    Line(CostExperiment.PERSISTENT, (4, 132), "persistent_setup", "persistent_poll"),
    Line(CostExperiment.PINNED_COPY, (4 << 10, 8 << 20), "pinned_latency", "pinned_per_gib", GIB),
    Line(CostExperiment.PAGEABLE_COPY, (4 << 10, 8 << 20), "pageable_latency", "pageable_per_gib", GIB),
    Line(CostExperiment.EVENT_PAIRS, (8, 40), part="event_pair"),
)
"""What tells each cost."""


def take_samples(probe: CostProbe, rounds: int, warm_up: int) -> Samples:
    """One sample a round of every cost that ``probe`` can tell; every other round runs backwards.

    The first ``warm_up`` rounds do not count: memory is faulted in, code is loaded, graphs are recorded.
    """
    lines = [line for line in LINES if line.experiment in probe.experiments]
    found: Samples = {}
    with probe.measuring() as timed:
        for number in range(warm_up + rounds):
            for line in lines if number % 2 == 0 else reversed(lines):
                times = _times(timed, line, backwards=number % 2 == 1)
                if number >= warm_up:
                    for name, sample in line.samples(times):
                        found.setdefault(name, []).append(sample)
    return found


def _times(timed: ExperimentTimer, line: Line, *, backwards: bool) -> tuple[int, ...]:
    if backwards:
        return tuple([timed(line.experiment, size) for size in reversed(line.sizes)])[::-1]
    return tuple([timed(line.experiment, size) for size in line.sizes])
