"""Counters and histograms in the text format of Prometheus, which needs no package.

``METRICS`` is the table of everything that vyre counts; docs/observability.md shows it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from math import inf
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from vyre.adapters.forks import process_lock
from vyre.domain.arguments import expect
from vyre.domain.errors import InvalidConfig
from vyre.domain.float_mode import public_in_default_mode
from vyre.domain.ir.numpy_scalars import python_number
from vyre.domain.printable import shown
from vyre.ports.interrupts import sealed

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric
    from prometheus_client.registry import Collector, CollectorRegistry

METRICS: Final = {
    "vyre.dispatches": ("backend program way", "Runs that ended well: of a program, a job, or a sequence as one."),
    "vyre.launches": ("backend program", "Launches of programs, those inside sequences and jobs among them."),
    "vyre.bytes": (
        "backend direction",
        "Bytes between the host and the backend: `in` is what it takes, `out` what it returns.",
    ),
    "vyre.dispatch.seconds": ("backend program way", "Host time of a run, from its call to its end."),
    "vyre.device.seconds": ("backend program", "Time of a run on its device, where that is measured."),
    "vyre.host_step.seconds": ("backend step", "Time of a host step of a sequence."),
    "vyre.compile.seconds": ("backend cache", "Time of preparing a program on the backend."),
    "vyre.failures": ("backend error", "Runs, compilations and copies that failed, by the class of the error."),
    "vyre.events": ("event level", "Events."),
    "vyre.pipeline.prepared": (
        "backend cache",
        "Programs prepared by a session; `cache` says whether the backend had them.",
    ),
    "vyre.compile.miss": ("kind cause fields", "Code that had to be generated, and why."),
    "vyre.cache.hit": ("layer", "Stored code that was found."),
    "vyre.cache.miss": ("reason", "Stored code that was not found, and why."),
    "vyre.cache.put": ("", "Entries written to the store of code."),
    "vyre.cache.corrupt": ("", "Entries of the store that were damaged."),
    "vyre.cache.evicted": ("", "Entries that made room for others."),
    "vyre.decision": ("policy verdict", "Decisions."),
    "vyre.plan.chosen": ("mode", "Decisions about the way to submit the dispatches of a program."),
    "vyre.plan.predicted_ns": ("mode", "Predicted nanoseconds of planned dispatches."),
    "vyre.plan.observed_ns": ("mode", "Measured nanoseconds of planned dispatches."),
    "vyre.tuning.tuned": ("source kind", "Reports of the tuner."),
    "vyre.tuning.reads": ("", "Samples read from the store of the tuner."),
    "vyre.tuning.puts": ("", "Samples written to the store of the tuner."),
    "vyre.tuning.failed": ("", "Samples that could not be written."),
    "vyre.tuning.corrupt": ("", "Samples that were damaged."),
    "vyre.prediction.ahead": ("", "Programs prepared before they were dispatched."),
    "vyre.shadow.compared": ("outcome", "Dispatches compared with another backend."),
    "vyre.shadow.dropped": ("reason", "Samples that were not compared, and why."),
    "vyre.costs.calibrated": ("backend", "Calibrations of launch costs."),
}
"""Everything that is counted: its labels and its meaning.  A name ends in ``seconds`` exactly if it is a histogram."""
BUCKETS_S: Final = (
    1e-6,
    2e-6,
    5e-6,
    1e-5,
    2e-5,
    5e-5,
    1e-4,
    2e-4,
    5e-4,
    1e-3,
    2e-3,
    5e-3,
    0.01,
    0.05,
    0.1,
    0.5,
    1.0,
    5.0,
)
MOST_SERIES: Final = 1000
"""The combinations of labels that a metric keeps apart; others are counted under ``other``."""

Labels = tuple[tuple[str, str], ...]


class _Histogram:
    __slots__ = ("buckets", "sum", "total")

    def __init__(self, buckets: int) -> None:
        self.buckets: Final = [0] * buckets
        self.sum = 0.0
        self.total = 0


class Ratio(NamedTuple):
    """Hits of a cache, and look-ups in it."""

    hits: int
    lookups: int


@public_in_default_mode()
class PrometheusTelemetry:
    """Counts and times everything for Prometheus: ``text()`` is a page, and so is ``session.metrics_text()``.

    ``registry``: the registry of ``prometheus_client`` that the application serves; then its pages have these metrics
    too.  ``buckets``: upper bounds of the histograms in seconds, ascending.  Several sessions may share one.  Raises
    ``InvalidConfig`` for other bounds.
    """

    only_keeps: Final = True
    """Whether nobody hears of what it is told, so that the application's logging is told too; ``vyre.open`` asks."""

    def __init__(self, registry: CollectorRegistry | None = None, *, buckets: Sequence[float] = BUCKETS_S) -> None:
        expect("buckets", buckets, (list, tuple), "a list of upper bounds in seconds")
        bounds = tuple([python_number(bound) for bound in buckets])
        for bound in bounds:
            expect("a bound in buckets", bound, (int, float), "seconds")
        if not bounds or any(not low < high for low, high in pairwise((0.0, *bounds, inf))):
            raise InvalidConfig(
                f"buckets={shown(buckets)} do not ascend from above 0", fix="give upper bounds in seconds, ascending."
            )
        self._bounds: Final = bounds
        self._counts: dict[str, dict[Labels, int]] = {}
        self._times: dict[str, dict[Labels, _Histogram]] = {}
        self._lock = process_lock()
        self._made_s: Final = time.time()
        if registry is not None:
            if not callable(getattr(registry, "register", None)):
                expect("registry", registry, type(None), "a prometheus_client.CollectorRegistry, or None")
            registry.register(cast("Collector", self))

    def count(self, name: str, value: int = 1, /, **labels: str) -> None:
        """Implements ``Telemetry.count``."""
        with self._lock, sealed:
            series = self._counts.setdefault(name, {})
            key = _key(series, labels)
            series[key] = series.get(key, 0) + value

    def observe(self, name: str, seconds: float, /, **labels: str) -> None:
        """Implements ``Telemetry.observe``."""
        place = next((place for place, bound in enumerate(self._bounds) if seconds <= bound), len(self._bounds))
        with self._lock, sealed:
            series = self._times.setdefault(name, {})
            key = _key(series, labels)
            histogram = series.get(key)
            if histogram is None:
                histogram = series[key] = _Histogram(len(self._bounds) + 1)
            histogram.buckets[place] += 1
            histogram.sum += seconds
            histogram.total += 1

    def event(self, name: str, /, *, level: str = "info", **fields: object) -> None:
        """Implements ``Telemetry.event``: events are counted by name and level."""
        self.count("vyre.events", event=name, level=level)

    def text(self) -> str:
        """Returns all metrics in the text format 0.0.4 of Prometheus."""
        with self._lock, sealed:
            return "".join([line + "\n" for line in self._lines()])

    def collect(self) -> Iterator[Metric]:
        """Yields all metrics as those of ``prometheus_client``; a registry calls this."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

        with self._lock, sealed:
            families: list[Metric] = []
            for name, series in sorted(self._counts.items()):
                names = _label_names(series)
                counter = CounterMetricFamily(_metric(name), _help(name), labels=names)
                for key, value in sorted(series.items()):
                    counter.add_metric(_values(names, key), value)
                families.append(counter)
            for name, times in sorted(self._times.items()):
                names = _label_names(times)
                histogram = HistogramMetricFamily(_metric(name), _help(name), labels=names)
                for key, sampled in sorted(times.items()):
                    rows = [(_bound(bound), float(total)) for bound, total in self._cumulated(sampled)]
                    histogram.add_metric(_values(names, key), rows, sampled.sum)
                families.append(histogram)
            ratios = self._ratios()
            if ratios:
                gauge = GaugeMetricFamily(RATIO, RATIO_HELP, labels=["cache"])
                for cache, ratio in ratios.items():
                    gauge.add_metric([cache], ratio.hits / ratio.lookups)
                families.append(gauge)
        yield from families

    def _lines(self) -> Iterator[str]:
        for name, series in sorted(self._counts.items()):
            metric = f"{_metric(name)}_total"
            yield from head(metric, "counter", _help(name))
            for key, value in sorted(series.items()):
                yield f"{metric}{_shown(key)} {value}"
        for name, times in sorted(self._times.items()):
            metric = _metric(name)
            yield from head(metric, "histogram", _help(name))
            for key, histogram in sorted(times.items()):
                for bound, total in self._cumulated(histogram):
                    yield f"{metric}_bucket{_shown((*key, ('le', _bound(bound))))} {total}"
                yield f"{metric}_sum{_shown(key)} {histogram.sum!r}"
                yield f"{metric}_count{_shown(key)} {histogram.total}"
        yield from ratio_lines(self._ratios())

    def _cumulated(self, histogram: _Histogram) -> Iterator[tuple[float, int]]:
        total = 0
        for bound, times in zip((*self._bounds, float("inf")), histogram.buckets, strict=True):
            total += times
            yield bound, total

    def _ratios(self) -> dict[str, Ratio]:
        """Returns the hits of each cache that was looked into, by its name: ``pipelines`` and ``stored_code``."""
        prepared = self._counts.get("vyre.pipeline.prepared", {})
        hits = sum(value for key, value in prepared.items() if ("cache", "hit") in key)
        misses = sum(value for key, value in prepared.items() if ("cache", "miss") in key)
        stored = sum(self._counts.get("vyre.cache.hit", {}).values())
        absent = sum(self._counts.get("vyre.cache.miss", {}).values())
        return ratios(pipelines=(hits, misses), stored_code=(stored, absent))


RATIO: Final = "vyre_cache_hit_ratio"
RATIO_HELP: Final = "The share of look-ups in a cache that found something."


def ratios(**counts: tuple[int, int]) -> dict[str, Ratio]:
    """Returns the hits of caches from their hits and misses, without those that nobody looked into."""
    return {name: Ratio(hits, hits + misses) for name, (hits, misses) in counts.items() if hits + misses}


def ratio_lines(shares: Mapping[str, Ratio], labels: Labels = ()) -> Iterator[str]:
    """Yields the lines of the share of hits of caches."""
    if shares:
        yield from head(RATIO, "gauge", RATIO_HELP)
    for name, ratio in shares.items():
        yield f"{RATIO}{_shown((*labels, ('cache', name)))} {ratio.hits / ratio.lookups!r}"


def head(metric: str, kind: str, told: str) -> Iterator[str]:
    """Yields the two lines before the values of a metric."""
    yield f"# HELP {metric} {_escaped(told)}"
    yield f"# TYPE {metric} {kind}"


def _key(series: Mapping[Labels, object], labels: Mapping[str, str]) -> Labels:
    key = tuple(sorted([(name, str(value)) for name, value in labels.items()]))
    if key not in series and len(series) >= MOST_SERIES:
        return tuple((name, "other" if name not in ("backend", "way") else value) for name, value in key)
    return key


def _metric(name: str) -> str:
    return "".join([char if char.isascii() and char.isalnum() else "_" for char in name])


def _help(name: str) -> str:
    return METRICS[name][1] if name in METRICS else f"The counter {name}."


def _label_names(series: Iterable[Labels]) -> list[str]:
    return sorted({name for key in series for name, _ in key})


def _values(names: Iterable[str], key: Labels) -> list[str]:
    known = dict(key)
    return [known.get(name, "") for name in names]


def _bound(bound: float) -> str:
    return "+Inf" if bound == float("inf") else repr(bound)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _shown(labels: Labels) -> str:
    inner = ",".join([f'{_metric(name)}="{_quoted(value)}"' for name, value in labels])
    return f"{{{inner}}}" if inner else ""


def _quoted(value: str) -> str:
    return _escaped(value).replace('"', '\\"')


def backend_text(backend: str, counters: Mapping[str, int], failures: Mapping[tuple[str, str], int]) -> str:
    """Returns a page of the counters of a backend, and of failures by backend and class of the error."""
    lines: list[str] = []
    for name, value in sorted(counters.items()):
        metric = f"vyre_backend_{_metric(name)}"
        lines += head(metric, "counter", f"The counter {name} of the backend.")
        lines.append(f"{metric}{_shown((('backend', backend),))} {value}")
    if failures:
        lines += head("vyre_failures_total", "counter", METRICS["vyre.failures"][1])
        lines += [
            f"vyre_failures_total{_shown((('backend', of), ('error', kind)))} {times}"
            for (of, kind), times in sorted(failures.items())
        ]
    kernels = (counters.get("kernel_cache_hits", 0), counters.get("kernel_cache_misses", 0))
    lines += ratio_lines(ratios(kernels=kernels), (("backend", backend),))
    return "".join([line + "\n" for line in lines])
