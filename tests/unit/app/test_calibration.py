"""Launch costs of a session: measured through the port, kept, loaded, refused, and corrected by observation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from threading import Condition
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import vyre
from support.cuda.timed_device import DEVICE_NS, ENQUEUE_NS, SOURCE, TRUE_NS, WAIT_NS, TimedDevice
from support.limits import LIMIT_S
from support.small_programs import square_program
from vyre import Session, Step
from vyre.adapters.cpu.registration import cpu_catalog
from vyre.adapters.cpu.runtime.options import CpuOptions
from vyre.adapters.disk.measurement_stores import DiskCostStore, costs_of_file, name_of
from vyre.app.calibration.experiments import LINES, Line, take_samples
from vyre.app.calibration.observed import MOST_KERNELS, MOST_TELLING, merged_kernels, most_telling
from vyre.app.calibration.service import CalibrationService, KnownCosts
from vyre.app.lease import BackendLease
from vyre.app.tuning.keys import source_of
from vyre.domain.cost_limits import MAX_AGE_S
from vyre.domain.dispatch import DispatchTiming
from vyre.domain.errors import (
    BackendError,
    ForeignCosts,
    InvalidConfig,
    InvalidResource,
    MalformedJson,
    StaleCosts,
    UnreadableFile,
    UnsupportedFeature,
    UnusableCosts,
)
from vyre.domain.launch_costs import ASSUMED, COSTS, CostSource, KernelTime, LaunchCosts, Measured, Provenance, to_text
from vyre.domain.tuning import TimeKind
from vyre.policies.launching.execution_prices import ExecutionMode, Workload
from vyre.policies.launching.plan_execution import ExecutionInputs, plan_execution
from vyre.ports.cost_probe import CostExperiment
from vyre.testing.recording_telemetry import RecordingTelemetry

NOW = 1_000_000_000
WRONG = 300_000
"""The launch cost of ``TimedDevice``, a hundred times."""
GRAPH_NS = {
    "launch_gap": 600,
    "round_trip": 4_000,
    "graph_record": 20_000,
    "graph_record_node": 4_000,
    "graph_replay": 2_500,
    "graph_replay_node": 10,
    "graph_gap": 600,
}
PROGRAM = square_program()


class Bench:
    """A calibration service on a device, a directory and a clock."""

    def __init__(self, root: Path, device: TimedDevice | None = None, **changes: Any) -> None:
        self.device = device or TimedDevice()
        self.telemetry, self.now = RecordingTelemetry(), NOW
        self.store = DiskCostStore(str(root))
        self.service = CalibrationService(
            BackendLease(self.device.backend(**changes)),
            lambda: self.store,
            tuple,
            tuple,
            self.telemetry,
            lambda: self.now,
        )

    @property
    def events(self) -> list[str]:
        return [event.name for event in self.telemetry.events]


def session_on(device: TimedDevice, cache: Path, **changes: Any) -> tuple[Session, RecordingTelemetry]:
    telemetry = RecordingTelemetry()
    catalog = device.catalog(**changes)
    return vyre.open("reference", catalog=catalog, telemetry=telemetry, cache=cache), telemetry


def measured(ns: int, count: int = 15, provenance: Provenance = Provenance.MEASURED) -> Measured:
    return Measured(ns, 0, 0, count, provenance)


def planted(**costs: Measured) -> LaunchCosts:
    values: dict[str, Any] = dict(costs)
    return LaunchCosts(SOURCE, NOW, **values)


# ---------------------------------------------------------------- measuring
def test_every_cost_is_told_by_some_experiment_and_by_one() -> None:
    told = [name for line in LINES for name in (line.whole, line.part) if name is not None]
    assert sorted(told) == sorted(COSTS)
    assert {line.experiment for line in LINES} == set(CostExperiment)


def test_what_is_measured_is_what_the_device_takes(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    found = bench.service.calibrate()
    medians = {name: cost.median_ns for name, cost in found.costs.known().items()}
    assert medians == {
        "round_trip": 4_000,
        "launch": 3_000,
        "launch_gap": 1_000,
        "graph_record": 20_000,
        "graph_record_node": 4_000,
        "graph_update": 500,
        "graph_update_node": 1_000,
        "graph_replay": 2_500,
        "graph_replay_node": 10,
        "graph_gap": 600,
        "persistent_setup": 50_000,
        "persistent_poll": 400,
        "pinned_latency": pytest.approx(8_000, abs=2),
        "pinned_per_gib": pytest.approx(43_000_000, rel=1e-4),
        "pageable_latency": pytest.approx(11_000, abs=2),
        "pageable_per_gib": pytest.approx(180_000_000, rel=1e-4),
        "event_pair": 440,
        "grid_barrier": 1_700,
        "build": 9_000_000,
        "traffic_64_kib": 900 + 6_103,
        "traffic_1_mib": 900 + 97_656,
        "traffic_8_mib": 900 + 781_250,
        "traffic_64_mib": 900 + 6_250_000,
    }
    assert {cost.count for cost in found.costs.known().values()} == {15}
    assert (found.costs.source, found.costs.taken_at_s, found.problem) == (SOURCE, NOW, None)
    assert found.provenance is Provenance.MEASURED
    assert found.why == "measured now on reference on a device, driver 13.0, in 15 rounds"
    assert bench.events == []
    assert bench.telemetry.counts == {("vyre.costs.calibrated", (("backend", "reference"),)): 1}


def test_noise_is_told_and_outliers_move_nothing(tmp_path: Path) -> None:
    jitter = [0] * 97
    jitter[13] = 10**9
    cost = Bench(tmp_path, TimedDevice(jitter_ns=jitter)).service.calibrate().costs.launch
    assert cost is not None
    assert (cost.median_ns, cost.spread_ns) == (3_000, 0)
    cost = Bench(tmp_path, TimedDevice(jitter_ns=(0, 640, 0, 320, 0, 0, 160))).service.calibrate().costs.launch
    assert cost is not None and cost.spread_ns > 0 and cost.standard_error_ns > 0


def test_what_a_backend_cannot_do_is_unknown(tmp_path: Path) -> None:
    only = {CostExperiment.LAUNCHES: TRUE_NS[CostExperiment.LAUNCHES]}
    found = Bench(tmp_path, TimedDevice(true_ns=only)).service.calibrate()
    assert set(found.costs.known()) == {"launch"}
    nothing = Bench(tmp_path, TimedDevice(true_ns={})).service.calibrate()
    assert nothing.provenance is None
    assert nothing.why.startswith("nothing now on")


def test_emulated_times_are_never_measured(tmp_path: Path) -> None:
    found = Bench(tmp_path, TimedDevice(kind=TimeKind.ESTIMATED)).service.calibrate()
    assert {cost.provenance for cost in found.costs.known().values()} == {Provenance.EMULATED}
    assert found.why.startswith("emulated now on")


def test_rounds_take_turns_and_the_first_do_not_count() -> None:
    device = TimedDevice(true_ns={kind: TRUE_NS[kind] for kind in (CostExperiment.LAUNCHES, CostExperiment.ROUND_TRIP)})
    forwards = [(CostExperiment.ROUND_TRIP, 1), (CostExperiment.LAUNCHES, 8), (CostExperiment.LAUNCHES, 40)]
    samples = take_samples(device, rounds=2, warm_up=1)
    assert device.ran == [*forwards, *forwards[::-1], *forwards]
    assert samples == {"round_trip": [4_000] * 2, "launch": [3_000] * 2}


@given(st.tuples(st.integers(0, 2**40), st.integers(0, 2**40)))
def test_no_disturbance_makes_a_cost_negative(times: tuple[int, int]) -> None:
    line = Line(CostExperiment.GRAPH_REPLAY, (4, 132), "graph_replay", "graph_replay_node")
    assert all(ns >= 0 for _, ns in line.samples(times))


@given(st.integers(0, 2**30), st.integers(0, 2**20), st.sampled_from(LINES))
def test_a_line_is_found_again(whole: int, part: int, line: Line) -> None:
    found = dict(line.samples(tuple(whole + part * size for size in line.sizes)))
    if len(line.sizes) == 1:
        assert found == {line.whole: whole + part * line.sizes[0]}
    else:
        wanted = {line.whole: whole, line.part: part * line.unit}
        assert found == {name: value for name, value in wanted.items() if name is not None}


@pytest.mark.parametrize("rounds", [4, 0, -1])
def test_too_few_rounds_are_refused(rounds: int, tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    with pytest.raises(InvalidConfig, match="is not an int in 5"):
        bench.service.calibrate(rounds)
    assert bench.device.ran == []


def test_a_backend_that_times_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedFeature, match="measuring launch costs"):
        Bench(tmp_path, cost_probe=None).service.calibrate()


@pytest.mark.parametrize("fails_at", [1, 100, 17 * 19])
def test_a_calibration_that_fails_leaves_what_was_known(fails_at: int, tmp_path: Path) -> None:
    before = Bench(tmp_path).service.calibrate().costs
    bench = Bench(tmp_path, TimedDevice(fails_at=fails_at, true_ns={**TRUE_NS, CostExperiment.LAUNCHES: (0, 1)}))
    with pytest.raises(BackendError, match="no times today"):
        bench.service.calibrate()
    assert bench.service.load() == before


# ---------------------------------------------------------------- keeping and loading
def test_another_session_knows_what_was_kept(tmp_path: Path) -> None:
    taken = Bench(tmp_path).service.calibrate().costs
    other = Bench(tmp_path)
    other.now += 60
    found = other.service.known()
    assert found == KnownCosts(taken, "measured 60 s ago on reference on a device, driver 13.0")
    assert other.device.ran == []


def test_the_latest_calibration_takes_the_place_of_the_one_before(tmp_path: Path) -> None:
    Bench(tmp_path).service.calibrate()
    bench = Bench(tmp_path, TimedDevice(true_ns={CostExperiment.LAUNCHES: (0, 5_000)}))
    bench.now += 1
    found = bench.service.calibrate()
    assert Bench(tmp_path).service.load() == found.costs
    assert set(found.costs.known()) == {"launch"}  # what cannot be measured any more is not known any more
    assert [(verdict.cost, verdict.value.median_ns) for verdict in found.corrected] == [("launch", 5_000)]
    assert str(found.corrected[0].why).startswith("launch is 5000 ns, not 3000 ns: 15 samples")


Plant = Callable[[Path], None]


def _plant(costs: LaunchCosts) -> Plant:
    return lambda root: _write(root, to_text(costs))


def _write(root: Path, text: str, name: str | None = None) -> None:
    folder = root / "costs-v1"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / (name_of(SOURCE) if name is None else name)
    path.write_text(text)
    path.chmod(0o600)


def _open_to_others(root: Path) -> None:
    _plant(planted(launch=measured(3_000)))(root)
    (root / "costs-v1").chmod(0o777)


def _writable_by_others(root: Path) -> None:
    _plant(planted(launch=measured(3_000)))(root)
    (root / "costs-v1" / name_of(SOURCE)).chmod(0o666)


BAD: dict[str, tuple[Plant, type[vyre.VyreError], str]] = {
    "missing": (lambda root: None, UnusableCosts, "no launch costs are known of reference on a device, driver 13.0"),
    "stale": (
        _plant(replace(planted(launch=measured(3_000)), taken_at_s=NOW - MAX_AGE_S - 1)),
        StaleCosts,
        f"launch costs are {MAX_AGE_S + 1} s old, at most {MAX_AGE_S} s are allowed",
    ),
    "foreign": (
        _plant(replace(planted(launch=measured(3_000)), source=replace(SOURCE, driver="12.9"))),
        ForeignCosts,
        "launch costs of reference on a device, driver 12.9 are not those of reference on a device, driver 13.0",
    ),
    "damaged": (
        lambda root: _write(root, to_text(planted(launch=measured(3_000))).replace("3000", "3001")),
        MalformedJson,
        "$: not launch costs: its digest does not match",
    ),
    "no text": (lambda root: _write(root, "\0{"), MalformedJson, "$: not launch costs: it is not JSON"),
    "open to others": (_open_to_others, UnreadableFile, "can be written by others"),
    "writable by others": (_writable_by_others, UnreadableFile, "others may write it"),
}


@pytest.mark.parametrize("bad", BAD)
def test_costs_that_cannot_be_used_are_refused_or_assumed_aloud(bad: str, tmp_path: Path) -> None:
    plant, error, message = BAD[bad]
    plant(tmp_path)
    bench = Bench(tmp_path)
    with pytest.raises(error) as refused:
        bench.service.load()
    assert message in refused.value.message
    assert refused.value.fix
    with pytest.raises(error):
        bench.service.known(assume=False)
    assert bench.events == []
    found = bench.service.known()
    assert found.costs == ASSUMED
    assert found.provenance is Provenance.ASSUMED
    assert isinstance(found.problem, error)
    assert found.why == f"assumed: {refused.value.message}"
    assert bench.events == ["vyre.costs.assumed"]
    assert bench.telemetry.events[0].fields["reason"] == refused.value.message
    bench.service.known()
    assert bench.events == ["vyre.costs.assumed"]  # said once


@pytest.mark.parametrize("bad", BAD)
def test_a_calibration_replaces_what_cannot_be_used(bad: str, tmp_path: Path) -> None:
    BAD[bad][0](tmp_path)
    bench = Bench(tmp_path)
    found = bench.service.calibrate()
    if bad == "open to others":
        assert isinstance(found.problem, UnreadableFile)
        assert "; not kept: " in found.why
        assert bench.events == ["vyre.costs.not_kept"]
    else:
        assert Bench(tmp_path).service.load() == found.costs
    assert bench.service.known().costs == found.costs  # this session has them in any case


def test_age_is_what_the_caller_says(tmp_path: Path) -> None:
    _plant(planted(launch=measured(3_000)))(tmp_path)
    bench = Bench(tmp_path)
    bench.now += 100
    assert bench.service.load(max_age_s=100).launch == measured(3_000)
    with pytest.raises(StaleCosts):
        bench.service.load(max_age_s=99)


def test_a_named_file_is_held_to_the_same(tmp_path: Path) -> None:
    bench, path = Bench(tmp_path), tmp_path / "costs.json"
    path.write_text(to_text(planted(launch=measured(3_000))) + "\n")
    assert bench.service.known(path).costs.launch == measured(3_000)
    path.write_text(to_text(replace(planted(), source=replace(SOURCE, device="another"))))
    with pytest.raises(ForeignCosts, match="another"):
        bench.service.known(path, assume=False)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(MalformedJson, match="is not JSON"):
        costs_of_file(path)
    with pytest.raises(UnreadableFile):
        bench.service.known(tmp_path / "nothing.json", assume=False)


def test_without_a_cache_costs_are_measured_and_not_kept(tmp_path: Path) -> None:
    telemetry = RecordingTelemetry()
    catalog = TimedDevice().catalog()
    with vyre.open("reference", catalog=catalog, telemetry=telemetry, cache=False) as session:
        found = session.calibrate()
        assert isinstance(found.problem, InvalidConfig)
        assert found.why.endswith("; not kept: the cache is turned off")
        assert session.launch_costs().costs == found.costs
        assert session.launch_costs(assume=False).problem is None


# ---------------------------------------------------------------- what dispatches tell
def dispatches(session: Session, count: int, *, resident: bool) -> None:
    x = np.arange(8, dtype=np.uint32)
    for _ in range(count):
        if resident:
            with session.resident(x) as rx:
                session.dispatch(PROGRAM, {"x": rx})
        else:
            session.dispatch(PROGRAM, {"x": x})


def test_a_launch_cost_that_is_a_hundred_times_too_large_is_corrected_within_50_dispatches(tmp_path: Path) -> None:
    session, telemetry = session_on(TimedDevice(), tmp_path)
    path = tmp_path / "planted.json"
    wrong = planted(launch=measured(WRONG), event_pair=measured(440), round_trip=measured(4_000))
    with session:
        path.write_text(to_text(replace(wrong, taken_at_s=2**40)))
        assert session.launch_costs(path).costs.launch == measured(WRONG)
        x = np.arange(8, dtype=np.uint32)
        needed = 0
        with session.resident(x) as rx:
            for dispatch in range(1, 51):
                session.dispatch(PROGRAM, {"x": rx})
                if session.launch_costs(path).corrected:
                    needed = dispatch
                    break
        assert needed == 9
        found = session.launch_costs(path)
    assert found.costs.launch == measured(ENQUEUE_NS, count=9)
    assert [verdict.upper_bound for verdict in found.corrected] == [True]
    explained = "launch is at most 20000 ns, not 300000 ns: 9 samples of what contains it take no longer"
    assert str(found.corrected[0].why) == explained
    assert found.why.endswith(f"; {explained}")
    told = [event for event in telemetry.events if event.name == "vyre.costs.corrected"]
    assert [event.fields["reason"] for event in told] == [explained]
    assert (found.costs.event_pair, found.costs.round_trip) == (measured(440), measured(4_000))


@pytest.mark.parametrize("wrong", [30, WRONG])
def test_a_launch_that_was_timed_corrects_a_cost_both_ways_and_the_plan_that_follows(
    wrong: int, tmp_path: Path
) -> None:
    graph = {name: measured(ns) for name, ns in GRAPH_NS.items()}
    _plant(replace(planted(launch=measured(wrong), **graph), taken_at_s=2**40))(tmp_path)
    planning = Planning()
    session, telemetry = session_on(TimedDevice(launches=16, launch_ns=3_000), tmp_path, planning=planning)
    few = Workload(2, 1, 1, measured(10_000))  # worth a graph where a launch costs 300 us
    many = Workload(64, 1, 100, measured(100))  # where it costs 3 us

    def planned(costs: LaunchCosts) -> list[ExecutionMode]:
        graphs = frozenset((ExecutionMode.GRAPH,))
        return [plan_execution(ExecutionInputs(work, costs, graphs)).mode for work in (few, many)]

    with session:
        needed = 0
        with session.resident(np.arange(8, dtype=np.uint32)) as x:
            for dispatch in range(1, 51):
                session.dispatch(PROGRAM, {"x": x})
                if session.launch_costs().corrected:
                    needed = dispatch
                    break
        found = session.launch_costs()
    assert needed == 9
    (verdict,) = found.corrected
    assert (verdict.cost, verdict.value, verdict.upper_bound) == ("launch", measured(3_000, count=9), False)
    off, margin = abs(wrong - 3_000), wrong // 4
    explained = f"launch is 3000 ns, not {wrong} ns: 9 samples, {off} ns off, more than {margin} ns"
    assert found.why.endswith(f"; {explained}")
    assert [e.fields["reason"] for e in telemetry.events if e.name == "vyre.costs.corrected"] == [explained]
    before, *_, after = planning.given
    assert (before.launch, after) == (measured(wrong), replace(found.costs, kernels=()))
    plain, graph_mode = ExecutionMode.PLAIN, ExecutionMode.GRAPH
    assert planned(after) == [plain, graph_mode]
    assert planned(before) == ([plain, plain] if wrong < 3_000 else [graph_mode, graph_mode])


@pytest.mark.parametrize("wrong", [30, WRONG])
def test_nobody_has_to_ask_for_a_correction(wrong: int, tmp_path: Path) -> None:
    _plant(replace(planted(launch=measured(wrong)), taken_at_s=2**40))(tmp_path)
    planning = Planning()
    session, telemetry = session_on(TimedDevice(launches=16, launch_ns=3_000), tmp_path, planning=planning)
    with session:
        dispatches(session, 8, resident=True)
        assert [costs.launch for costs in planning.given] == [measured(wrong)]
        dispatches(session, 1, resident=True)
        planning.wait_for(2)
        assert [costs.launch for costs in planning.given] == [measured(wrong), measured(3_000, count=9)]
        dispatches(session, 90, resident=True)
    assert [event.name for event in telemetry.events if "costs" in event.name] == ["vyre.costs.corrected"]
    assert len(planning.given) == 2


def test_what_is_assumed_is_corrected_without_a_word_about_it(tmp_path: Path) -> None:
    planning = Planning()
    session, telemetry = session_on(TimedDevice(launches=16, launch_ns=500_000), tmp_path, planning=planning)
    with session:
        dispatches(session, 9, resident=True)
        planning.wait_for(1)
    assert [costs.launch for costs in planning.given] == [measured(500_000, count=9)]
    assert [event.name for event in telemetry.events if "costs" in event.name] == ["vyre.costs.corrected"]


def test_a_review_that_fails_is_nobody_elses_failure(tmp_path: Path) -> None:
    class Broken(Planning):
        def use_costs(self, costs: LaunchCosts, /) -> None:
            super().use_costs(costs)
            raise RuntimeError("no plans today")

    planning = Broken()
    session, telemetry = session_on(TimedDevice(launches=16, launch_ns=500_000), tmp_path, planning=planning)
    with session:
        dispatches(session, 9, resident=True)
        planning.wait_for(1)
        dispatches(session, 20, resident=True)
    failed = [event for event in telemetry.events if event.name == "vyre.background.failed"]
    assert failed[0].fields["error"] == "RuntimeError: no plans today"


def test_fewer_timed_launches_bound_a_cost_at_least(tmp_path: Path) -> None:
    device = TimedDevice(launches=16, launch_ns=3_000)
    session, _ = session_on(device, tmp_path)
    path = tmp_path / "planted.json"
    path.write_text(to_text(replace(planted(launch=measured(WRONG)), taken_at_s=2**40)))
    with session:
        dispatches(session, 8, resident=True)
        device.launches, device.launch_ns = 4, None
        dispatches(session, 1, resident=True)
        (verdict,) = session.launch_costs(path).corrected
    assert (verdict.value.median_ns, verdict.upper_bound) == (3_000, True)


def test_replays_bound_no_launch_and_do_not_push_launches_out(tmp_path: Path) -> None:
    device = TimedDevice(launches=16, launch_ns=3_000)
    session, _ = session_on(device, tmp_path)
    path = tmp_path / "planted.json"
    path.write_text(to_text(replace(planted(launch=measured(WRONG), event_pair=measured(WRONG)), taken_at_s=2**40)))
    with session:
        dispatches(session, 8, resident=True)
        device.launches, device.launch_ns, device.enqueue_ns = 0, None, 1_000
        dispatches(session, 100, resident=True)
        found = session.launch_costs(path)
        assert {verdict.cost: verdict.value.median_ns for verdict in found.corrected} == {"event_pair": 1_000}
        device.launches, device.launch_ns = 16, 3_000
        dispatches(session, 1, resident=True)
        found = session.launch_costs(path)
    assert found.costs.launch == measured(3_000, count=9)


def test_what_an_emulator_takes_to_launch_does_not_replace_what_was_measured(tmp_path: Path) -> None:
    session, _ = session_on(TimedDevice(launches=16, launch_ns=3_000, kind=TimeKind.ESTIMATED), tmp_path)
    path = tmp_path / "planted.json"
    path.write_text(to_text(replace(planted(launch=measured(30)), taken_at_s=2**40)))
    with session:
        dispatches(session, 20, resident=True)
        found = session.launch_costs(path)
    assert (found.costs.launch, found.corrected) == (measured(30), ())


def test_sequences_bound_a_launch_by_all_that_they_launch(tmp_path: Path) -> None:
    device = TimedDevice(launches=10)
    session, _ = session_on(device, tmp_path)
    path = tmp_path / "planted.json"
    path.write_text(to_text(replace(planted(launch=measured(WRONG)), taken_at_s=2**40)))
    x = np.arange(8, dtype=np.uint32)
    with session, session.resident(x) as y:
        sequence = session.sequence([Step(PROGRAM, {"x": x, "y": y})] * 5)
        for _ in range(9):
            assert session.launch_costs(path).costs.launch == measured(WRONG)
            sequence(rounds=2)
        found = session.launch_costs(path)
        assert found.costs.launch == measured(ENQUEUE_NS // 10, count=9)
        device.launches = 0  # replays
        for _ in range(100):
            sequence(rounds=2)
        assert session.launch_costs(path).costs.launch == found.costs.launch


def test_a_sequence_without_work_tells_nothing(tmp_path: Path) -> None:
    planning = Planning()
    session, _ = session_on(TimedDevice(launches=16, launch_ns=500_000), tmp_path, planning=planning)
    path = tmp_path / "planted.json"
    path.write_text(to_text(replace(planted(round_trip=measured(56_000)), taken_at_s=2**40)))
    x = np.arange(8, dtype=np.uint32)
    with session, session.resident(x) as y:
        step = Step(PROGRAM, {"x": x, "y": y})
        for _ in range(20):
            session.sequence([step])(rounds=0)
        assert session.launch_costs(path).corrected == ()
        for _ in range(9):
            session.sequence([step], first=[step])(rounds=0)
        found = session.launch_costs(path)
        planning.wait_for(1)
    assert found.costs.round_trip == measured(WAIT_NS, count=9)
    assert [costs.launch for costs in planning.given] == [measured(500_000, count=9)]


def test_dispatches_on_host_memory_bound_a_launch_where_they_say_that_they_launched(tmp_path: Path) -> None:
    device = TimedDevice(launches=0)
    session, _ = session_on(device, tmp_path)
    path = tmp_path / "planted.json"
    path.write_text(to_text(replace(planted(launch=measured(WRONG)), taken_at_s=2**40)))
    with session:
        dispatches(session, 20, resident=False)
        assert session.launch_costs(path).costs.launch == measured(WRONG)
        device.launches = 2
        dispatches(session, 9, resident=False)
        (verdict,) = session.launch_costs(path).corrected
    assert (verdict.value, verdict.upper_bound) == (measured(ENQUEUE_NS // 2, count=9), True)


def test_the_processor_bounds_a_launch_by_kernels_that_it_launches_one_by_one(tmp_path: Path) -> None:
    x, path = np.arange(8, dtype=np.uint32), tmp_path / "planted.json"
    for list_after, seen in ((None, ["launch"]), (0, [])):
        with vyre.open("cpu", catalog=cpu_catalog(CpuOptions(list_after=list_after)), cache=False) as session:
            costs = LaunchCosts(source_of(session._lease.backend), 2**40, launch=measured(10**15))
            path.write_text(to_text(costs))
            for _ in range(9):
                assert session.dispatch(PROGRAM, {"x": x}).timing.launches == 1
            assert [(verdict.cost, verdict.upper_bound) for verdict in session.launch_costs(path).corrected] == [
                (cost, True) for cost in seen
            ]


def test_dispatches_that_may_be_replayed_tell_nothing_about_a_launch(tmp_path: Path) -> None:
    session, _ = session_on(TimedDevice(), tmp_path)
    path = tmp_path / "planted.json"
    path.write_text(to_text(replace(planted(launch=measured(WRONG), round_trip=measured(WRONG)), taken_at_s=2**40)))
    with session:
        dispatches(session, 20, resident=False)
        found = session.launch_costs(path)
    assert found.costs.launch == measured(WRONG)
    assert found.costs.round_trip == measured(WAIT_NS, count=20)


def test_waiting_for_a_submitted_dispatch_tells_nothing_about_waiting() -> None:
    x = np.arange(64, dtype=np.uint32)
    with vyre.open("cuda-machine", cache=False) as session:
        pipeline = session.compile(PROGRAM)
        session.submit(PROGRAM, {"x": x}).result(LIMIT_S)
        (submitted,) = session.compile(PROGRAM).timings
        session.dispatch(PROGRAM, {"x": x})
        dispatched = pipeline.timings[-1]
    assert submitted.device_ns is not None
    assert (submitted.wait_ns, dispatched.wait_ns is None) == (None, False)


def test_untimed_dispatches_tell_nothing(tmp_path: Path) -> None:
    session, _ = session_on(TimedDevice(enqueue_ns=None, wait_ns=None, device_ns=None), tmp_path)
    path = tmp_path / "planted.json"
    path.write_text(to_text(replace(planted(launch=measured(WRONG), round_trip=measured(WRONG)), taken_at_s=2**40)))
    with session:
        for resident in (False, True):
            dispatches(session, 20, resident=resident)
        found = session.launch_costs(path)
    assert (found.corrected, found.costs.kernels) == ((), ())


@pytest.mark.parametrize("resident", [False, True])
def test_times_of_kernels_come_from_dispatches(resident: bool, tmp_path: Path) -> None:
    session, _ = session_on(TimedDevice(), tmp_path)
    with session:
        dispatches(session, 4, resident=resident)
        assert session.launch_costs().costs.kernels == ()
        dispatches(session, 1, resident=resident)
        session.calibrate()
        (kernel,) = session.launch_costs().costs.kernels
        assert kernel.time == measured(DEVICE_NS - 1_000, count=5)  # a launch gap is in every time
        assert kernel.pipeline == session.compile(PROGRAM).id
        dispatches(session, 100, resident=resident)
        (kernel,) = session.launch_costs().costs.kernels
        assert kernel.time.count == 64  # the last ones
    other, _ = session_on(TimedDevice(), tmp_path)
    with other:
        assert [kept.pipeline for kept in other.launch_costs().costs.kernels] == [kernel.pipeline]


def test_old_times_of_kernels_stay_until_there_are_newer_ones() -> None:
    old = replace(
        planted(launch_gap=measured(1_000)),
        kernels=(KernelTime("a", measured(5_000)), KernelTime("b", measured(100))),
    )
    new = {"c": KernelTime("c", measured(7_000)), "a": KernelTime("a", measured(6_000))}
    found = {kernel.pipeline: kernel.time.median_ns for kernel in merged_kernels(new, old, measured(1_300))}
    assert found == {"a": 6_000, "b": 0, "c": 7_000}  # b: no less than nothing
    found = {kernel.pipeline: kernel.time.median_ns for kernel in merged_kernels(new, old, measured(400))}
    assert found == {"a": 6_000, "b": 700, "c": 7_000}
    many = {f"{number:05}": KernelTime(f"{number:05}", measured(1)) for number in range(MOST_KERNELS)}
    assert len(merged_kernels(many, old, None)) == MOST_KERNELS


class _Remembering(NamedTuple):
    """As far as a pipeline is asked about its launches."""

    launch_timings: list[DispatchTiming]


class Planning:
    """``ExecutionPlanning`` that remembers what it was given."""

    def __init__(self) -> None:
        self.given: list[LaunchCosts] = []
        self._came = Condition()

    def use_costs(self, costs: LaunchCosts, /) -> None:
        with self._came:
            self.given.append(costs)
            self._came.notify_all()

    def wait_for(self, count: int) -> None:
        """Until it was given something so often: a review runs in the background."""
        with self._came:
            assert self._came.wait_for(lambda: len(self.given) >= count, timeout=30)

    def plans(self) -> tuple[()]:
        return ()


def test_a_backend_plans_with_what_is_known_and_is_told_once(tmp_path: Path) -> None:
    planning = Planning()
    bench = Bench(tmp_path, planning=planning)
    bench.service.known()
    assert planning.given == []  # it assumes as well
    measured_now = bench.service.calibrate().costs
    bench.service.known()
    assert planning.given == [measured_now]
    path = tmp_path / "costs.json"
    path.write_text(to_text(planted(launch=measured(WRONG))))
    bench.service.known(path)  # to be looked at
    assert planning.given == [measured_now]


def test_asking_for_younger_costs_changes_no_plan(tmp_path: Path) -> None:
    _plant(replace(planted(launch=measured(3_000)), taken_at_s=2**40))(tmp_path)
    planning = Planning()
    session, telemetry = session_on(TimedDevice(launches=16, launch_ns=3_000), tmp_path, planning=planning)
    with session:
        session.compile(PROGRAM)
        dispatches(session, 9, resident=True)
        given = list(planning.given)
        assert [costs.launch for costs in given] == [measured(3_000)]
        for age in (-1, -2, -3):
            found = session.launch_costs(max_age_s=age)
            assert isinstance(found.problem, StaleCosts) and found.costs.source == ASSUMED.source
    assert planning.given == given
    assert [event.name for event in telemetry.events].count("vyre.costs.assumed") == 1


def test_what_was_corrected_of_assumed_costs_is_planned_with_when_asked_for(tmp_path: Path) -> None:
    planning = Planning()
    device = TimedDevice(launches=16, launch_ns=500_000)
    lease = BackendLease(device.backend(planning=planning))
    service = CalibrationService(
        lease, lambda: None, tuple, lambda: [device.timing] * 9, RecordingTelemetry(), lambda: NOW
    )
    found = service.known()
    assert ([verdict.cost for verdict in found.corrected], found.costs.source) == (["launch"], ASSUMED.source)
    assert planning.given == [found.costs]
    device.launch_ns = 900_000
    assert service.known().costs != found.costs
    assert planning.given == [found.costs]  # a review goes on from there


def test_times_of_kernels_change_no_plan(tmp_path: Path) -> None:
    planning = Planning()
    session, _ = session_on(TimedDevice(), tmp_path, planning=planning)
    with session:
        session.calibrate()
        for _ in range(5):
            dispatches(session, 5, resident=False)
            assert len(session.launch_costs().costs.kernels) == 1
    assert [costs.kernels for costs in planning.given] == [()]


@pytest.mark.parametrize("begun", ["review", "known", "adopt"])
def test_what_was_read_before_a_calibration_is_not_handed_over_after_it(begun: str, tmp_path: Path) -> None:
    planning = Planning()
    bench = Bench(tmp_path, planning=planning)
    _plant(planted(launch=measured(7)))(tmp_path)
    calibrated: list[LaunchCosts] = []

    def meanwhile() -> None:
        if not calibrated:
            calibrated.append(ASSUMED)  # no second time
            calibrated[0] = service.calibrate().costs

    class Store(DiskCostStore):
        def load(self, source: CostSource, /) -> LaunchCosts | None:
            found = super().load(source)
            meanwhile()
            return found

    def sequences() -> list[DispatchTiming]:
        meanwhile()
        return [TimedDevice(launches=16, launch_ns=500_000).timing] * 9

    store = Store(str(tmp_path))
    backend = bench.device.backend(planning=planning)
    service = CalibrationService(
        BackendLease(backend), lambda: store, tuple, sequences, bench.telemetry, lambda: bench.now
    )
    getattr(service, begun)()
    assert planning.given == calibrated


def test_a_review_looks_at_few_pipelines_of_many() -> None:
    quiet, some, many = (_Remembering([TimedDevice(launches=1).timing] * count) for count in (0, 1, 64))
    pipelines: list[Any] = [*[quiet] * 500, *[some] * 500, *[many] * 10]
    expected: list[Any] = [*[many] * 10, *[some] * (MOST_TELLING - 10)]
    assert most_telling(pipelines) == expected


def test_telemetry_may_ask_about_costs(tmp_path: Path) -> None:
    class Asking(RecordingTelemetry):
        def event(self, name: str, /, **fields: Any) -> None:
            super().event(name, **fields)
            assert service.known().problem is not None

    device = TimedDevice()
    service = CalibrationService(BackendLease(device.backend()), lambda: None, tuple, tuple, Asking(), lambda: NOW)
    service.known()


def test_a_session_plans_with_what_was_kept_from_its_first_program_on(tmp_path: Path) -> None:
    first, _ = session_on(TimedDevice(), tmp_path)
    with first:
        kept = first.calibrate().costs
    planning = Planning()
    session, telemetry = session_on(TimedDevice(), tmp_path, planning=planning)
    with session:
        assert planning.given == []
        for _ in range(3):
            session.compile(square_program())
    assert planning.given == [kept]
    assert "vyre.costs.assumed" not in [event.name for event in telemetry.events]


def test_having_asked_about_other_costs_changes_nothing_about_that(tmp_path: Path) -> None:
    first, _ = session_on(TimedDevice(), tmp_path)
    with first:
        kept = first.calibrate().costs
    path = tmp_path / "others.json"
    path.write_text(to_text(replace(kept, launch=measured(7))))
    planning = Planning()
    session, _ = session_on(TimedDevice(), tmp_path, planning=planning)
    with session:
        session.launch_costs(path)
        session.compile(PROGRAM)
    assert planning.given == [kept]


def test_where_nothing_was_kept_a_session_goes_on_assuming(tmp_path: Path) -> None:
    planning = Planning()
    session, telemetry = session_on(TimedDevice(), tmp_path, planning=planning)
    with session:
        session.compile(PROGRAM)
    assert planning.given == []
    assert "vyre.costs.assumed" not in [event.name for event in telemetry.events]


def test_what_was_kept_and_cannot_be_used_is_said_aloud_once(tmp_path: Path) -> None:
    bench, planning = Bench(tmp_path), Planning()
    bench.service.calibrate()
    late = Bench(tmp_path, planning=planning)
    late.now += MAX_AGE_S + 1
    late.service.adopt()
    late.service.adopt()
    assert planning.given == []
    assert late.events == ["vyre.costs.assumed"]


def test_a_closed_session_measures_nothing(tmp_path: Path) -> None:
    session, _ = session_on(TimedDevice(), tmp_path)
    session.close()
    with pytest.raises(InvalidResource, match="closed"):
        session.calibrate()


def test_the_host_is_its_own_device(tmp_path: Path) -> None:
    with vyre.open("reference", cache=tmp_path) as session:
        found = session.calibrate()
    assert found.provenance is Provenance.MEASURED
    assert set(found.costs.known()) == {"launch"}
    assert found.costs.source.driver.startswith("python ")


@pytest.mark.parametrize("rounds", [4, "9", None, 7.5])
def test_rounds_are_a_number_of_at_least_five(rounds: Any, tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match=r"rounds=.*Fix:"):
        Bench(tmp_path).service.calibrate(rounds)
