"""A long run of closures on every backend, compared with closures on the host:
``PYTHONPATH=src:tests python -m support.egraphs.soak --out benchmarks/results/egraph-soak.json``.

Small: random e-graphs.  One in four is closed again with signatures of which few bits count, and with a table that has
a slot for each term and no more; one in ten with a slot less than it has different terms, which must raise.  Large:
random terms up to a million.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from pathlib import Path
from typing import Any, Final

import numpy as np
from benchmarks.egraph_rivals import optimizer_classes
from benchmarks.egraph_rows import of_terms

import vyre
from support.egraphs.closures import naive_classes, random_egraph
from vyre.domain.errors import PlanError
from vyre.egraph import EGraph
from vyre.graphs.egraph_closing import close

BACKENDS: Final = ("cpu", "cuda-machine", "reference")
MASKS: Final = (0, 1, 7, 0xFFFF_0000)
LARGE: Final = {"reference": 1_000_000, "cpu": 1_000_000, "cuda-machine": 100_000}


def closed_rightly(graph: EGraph, session: vyre.Session, seed: int) -> dict[str, int]:
    """Closes a small e-graph in several ways; returns how often each was done, or raises ``AssertionError``."""
    wanted = naive_classes(graph)
    found = graph.close(session)
    np.testing.assert_array_equal(found.classes, wanted)
    np.testing.assert_array_equal(optimizer_classes(graph), wanted)
    done = {"graphs": 1, "terms": len(graph), "rounds": found.rounds}
    if seed % 4 == 0:
        collided = close(graph, session, signature_mask=MASKS[seed // 4 % len(MASKS)])
        np.testing.assert_array_equal(collided.classes, wanted)
        np.testing.assert_array_equal(graph.close(session, slots=len(graph)).classes, wanted)
        done |= {"collided": 1, "least_tables": 1}
    if seed % 10 == 0 and len(found.rows.terms) > 1:
        try:
            graph.close(session, slots=len(found.rows.terms) - 1)
        except PlanError as error:
            assert error.kind == "TableFull"
            return done | {"raised": 1}
        raise AssertionError(f"a table of {len(found.rows.terms) - 1} slots sufficed")
    return done


def run_small(backend: str, count: int, seed: int) -> dict[str, Any]:
    """Returns what was done in all; ``wrong`` lists seeds whose classes were wrong, and how."""
    total: dict[str, Any] = {}
    wrong: list[str] = []
    started = time.process_time()
    with vyre.open(backend) as session:
        for each in range(seed, seed + count):
            try:
                done = closed_rightly(random_egraph(each), session, each)
            except AssertionError as error:
                wrong.append(f"{each}: {error}")
                continue
            for name, value in done.items():
                total[name] = total.get(name, 0) + value
    seconds = round(time.process_time() - started, 1)
    return {**total, "processor_seconds": seconds, **({"wrong": wrong} if wrong else {})}


def run_large(backend: str, count: int) -> dict[str, Any]:
    """Closes random terms once the kernels are compiled, and compares with a closure on the host."""
    graph = of_terms(count)
    with vyre.open(backend) as session:
        of_terms(100).close(session)
        started = time.process_time()
        found = graph.close(session)
        seconds = round(time.process_time() - started, 2)
    right = np.array_equal(found.classes, naive_classes(graph))
    done = {"terms": count, "classes": found.class_count, "rounds": found.rounds, "processor_seconds": seconds}
    return done if right else {**done, "wrong": [f"{count} terms"]}


def main() -> int:
    """Runs the soak and writes the record; 1 if something was wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", type=int, default=10_000, help="small e-graphs on each backend")
    parser.add_argument("--seed", type=int, default=1_000)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    record: dict[str, Any] = {"python": platform.python_version(), "machine": platform.machine(), "seed": options.seed}
    wrong = False
    for backend in BACKENDS:
        parts = {
            "small": run_small(backend, options.small, options.seed),
            "large": run_large(backend, LARGE[backend]),
        }
        wrong |= any("wrong" in part for part in parts.values())
        record[backend] = parts
        print(backend, parts, flush=True)
        if options.out is not None:
            options.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
