"""The facet that times what a launch is made of: raw times of small experiments, from which an application works out
launch costs.

Every experiment runs work of a size that is chosen by the caller, so that two sizes tell what it takes once and what it
takes for each part.  Kernels in it are empty.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from enum import Enum
from typing import Protocol, TypeAlias


class CostExperiment(Enum):
    """What is timed, and what its size counts.  The device is idle before, and what was submitted has run after."""

    LAUNCHES = "launches"
    """Host: submitting that many launches."""
    KERNELS = "kernels"
    """Device: from before the first to after the last of that many launches."""
    ROUND_TRIP = "round_trip"
    """Host: from the end of the submission of that many launches until a host that waits for them goes on."""
    GRAPH_RECORD = "graph_record"
    """Host: recording a graph of that many launches, and making it ready to be replayed."""
    GRAPH_UPDATE = "graph_update"
    """Host: changing a parameter of each of that many launches in a recorded graph."""
    GRAPH_REPLAY = "graph_replay"
    """Host: submitting a recorded graph of that many launches."""
    GRAPH_KERNELS = "graph_kernels"
    """Device: from before the first to after the last launch of such a graph."""
    PINNED_COPY = "pinned_copy"
    """Host: copying that many bytes from page-locked memory to the device, until a host that waits goes on."""
    PAGEABLE_COPY = "pageable_copy"
    """The same from other memory."""
    EVENT_PAIRS = "event_pairs"
    """Host: recording that many pairs of events."""
    PERSISTENT = "persistent"
    """Host: a resident kernel from its launch to its end, with that many empty items."""


ExperimentTimer: TypeAlias = Callable[[CostExperiment, int], int]
"""Runs an experiment of a size, at least 1, once; its time in ns."""


class CostProbe(Protocol):
    """``experiments``: what this backend can do; what it cannot do costs nothing here and is unknown.

    Whether times are measured or made up, and on which device, is told by the facet ``tunable``; without it they are
    those of the host.
    """

    @property
    def experiments(self) -> frozenset[CostExperiment]: ...

    def measuring(self) -> AbstractContextManager[ExperimentTimer]:
        """What experiments need is held inside the context.  For one thread; raises ``UnsupportedFeature`` for an
        experiment that is not offered, and ``BackendError``.
        """
        ...
