"""Sessions record what they decide, another process comes to the same verdicts, and every verdict is counted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dependency_injector import providers

import vyre
from support.launch_costs import launch_costs, measured, shorten_calibrations
from support.limits import LIMIT_S
from support.small_programs import saxpy_program
from vyre.adapters.cuda import ids
from vyre.adapters.cuda.machine.driver import MachineDriver
from vyre.adapters.cuda.registration import CUDA_MACHINE
from vyre.adapters.cuda.runtime.backend import make_backend
from vyre.adapters.cuda.runtime.device import CudaOptions
from vyre.app.container import Container
from vyre.app.explain.explanation import Explanation
from vyre.app.explain.journals import replay_file
from vyre.app.journal import DecisionJournal
from vyre.app.pipeline import Inputs
from vyre.domain.cache_config import CacheConfig
from vyre.domain.dispatch import DispatchConfig
from vyre.domain.errors import InvalidConfig, InvalidField, UnusableCosts
from vyre.domain.launch_costs import ASSUMED, KernelTime
from vyre.domain.program_report import InvalidProgram
from vyre.gallery.example import Dispatcher, Example, mismatches
from vyre.gallery.registry import BASICS, load
from vyre.policies.caching.cost_eviction import EvictionInputs
from vyre.policies.decision_records import ReplayOutcome
from vyre.policies.journal import Decision
from vyre.policies.launching.execution_prices import ExecutionMode
from vyre.policies.tuning.paired_race import RaceThresholds
from vyre.ports.backend import Backend, BackendCatalog, BackendRole, BackendServices
from vyre.testing.fakes import function_backend, registration_of
from vyre.testing.recording_telemetry import RecordingTelemetry

MACHINE = "cuda-machine"


def record_the_gallery(cache: Path) -> DecisionJournal:
    """What a session decides that compiles the basics, runs some of them, and explains them all.

    It has no room for the code of them all, and for a single graph.
    """
    journal = DecisionJournal()
    few = CudaOptions(exports=False, graph_after=1, graphs=1)
    small = CacheConfig(cache, max_entries=8)
    with vyre.open(MACHINE, catalog=machine_catalog(few), cache=small, journal=journal) as session:
        assert session.journal is journal
        for name in BASICS:
            example = load(f"basics.{name}")
            session.explain(example.program(), batch=100, costs="assumed")
            if name.startswith(("p01", "p02", "p24")):
                for _ in range(3):
                    run(example, session)
            else:
                session.compile(example.program())
    with vyre.open("reference", journal=journal) as session:
        for name in ("softmax", "sobel"):
            example, guessing = load(f"applications.{name}"), Guessing(session)
            for _ in range(12):
                run(example, guessing)
                session._background.join()
            assert all(pipeline.explain().special for pipeline in guessing.pipelines.values())
    return journal


def machine_catalog(options: CudaOptions) -> BackendCatalog:
    def make(services: BackendServices) -> Backend:
        driver = MachineDriver()
        return make_backend(driver, ids.MACHINE, options, services, work_done=lambda: driver.lane_instructions)

    return BackendCatalog((replace(CUDA_MACHINE, factory=make),))


class Guessing:
    """Dispatches with guessed parameters, and races each program against itself before."""

    def __init__(self, session: vyre.Session) -> None:
        self._session = session
        self.pipelines: dict[bytes, vyre.SpecializedPipeline] = {}

    def dispatch(self, program: vyre.Program, inputs: Inputs, config: DispatchConfig | None = None) -> vyre.Result:
        pipeline = self.pipelines.get(program.digest)
        if pipeline is None:
            pipeline = self.pipelines[program.digest] = self._session.specialize(program, config=config)
            twins = dict.fromkeys(("this", "that"), config or DispatchConfig())
            self._session.race(program, inputs, twins, thresholds=RaceThresholds(max_pairs=3))
        return pipeline(inputs)


def left_by_number(decision: Decision) -> bool:
    """Was it a graph that left?"""
    inputs = decision.arguments[0]
    return isinstance(inputs, EvictionInputs) and inputs.candidates[0].key.isdigit()


def run(example: Example, session: Dispatcher) -> None:
    case = example.case()
    assert mismatches(case, example.run(session, example.program(), case)) == []


# ---- recording
@pytest.mark.slow
def test_a_recorded_session_of_the_gallery_is_decided_the_same_in_another_process(tmp_path: Path) -> None:
    journal = record_the_gallery(tmp_path / "cache")
    names = Counter(decision.name for decision in journal.decisions)
    assert names["plan_execution"] == len(BASICS)
    assert names["least_worth"] > len(BASICS) - 8
    graphs = [decision for decision in journal.decisions if left_by_number(decision)]
    assert 2 <= len(graphs) < names["least_worth"]
    assert names["judge_race"] == names["choose_path"] == 2
    assert names.keys() >= {
        "plan_resource_table",
        "explain_miss",
        "divide_by",
        "choose_grid_sync",
        "diagnose_shape",
        "decide_param_inlining",
        "select_target",
        "fences_needed",
        "decide_trace_jit_speculation",
        "workgroup_candidates",
    }
    session = vyre.open("reference", journal=journal)
    session.close()
    file = tmp_path / "gallery.jsonl"
    assert session.write_journal(file) == len(journal) > 3 * len(BASICS)
    for seed in ("1", "2"):
        command = [sys.executable, "-m", "vyre", "explain", "--replay", str(file), "--json"]
        environment = os.environ | {"PYTHONHASHSEED": seed}
        replayed = subprocess.run(
            command, capture_output=True, text=True, env=environment, check=False, timeout=LIMIT_S
        )
        assert replayed.returncode == 0, replayed.stdout + replayed.stderr
        assert json.loads(replayed.stdout)["outcomes"] == {
            "same verdict": len(journal),
            "different verdict": 0,
            "changed policy version": 0,
            "unknown policy": 0,
        }


def test_the_choice_of_a_backend_is_recorded(tmp_path: Path) -> None:
    backends = [function_backend(dict, name) for name in ("plain", "better")]
    backends[1] = replace(backends[1], profile=replace(backends[1].profile, supports_f16=True))
    catalog = BackendCatalog(tuple(registration_of(b, role=BackendRole.PRODUCTION, rank=1) for b in backends))
    journal = DecisionJournal()
    with vyre.open(catalog=catalog, journal=journal) as session:
        assert session.backend == "better"
        session.write_journal(tmp_path / "j")
    (replayed,) = replay_file(tmp_path / "j")
    assert replayed.record.policy == "rank_candidates"
    assert replayed.outcome is ReplayOutcome.SAME
    assert [candidate["id"] for candidate in replayed.verdict] == ["better", "plain"]


def test_what_an_invalidation_reaches_is_recorded(tmp_path: Path) -> None:
    journal, (first, second) = DecisionJournal(), (saxpy_program(), load("basics.p02_shift").program())
    with vyre.open(MACHINE, cache=tmp_path / "cache", journal=journal) as session:
        for program in (first, second):
            session.compile(program)
        removed = session.invalidate(first).removed
        session.write_journal(tmp_path / "j")
    (found,) = [each for each in replay_file(tmp_path / "j") if each.record.policy == "affected_artifacts"]
    assert found.outcome is ReplayOutcome.SAME
    assert len(found.record.inputs["stored"]) > len(found.verdict) == len(removed) > 0


def test_the_container_has_a_journal_too() -> None:
    container, journal = Container(), DecisionJournal()
    container.journal.override(providers.Object(journal))
    container.backend_name.override(providers.Object("reference"))
    with container.session() as session:
        session.explain(saxpy_program(), costs="assumed")
    assert len(journal) == 3


def test_without_a_journal_nothing_is_kept(tmp_path: Path) -> None:
    with vyre.open("reference") as session:
        assert session.journal is None
        with pytest.raises(InvalidConfig, match="Fix: open the session with"):
            session.write_journal(tmp_path / "j")
    assert list(tmp_path.iterdir()) == []


def test_verdicts_are_counted() -> None:
    telemetry = RecordingTelemetry()
    with vyre.open(MACHINE, telemetry=telemetry, cache=False) as session:
        example = load("basics.p24_grid_sync")
        session.prepare(example.program())
    assert counted(telemetry, "vyre.decision") == {
        ("choose_grid_sync", "native"): 1,
        ("choose_passes", "as written"): 1,
        ("fences_needed", "some"): 1,
        ("plan_resource_table", "Parameters"): 1,
        ("select_target", "sm_90"): 1,
    }


def counted(telemetry: RecordingTelemetry, name: str) -> Mapping[tuple[str, ...], int]:
    return {tuple(dict(labels).values()): n for (found, labels), n in telemetry.counts.items() if found == name}


# ---- explaining
OPERATIONS = 3
"""Of a dispatch of saxpy: its kernel, and a copy each way."""
OPEN = "sizes are left open: 64 elements of `x`, `y` are assumed"


def explained(backend: str = MACHINE, **asked: Any) -> Explanation:
    with vyre.open(backend, cache=False) as session:
        return session.explain(saxpy_program(), **asked)


def kernel_of(found: Explanation) -> int:
    kernel = found.inputs.workload.kernel
    assert kernel is not None
    return kernel.median_ns


def test_without_a_program_it_tells_about_the_backend() -> None:
    with vyre.open("reference") as session:
        assert session.explain().chosen == "reference"


def test_an_explanation_has_numbers_and_reasons() -> None:
    found = explained(batch=100, repeats=1_000, costs=launch_costs(), kernel_time_ns=500)
    assert found.plan.mode in {mode for mode in ExecutionMode if found.plan.price(mode) is not None}
    assert found.at(100) == {price.mode: price for price in found.plan.quotes if hasattr(price, "total_ns")}
    assert found.at(1)[ExecutionMode.PLAIN].total_ns < found.at(2)[ExecutionMode.PLAIN].total_ns
    assert [answer.topic for answer in found.others] == ["addresses of buffers", "optimizer", "workgroup sizes"]
    assert found.notes == (OPEN,)
    text = str(found).splitlines()
    assert text[0].startswith(f"`saxpy` on `{MACHINE}`, a batch of 100: {found.plan.mode.value}, since ")
    assert text[3].startswith("  persistent: ") and text[3].endswith(" ns (session.persistent(program))")


def test_a_kernel_that_nobody_timed_is_assumed_aloud() -> None:
    found = explained(costs=launch_costs())
    assert kernel_of(found) == 5_000 // OPERATIONS
    assert found.notes == ("nobody timed the kernel: 5000 ns are assumed", OPEN)


def test_the_time_of_a_kernel_is_taken_from_the_costs() -> None:
    with vyre.open(MACHINE, cache=False) as session:
        program = saxpy_program()
        times = (KernelTime(session.compile(program).id, measured(777)),)
        found = session.explain(program, costs=replace(launch_costs(), kernels=times))
    assert (kernel_of(found), found.notes) == (777 // OPERATIONS, (OPEN,))


def test_uniform_buffers_and_constants_are_explained() -> None:
    with vyre.ProgramBuilder("scaled", workgroup=64) as p:
        factors = p.uniform("factors", vyre.u32, 4)
        y = p.inout("y", vyre.u32)
        y[p.global_id()] = y[p.global_id()] * factors[0]
    with vyre.open(MACHINE, cache=False) as session:
        others = session.explain(p.build(), costs=ASSUMED).others
    assert [answer for answer in others if answer.topic == "uniform buffer"] == [
        ("uniform buffer", "Inline", "16 bytes fit the budget of 256")
    ]


def test_costs_are_asked_for_by_name() -> None:
    assert explained(costs="assumed").inputs.costs is ASSUMED
    assert explained().notes[1].startswith("launch costs are assumed: no launch costs are known")
    with pytest.raises(UnusableCosts):
        explained(costs="measured")


@pytest.mark.parametrize("asked", [{"batch": 0}, {"repeats": 0}, {"kernel_time_ns": -1}, {"batch": 1.5}])
def test_a_question_that_cannot_be_meant(asked: dict[str, Any]) -> None:
    with pytest.raises(InvalidField):
        explained(costs=ASSUMED, **asked)


def test_an_invalid_program_is_not_explained() -> None:
    broken = replace(saxpy_program(), workgroup_size=(0, 1, 1))
    with vyre.open("reference") as session, pytest.raises(InvalidProgram):
        session.explain(broken)


def test_tuning_calibration_and_prediction_are_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shorten_calibrations(monkeypatch)
    journal, program = DecisionJournal(), saxpy_program()
    inputs: Inputs = {"a": 2.0, "x": np.ones(4096, np.float32), "y": np.ones(4096, np.float32)}
    with vyre.open(MACHINE, cache=tmp_path / "cache", journal=journal) as session:
        session.tune(program, inputs)
        session.calibrate(rounds=5)
        session.calibrate(rounds=5)
        specialized = session.specialize(program)
        for _ in range(20):
            specialized(inputs)
        session.write_journal(tmp_path / "j")
    names = {decision.name for decision in journal.decisions}
    assert names >= {
        "workgroup_candidates",
        "shortlist",
        "cheapest_estimate",
        "judge_cost",
        "decide_trace_jit_speculation",
    }
    assert {replayed.outcome for replayed in replay_file(tmp_path / "j")} == {ReplayOutcome.SAME}


def test_a_journal_is_a_journal(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match=r"journal=.*Fix:"):
        vyre.open("reference", journal=tmp_path)  # type: ignore[arg-type]


def test_costs_are_costs_or_a_name() -> None:
    with pytest.raises(InvalidConfig, match=r"costs=5.*Fix:"):
        explained(costs=5)
