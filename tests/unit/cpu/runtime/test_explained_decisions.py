"""What ``Session.explain`` tells of a program on the CPU is what its dispatches went by: equal inputs and verdicts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

import vyre
from support.cpu.backends import CountedTools, backend_of
from vyre import DecisionJournal, Program, ProgramBuilder, u32
from vyre.adapters.cpu.decisions.effort_choice import FullEffort, LightEffort
from vyre.adapters.cpu.native.compilation import Effort
from vyre.adapters.cpu.pool.worker_pool import WorkerPool
from vyre.adapters.cpu.registration import cpu_catalog
from vyre.adapters.cpu.runtime.kernels import KernelCache
from vyre.adapters.cpu.runtime.options import CpuOptions
from vyre.adapters.cpu.runtime.pipeline import CpuExecutor
from vyre.app.cli import main
from vyre.domain.dispatch import DEFAULT_CONFIG, DispatchConfig
from vyre.domain.errors import UnsupportedFeature
from vyre.gallery.registry import load
from vyre.policies.journal import Decision

TOPICS: Final = ("vector_width", "compiler_effort", "thread_plan", "private_atomics")
LANES: Final = 1 << 18


def counted(workgroup: int = 64) -> Program:
    """Counts the low bits of all elements, with atomics whose results nobody uses."""
    with ProgramBuilder("counted", workgroup=workgroup) as p:
        x = p.input("x", u32)
        counts = p.inout("counts", u32)
        i = p.global_id()
        with p.if_(i < x.length):
            counts.atomic_add(x[i] & 7, u32(1))
    return p.build()


def locked() -> Program:
    """Has a small buffer that threads could have copies of, and a large one that they could not."""
    with ProgramBuilder("locked", workgroup=64) as p:
        x = p.input("x", u32)
        counts, most = p.inout("counts", u32), p.inout("most", u32)
        i = p.global_id()
        with p.if_(i < x.length):
            counts.atomic_add(x[i] & 7, u32(1))
            most.atomic_max(x[i] & 7, x[i])
    return p.build()


INPUTS: Final = {"x": np.arange(LANES, dtype=np.uint32), "counts": np.zeros(8, np.uint32)}
LARGE: Final = INPUTS | {"most": np.zeros(1 << 19, np.uint32)}
PROGRAMS: Final[dict[str, tuple[Program, dict[str, Any]]]] = {
    "copies for atomics": (counted(), INPUTS),
    "vectors of several workgroups": (counted(4), INPUTS),
    "locked atomics": (locked(), LARGE),
    "order-sensitive": (load("basics.p21_compaction").program(), dict(load("basics.p21_compaction").case().inputs)),
    "subgroups": (load("basics.p23_subgroups").program(), dict(load("basics.p23_subgroups").case().inputs)),
}


@pytest.fixture(autouse=True)
def fixed_hand_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fixes the time of a hand-off, which a busy machine measures so long that no second thread pays."""
    monkeypatch.setattr(WorkerPool, "handoff_ns", 2_500)


def by_name(decisions: tuple[Decision, ...]) -> dict[str, list[Decision]]:
    found: dict[str, list[Decision]] = {name: [] for name in TOPICS}
    for decision in decisions:
        if decision.name in found:
            found[decision.name].append(decision)
    return found


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("name", PROGRAMS)
def test_an_explanation_tells_what_dispatches_went_by(name: str, threads: int) -> None:
    program, inputs = PROGRAMS[name]
    journal = DecisionJournal()
    catalog = cpu_catalog(CpuOptions(threads=threads))
    with vyre.open("cpu", catalog=catalog, cache=False, journal=journal) as session:
        for _ in range(3):
            session.dispatch(program, inputs)
        went_by = by_name(journal.decisions)
        told = by_name(session.explain(program, inputs=inputs).decisions)
    assert {topic: len(found) for topic, found in told.items()} == dict.fromkeys(TOPICS, 1)
    for topic in ("thread_plan", "private_atomics", "compiler_effort"):
        ours, theirs = told[topic][0], went_by[topic][-1]
        assert (ours.arguments, ours.verdict) == (theirs.arguments, theirs.verdict), topic
    width = told["vector_width"][0]
    assert (width.arguments, width.verdict) in [(each.arguments, each.verdict) for each in went_by["vector_width"]]


@pytest.mark.parametrize(("workgroup", "lanes"), [(4, None), (64, None), (64, 4)])
def test_the_width_told_is_that_of_the_code(workgroup: int, lanes: int | None) -> None:
    catalog = cpu_catalog(CpuOptions(lanes=lanes))
    with vyre.open("cpu", catalog=catalog, cache=False) as session:
        found = session.explain(counted(workgroup), inputs=INPUTS)
        width = by_name(found.decisions)["vector_width"][0].verdict.lanes  # type: ignore[attr-defined]
        if lanes is not None:
            assert width == lanes
        emitted = vyre.emit(counted(workgroup), target="cpu").to_json()["lanes"]
    assert lanes is not None or workgroup == 4 or width == emitted


def test_copies_are_told_where_threads_get_them_and_a_reason_where_not() -> None:
    with vyre.open("cpu", threads=4, cache=False) as session:
        copied = session.explain(counted(), inputs=INPUTS)
        shared = session.explain(locked(), inputs=LARGE)
    assert [a.verdict for a in copied.others if a.topic == "private atomics"] == ["copies"]
    assert [(a.verdict, a.why) for a in shared.others if a.topic == "private atomics"] == [
        ("no copies", "`most`: 2097152 bytes exceed the 1048544 left to a thread")
    ]


def test_the_effort_told_is_that_of_the_code_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KernelCache, "compile_later", lambda cache, work: work())  # at once, not in the background
    native = CountedTools()
    lengths = (16, 32)
    with backend_of(native.tools, threads=1) as backend:
        executor, planning = backend.executor, backend.planning
        assert isinstance(executor, CpuExecutor) and planning is not None
        module = executor.pipeline(counted(), DEFAULT_CONFIG)[0].shape(lengths).choice.module

        def told() -> tuple[Any, Effort]:
            journal = DecisionJournal()
            planning.work(counted(), DEFAULT_CONFIG, lengths, journal)
            return by_name(journal.decisions)["compiler_effort"][0].verdict, module.loaded.effort

        before = told()
        for _ in range(2):
            module.took(10**12)  # much longer than full effort takes
        after = told()
    assert isinstance(before[0], LightEffort) and before[1] is Effort.LIGHT
    assert isinstance(after[0], FullEffort) and after[1] is Effort.FULL
    assert str(after[0].why) == "its full code is stored"


def test_the_command_prints_all_four_with_their_reasons(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "counted.vyre"
    file.write_text(counted().to_text(), encoding="utf-8")
    record = tmp_path / "decisions.jsonl"
    assert main(["explain", str(file), "--backend", "cpu", "--json", "--record", str(record)]) == 0
    told = {each["topic"]: each for each in json.loads(capsys.readouterr().out)["decisions"]}
    for topic in TOPICS:
        each = told[topic.replace("_", " ")]
        assert each["verdict"] and each["why"]
    lines = [json.loads(line) for line in record.read_text("utf-8").splitlines()]
    assert set(TOPICS) <= {line["policy"] for line in lines}
    assert all(line["inputs"] for line in lines if line["policy"] in TOPICS)
    assert main(["explain", "--replay", str(record)]) == 0


def test_what_cannot_run_is_not_explained() -> None:
    with vyre.open("cpu", cache=False) as session, pytest.raises(UnsupportedFeature, match="race_check"):
        session.explain(counted(), DispatchConfig(race_check=True), inputs=INPUTS)
