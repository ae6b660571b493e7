"""Decisions against the clock: on a grid of work, is the mode that the planner chooses the fastest one measured?

Each cell is work of one of the families of ``clock_cells``.  Most are runs of a sequence on resident memory: ``chain``
launches of a program on arrays of ``size`` elements, each reading what the one before wrote; ``batch`` rounds of them
in a run; ``repeats`` runs.

Every way to run a cell is forced and timed, as a caller sees it.  In turns with these samples is timed what predictions
rest on: launch costs, which the port's probe measures, and runs of other numbers of rounds, from which come the time of
a kernel, as it is and joined, and what is around a run.  ``plan_execution`` predicts from these alone, and chooses.  So
a machine that changes its speed changes both alike.  Programs are compiled and memory is allocated before.

``python -m benchmarks --suite decision-clock`` measures all cells, in a few minutes.  What was measured is kept in a
file of the temporary directory until all is done, so that an interrupted run goes on where it was.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import vyre
from benchmarks.clock_cells import Cell, Family, Shape, grid
from benchmarks.clock_jobs import JobsBench
from benchmarks.clock_judge import Judged, Shares, as_json, from_json, shares
from benchmarks.clock_sequences import SequenceBench
from benchmarks.harness import Metric, NotMeasured, Row, Samples
from vyre.domain.errors import UnsupportedFeature

RESULTS: Final = Path(__file__).parent / "results" / "decision-clock.json"
KEPT: Final = Path(tempfile.gettempdir()) / "vyre-decision-clock.jsonl"


def measured(cells: Sequence[Cell], kept: Path | None = None) -> Iterator[tuple[Cell, Judged]]:
    """Yields all cells, measured now or kept by an earlier run that was interrupted."""
    done = kept_rows(kept)
    for threads, those in groupby(cells, key=lambda cell: cell.shape.threads):
        with vyre.open("cpu", cache=False, threads=threads) as session, contextlib.ExitStack() as benches:
            shape = None
            for cell in those:
                row = done.get(cell.name)
                if row is not None:
                    yield cell, from_json(row)
                    continue
                if shape != cell.shape:
                    benches.close()
                    shape = cell.shape
                    bench = benches.enter_context(contextlib.closing(_bench(session, shape)))
                found = bench.judged(cell)
                if kept is not None:
                    with kept.open("a", encoding="utf-8") as file:
                        file.write(json.dumps({"cell": cell.name} | as_json(found)) + "\n")
                yield cell, found


def _bench(session: vyre.Session, shape: Shape) -> SequenceBench | JobsBench:
    return (JobsBench if shape.family is Family.JOBS else SequenceBench)(session, shape)


def kept_rows(path: Path | None) -> dict[str, dict[str, Any]]:
    """Returns the rows that an interrupted run wrote, by the names of their cells, without one that was cut off."""
    if path is None or not path.exists():
        return {}
    rows = []
    for line in path.read_text(encoding="utf-8").splitlines():
        with contextlib.suppress(json.JSONDecodeError):
            rows.append(json.loads(line))
    return {row.pop("cell"): row for row in rows}


# ---------------------------------------------------------------- rows of the suite
@cache
def study() -> tuple[tuple[Cell, Judged], ...]:
    """Measures the whole grid once."""
    try:
        found = tuple(measured(grid(), KEPT))
    except UnsupportedFeature as error:
        raise NotMeasured(str(error)) from None
    KEPT.unlink(missing_ok=True)
    return found


def _percent(figure: Callable[[Shares], float]) -> Callable[[int], Samples]:
    return lambda rounds: Samples([100 * figure(shares(one for _, one in study()))] * rounds)


_STATE: Final = "programs compiled, memory allocated; every way forced and timed in turns; medians"
ROWS: Final = (
    Row("right_choices", Metric.RATE, "% of cells", 95, None, _percent(lambda found: found.right), _STATE),
    Row("true_predictions", Metric.RATE, "% of cells", 80, None, _percent(lambda found: found.true), _STATE),
    Row("true_predictions_of_all_ways", Metric.RATE, "% of times", None, 80, _percent(lambda f: f.true_of_all), _STATE),
)


def details() -> dict[str, object]:
    """Returns all cells for the record."""
    return {"cells": [{"cell": cell.name} | cell.as_json() | as_json(one) for cell, one in study()]}


def main() -> None:
    """Prints every cell that is not right or not true, and the shares; arguments: N for every Nth shape, a family."""
    import sys

    every = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    cells = [cell for cell in grid() if len(sys.argv) < 3 or cell.shape.family.value == sys.argv[2]]
    shapes = list(dict.fromkeys(cell.shape for cell in cells))[::every]
    found = []
    began = time.perf_counter()
    for cell, one in measured([cell for cell in cells if cell.shape in shapes]):
        found.append(one)
        if not (one.right and one.is_true):
            text = " ".join(
                f"{way}={t.median_ns / 1e3:.1f}({'-' if t.off is None else format(100 * t.off, '+.0f')}%)"
                for way, t in one.ways.items()
            )
            flag = ("" if one.right else "WRONG ") + ("" if one.is_true else "OFF ")
            print(f"{flag:11}{cell.name}: {one.chosen} not {one.fastest}, loss {one.loss:.0%}: {text}", flush=True)
    print(shares(found), f"{time.perf_counter() - began:.0f} s", os.getloadavg())


if __name__ == "__main__":
    main()
