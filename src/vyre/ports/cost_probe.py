"""The facet that times the parts of a launch.

It runs small experiments and returns their raw times, from which an application computes launch costs.  The caller
chooses the size of each experiment, so that two sizes separate the fixed cost from the cost per part.  All kernels are
empty but those of ``TRAFFIC``.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from enum import Enum
from typing import Protocol, TypeAlias


class CostExperiment(Enum):
    """An experiment: what is timed, and what its size counts.  The device is idle before it, and all submitted work
    has run after it.
    """

    LAUNCHES = "launches"
    """Host time of submitting ``size`` launches, where the host runs them itself including their ends."""
    BIND = "bind"
    """Host time of preparing ``size`` launches for any number of runs."""
    KERNELS = "kernels"
    """Device time from before the first to after the last of ``size`` launches."""
    ROUND_TRIP = "round_trip"
    """Host time from the end of the submission of ``size`` launches until a wait for them returns."""
    GRAPH_RECORD = "graph_record"
    """Host time of recording a graph of ``size`` launches and instantiating it."""
    GRAPH_UPDATE = "graph_update"
    """Host time of changing a parameter of each of ``size`` launches in a recorded graph."""
    GRAPH_REPLAY = "graph_replay"
    """Host time of submitting a recorded graph of ``size`` launches."""
    GRAPH_KERNELS = "graph_kernels"
    """Device time from before the first to after the last launch of such a graph."""
    PINNED_COPY = "pinned_copy"
    """Host time of copying ``size`` bytes from page-locked memory to the device, until a wait for the copy returns."""
    PAGEABLE_COPY = "pageable_copy"
    """Host time of the same copy from pageable memory."""
    EVENT_PAIRS = "event_pairs"
    """Host time of recording ``size`` pairs of events."""
    PERSISTENT = "persistent"
    """Host time of a persistent kernel from its launch to its end, with ``size`` empty work items."""
    GRID_BARRIERS = "grid_barriers"
    """Device time of a launch whose workgroups, 8 of them, meet at ``size`` barriers of the grid."""
    BUILD = "build"
    """Host time of making the code of a program of ``size`` statements that nobody has compiled before, and of loading
    it."""
    TRAFFIC = "traffic"
    """Device time of reading half of ``size`` bytes and writing the other half, while the same is done again and again:
    arrays that fit into a cache of the device are in it."""


ExperimentTimer: TypeAlias = Callable[[CostExperiment, int], int]
"""Runs an experiment of a size, at least 1, once, and returns its time in ns."""


class CostProbe(Protocol):
    """A facet that runs cost experiments.

    The facet ``tunable`` names the device and says whether times are measured or estimated; without it, times are
    those of the host.
    """

    @property
    def experiments(self) -> frozenset[CostExperiment]:
        """Returns the experiments that this backend supports; the costs that the others would measure stay unknown."""

    def measuring(self) -> AbstractContextManager[ExperimentTimer]:
        """Returns a context that holds the resources of the experiments and yields their timer.

        The timer is for one thread.  It raises ``UnsupportedFeature`` for an unsupported experiment, and
        ``BackendError``.
        """
