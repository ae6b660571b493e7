"""Runs the demo's jobs on a session and reports one row each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from vyre.adapters.files import write_files
from vyre.app.demo.jobs import Job, all_jobs
from vyre.app.demo.png import png_bytes
from vyre.app.notebooks.progress import progress
from vyre.app.services import WIRING
from vyre.domain.errors import UnreadableFile, VyreError
from vyre.domain.frozen import frozen
from vyre.gallery.example import Array

if TYPE_CHECKING:
    from vyre.app.session import Session


@frozen
class DemoRow:
    """One line of the demo's table.

    ``seconds``: time of building, compiling and running, without the independent check.  ``detail``: the difference or
    error, empty if ``ok``.  ``picture``: the file written, if any.
    """

    name: str
    size: str
    seconds: float
    checked_by: str
    ok: bool
    backend: str
    why: str
    detail: str = ""
    picture: Path | None = None


def run_demo(session: Session, out_dir: Path, report: Callable[[DemoRow], None]) -> list[DemoRow]:
    """Runs every job, calling ``report`` as each ends; pictures are written to ``out_dir``.

    A wrong answer or a typed error of a job becomes a row with ``ok=False``, and the other jobs still run. Raises
    ``UnreadableFile`` if the input data cannot be read or a picture cannot be written.
    """
    why = session.explain().reason
    rows = []
    jobs = all_jobs()
    with progress("running the demo", len(jobs)) as step:
        for job in jobs:
            row = _run(job, session, out_dir, why)
            report(row)
            step(row.name)
            rows.append(row)
    return rows


def _run(job: Job, session: Session, out_dir: Path, why: str) -> DemoRow:
    now_ns = WIRING.get().clock().now_ns
    started = now_ns()
    try:
        answer = job.run(session, job.program())
    except UnreadableFile:
        raise
    except VyreError as error:
        elapsed = (now_ns() - started) / 1e9
        return DemoRow(job.name, job.size, elapsed, job.checked_by, False, session.backend, why, str(error))
    elapsed = (now_ns() - started) / 1e9
    expected = job.expected()
    detail = _difference(job, answer, expected)
    picture = _write(out_dir, job, answer) if not detail and job.picture is not None else None
    return DemoRow(job.name, job.size, elapsed, job.checked_by, not detail, session.backend, why, detail, picture)


def _difference(job: Job, answer: Array, expected: Array) -> str:
    if answer.shape != expected.shape:
        return f"shape {answer.shape}, expected {expected.shape}"
    wrong = int(np.count_nonzero(answer != expected))
    return f"{wrong} of {expected.size} values differ from {job.checked_by}" if wrong else ""


def _write(out_dir: Path, job: Job, answer: Array) -> Path:
    assert job.picture is not None
    target = out_dir / f"{job.name}.png"
    try:
        out_dir.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UnreadableFile(
            f"cannot write to {out_dir}: {error.strerror or error}", fix="name a directory you may write to."
        ) from error
    write_files({target: png_bytes(job.picture(answer))})
    return target
