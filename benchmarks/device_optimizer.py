"""``python -m benchmarks.device_optimizer``: the time of passes of the optimizer on the host, and as kernels.

Both sides run in turns over programs of several shapes and sizes, and give the same program.  The time for each node
and the fixed time are those of the line through the sizes with the least squares, at the medians of the shapes.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np

import vyre
from benchmarks import machine, program_shapes
from vyre.app.device_passes.passes import passes_on
from vyre.domain.ir.node_facts import node_facts
from vyre.domain.ir.program import Program
from vyre.domain.optimize.pass_list import PASSES
from vyre.domain.optimize.passes import Pass

RESULTS: Final = Path(__file__).parent / "results" / "device-optimizer.json"
SHAPES: Final = ("lets", "stores", "copies", "ifs", "loops", "reduction")
SIZES: Final = (1_000, 4_000, 16_000)
BACKENDS: Final = ("cpu", "reference")
_ROUNDS: Final = 5


def _seconds(step: Pass, make: Callable[[], Program]) -> tuple[float, Program]:
    """Returns the processor time of a pass on a program without remembered facts, and what it made.

    One thread runs all launches.  What others do is not counted, such as making faster code of kernels that run often,
    and neither are collections of garbage, which cost what the whole process is large.
    """
    program = make()
    gc.collect()
    gc.disable()
    try:
        begun = time.thread_time()
        made = step.run(program, Counter())
        return time.thread_time() - begun, made
    finally:
        gc.enable()


def _measured(name: str, ours: Pass) -> Iterator[dict[str, Any]]:
    host = PASSES[name]
    for shape in SHAPES:
        shaped = getattr(program_shapes, shape)
        for size in SIZES:

            def make(shaped: Callable[[int], Program] = shaped, size: int = size) -> Program:
                return shaped(size)

            sides: dict[str, list[float]] = {"host": [], "device": []}
            for turn in range(_ROUNDS + 1):
                found = {side: _seconds(step, make) for side, step in (("host", host), ("device", ours))}
                if found["host"][1] != found["device"][1]:
                    raise AssertionError(f"{name} on {shape} of {size} nodes: the sides make other programs")
                if turn > 0:  # the first compiles the kernels
                    for side, (seconds, _) in found.items():
                        sides[side].append(seconds)
            nodes = node_facts(make()).nodes
            medians = {f"{side}_ns": round(1e9 * statistics.median(all_)) for side, all_ in sides.items()}
            yield {"shape": shape, "nodes": nodes, **medians}


def _line(rows: list[dict[str, Any]], side: str) -> tuple[int, int]:
    """Returns the ns for each node and the fixed ns of a side, at the medians of the shapes."""
    slopes, fixed = list[float](), list[float]()
    for shape in SHAPES:
        points = [(row["nodes"], row[f"{side}_ns"]) for row in rows if row["shape"] == shape]
        slope, start = np.polyfit(*zip(*points, strict=True), 1)
        slopes.append(float(slope))
        fixed.append(float(start))
    return round(statistics.median(slopes)), max(0, round(statistics.median(fixed)))


def main() -> None:
    """Measures and writes the record."""
    parser = argparse.ArgumentParser(description="passes of the optimizer on the host and on the device")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    record: dict[str, Any] = {**machine.describe(), "backends": {}}
    for backend in BACKENDS:
        with vyre.open(backend, threads=1 if backend == "cpu" else None) as session:
            for name, ours in passes_on(session).items():
                rows = list(_measured(name, ours))
                host, _ = _line(rows, "host")
                device, fixed = _line(rows, "device")
                line = {"host_ns": host, "device_ns": device, "fixed_ns": fixed}
                record["backends"].setdefault(backend, {})[str(PASSES[name])] = {**line, "programs": rows}
                print(backend, PASSES[name], line, flush=True)
    options.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
