"""Compares the interpreter with the reference and the emulated device on the gallery and the operator matrix.

From the root of the repository, ``PYTHONPATH=src:tests python -m support.ptx_interpreter.campaign --out FILE`` runs
every program in every form of its PTX (``FORMS``) and in every schedule, the shuffled one with several seeds, and
writes the counts; ``benchmarks/results/ptx-interpreter.json`` is such a file.  The tests run the usual form with one
seed.
"""

from __future__ import annotations

import argparse
import json
import platform
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

import vyre
from support.ptx_interpreter.backend import interpreter
from support.ptx_interpreter.engine import SCHEDULES, Schedule
from support.ptx_interpreter.syntax import PtxError
from vyre.adapters.cuda.ptx.kernel import Assumption
from vyre.adapters.cuda.ptx.options import ALL_OFF, DEFAULT_OPTIONS, EmitOptions
from vyre.adapters.terminal import put
from vyre.domain.errors import VyreError
from vyre.domain.ir.program import Program
from vyre.domain.validation.validator import order_sensitive
from vyre.gallery.example import Case, Example, Outputs, mismatches
from vyre.gallery.registry import MODULES, load
from vyre.ports.backend import Backend, BackendCatalog
from vyre.testing.execution import execute, find_scheduled
from vyre.testing.fakes import registration_of
from vyre.testing.operator_matrix import operator_matrix
from vyre.testing.operator_programs import OperatorCase

MACHINE: Final = {"in order": "lockstep", "reversed": "reverse", "shuffled": "shuffled"}
"""The emulated device's own name of each schedule."""
RIVALS: Final = ("reference", "cuda-machine")
FORMS: Final = {
    "usual": DEFAULT_OPTIONS,
    "sm_75": EmitOptions(target=75),
    "split": EmitOptions(target=120, native_grid_sync=False),
    "nothing optimized": EmitOptions(switches=ALL_OFF),
    "aligned, no alias": EmitOptions(assume=frozenset({Assumption.ALIGNED16, Assumption.NOALIAS})),
    "table": EmitOptions(pointer_table=True),
    "assembler": EmitOptions(assembler=(13, 5)),
}
"""Forms of the PTX of one program, which differ in instructions and parameters and in no byte of a result."""


class Finding(NamedTuple):
    """The comparison of one program in one schedule; ``complaint`` is empty where all agree."""

    name: str
    schedule: str
    form: str
    complaint: str
    compared_bytes: int


def compare_case(case: OperatorCase, schedule: Schedule, form: str = "usual", seed: int = 0) -> Finding:
    """Compares all bytes of a case of the matrix; its order of lanes shows in no result."""
    program, inputs = case.program, case.inputs
    found = execute(interpreter(schedule, seed=seed, options=FORMS[form]), program, inputs)
    wrong = [
        f"{name} gives other bytes" for name in RIVALS if execute(_kept(name, schedule, seed), program, inputs) != found
    ]
    return Finding(case.name, schedule.name, form, "; ".join(wrong), sum(map(len, found.values())))


def compare_example(module: str, schedule: Schedule, form: str = "usual", seed: int = 0) -> Finding:
    """Compares the outputs of an example with its independent answer, and all bytes with those of the other engines.

    A program whose result depends on the order of lanes is compared with the others in the canonical order only.
    """
    example, program, case = _loaded(module)
    found = _outputs(module, interpreter(schedule, seed=seed, options=FORMS[form]))
    wrong = mismatches(case, found)
    if schedule is SCHEDULES[0] or not order_sensitive(program):
        for name in RIVALS:
            others = (
                _reference_outputs(module) if name == "reference" else _outputs(module, _made(name, schedule, seed))
            )
            wrong += [f"{name} gives another {key}" for key in found if found[key].tobytes() != others[key].tobytes()]
    return Finding(example.name, schedule.name, form, "; ".join(wrong), sum(array.nbytes for array in found.values()))


@cache
def _loaded(module: str) -> tuple[Example, Program, Case]:
    example = load(module)
    return example, example.program(), example.case()


def _made(name: str, schedule: Schedule, seed: int) -> Backend:
    """Returns the reference, or an emulated device that runs lanes in the order that the schedule names."""
    scheduled = find_scheduled(name) if name == "reference" else find_scheduled(name, MACHINE[schedule.name], seed)
    return scheduled.registration.make()


_kept = cache(_made)


def _outputs(module: str, backend: Backend) -> Outputs:
    example, program, case = _loaded(module)
    with vyre.open(backend.id, catalog=BackendCatalog((registration_of(backend),)), cache=False) as session:
        return example.run(session, program, case)


@cache
def _reference_outputs(module: str) -> Outputs:
    return _outputs(module, _made("reference", SCHEDULES[0], 0))


def comparisons(forms: Iterable[str], seeds: int) -> Iterator[tuple[str, Callable[[], Finding]]]:
    """Yields every comparison with its name; only the shuffled schedule has more than one seed."""
    for form in forms:
        for schedule in SCHEDULES:
            for seed in range(seeds if schedule is SCHEDULES[-1] else 1):
                for case in operator_matrix():
                    yield f"{case.name}, {form}, {schedule.name}", partial(compare_case, case, schedule, form, seed)
                for module in MODULES:
                    yield f"{module}, {form}, {schedule.name}", partial(compare_example, module, schedule, form, seed)


def main() -> int:
    """Runs the whole campaign and writes its counts; returns 1 if anything differed or failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3, help="seeds of the shuffled schedule")
    parser.add_argument("--out", type=Path, help="the file for the counts")
    arguments = parser.parse_args()
    counts: Counter[str] = Counter()
    failures: list[str] = []
    compared = 0
    for name, compare in comparisons(FORMS, arguments.seeds):
        try:
            finding = compare()
        except (PtxError, VyreError) as error:
            failures.append(f"{name}: {type(error).__name__}: {error}")
            continue
        counts[f"{finding.form}, {finding.schedule}"] += 1
        compared += finding.compared_bytes
        if finding.complaint:
            failures.append(f"{name}: {finding.complaint}")
    record = {
        "matrix": len(operator_matrix()),
        "gallery": len(MODULES),
        "seeds": arguments.seeds,
        "comparisons": dict(counts),
        "compared_bytes": compared,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "failures": failures,
    }
    text = json.dumps(record, indent=1) + "\n"
    put(text)
    if arguments.out is not None:
        arguments.out.write_text(text, encoding="utf-8")
    return 1 if failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
