"""Computes launch costs from the raw times of experiments.

An experiment at two sizes determines a line: its fixed cost, and the cost of each part.  Both sizes are timed in the
same round, so that drift between rounds cancels; each round gives one sample of either cost.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

from vyre.app.notebooks.progress import progress
from vyre.domain.launch_costs import TRAFFIC_BYTES
from vyre.ports.cost_probe import CostExperiment, CostProbe, ExperimentTimer

GIB: Final = 1 << 30
Samples: TypeAlias = "dict[str, list[int]]"
"""Samples of each cost in ns, in the order of the rounds."""


class Line(NamedTuple):
    """An experiment with its sizes and the names of the costs that it determines; one size determines only ``whole``.

    ``unit``: the number of parts that ``part`` is the cost of.
    """

    experiment: CostExperiment
    sizes: tuple[int, ...]
    whole: str | None = None
    part: str | None = None
    unit: int = 1

    def samples(self, times: tuple[int, ...]) -> Iterator[tuple[str, int]]:
        """Yields costs by name from the times at the sizes; disturbed times are clamped so that no cost is negative."""
        if len(times) == 1:
            whole, part = times[0], 0
        else:
            (small, large), (less, more) = self.sizes, times
            whole = (less * large - more * small) // (large - small)
            part = (more - less) * self.unit // (large - small)
        for name, ns in ((self.whole, whole), (self.part, part)):
            if name is not None:
                yield name, max(0, ns)


LINES: Final = (
    Line(CostExperiment.ROUND_TRIP, (1,), whole="round_trip"),
    Line(CostExperiment.LAUNCHES, (8, 40), part="launch"),
    Line(CostExperiment.BIND, (4, 36), part="bind"),
    Line(CostExperiment.KERNELS, (8, 40), part="launch_gap"),
    Line(CostExperiment.GRAPH_RECORD, (4, 36), "graph_record", "graph_record_node"),
    Line(CostExperiment.GRAPH_UPDATE, (4, 36), "graph_update", "graph_update_node"),
    Line(CostExperiment.GRAPH_REPLAY, (4, 132), "graph_replay", "graph_replay_node"),
    Line(CostExperiment.GRAPH_KERNELS, (4, 36), part="graph_gap"),
    Line(CostExperiment.PERSISTENT, (4, 132), "persistent_setup", "persistent_poll"),
    Line(CostExperiment.PINNED_COPY, (4 << 10, 8 << 20), "pinned_latency", "pinned_per_gib", GIB),
    Line(CostExperiment.PAGEABLE_COPY, (4 << 10, 8 << 20), "pageable_latency", "pageable_per_gib", GIB),
    Line(CostExperiment.EVENT_PAIRS, (8, 40), part="event_pair"),
    Line(CostExperiment.GRID_BARRIERS, (4, 20), part="grid_barrier"),
    Line(CostExperiment.BUILD, (16,), whole="build"),
    *(Line(CostExperiment.TRAFFIC, (nbytes,), whole=name) for name, nbytes in TRAFFIC_BYTES.items()),
)
"""The experiments that determine the costs."""


def take_samples(probe: CostProbe, rounds: int, warm_up: int) -> Samples:
    """Returns one sample a round of every cost that ``probe`` supports; every other round runs backwards.

    The first ``warm_up`` rounds are dropped: in them memory is faulted in, code is loaded and graphs are recorded.
    """
    lines = [line for line in LINES if line.experiment in probe.experiments]
    samples: Samples = {}
    whole = warm_up + rounds
    with probe.measuring() as timed, progress("measuring launch costs", whole) as step:
        for number in range(whole):
            for name, sample in one_round(timed, lines, backwards=number % 2 == 1):
                if number >= warm_up:
                    samples.setdefault(name, []).append(sample)
            step("")
    return samples


def one_round(timed: ExperimentTimer, lines: Sequence[Line], *, backwards: bool = False) -> Iterator[tuple[str, int]]:
    """Yields a sample of every cost that these experiments determine; ``backwards``: the last of them comes first."""
    for line in reversed(lines) if backwards else lines:
        yield from line.samples(_times(timed, line, backwards=backwards))


def _times(timed: ExperimentTimer, line: Line, *, backwards: bool) -> tuple[int, ...]:
    if backwards:
        return tuple([timed(line.experiment, size) for size in reversed(line.sizes)])[::-1]
    return tuple([timed(line.experiment, size) for size in line.sizes])
