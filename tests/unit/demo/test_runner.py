"""The demo checks every answer, and a wrong one is shown as wrong."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import vyre
from vyre import DispatchFailed, Program, Session
from vyre.app.demo import DemoRow, run_demo, runner
from vyre.app.demo.jobs import Job
from vyre.domain.errors import UnreadableFile
from vyre.gallery.basics.p02_shift import shift
from vyre.gallery.example import Array, Dispatcher

RIGHT = np.arange(6, dtype=np.uint8).reshape(2, 3)


def job(answer: Array | Exception, name: str = "job") -> Job:
    def run(session: Dispatcher, program: Program) -> Array:
        if isinstance(answer, Exception):
            raise answer
        return answer

    return Job(name, "six pixels", lambda: shift.program, run, lambda: RIGHT, "by hand", lambda pixels: pixels)


@pytest.fixture
def session() -> Session:
    return vyre.open("reference")


def rows_of(jobs: list[Job], session: Session, out_dir: Path, monkeypatch: pytest.MonkeyPatch) -> list[DemoRow]:
    monkeypatch.setattr(runner, "all_jobs", lambda: jobs)
    reported: list[DemoRow] = []
    rows = run_demo(session, out_dir, reported.append)
    assert reported == rows
    return rows


def test_right_answers_write_their_picture(session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (row,) = rows_of([job(RIGHT, "right")], session, tmp_path / "new", monkeypatch)
    assert (row.ok, row.detail, row.backend, row.why) == (True, "", "reference", "asked for by name")
    assert row.picture == tmp_path / "new" / "right.png"
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["right.png"]


@pytest.mark.parametrize(
    ("answer", "detail"),
    [
        (RIGHT + np.uint8(1), "6 of 6 values differ from by hand"),
        (np.where(RIGHT == 4, 0, RIGHT), "1 of 6 values differ from by hand"),
        (RIGHT[:1], "shape (1, 3), expected (2, 3)"),
        (DispatchFailed("the device is on fire"), "the device is on fire. Fix: "),
    ],
)
def test_wrong_answers_and_errors_are_rows_and_the_rest_still_runs(
    answer: Array | Exception, detail: str, session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad, good = rows_of([job(answer, "bad"), job(RIGHT, "good")], session, tmp_path, monkeypatch)
    assert not bad.ok and bad.picture is None and detail in bad.detail
    assert good.ok
    assert [path.name for path in tmp_path.iterdir()] == ["good.png"]


def test_a_place_that_cannot_be_written_is_a_typed_error(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(UnreadableFile, match="cannot write"):
        rows_of([job(RIGHT)], session, tmp_path / "file", monkeypatch)


def test_the_real_demo_is_right(session: Session, tmp_path: Path) -> None:
    rows = run_demo(session, tmp_path, lambda row: None)
    assert [row.detail for row in rows if not row.ok] == []
    assert len(rows) == 10
    assert {row.picture for row in rows if row.picture} == {tmp_path / "edges.png", tmp_path / "mandelbrot.png"}
