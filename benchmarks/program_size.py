"""``python -m benchmarks.program_size``: processor time and memory of every phase for programs of 2^12 to 2^18 nodes.

Each shape of ``program_shapes`` is made in every size in a process of its own and taken through building, validation,
digest, written forms, both reference engines, emission and the emulated device.  A phase is given a copy of the
program without the facts that earlier phases leave behind, and its result is checked where two phases compute the
same.  Memory is the largest resident size during a phase less that at its start; Linux tells it, and elsewhere the
column is empty.  ``growth`` is the time of a phase at the largest size over that at a quarter of it: 4 where the phase
is linear, 16 where it is quadratic.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np

import vyre
from benchmarks import machine, program_shapes
from vyre import Program
from vyre.ir import Literal, validate

RESULTS: Final = Path(__file__).parent / "results" / "program-size.json"
SMALLEST, LARGEST = 12, 18
LIMIT_S: Final = 60.0
"""The most seconds that compiling for a reference engine may take."""
LIMIT_MIB: Final = 1000.0
"""The most memory that it may take, in MiB."""
_COMPILING: Final = ("reference compile", "scalar compile")
_PROCESS_LIMIT_S: Final = 900
_STATUS: Final = Path("/proc/self/status")


class Phases:
    """Runs the phases of one program and notes what each takes: (seconds, MiB or None) by name."""

    def __init__(self) -> None:
        self.taken: dict[str, tuple[float, float | None]] = {}

    def run(self, name: str, work: Callable[[], Any]) -> Any:
        """Returns the result of ``work``."""
        before = _forget_peak()
        start = time.process_time()
        result = work()
        seconds = time.process_time() - start
        peak = _resident("VmHWM:")
        self.taken[name] = (seconds, None if peak is None or before is None else peak - before)
        return result


def _forget_peak() -> float | None:
    """Makes the kernel forget the largest resident size so far; returns the present one in MiB."""
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    except OSError:
        return None
    return _resident("VmRSS:")


def _resident(field: str) -> float | None:
    try:
        lines = _STATUS.read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(field))


def measure(shape: str, nodes: int) -> dict[str, tuple[float, float | None]]:
    """Takes one program through all phases."""
    phases = Phases()
    program: Program = phases.run("build by events", lambda: program_shapes.SHAPES[shape](nodes))
    if shape in program_shapes.BUILT:
        phases.run("build by tracing", lambda: program_shapes.BUILT[shape](nodes))
    _written_forms(program, phases)
    report = phases.run("validate with lints", lambda: validate(replace(program)))
    assert report.ok, str(report)[:2000]
    results = [_on_engine(backend, program, phases) for backend in ("reference", "reference-scalar")]
    results.append(_on_machine(program, phases))
    assert all(np.array_equal(results[0], other) for other in results), "the engines disagree"
    return phases.taken


def _written_forms(program: Program, phases: Phases) -> None:
    from vyre.domain.validation.validator import check_rules

    phases.run("check_rules", lambda: check_rules(replace(program)))
    digest = phases.run("digest", lambda: replace(program).digest)
    text = phases.run("to_text", lambda: replace(program).to_text())
    assert phases.run("from_text", lambda: Program.from_text(text)).digest == digest
    wire = phases.run("to_wire", lambda: replace(program).to_wire())
    assert phases.run("from_wire", lambda: Program.from_wire(wire)).digest == digest
    tree = phases.run("to_json", lambda: replace(program).to_json())
    assert phases.run("from_json", lambda: Program.from_json(tree)).digest == digest


def _inputs() -> dict[str, np.ndarray[Any, Any]]:
    numbers = np.arange(program_shapes.ELEMENTS, dtype=np.uint32)
    return {"x": numbers * 7 & 255, "y": numbers}


def _on_engine(backend: str, program: Program, phases: Phases) -> Any:
    name = backend.removeprefix("reference-")
    copy = replace(program)
    with vyre.open(backend, cache=False) as session:
        pipeline = phases.run(f"{name} compile", lambda: session.compile(copy, grid=1))
        return phases.run(f"{name} run", lambda: pipeline(_inputs()))["y"]


def _on_machine(program: Program, phases: Phases) -> Any:
    from vyre.adapters.cuda.emission import PtxEmission
    from vyre.adapters.cuda.machine.module import load_module
    from vyre.ports.emission import EmissionOptions
    from vyre.testing.machine import cuda_machine

    copy = replace(program)
    none: dict[str, Literal] = {}
    module = phases.run("emit", lambda: PtxEmission().emit(copy, EmissionOptions(target="sm_90"), none))
    phases.run("machine load", lambda: load_module(module.ptx))
    load_module.cache_clear()
    with cuda_machine().open() as session:
        pipeline = phases.run("machine compile", lambda: session.compile(copy, grid=1))
        return phases.run("machine run", lambda: pipeline(_inputs()))["y"]


def _in_a_process(shape: str, power: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.program_size", "--shape", shape, "--one", str(power)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_PROCESS_LIMIT_S, check=False)
    except subprocess.TimeoutExpired:
        return {"failed": f"more than {_PROCESS_LIMIT_S} s"}
    if done.returncode:
        return {"failed": done.stderr[-1500:]}
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def main(arguments: list[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    if options.one is not None:
        (shape,) = options.shape
        print(json.dumps(measure(shape, 1 << options.one)))
        return 0
    record: dict[str, Any] = {"machine": machine.describe(), "limits": {"seconds": LIMIT_S, "MiB": LIMIT_MIB}}
    shapes = record["shapes"] = {}
    met = True
    for shape in options.shape or program_shapes.SHAPES:
        sizes = {power: _in_a_process(shape, power) for power in range(options.smallest, options.largest + 1, 2)}
        shapes[shape] = {f"2^{power}": found for power, found in sizes.items()}
        met &= _print(shape, sizes)
    target = options.json or (RESULTS if not options.shape and options.largest == LARGEST else None)
    if target is not None:
        target.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        print(f"written to {target}")
    return int(not met)


def _print(shape: str, sizes: dict[int, dict[str, Any]]) -> bool:
    """Prints the table of a shape; returns whether compiling keeps the limits at every size."""
    met = True
    for power, found in sizes.items():
        if "failed" in found:
            print(f"{shape} 2^{power} FAILED: {found['failed']}", flush=True)
            met = False
    done = {power: found for power, found in sizes.items() if "failed" not in found}
    if not done:
        return False
    print(f"{shape:<22}" + "".join(f"{f'2^{power}':>9}" for power in done) + f"{'MiB':>9}{'growth':>9}")
    for phase in done[max(done)]:
        seconds = {power: found[phase][0] for power, found in done.items()}
        memory = done[max(done)][phase][1]
        growth = seconds[max(done)] / seconds[max(done) - 2] if max(done) - 2 in seconds else float("nan")
        line = "".join(f"{value:>9.3f}" for value in seconds.values())
        print(f"  {phase:<20}{line}{'-' if memory is None else f'{memory:.0f}':>9}{growth:>9.1f}", flush=True)
        if phase in _COMPILING:
            met &= all(value <= LIMIT_S for value in seconds.values())
            met &= memory is None or memory <= LIMIT_MIB
    return met


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.program_size", description=__doc__)
    parser.add_argument(
        "--shape",
        action="append",
        choices=tuple(program_shapes.SHAPES),
        help="measure this shape alone, or those named by several options",
    )
    parser.add_argument(
        "--smallest",
        type=int,
        default=SMALLEST,
        metavar="POWER",
        help="first size: 2^POWER nodes; each is four times the last",
    )
    parser.add_argument("--largest", type=int, default=LARGEST, metavar="POWER", help="last size: 2^POWER nodes")
    parser.add_argument("--one", type=int, metavar="POWER", help="measure one size in this process, print it as JSON")
    parser.add_argument("--json", type=Path, metavar="PATH", help="where to write the record")
    return parser


if __name__ == "__main__":
    sys.exit(main())
