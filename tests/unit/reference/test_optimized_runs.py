"""Programs of the reference that are optimized once they have run often enough."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import vyre
from vyre import DecisionJournal, DispatchConfig, ProgramBuilder, i32, u32
from vyre.adapters import optimizing
from vyre.adapters.reference import executor
from vyre.policies.optimizing.program_passes import ProgramPasses


def casting() -> vyre.Program:
    with ProgramBuilder("casting", workgroup=32) as p:
        x = p.input("x", u32, 64)
        y = p.output("y", u32, 64)
        i = p.let(p.global_id().cast(i32))
        j = p.let((i + 1).cast(u32))
        unused = p.let(x[j] * 3)
        del unused
        y[p.let(i.cast(u32))] = x[p.let(i.cast(u32))] + x[j]
    return p.build()


def labels(journal: DecisionJournal) -> list[str]:
    return [d.verdict.label for d in journal.decisions if isinstance(d.verdict, ProgramPasses)]


def run_often(session: vyre.Session, times: int, **config: Any) -> list[bytes]:
    x = np.arange(64, dtype=np.uint32)
    settings = DispatchConfig(grid=2, **config)
    program = casting()
    return [session.dispatch(program, {"x": x}, settings)["y"].tobytes() for _ in range(times)]


def test_the_decision_is_taken_again_whenever_the_runs_have_doubled() -> None:
    journal = DecisionJournal()
    with vyre.open("reference", journal=journal) as session:
        results = run_often(session, 40)
    assert len(set(results)) == 1
    assert labels(journal) == ["as written"] * 4 + ["optimized"] * 3  # after 0, 1, 2, 4, 8, 16 and 32 runs


def test_the_optimized_program_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    optimized = optimizing.optimized

    def noted(*arguments: Any) -> Any:
        made.append(optimized(*arguments))
        return made[-1]

    monkeypatch.setattr(executor, "optimized", noted)
    with vyre.open("reference") as session:
        run_often(session, 20)
    assert [result.results[0].name for result in made] == ["narrowing", "narrowing"]
    assert "unused" not in made[-1].program.to_text() and "cast<" not in made[-1].program.to_text()


@pytest.mark.parametrize("how", ["session", "dispatch", "steps", "races", "oracle"])
def test_programs_run_as_they_are_written_where_that_is_asked_for(how: str) -> None:
    journal = DecisionJournal()
    backend = "reference-scalar" if how == "oracle" else "reference"
    config: dict[str, dict[str, object]] = {
        "dispatch": {"optimize": False},
        "steps": {"step_budget": 100},
        "races": {"race_check": True},
    }
    with vyre.open(backend, journal=journal, optimize=how != "session") as session:
        run_often(session, 10, **config.get(how, {}))
    assert "optimized" not in labels(journal)


def test_another_size_of_workgroups_is_heeded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor, "passes_for", lambda *_: "branches/1")
    program = vyre.Program.from_text(
        "program sized\nworkgroup_size 8, 1, 1\nbuffer y @0 write u32[64]\nbody {\n"
        "  if lid.x < 8u {\n    y[gid.x] = cast<u32>(cast<i32>(lid.x)) + 1u\n  }\n}\n"
    )
    config = DispatchConfig(workgroup=32, grid=2)
    with vyre.open("reference") as session:
        results = {session.dispatch(program, {}, config)["y"].tobytes() for _ in range(2)}
    expected = [1 + k % 32 if k % 32 < 8 else 0 for k in range(64)]
    assert results == {np.array(expected, np.uint32).tobytes()}
