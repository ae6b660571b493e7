"""Launch costs of a device: measured times, with their precision and provenance.

An unknown cost is None.  All times are nanoseconds.  ``ASSUMED`` has figures published for other machines, so that
plans can be shown where nothing was measured; every value carries its provenance.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields
from enum import Enum
from math import isqrt
from typing import Any, Final

from vyre.domain.cost_limits import LEAST_SAMPLES, MAX_AGE_S
from vyre.domain.errors import ForeignCosts, InvalidField, StaleCosts
from vyre.domain.lazy_names import FunctionAbove
from vyre.domain.record import U32, U64, Nanoseconds, record
from vyre.domain.sealed_json import SealedForm

VERSION: Final = 4


class Provenance(Enum):
    """The source of a value, the least trustworthy first."""

    ASSUMED = "assumed"
    """Published for another machine."""
    EMULATED = "emulated"
    """Timed on an emulated device: the cost of the emulator, which says nothing about a GPU."""
    MEASURED = "measured"


_TRUST: Final = {provenance: place for place, provenance in enumerate(Provenance)}


@record
class Measured:
    """A time in ns: the median of ``count`` samples, their interquartile range, and the standard error of the median.

    An assumed value has no samples; there, the last two are derived from the range of the published figures.
    """

    median_ns: Nanoseconds
    spread_ns: Nanoseconds
    standard_error_ns: Nanoseconds
    count: U32
    provenance: Provenance

    def __post_init__(self) -> None:
        if (self.count == 0) != (self.provenance is Provenance.ASSUMED):
            raise InvalidField(
                record="Measured", field="count", value=self.count, expected="0 for what is assumed, else positive"
            )


def of_samples(samples_ns: Sequence[int], provenance: Provenance) -> Measured:
    """Returns the median, rounded down, and the spread of at least ``LEAST_SAMPLES`` samples.

    The standard error is that of the median of normal samples, sqrt(pi / 2) sigma / sqrt(n), where sigma is estimated
    from the interquartile range (1.349 sigma), which a few outliers do not move.  It is rounded up.
    """
    count = len(samples_ns)
    if count < LEAST_SAMPLES:
        raise InvalidField(
            record="Measured", field="count", value=count, expected=f"a number of samples of at least {LEAST_SAMPLES}"
        )
    ordered = sorted(samples_ns)
    lower, median, upper = (_quantile(ordered, quarters) for quarters in (1, 2, 3))
    spread = upper - lower
    error = root_up(-(-spread * spread * 8_632 // (10_000 * count)))  # 0.8632 = pi / 2 / 1.349^2
    return Measured(median, spread, error, count, provenance)


def _quantile(ordered: Sequence[int], quarters: int) -> int:
    """Returns the quantile at one to three quarters, interpolated linearly between the two nearest ranks."""
    place, rest = divmod((len(ordered) - 1) * quarters, 4)
    return ordered[place] + (ordered[place + 1] - ordered[place]) * rest // 4


def root_up(square: int) -> int:
    """Returns the square root, rounded up."""
    root = isqrt(square)
    return root + (root * root < square)


def weakest(provenances: Iterable[Provenance]) -> Provenance:
    """Returns the least trustworthy provenance: that of a figure computed from several values."""
    return min(provenances, key=_TRUST.__getitem__)


@record
class CostSource:
    """The scope of costs: the names that the backend gives itself, its device and its driver."""

    backend: str
    device: str
    driver: str

    def __str__(self) -> str:
        return f"{self.backend} on {self.device}, driver {self.driver}"


@record
class KernelTime:
    """The device time of one launch of a compiled pipeline."""

    pipeline: str
    time: Measured


@record
class LaunchCosts:
    """The times that a host and a device take for a launch; None is unknown.

    Host and device: ``round_trip`` is the time from the end of the last submission until a wait returns, without the
    time of the kernels.

    Host: ``launch`` submits one kernel, and where nothing overlaps also awaits it; ``bind`` prepares one.
    ``graph_record`` captures and instantiates a graph, ``graph_update`` changes parameters of a recorded graph, and
    ``graph_replay`` submits it; each has a fixed cost and a cost for every node (of an update: every node that
    changes).  ``event_pair`` records two events.  ``build`` makes the code of a short program and loads it.

    Device: ``launch_gap`` lies between two kernels of a stream, ``graph_gap`` between two nodes of a graph.
    ``persistent_setup`` is the time of a persistent kernel from its launch to its first item and from its last item
    to its end, and ``persistent_poll`` the time in which it finds an item.  ``grid_barrier`` is the time of a barrier
    of the grid within a kernel, with the test of the flag that ends a round of a loop.

    Copies between host and device, from page-locked or pageable memory, have a latency and a time per GiB.

    ``traffic_64_kib`` and so on are the times in which a device reads and writes that many bytes in all, in arrays of
    as many bytes, again and again: small arrays stay in its caches, and large ones do not.

    ``taken_at_s`` is in seconds since the epoch.  ``kernels`` are ascending by pipeline.
    """

    source: CostSource
    taken_at_s: U64
    round_trip: Measured | None = None
    launch: Measured | None = None
    bind: Measured | None = None
    launch_gap: Measured | None = None
    graph_record: Measured | None = None
    graph_record_node: Measured | None = None
    graph_update: Measured | None = None
    graph_update_node: Measured | None = None
    graph_replay: Measured | None = None
    graph_replay_node: Measured | None = None
    graph_gap: Measured | None = None
    persistent_setup: Measured | None = None
    persistent_poll: Measured | None = None
    pinned_latency: Measured | None = None
    pinned_per_gib: Measured | None = None
    pageable_latency: Measured | None = None
    pageable_per_gib: Measured | None = None
    event_pair: Measured | None = None
    grid_barrier: Measured | None = None
    build: Measured | None = None
    traffic_64_kib: Measured | None = None
    traffic_1_mib: Measured | None = None
    traffic_8_mib: Measured | None = None
    traffic_64_mib: Measured | None = None
    kernels: tuple[KernelTime, ...] = ()

    def __post_init__(self) -> None:
        names = [kernel.pipeline for kernel in self.kernels]
        if names != sorted(set(names)):
            expected = "times of different pipelines, ascending by pipeline"
            raise InvalidField(record="LaunchCosts", field="kernels", value=names, expected=expected)

    def kernel(self, pipeline: str) -> Measured | None:
        """Returns the device time of one launch of a pipeline, or None if it is unknown."""
        return next((kernel.time for kernel in self.kernels if kernel.pipeline == pipeline), None)

    def _repr_html_(self) -> str:
        """Returns a piece of HTML for notebooks."""
        return _view(self)

    def known(self) -> dict[str, Measured]:
        """Returns all known costs except those of kernels, by the name of their fields."""
        return {name: value for name in COSTS if (value := getattr(self, name)) is not None}

    @property
    def provenance(self) -> Provenance | None:
        """Returns the weakest provenance of all known values; None if nothing is known."""
        known = [*self.known().values(), *(kernel.time for kernel in self.kernels)]
        return weakest(value.provenance for value in known) if known else None


_view: Final[FunctionAbove[[LaunchCosts], str]] = FunctionAbove("LaunchCosts._repr_html_")
COSTS: Final = tuple(f.name for f in fields(LaunchCosts) if f.name not in ("source", "taken_at_s", "kernels"))
"""Names of the fields that hold a cost."""
TRAFFIC_BYTES: Final = {
    "traffic_64_kib": 64 << 10,
    "traffic_1_mib": 1 << 20,
    "traffic_8_mib": 8 << 20,
    "traffic_64_mib": 64 << 20,
}
"""The bytes of each cost of traffic, ascending."""


# ---- age and place
def age_s(costs: LaunchCosts, now_s: int) -> int:
    """Returns the age of the costs in seconds; 0 if a clock puts them into the future."""
    return max(0, now_s - costs.taken_at_s)


def is_stale(costs: LaunchCosts, now_s: int, max_age_s: int = MAX_AGE_S) -> bool:
    """Returns whether the costs are older than ``max_age_s`` seconds."""
    return age_s(costs, now_s) > max_age_s


def check_usable(costs: LaunchCosts, source: CostSource, now_s: int, max_age_s: int = MAX_AGE_S) -> None:
    """Raises ``ForeignCosts`` for costs of another backend, device or driver, and ``StaleCosts`` for old ones."""
    if costs.source != source:
        raise ForeignCosts(expected=str(source), actual=str(costs.source))
    if is_stale(costs, now_s, max_age_s):
        raise StaleCosts(age_s=age_s(costs, now_s), max_age_s=max_age_s)


# ---- text
def to_text(costs: LaunchCosts) -> str:
    """Returns canonical JSON with version and digest; unknown costs are null."""
    return _FORM.seal(to_json(costs))


def to_json(costs: LaunchCosts) -> dict[str, Any]:
    """Returns the content of ``to_text`` before it is sealed with a digest."""
    return {
        "version": VERSION,
        "source": {f.name: getattr(costs.source, f.name) for f in fields(CostSource)},
        "taken_at_s": costs.taken_at_s,
        "costs": {name: _json(getattr(costs, name)) for name in COSTS},
        "kernels": {kernel.pipeline: _json(kernel.time) for kernel in costs.kernels},
    }


def from_text(text: str | bytes) -> LaunchCosts:
    """Returns the costs that ``to_text`` wrote; raises ``MalformedJson`` for any other text."""
    return _FORM.read(text, _costs, to_text)


def _costs(content: dict[str, Any]) -> LaunchCosts:
    return LaunchCosts(
        CostSource(**content["source"]),
        content["taken_at_s"],
        **{name: None if value is None else _known(value) for name, value in content["costs"].items()},
        kernels=tuple(KernelTime(name, _known(value)) for name, value in content["kernels"].items()),
    )


def _json(value: Measured | None) -> dict[str, Any] | None:
    if value is None:
        return None
    return {name: getattr(value, name) for name in _NUMBERS} | {"provenance": value.provenance.value}


def _known(content: dict[str, Any]) -> Measured:
    return Measured(**content | {"provenance": Provenance(content["provenance"])})


_NUMBERS: Final = tuple(f.name for f in fields(Measured) if f.name != "provenance")
_FORM: Final = SealedForm.of(
    b"vyre.launch-costs.v1", "not launch costs", "measure them again, or plan with assumed ones.", VERSION
)


# ---- assumed costs
_PUBLISHED: Final[dict[str, tuple[int, int, int]]] = {
    "round_trip": (4_000, 2_000, 30_000),
    # Launches through Python bindings (typical), from C (low), and on a slow machine (high).
    "launch": (3_080, 1_570, 6_500),
    # Resolving the program, its memory and its arguments; no driver is called.
    "bind": (30_000, 10_000, 100_000),
    "launch_gap": (1_300, 1_000, 2_000),
    # Capturing takes about as long as the launches would; instantiation is added to it.
    "graph_record": (20_000, 10_000, 50_000),
    "graph_record_node": (3_500, 2_500, 7_000),
    "graph_update": (500, 100, 1_000),
    "graph_update_node": (1_000, 500, 3_000),
    # Drivers since 12.6 submit straight graphs in nearly constant time.
    "graph_replay": (2_500, 2_000, 5_000),
    "graph_replay_node": (12, 1, 200),
    "graph_gap": (900, 580, 1_300),
    "persistent_setup": (50_000, 20_000, 200_000),
    "persistent_poll": (1_000, 200, 2_000),
    # PCIe 4.0 with 16 lanes.
    "pinned_latency": (8_000, 5_000, 15_000),
    "pinned_per_gib": (43_000_000, 40_000_000, 90_000_000),
    "pageable_latency": (11_000, 8_000, 20_000),
    "pageable_per_gib": (180_000_000, 90_000_000, 360_000_000),
    "event_pair": (440, 180, 1_000),
    "grid_barrier": (1_500, 1_000, 3_000),
    # Joining steps, and compiling them with an optimising compiler.
    "build": (50_000_000, 5_000_000, 100_000_000),
    "traffic_64_kib": (1_000, 500, 3_000),
    "traffic_1_mib": (1_300, 700, 4_000),
    "traffic_8_mib": (3_000, 2_000, 20_000),
    "traffic_64_mib": (40_000, 20_000, 200_000),
}
"""Typical, low and high figures of each cost, in ns, published for recent GPUs and drivers."""

_ERRORS_IN_RANGE: Final = 4
"""Published figures are assumed to lie within two standard errors on either side."""


def _assumed(typical: int, low: int, high: int) -> Measured:
    return Measured(typical, high - low, -(-(high - low) // _ERRORS_IN_RANGE), 0, Provenance.ASSUMED)


_ASSUMED_COSTS: Final[dict[str, Any]] = {name: _assumed(*figures) for name, figures in _PUBLISHED.items()}
ASSUMED: Final = LaunchCosts(CostSource("assumed", "no device in particular", "none"), 0, **_ASSUMED_COSTS)
"""Costs that were not measured on this machine."""
