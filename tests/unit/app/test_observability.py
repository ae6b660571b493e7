"""What sessions tell telemetry: the same on every backend, and a table says what it means."""

from __future__ import annotations

import re
import sys
from collections import Counter
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType
from typing import Final

import numpy as np
import prometheus_client
import pytest
import structlog
from prometheus_client.parser import text_string_to_metric_families
from structlog.testing import LogCapture

import vyre
from support.small_programs import square_program
from vyre.adapters.telemetry.guarded import ATTACHED_EVENTS
from vyre.adapters.telemetry.prometheus import METRICS, MOST_SERIES
from vyre.testing.recording_telemetry import RecordingTelemetry

ROOT: Final = Path(__file__).parents[3]
COMMON: Final = {
    *("kernel_launches", "persistent_launches", "persistent_jobs", "kernel_cache_hits", "kernel_cache_misses"),
    *("emits", "emit_ns", "traps", "timeouts"),
}
X: Final = np.arange(8, dtype=np.uint32)


@vyre.kernel
def square(x: vyre.In[vyre.u32], y: vyre.Out[vyre.u32]) -> None:
    i = vyre.global_id(0)
    if x[i] == vyre.u32(77):
        vyre.trap(i, "seventy-seven")
    y[i] = x[i] * x[i]


def labels(**given: str) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(given.items()))


@pytest.mark.parametrize("backend", ["cpu", "reference", "reference-scalar", "cuda-machine"])
def test_every_backend_counts_the_same_under_the_same_names(backend: str) -> None:
    telemetry = RecordingTelemetry()
    with vyre.open(backend, telemetry=telemetry) as session:
        for _ in range(3):
            session.dispatch(square, {"x": X}, output_counts={"y": 8})
        with pytest.raises(vyre.TrapError) as raised:
            session.dispatch(square, {"x": X + np.uint32(70)}, output_counts={"y": 8})
        with session.resident(X) as x, session.resident(np.zeros(8, np.uint32)) as y:
            session.dispatch(square, {"x": x, "y": y})
            assert np.array_equal(y.download(), X * X)
        assert raised.value.recent[-1] == session.recent()[-1]
        own = session.metrics()
        assert (own["traps"] == 1 and own.keys() >= COMMON) if backend in ("cpu", "cuda-machine") else own == {}
        assert raised.value.recent[-1].fields["dispatch"] == 4
    counts = telemetry.counts
    assert counts["vyre.dispatches", labels(backend=backend, program="square", way="host")] == 3
    assert counts["vyre.dispatches", labels(backend=backend, program="square", way="resident")] == 1
    assert counts["vyre.launches", labels(backend=backend, program="square")] == 4
    assert counts["vyre.bytes", labels(backend=backend, direction="out")] == 4 * X.nbytes
    assert counts["vyre.bytes", labels(backend=backend, direction="in")] == 5 * X.nbytes
    assert counts["vyre.failures", labels(backend=backend, error="TrapError")] == 1
    times = telemetry.observed["vyre.dispatch.seconds", labels(backend=backend, program="square", way="host")]
    assert len(times) == 3 and min(times) > 0
    names = {name for name, _ in telemetry.counts} | {name for name, _ in telemetry.observed}
    assert names <= METRICS.keys()
    assert {"vyre.session.opened", "vyre.failed", "vyre.session.closed"} <= {event.name for event in telemetry.events}


def counted(telemetry: RecordingTelemetry) -> dict[tuple[str, ...], int]:
    """The work that was counted, whatever way it took and wherever it ran."""
    found: Counter[tuple[str, ...]] = Counter()
    for (name, labels), value in telemetry.counts.items():
        if name in ("vyre.bytes", "vyre.dispatches", "vyre.launches", "vyre.failures"):
            found[name, *(value for key, value in labels if key not in ("backend", "way"))] += value
    for (name, labels), times in telemetry.observed.items():
        if name == "vyre.dispatch.seconds":
            found[name, dict(labels)["program"]] += len(times)
    return found


def test_the_same_work_counts_the_same_on_every_backend() -> None:
    program = square_program()
    found = {}
    for backend in ("cpu", "reference", "reference-scalar", "cuda-machine"):
        telemetry = RecordingTelemetry()
        with vyre.open(backend, telemetry=telemetry, cache=False) as session:
            session.dispatch(program, {"x": X})
            session.submit(program, {"x": X}).result()
            session.dispatch_many(program, [{"x": X}] * 20)  # which may become jobs
            with session.resident(X) as x, session.resident(np.zeros(8, np.uint32)) as y:
                session.dispatch(program, {"x": x, "y": y})
                session.dispatch(program, {"x": X, "y": y})  # from the host to the device
                session.dispatch(program, {"x": x})  # from the device to the host
                steps = [vyre.Step(program, {"x": x, "y": y}), vyre.Step(program, {"x": X, "y": y})]
                with session.sequence(steps) as sequence:
                    sequence(3)
                with session.bind_resident(program, {"x": x, "y": y}) as bound:
                    bound()
                session.download([x[2:4], y])  # gathered, where a backend can
                x.upload(X[:2], offset=4)
            with pytest.raises(vyre.TrapError):
                session.dispatch(square, {"x": X + np.uint32(70)}, output_counts={"y": 8})
        found[backend] = counted(telemetry)
    first = found["reference"]
    nbytes = X.nbytes
    assert first["vyre.dispatches", "square"] == 22 + 3 + 1 == first["vyre.dispatch.seconds", "square"]
    assert (first["vyre.dispatches", "(sequence)"], first["vyre.launches", "square"]) == (1, 26 + 6)
    assert first["vyre.bytes", "in"] == 22 * nbytes + 2 * nbytes + 2 * nbytes + 8
    assert first["vyre.bytes", "out"] == 23 * nbytes + nbytes + 8
    assert first["vyre.failures", "TrapError"] == 1
    assert found == dict.fromkeys(found, first)


@pytest.mark.parametrize("backend", ["cpu", "cuda-machine"])
def test_jobs_are_counted_once_each(backend: str) -> None:
    telemetry = RecordingTelemetry()
    rows = np.stack([X, X + np.uint32(70), X, X + np.uint32(77)])
    with (
        vyre.open(backend, telemetry=telemetry, cache=False) as session,
        session.persistent(square.program, {"x": X}, output_counts={"y": 8}) as jobs,
    ):
        for ticket in [jobs.submit({"x": X}) for _ in range(3)]:
            assert ticket.result() is ticket.result()
        with pytest.raises(vyre.TrapError):
            jobs.submit({"x": rows[1]}).result()
        batch = jobs.submit_many({"x": rows})
        with pytest.raises(vyre.TrapError):
            batch.result()
        assert [each.exception() is None for each in (batch[row] for row in range(4))] == [True, False, True, False]
        forgotten = jobs.submit({"x": X})  # it is counted, too, at the latest as the block waits for its end
        del forgotten
    found, names = counted(telemetry), {"backend": backend, "program": "square", "way": "job"}
    assert telemetry.counts["vyre.dispatches", labels(**names)] == 3 + 2 + 1 == found["vyre.launches", "square"]
    assert found["vyre.dispatch.seconds", "square"] == 6
    assert found["vyre.failures", "TrapError"] == 1 + 2
    assert found["vyre.bytes", "in"] == (3 + 1 + 4 + 1) * X.nbytes
    assert found["vyre.bytes", "out"] == 6 * X.nbytes


@pytest.mark.parametrize("backend", ["cpu", "cuda-machine"])
def test_jobs_are_counted_that_nobody_waits_for(backend: str) -> None:
    """By later submissions, by a look at one, by the counters, and those that fail as failures, each once."""
    telemetry = RecordingTelemetry()

    def seen() -> tuple[int, int]:
        found = counted(telemetry)
        return found["vyre.dispatches", "square"], found["vyre.failures", "TrapError"]

    with (
        vyre.open(backend, telemetry=telemetry, cache=False) as session,
        session.persistent(square.program, {"x": X}, output_counts={"y": 8}, capacity=64, backpressure=True) as jobs,
    ):
        for _ in range(300):  # more than the engine has room for: what nobody asks for is forgotten
            jobs.submit({"x": X})
        assert 100 < seen()[0] < 301
        kept = jobs.submit({"x": X})
        while not kept.done():
            pass
        bad = jobs.submit({"x": X + np.uint32(70)})
        jobs.flush()
        assert seen() == (301, 1)
        with pytest.raises(vyre.TrapError):
            bad.result()
        assert jobs.counters()["jobs"] == 302
        batch = jobs.submit_many({"x": np.stack([X, X + np.uint32(70), X])})
        del batch
    assert seen() == (303, 2)


def test_a_session_without_telemetry_knows_its_failures_and_runs_the_backend_itself() -> None:
    with vyre.open("reference", cache=False) as session:
        assert session._lease.backend is session._selection.backend, "nothing stands between"
        for _ in range(2 * ATTACHED_EVENTS):
            with pytest.raises(vyre.TrapError) as raised:
                session.dispatch(square, {"x": X + np.uint32(70)}, output_counts={"y": 8})
        page = session.metrics_text()
        assert len(raised.value.recent) == ATTACHED_EVENTS
    assert f'vyre_failures_total{{backend="reference",error="TrapError"}} {2 * ATTACHED_EVENTS}\n' in page


def test_several_sessions_and_receivers_share_a_page_and_a_registry() -> None:
    registry = prometheus_client.CollectorRegistry()
    prometheus, recent = vyre.PrometheusTelemetry(registry, buckets=(0.5, 1.0)), vyre.RecentEvents(2)
    for _ in range(2):
        with vyre.open("reference", cache=False, telemetry=[prometheus, recent]) as session:
            session.dispatch(square, {"x": X}, output_counts={"y": 8})
            assert session.recent() == recent.events()
    assert [event.name for event in recent.events()] == ["vyre.pipeline.prepared", "vyre.session.closed"]
    prometheus.observe("vyre.dispatch.seconds", 0.75, backend="b", program='"\\\n', way="host")
    ours = registry.get_sample_value
    own = {"backend": "reference", "program": "square", "way": "host"}
    assert ours("vyre_dispatches_total", own) == 2
    assert ours("vyre_dispatch_seconds_count", own) == ours("vyre_dispatch_seconds_bucket", own | {"le": "0.5"}) == 2
    strange = {"backend": "b", "program": '"\\\n', "way": "host"}
    assert ours("vyre_dispatch_seconds_bucket", strange | {"le": "0.5"}) == 0
    assert ours("vyre_dispatch_seconds_bucket", strange | {"le": "1.0"}) == 1
    assert ours("vyre_cache_hit_ratio", {"cache": "pipelines"}) == 0.0
    parsed = text_string_to_metric_families(prometheus.text())
    samples = {
        (each.name, tuple(sorted(each.labels.items()))): each.value for family in parsed for each in family.samples
    }
    theirs = {
        (each.name, tuple(sorted((name, value) for name, value in each.labels.items() if value))): each.value
        for family in registry.collect()
        for each in family.samples
        if not each.name.endswith("_created")
    }
    assert samples == theirs


def test_a_metric_keeps_its_labels_bounded() -> None:
    prometheus = vyre.PrometheusTelemetry()
    for number in range(MOST_SERIES + 5):
        prometheus.count("vyre.dispatches", backend="b", program=f"p{number}", way="host")
    assert 'vyre_dispatches_total{backend="b",program="other",way="host"} 5\n' in prometheus.text()


def test_structlog_is_told_of_sessions_dispatches_and_decisions() -> None:
    capture = LogCapture()
    logger = structlog.wrap_logger(None, processors=[capture])
    told_to = vyre.StructlogTelemetry(logger)
    with vyre.open("reference", cache=False, telemetry=told_to) as session, pytest.raises(vyre.TrapError):
        session.dispatch(square, {"x": X + np.uint32(70)}, output_counts={"y": 8})
    told = {entry["event"]: entry for entry in capture.entries}
    assert told["vyre.failed"]["log_level"] == "error"
    assert told["vyre.failed"]["dispatch"] == 1
    capture.entries.clear()
    with vyre.open("cpu", cache=False, telemetry=told_to) as session, pytest.raises(vyre.UnsupportedFeature):
        session.compile(square, race_check=True)
    refused = [entry for entry in capture.entries if entry["event"] == "vyre.failed"]
    assert [entry["log_level"] for entry in refused] == ["info"]  # it is the caller's, who is told
    assert len({entry["session"] for entry in capture.entries}) == 1
    assert {"vyre.session.opened", "vyre.pipeline.prepared", "vyre.decision"} <= told.keys()


def test_ranges_are_on_the_timeline_of_every_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []

    def annotate(*, message: str, domain: str) -> nullcontext[None]:
        opened.append(f"{domain}: {message}")
        return nullcontext()

    nvtx = ModuleType("nvtx")
    nvtx.annotate = annotate  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "nvtx", nvtx)
    monkeypatch.setenv("VYRE_NVTX", "1")
    for backend in ("cpu", "reference", "cuda-machine"):
        with vyre.open(backend) as session:
            session.dispatch(square, {"x": X}, output_counts={"y": 8})
        assert "vyre: vyre.dispatch square" in opened
        opened.clear()


@pytest.mark.parametrize("backend", ["cpu", "cuda-machine", "reference", "reference-scalar"])
def test_the_page_has_exactly_the_counters_of_every_backend(backend: str) -> None:
    page = (ROOT / "docs" / "observability.md").read_text("utf-8").partition("\n### Counters of a backend\n")[2]
    rows = re.findall(r"^\| `(\w+)` \| ([^|]+) \| [^|]+ \|$", page.partition("\n## ")[0], re.MULTILINE)
    listed = [name for name, backends in rows if f"`{backend}`" in backends]
    with vyre.open(backend, cache=False) as session:
        assert sorted(listed) == sorted(session.metrics())
    assert len(dict(rows)) == len(rows), "a name stands for one thing"
    assert all(("`cuda`" in backends) == ("`cuda-machine`" in backends) for _, backends in rows)


def test_the_page_and_the_table_have_every_metric_of_the_source() -> None:
    page = (ROOT / "docs" / "observability.md").read_text("utf-8")
    table = page.partition("\n## Events\n")[0]
    rows = dict(re.findall(r"^\| `(vyre\.[\w.]+)` \| [^|]+ \| ([^|]+) \|$", table, re.MULTILINE))
    assert rows == {name: told for name, (_, told) in METRICS.items()}
    counted = re.compile(r"\.(?:count|observe)\(\s*\"(vyre\.[\w.]+)\"")
    used = {name for path in (ROOT / "src").rglob("*.py") for name in counted.findall(path.read_text("utf-8"))}
    assert used and used <= METRICS.keys()
