"""The tuner on a device whose times a test decides: who may win, who may not, and what is remembered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vyre
from support.cuda.tuned_device import DECLARED, TunedDevice
from support.small_programs import saxpy_program, square_program
from support.tuning import tuning_record
from vyre import DispatchConfig, Program, ProgramBuilder, f32, u32
from vyre.app.selection import BackendSelector
from vyre.app.session import Session
from vyre.app.tuning.remembered import told
from vyre.app.tuning.report import Rejected, TuningReport, TuningSource
from vyre.app.tuning.sources import load_pins
from vyre.app.tuning.timing import WARM_UP
from vyre.app.tuning.tuner import MOST_CANDIDATES, WRONG_BYTES
from vyre.domain.errors import (
    BackendError,
    DispatchFailed,
    InvalidConfig,
    InvalidInput,
    MalformedJson,
    UnreadableFile,
    UnsupportedFeature,
)
from vyre.domain.program_report import InvalidProgram
from vyre.domain.tuning import Candidate, TimeKind, TuningRecord
from vyre.domain.tuning_pins import Pin, Pins
from vyre.policies.tuning.successive_halving import HalvingThresholds
from vyre.ports.backend import BackendCatalog
from vyre.testing.recording_telemetry import RecordingTelemetry

X = np.arange(1000, dtype=np.uint32)
SHORT = HalvingThresholds(first_round=1, growth=1, final_pairs=5, error=0.05)


def faster_with(best: int, saved: int = 100_000) -> Callable[[int, str], int]:
    return lambda size, profile: 1_000_000 - (saved if size == best else 0)


@pytest.fixture(scope="module")
def square() -> Program:
    return square_program()


def opened(device: TunedDevice, cache: Path | bool, **options: Any) -> Session:
    return vyre.open(device.backend.id, catalog=device.catalog, cache=cache, **options)  # type: ignore[arg-type]


def tune(device: TunedDevice, program: Program, cache: Path | bool = False, **settings: Any) -> TuningReport:
    with opened(device, cache) as session:
        return session.tune(program, {"x": X}, settings=device.settings(**settings))


# ---------------------------------------------------------------- who wins
def test_a_candidate_that_is_clearly_faster_wins(square: Program) -> None:
    report = tune(TunedDevice(faster_with(256)), square)
    assert report.winner == Candidate(256)
    assert report.config == DispatchConfig(workgroup=(256, 1, 1))
    assert (report.source, report.kind, report.measured) == (TuningSource.RUN, TimeKind.DEVICE, True)
    assert [candidate.size for candidate in report.candidates] == [64, 32, 128, 256, 512, 1024]
    assert report.rejected == ()
    fastest = min(report.medians, key=lambda median: median or 0)
    assert report.medians.index(fastest) == 3
    assert "workgroup 256 wins: gain" in report.why


@pytest.mark.parametrize("saved", [0, 10_000, -100_000], ids=["as fast", "one percent faster", "slower"])
def test_without_a_gain_that_is_worth_it_the_declared_size_stays(saved: int, square: Program) -> None:
    config = DispatchConfig(label="mine")
    device = TunedDevice(faster_with(256, saved))
    with opened(device, False) as session:
        report = session.tune(square, {"x": X}, config, settings=device.settings())
    assert report.winner is None
    assert report.config is config
    assert "is not proven faster" in report.why or "gains too little" in report.why


def test_noise_that_hides_the_gain_proves_nothing(square: Program) -> None:
    noise = tuple(np.random.default_rng(1).integers(0, 5_000_000, 997).tolist())
    report = tune(TunedDevice(faster_with(256, 40_000), noise), square)
    assert report.winner is None
    assert report.config == DispatchConfig()


def test_a_profile_may_win(square: Program) -> None:
    device = TunedDevice(lambda size, profile: 900_000 if (size, profile) == (128, "fast") else 1_000_000)
    device.names = ("fast", "slow")
    report = tune(device, square)
    assert report.winner == Candidate(128, "fast")
    assert report.config == DispatchConfig(workgroup=(128, 1, 1), profile="fast")
    assert len(report.candidates) == 18
    assert Candidate(64, "fast") in report.candidates
    assert tune(device, square, profiles=False).winner is None


def test_there_is_an_end_to_candidates(square: Program) -> None:
    device = TunedDevice()
    device.names = tuple(f"p{number}" for number in range(12))
    report = tune(device, square, thresholds=SHORT)
    assert len(report.candidates) == MOST_CANDIDATES
    assert len(report.rejected) == 6 * 13 - MOST_CANDIDATES
    assert {found.reason for found in report.rejected} == {"64 candidates are enough"}


def test_times_on_the_host_are_of_the_whole_dispatch(square: Program) -> None:
    report = tune(TunedDevice(faster_with(512), kind=TimeKind.HOST), square)
    assert (report.kind, report.measured, report.winner) == (TimeKind.HOST, True, Candidate(512))
    assert 900_000 <= min(report.samples[4]) <= 910_000


def test_candidates_take_turns_in_going_first(square: Program) -> None:
    device = TunedDevice(occupancies=dict.fromkeys((32, 256, 512, 1024), 0))
    report = tune(device, square)
    assert [candidate.size for candidate in report.candidates] == [64, 128]
    sizes = [DECLARED if config.workgroup is None else config.workgroup[0] for config in device.launched]
    assert sizes == [64] * WARM_UP + [128] * WARM_UP + [64, 128, 128, 64] * 10


def test_what_leaves_most_of_a_multiprocessor_idle_is_not_tried(square: Program) -> None:
    report = tune(TunedDevice(faster_with(1024), occupancies={64: 10_000, 32: 5_000, 1024: 4_999}), square)
    assert report.winner is None
    assert Rejected(Candidate(1024), "it keeps 4999 bps of the warps resident, the best 10000") in report.rejected
    assert Candidate(32) in report.candidates


# ---------------------------------------------------------------- who may not
def test_a_candidate_with_other_bytes_never_wins_and_is_reported(square: Program, tmp_path: Path) -> None:
    device = TunedDevice(faster_with(256), wrong=frozenset((256,)))
    report = tune(device, square, tmp_path)
    assert report.winner is None
    assert Candidate(256) not in report.candidates
    assert report.rejected == (Rejected(Candidate(256), WRONG_BYTES),)
    remembered = tune(device, square, tmp_path)
    assert remembered.source is TuningSource.STORE
    assert remembered[3:] == report[3:]


def test_a_winner_is_checked_once_more(square: Program, tmp_path: Path) -> None:
    """Its bytes were right before it was timed, and are not any more."""
    device = TunedDevice(faster_with(256), wrong=frozenset((256,)), wrong_from=6 * WARM_UP)
    report = tune(device, square, tmp_path)
    assert (report.winner, report.config) == (None, DispatchConfig())
    assert report.rejected == (Rejected(Candidate(256), WRONG_BYTES),)
    assert report.why == f"workgroup 256 won, but {WRONG_BYTES}"
    assert tune(TunedDevice(faster_with(256)), square, tmp_path).source is TuningSource.RUN, "nothing was remembered"


def test_a_candidate_that_fails_is_rejected_with_the_reason(square: Program) -> None:
    report = tune(TunedDevice(faster_with(256), failing=frozenset((256, 32))), square)
    assert report.winner is None
    assert [found.candidate.size for found in report.rejected] == [32, 256]
    assert report.rejected[0].reason == "no 32 lanes today"


def test_a_candidate_that_cannot_be_compiled_is_rejected(square: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    def prepare(session: Session, program: Program, config: DispatchConfig) -> vyre.Pipeline:
        if config.workgroup == (128, 1, 1):
            raise BackendError("too many registers")
        return real(session, program, config)

    real = Session._prepare
    monkeypatch.setattr(Session, "_prepare", prepare)
    report = tune(TunedDevice(faster_with(256)), square)
    assert report.rejected == (Rejected(Candidate(128), "too many registers"),)
    assert report.winner == Candidate(256)


def test_a_backend_that_cannot_say_more_of_a_size_is_tuned_without(
    square: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: object) -> None:
        raise BackendError("no kernel")

    monkeypatch.setattr(TunedDevice, "profiles", fail)
    monkeypatch.setattr(TunedDevice, "occupancy_bps", fail)
    assert tune(TunedDevice(faster_with(256)), square).winner == Candidate(256)


def test_a_declared_config_with_other_bytes_than_the_reference_is_an_error(square: Program) -> None:
    with pytest.raises(DispatchFailed, match=r"`tuned` and the reference give different bytes.*data races"):
        tune(TunedDevice(wrong=frozenset((DECLARED,))), square)


def test_a_declared_config_that_fails_is_an_error(square: Program) -> None:
    with pytest.raises(BackendError, match="no 64 lanes today"):
        tune(TunedDevice(failing=frozenset((DECLARED,))), square)


def test_approximations_are_compared_with_those_of_the_declared_config() -> None:
    """The reference would refuse them."""
    device = TunedDevice(faster_with(256), wrong=frozenset((DECLARED, 256)))
    with opened(device, False) as session:
        report = session.tune(square_program(), {"x": X}, DispatchConfig(ulp_budget=2), settings=device.settings())
    assert report.winner == Candidate(256)
    assert {found.candidate.size for found in report.rejected} == {32, 128, 512, 1024}


def test_a_device_that_tells_no_times_is_refused(square: Program) -> None:
    with pytest.raises(UnsupportedFeature, match="times of the device"):
        tune(TunedDevice(untimed=True), square)


def test_a_program_that_is_tied_to_its_size_is_left_alone() -> None:
    with ProgramBuilder("tied", workgroup=64) as p:
        x = p.input("x", u32)
        y = p.output("y", u32, like=x)
        i = p.global_id()
        with p.if_((i < x.length) & (p.local_id() < 64)):
            y[i] = x[i] * x[i]
    device = TunedDevice(faster_with(256))
    report = tune(device, p.build())
    assert (report.winner, report.candidates) == (None, (Candidate(64),))
    assert (
        report.why
        == "nothing may or can stand in for the declared size: it uses ids of workgroups, or of lanes in them"
    )
    assert {config.workgroup for config in device.launched} == {None}


@pytest.mark.parametrize(
    "config",
    [DispatchConfig(fixpoint_iterations=2), DispatchConfig(race_check=True), DispatchConfig(profile="fast")],
)
def test_configs_under_which_there_is_nothing_to_tune(config: DispatchConfig, square: Program, tmp_path: Path) -> None:
    with opened(TunedDevice(), tmp_path) as session:
        with pytest.raises(InvalidConfig, match=r"a launch with \w+ cannot be tuned"):
            session.tune(square, {"x": X}, config)
        tuned = session.tuned(square, {"x": X}, config)
    assert (tuned.config, tuned.source) == (config, TuningSource.DECLARED)
    assert "cannot be tuned" in tuned.why


def test_time_can_be_up(square: Program, tmp_path: Path) -> None:
    device = TunedDevice(faster_with(256))
    report = tune(device, square, tmp_path, budget_s=0.05)
    assert report.winner is None
    assert report.why.startswith("the time was up: ")
    assert device.now < 100_000_000
    assert tune(device, square, tmp_path).source is TuningSource.RUN, "a run that was cut short is not remembered"


# ---------------------------------------------------------------- estimates
def test_estimates_of_a_model_are_never_a_measurement(square: Program, tmp_path: Path) -> None:
    device = TunedDevice(faster_with(256), kind=TimeKind.ESTIMATED)
    report = tune(device, square, tmp_path)
    assert (report.winner, report.kind, report.measured) == (Candidate(256), TimeKind.ESTIMATED, False)
    assert {len(times) for times in report.samples} == {1}
    assert "the model saves" in report.why
    with opened(device, tmp_path) as session:
        assert session.tuned(square, {"x": X})[1::2] == (TuningSource.STORE, False)
    with opened(TunedDevice(), tmp_path) as session:  # the same device, had it clocks
        assert session.tuned(square, {"x": X}).source is TuningSource.DECLARED


# ---------------------------------------------------------------- remembering
def test_what_is_remembered_launches_nothing(square: Program, tmp_path: Path) -> None:
    measured = tune(TunedDevice(faster_with(256)), square, tmp_path)
    later = TunedDevice()
    report = tune(later, square, tmp_path)
    assert later.launched == []
    assert report == measured._replace(source=TuningSource.STORE)
    again = tune(later, square, tmp_path, again=True)
    assert (again.source, again.winner) == (TuningSource.RUN, None)
    assert tune(later, square, tmp_path).winner is None, "the latest run counts"


def test_without_a_cache_nothing_is_remembered(square: Program) -> None:
    device = TunedDevice(faster_with(256))
    for _ in range(2):
        assert tune(device, square, False, thresholds=SHORT).source is TuningSource.RUN
    with opened(device, False) as session:
        tuned = session.tuned(square, {"x": X})
    assert (tuned.source, tuned.why) == (TuningSource.DECLARED, "nothing is remembered: the cache is turned off")


def test_the_store_is_below_the_cache_directory(square: Program, tmp_path: Path) -> None:
    tune(TunedDevice(), square, tmp_path / "cache")
    (path,) = tmp_path.glob("cache/tuning-v1/*/*.jsonl")
    assert path.name.startswith(square.digest.hex())


OTHERS: dict[str, Callable[[TunedDevice], TunedDevice]] = {
    "device": lambda device: replace(device, device="another"),
    "driver": lambda device: replace(device, driver="14.0"),
    "versions": lambda device: replace(device, versions="emitter 2"),
}


@pytest.mark.parametrize("field", OTHERS)
def test_what_another_device_or_version_measured_does_not_count(field: str, square: Program, tmp_path: Path) -> None:
    device = TunedDevice(faster_with(256))
    tune(device, square, tmp_path)
    other = OTHERS[field](device)
    assert tune(other, square, tmp_path).source is TuningSource.RUN
    assert tune(device, square, tmp_path).source is TuningSource.STORE


@pytest.mark.parametrize(
    ("elements", "config", "source"),
    [
        (1023, DispatchConfig(), TuningSource.STORE),
        (512, DispatchConfig(label="x", timeout_s=9.0), TuningSource.STORE),
        (511, DispatchConfig(), TuningSource.RUN),
        (1024, DispatchConfig(), TuningSource.RUN),
        (1000, DispatchConfig(workgroup=(128, 1, 1)), TuningSource.RUN),
        (1000, DispatchConfig(step_budget=5), TuningSource.RUN),
    ],
)
def test_what_counts_is_the_bucket_and_what_decides_about_speed(
    elements: int, config: DispatchConfig, source: TuningSource, square: Program, tmp_path: Path
) -> None:
    device = TunedDevice()
    tune(device, square, tmp_path)
    with opened(device, tmp_path) as session:
        report = session.tune(square, {"x": X[:elements] if elements <= 1000 else np.resize(X, elements)}, config)
    assert report.source is source


def test_a_spec_constant_has_times_of_its_own(tmp_path: Path) -> None:
    with ProgramBuilder("scaled", workgroup=64) as p:
        factor = p.spec("factor", u32(1))
        x = p.input("x", u32)
        y = p.output("y", u32, like=x)
        i = p.global_id()
        with p.if_(i < x.length):
            y[i] = x[i] * x[i] * factor
    scaled, device = p.build(), TunedDevice()
    with opened(device, tmp_path) as session:
        for spec, source in (
            ({"factor": 1}, TuningSource.RUN),
            ({"factor": 2}, TuningSource.RUN),
            ({"factor": 1}, TuningSource.STORE),
        ):
            report = session.tune(scaled, {"x": X}, spec=spec, settings=device.settings())
            assert report.source is source


def test_constants_that_differ_in_bits_alone_are_told_apart(tmp_path: Path) -> None:
    with ProgramBuilder("signed", workgroup=64) as p:
        sign = p.spec("sign", f32(1.0))
        x = p.input("x", u32)
        y = p.output("y", u32, like=x)
        i = p.global_id()
        with p.if_(i < x.length):
            y[i] = x[i] * x[i] + (sign * 0.0).bitcast(u32) * 0
    signed, device = p.build(), TunedDevice(faster_with(256))
    with opened(device, tmp_path) as session:
        for zero in (0.0, -0.0):
            session.tune(signed, {"x": X}, spec={"sign": zero}, settings=device.settings())
        specs = [session.tuned(signed, {"x": X}, spec={"sign": zero}).config.spec for zero in (0.0, -0.0, 0.0)]
    assert None not in specs
    first, negative, again = [spec.canonical_bytes() for spec in specs if spec is not None]
    assert first == again != negative


def record_of_run(place: int, of: int, **changes: Any) -> TuningRecord:
    values: dict[str, Any] = {"run": "one", "at_s": 5, "samples": (100,) * 40, "candidate": Candidate(32 << place)}
    return tuning_record(**values | {"place": place, "of": of} | changes)


def test_only_whole_runs_of_the_kind_are_told() -> None:
    whole = [record_of_run(0, 2), record_of_run(1, 2, samples=(50,) * 40)]
    verdict = told(whole, TimeKind.DEVICE)
    assert verdict is not None
    assert verdict.winner == Candidate(64)
    assert told(whole, TimeKind.HOST) is None
    assert told(whole[:1], TimeKind.DEVICE) is None
    assert told(whole[1:], TimeKind.DEVICE) is None
    assert told([record_of_run(0, 2), record_of_run(1, 2, samples=(50,) * 3)], TimeKind.DEVICE) is None
    assert told([record_of_run(0, 1, matched=False, samples=())], TimeKind.DEVICE) is None
    assert told([], TimeKind.DEVICE) is None
    estimates = [replace(found, kind=TimeKind.ESTIMATED) for found in whole]
    assert told(estimates, TimeKind.ESTIMATED) is None, "a model has one figure for each"


def test_an_older_run_is_told_where_the_latest_is_not_whole() -> None:
    older = [record_of_run(0, 2, at_s=1), record_of_run(1, 2, at_s=1, samples=(50,) * 40)]
    verdict = told([record_of_run(0, 2, run="two"), *older], TimeKind.DEVICE)
    assert verdict is not None
    assert verdict.winner == Candidate(64)


# ---------------------------------------------------------------- applying
def test_a_dispatch_changes_nothing_unless_asked(square: Program, tmp_path: Path) -> None:
    device = TunedDevice(faster_with(256))
    tune(device, square, tmp_path)
    device.launched.clear()
    with opened(device, tmp_path) as session:
        plain = session.dispatch(square, {"x": X})
        assert device.launched == [DispatchConfig()]
        asked = session.dispatch(square, {"x": X}, tune=True)
        assert device.launched[1:] == [DispatchConfig(workgroup=(256, 1, 1))]
        assert asked["y"].tobytes() == plain["y"].tobytes()
        session.compile(square, session.tuned(square, {"x": X}).config)({"x": X})
        assert device.launched[2:] == [DispatchConfig(workgroup=(256, 1, 1))]


def test_a_dispatch_takes_its_shorthand_along(square: Program, tmp_path: Path) -> None:
    device = TunedDevice(faster_with(256))
    with opened(device, tmp_path) as session:
        session.tune(square, {"x": X}, extent=1000, settings=device.settings())
        device.launched.clear()
        session.dispatch(square, {"x": X}, extent=1000, tune=True)
        session.dispatch(square, {"x": X}, extent=100, tune=True)
    assert device.launched == [DispatchConfig(extent=(1000,), workgroup=(256, 1, 1)), DispatchConfig(extent=(100,))]


def test_a_choice_is_looked_up_once(square: Program, tmp_path: Path) -> None:
    device = TunedDevice(faster_with(256))
    with opened(device, tmp_path) as session:
        first = session.tuned(square, {"x": X})
        assert (first.source, first.why) == (TuningSource.DECLARED, "this launch was not tuned")
        assert session.tuned(square, {"x": X + 1}) is first
        assert session.tuned(square, {"x": X[:5]}) is not first
        tune(device, square, tmp_path)
        assert session.tuned(square, {"x": X}) is first
        session.tune(square, {"x": X})
        assert session.tuned(square, {"x": X}).source is TuningSource.STORE


def test_choices_in_memory_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vyre.app.tuning.service._REMEMBERED", 2)
    programs = [square_program(name) for name in "abc"]
    device = TunedDevice(faster_with(256))
    with opened(device, tmp_path) as session:
        for _ in range(2):
            for program in programs:
                assert session.tuned(program, {"x": X}).source is TuningSource.DECLARED
        service = session._tuning()
        assert len(service._bound) <= 2
        assert len(service._chosen) <= 2


def test_a_loss_is_remembered_as_such(square: Program, tmp_path: Path) -> None:
    device = TunedDevice()
    tune(device, square, tmp_path)
    with opened(device, tmp_path) as session:
        tuned = session.tuned(square, {"x": X})
    assert tuned.source is TuningSource.DECLARED
    assert "not proven faster" in tuned.why


def unguarded() -> Program:
    """Every lane has an effect."""
    with ProgramBuilder("unguarded", workgroup=64) as p:
        x = p.input("x", u32)
        y = p.output("y", u32, count=2000)
        i = p.global_id()
        y[i] = x[i] * x[i]
    return p.build()


def test_what_won_for_other_lengths_applies_only_where_no_byte_can_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, x = unguarded(), np.resize(X, 2000)
    device = TunedDevice(faster_with(256))
    with opened(device, tmp_path) as session:
        report = session.tune(program, {"x": x}, grid=12, settings=device.settings())
        assert report.winner == Candidate(256)
        assert report.config == DispatchConfig(grid=(3, 1, 1), workgroup=(256, 1, 1))
        assert session.tuned(program, {"x": x}, grid=8).config.grid == (2, 1, 1)
        refused = session.tuned(program, {"x": x}, grid=10)
        assert refused.source is TuningSource.DECLARED
        assert refused.config == DispatchConfig(grid=(10, 1, 1))
        assert refused.why == "workgroup 256 won, but here it launches 768 lanes, not 640, and 2000 may have an effect"
        assert session.tune(program, {"x": x}, grid=10, settings=device.settings()).source is TuningSource.RUN


def test_wrong_arguments_are_refused(square: Program, tmp_path: Path) -> None:
    with opened(TunedDevice(), tmp_path) as session:
        for ask in (session.tune, session.tuned):
            with pytest.raises(InvalidInput, match="`x` is missing"):
                ask(square, {})
            with pytest.raises(InvalidConfig, match="given twice"):
                ask(square, {"x": X}, DispatchConfig(grid=(1, 1, 1)), grid=1)
            with pytest.raises(InvalidProgram):
                ask(replace(square, workgroup_size=(0, 1, 1)), {"x": X})


def test_the_choice_for_resident_arrays_is_that_for_host_data_of_their_lengths(tmp_path: Path) -> None:
    ones, program = np.ones(5000, np.float32), saxpy_program()
    with vyre.open("reference", cache=tmp_path) as session:
        of_host = session.tuned(program, {"a": 2.0, "x": ones, "y": ones})
        with session.resident(ones) as y:
            temporary = session.temporary(np.float32, 5000)
            assert session.tuned(program, {"a": 2.0, "x": ones, "y": y}) is of_host
            assert session.tuned(program, [2.0, temporary, y]) is of_host
            assert session.tuned(program, {"a": 2.0, "x": ones[:4], "y": y}) is not of_host
        with pytest.raises(InvalidInput, match="`x` is missing"):
            session.tuned(program, {"a": 2.0, "y": y})


def test_resident_memory_is_refused() -> None:
    ones = np.ones(8, np.float32)
    with (
        vyre.open("reference", cache=False) as session,
        session.resident(ones) as y,
        pytest.raises(InvalidInput, match="resident memory cannot be tuned"),
    ):
        session.tune(saxpy_program(), {"a": 2.0, "x": ones, "y": y})


def test_a_session_without_sources_cannot_tune(square: Program) -> None:
    telemetry = RecordingTelemetry()
    selection = BackendSelector(TunedDevice().catalog, telemetry).select("tuned")
    with Session(selection, telemetry) as session, pytest.raises(UnsupportedFeature, match=r"vyre\.open"):
        session.tune(square, {"x": X})


def test_bytes_are_checked_by_the_installed_reference_where_the_catalog_has_none(square: Program) -> None:
    device = TunedDevice(faster_with(256))
    catalog = replace(device.catalog, registrations=device.catalog.registrations[:1])
    with vyre.open("tuned", catalog=catalog, cache=False) as session:
        assert session.tune(square, {"x": X}, settings=device.settings()).winner == Candidate(256)


def test_without_any_reference_nothing_is_tuned(square: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    catalog = replace(TunedDevice().catalog, registrations=TunedDevice().catalog.registrations[:1])
    monkeypatch.setattr("vyre.app.tuning.sources.installed", BackendCatalog)
    with vyre.open("tuned", catalog=catalog, cache=False) as session:
        with pytest.raises(UnsupportedFeature, match="without a reference"):
            session.tune(square, {"x": X})
        assert session.tuned(square, {"x": X}).source is TuningSource.DECLARED


def test_tuning_is_counted(square: Program, tmp_path: Path) -> None:
    telemetry, device = RecordingTelemetry(), TunedDevice()
    with opened(device, tmp_path, telemetry=telemetry) as session:
        for _ in range(2):
            session.tune(square, {"x": X}, settings=device.settings())
    assert telemetry.counts["vyre.tuning.tuned", (("kind", "device"), ("source", "run"))] == 1
    assert telemetry.counts["vyre.tuning.tuned", (("kind", "device"), ("source", "store"))] == 1


# ---------------------------------------------------------------- pins
@pytest.fixture
def pins(square: Program, tmp_path: Path) -> Path:
    """The winner of a run, exported."""
    tune(TunedDevice(faster_with(256)), square, tmp_path / "elsewhere")
    with opened(TunedDevice(), tmp_path / "elsewhere") as session:
        assert len(session.export_pins(tmp_path / "pins.json")) == 1
    return tmp_path / "pins.json"


def test_a_pin_is_applied_when_asked(pins: Path, square: Program) -> None:
    device = TunedDevice()
    with opened(device, False, pins=pins) as session:
        tuned = session.tuned(square, {"x": X})
        assert tuned == (DispatchConfig(workgroup=(256, 1, 1)), TuningSource.PIN, "workgroup 256 is pinned", True, {})
        session.dispatch(square, {"x": X})
        session.dispatch(square, {"x": X}, tune=True)
    assert device.launched == [DispatchConfig(), DispatchConfig(workgroup=(256, 1, 1))]


def test_no_measurement_overrides_a_pin(pins: Path, square: Program, tmp_path: Path) -> None:
    device = TunedDevice(faster_with(512))
    assert tune(device, square, tmp_path).winner == Candidate(512)
    device.launched.clear()
    with opened(device, tmp_path, pins=str(pins)) as session:
        report = session.tune(square, {"x": X}, settings=device.settings(again=True))
        assert (report.source, report.winner, report.measured) == (TuningSource.PIN, Candidate(256), True)
        assert report.medians == (None, None)
        assert "is pinned" in report.why
        assert device.launched == []
        assert session.tuned(square, {"x": X}).config == report.config == DispatchConfig(workgroup=(256, 1, 1))


@pytest.mark.parametrize("field", OTHERS)
def test_a_pin_of_another_device_or_version_is_ignored_with_its_reason(
    field: str, pins: Path, square: Program, tmp_path: Path
) -> None:
    telemetry, other = RecordingTelemetry(), OTHERS[field](TunedDevice())
    with opened(other, tmp_path, pins=pins, telemetry=telemetry) as session:
        tuned = session.tuned(square, {"x": X})
    assert tuned.source is TuningSource.DECLARED
    reason = f"the nearest pin of this program differs in {field}"
    assert tuned.why == f"{reason}; this launch was not tuned"
    (event,) = [event for event in telemetry.events if event.name == "vyre.tuning.pin_ignored"]
    assert event.fields | {"session": 1} == {"program": square.digest.hex(), "reason": reason, "session": 1}


def test_behind_a_pin_that_does_not_apply_comes_the_store(pins: Path, square: Program, tmp_path: Path) -> None:
    device = TunedDevice(faster_with(512), driver="14.0")
    tune(device, square, tmp_path)
    with opened(device, tmp_path, pins=pins) as session:
        tuned = session.tuned(square, {"x": X})
        assert (tuned.source, tuned.config.workgroup) == (TuningSource.STORE, (512, 1, 1))
        assert tuned.why.startswith("the nearest pin of this program differs in driver; ")
        assert session.tune(square, {"x": X}).source is TuningSource.STORE


def test_a_pin_cannot_change_a_byte(tmp_path: Path) -> None:
    """One that was sealed by hand for a size on which the result depends."""
    program, x = unguarded(), np.resize(X, 2000)
    device = TunedDevice()
    with opened(device, tmp_path) as session:
        key = session.tune(program, {"x": x}, grid=10, settings=device.settings()).key
    pins = Pins.of([Pin(key, Candidate(256), TimeKind.DEVICE)])
    with opened(device, tmp_path, pins=pins) as session:
        tuned = session.tuned(program, {"x": x}, grid=10)
        assert (tuned.source, tuned.config) == (TuningSource.DECLARED, DispatchConfig(grid=(10, 1, 1)))
        assert tuned.why.startswith("it launches 768 lanes, not 640")
        assert session.tune(program, {"x": x}, grid=10).source is TuningSource.STORE


def test_winners_of_all_programs_are_exported_and_losers_are_not(tmp_path: Path) -> None:
    fast, even, model = (
        TunedDevice(faster_with(256)),
        TunedDevice(device="even"),
        TunedDevice(faster_with(128), device="model", kind=TimeKind.ESTIMATED),
    )
    reports = [tune(device, square_program(), tmp_path) for device in (fast, even, model)]
    with opened(fast, tmp_path) as session:
        found = session.export_pins(str(tmp_path / "pins.json"))
    assert load_pins(tmp_path / "pins.json") == found
    assert found == Pins.of(
        [
            Pin(reports[0].key, Candidate(256), TimeKind.DEVICE),
            Pin(reports[2].key, Candidate(128), TimeKind.ESTIMATED),
        ]
    )


def test_without_a_cache_there_is_nothing_to_export(tmp_path: Path) -> None:
    with opened(TunedDevice(), False) as session, pytest.raises(InvalidConfig, match="the cache is turned off"):
        session.export_pins(tmp_path / "pins.json")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("content", "error"), [(b"{}", MalformedJson), (b"\xff", MalformedJson), (None, UnreadableFile)]
)
def test_a_file_that_holds_no_pins_is_refused(content: bytes | None, error: type[Exception], tmp_path: Path) -> None:
    path = tmp_path / "pins.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(error):
        vyre.open("reference", pins=path)


@pytest.mark.parametrize("pins", ["", 5, ["a"]])
def test_what_cannot_be_pins_is_refused(pins: Any) -> None:
    with pytest.raises(InvalidConfig, match="are no pins"):
        load_pins(pins)
