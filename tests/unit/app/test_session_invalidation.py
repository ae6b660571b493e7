"""What a session compiles after an invalidation, and what stays at hand."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Final

import numpy as np
import pytest

import vyre
from support.disk_cache import entry_files
from support.limits import LIMIT_S
from support.small_programs import square_program
from vyre import Program, ProgramBuilder, u32
from vyre.app.pipeline import Pipeline
from vyre.app.preparing import PreparedPipelines, Wanted
from vyre.domain.artifact_key import ArtifactKind
from vyre.domain.dispatch import DispatchConfig
from vyre.domain.errors import InvalidConfig, InvalidResource

MACHINE: Final = "cuda-machine"


def program(value: int) -> Program:
    with ProgramBuilder(f"add {value}", workgroup=4) as p:
        y = p.inout("y", u32)
        y[p.global_id()] = y[p.global_id()] + p.spec("n", 5) + value
    return p.build()


FIRST, SECOND = program(1), program(2)
FOUR: Final = np.arange(4, dtype=np.uint32)


def emitted(session: vyre.Session) -> int:
    return session.metrics()["emits"]


def test_a_program_is_emitted_again_and_others_are_at_hand(tmp_path: Path) -> None:
    with vyre.open(MACHINE, cache=tmp_path / "cache") as session:
        held, other = session.compile(FIRST), session.compile(SECOND)
        specialized = session.compile(FIRST, spec={"n": 7})
        resized = session.compile(FIRST, DispatchConfig(workgroup=(8, 1, 1)))
        before, files = emitted(session), len(entry_files(tmp_path / "cache"))
        report = session.invalidate(FIRST)
        assert {entry.key.kind for entry in report.removed} >= {ArtifactKind.PTX}
        assert len(entry_files(tmp_path / "cache")) == files - len(report.removed)
        assert report.forgotten == 3
        again = session.compile(FIRST)
        assert again is not held
        assert (again.cache.value, again.reason) == (
            "miss",
            f"never seen: no ptx of program {FIRST.digest.hex()[:16]} is stored",
        )
        assert emitted(session) == before + 1
        assert session.compile(FIRST, spec={"n": 7}) is not specialized
        assert session.compile(FIRST, DispatchConfig(workgroup=(8, 1, 1))) is not resized
        assert emitted(session) == before + 3
        assert session.compile(SECOND) is other
        assert emitted(session) == before + 3
        for pipeline in (held, again):
            assert pipeline({"y": FOUR})["y"].tolist() == [6, 7, 8, 9]


def test_one_entry_goes_by_its_key(tmp_path: Path) -> None:
    with vyre.open(MACHINE, cache=tmp_path / "cache") as session:
        session.compile(FIRST)
        (stored,) = (e.key for e in session.invalidate(FIRST, dry_run=True).removed if e.key.kind is ArtifactKind.PTX)
        report = session.invalidate(key=stored)
        assert [(entry.key, entry.why) for entry in report.removed] == [(stored, "named by its key")]
        assert report.forgotten == 1
        before = emitted(session)
        session.compile(FIRST)
        assert emitted(session) == before + 1


def test_what_all_programs_share_takes_them_all(tmp_path: Path) -> None:
    with vyre.open(MACHINE, cache=tmp_path / "cache") as session:
        pipelines = [session.compile(each) for each in (FIRST, SECOND)]
        target = session.invalidate(FIRST, dry_run=True).removed[0].key.target or "sm_90"
        before = emitted(session)
        report = session.invalidate(target=target)
        assert (report.forgotten, len(report.programs)) == (2, 2)
        assert all(session.compile(each) is not old for each, old in zip((FIRST, SECOND), pipelines, strict=True))
        assert emitted(session) == before + 2


def test_what_is_still_stored_is_read_again_and_not_emitted(tmp_path: Path) -> None:
    with vyre.open(MACHINE, cache=tmp_path / "cache") as session:
        old = session.compile(FIRST)
        before = emitted(session)
        assert session.invalidate(emitter="old").removed == ()
        again = session.compile(FIRST)
        assert again is not old
        assert again.cache.value == "hit"
        assert emitted(session) == before


def test_a_dry_run_changes_nothing(tmp_path: Path) -> None:
    with vyre.open(MACHINE, cache=tmp_path / "cache") as session:
        pipeline = session.compile(FIRST)
        report = session.invalidate(FIRST, dry_run=True)
        assert report.dry_run and report.removed and report.forgotten == 0
        assert session.compile(FIRST) is pipeline
        assert len(entry_files(tmp_path / "cache")) == len(report.removed) + report.kept


def test_without_a_store_memory_is_forgotten_all_the_same() -> None:
    with vyre.open(MACHINE, cache=False) as session:
        old = session.compile(FIRST)
        before = emitted(session)
        report = session.invalidate(FIRST)
        assert (report.removed, report.forgotten) == ((), 1)
        assert session.compile(FIRST) is not old
        assert emitted(session) == before + 1


def test_the_reference_compiles_again_and_leaves_the_store_alone(tmp_path: Path) -> None:
    with vyre.open(MACHINE, cache=tmp_path / "cache") as session:
        session.compile(FIRST)
    files = entry_files(tmp_path / "cache")
    with vyre.open("reference", cache=tmp_path / "cache") as session:
        session.compile(FIRST)
        report = session.invalidate(FIRST)
        assert (report.removed, report.forgotten) == ((), 1)
        assert session.compile(FIRST).reason == "the program was invalidated"
        assert session.compile(SECOND).reason == "the program is new here"
    assert entry_files(tmp_path / "cache") == files


def test_a_closed_session_invalidates_nothing() -> None:
    with vyre.open("reference") as session, pytest.raises(InvalidConfig, match="nothing is named"):
        session.invalidate()
    with pytest.raises(InvalidResource, match="closed"):
        session.invalidate(FIRST)


def test_what_is_being_prepared_is_not_at_hand_afterwards() -> None:
    """The compilation began before the invalidation, so nobody who asks later gets it."""
    with vyre.open("reference") as session:
        pipelines = PreparedPipelines()
        config = DispatchConfig()
        wanted = Wanted((1,), FIRST, config, config)
        entered, release = threading.Event(), threading.Event()
        made: list[Pipeline] = []

        def slow(each: Wanted) -> Pipeline:
            entered.set()
            assert release.wait(LIMIT_S)
            return session.compile(each.program)

        worker = threading.Thread(target=lambda: made.append(pipelines.get(wanted, slow)))
        worker.start()
        assert entered.wait(LIMIT_S)
        pipelines.forget(frozenset({FIRST.digest}))
        other = session.compile(SECOND)
        assert pipelines.get(wanted, lambda each: other) is other  # waits for nobody
        release.set()
        worker.join()
        assert made == [session.compile(FIRST)]
        assert pipelines.held((1,)) is other


def test_only_the_programs_named_are_prepared_anew() -> None:
    with vyre.open("reference") as session:
        pipelines, config = PreparedPipelines(), DispatchConfig()
        wanted = [Wanted((n,), each, config, config) for n, each in enumerate((FIRST, SECOND, square_program()))]
        for each in wanted:
            pipelines.get(each, lambda w: session.compile(w.program))
        pipelines.forget(frozenset({FIRST.digest}))
        assert [pipelines.held((n,)) is None for n in range(3)] == [True, False, False]
        pipelines.forget(frozenset())
        assert len(pipelines.table) == 2
        pipelines.forget(None)
        assert pipelines.table == {}
