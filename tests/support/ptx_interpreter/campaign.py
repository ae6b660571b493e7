"""Compares the interpreter with the reference and the emulated device.

From the root of the repository, ``PYTHONPATH=src:tests python -m support.ptx_interpreter.campaign --out FILE`` runs
the operator matrix, the gallery, the widened language and random programs in every form of their PTX (``FORMS``) and in
every schedule, the shuffled one with several seeds, and writes the counts, as in
``benchmarks/results/ptx-interpreter.json``.  The tests run matrix and gallery in the usual form with one seed, and
an operation whose lanes share nothing in one of the schedules.
"""

from __future__ import annotations

import argparse
import json
import platform
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

import vyre
from support.ptx_interpreter.backend import interpreter
from support.ptx_interpreter.engine import SCHEDULES, Schedule
from support.ptx_interpreter.syntax import PtxError
from support.widened_programs import widened_cases
from vyre.adapters.cuda.ptx.kernel import Assumption
from vyre.adapters.cuda.ptx.options import ALL_OFF, DEFAULT_OPTIONS, EmitOptions
from vyre.adapters.terminal import put
from vyre.domain.dispatch import DEFAULT_CONFIG, DispatchConfig
from vyre.domain.errors import UnsupportedFeature, VyreError
from vyre.domain.ir.program import Program
from vyre.domain.validation.known import order_sensitive
from vyre.gallery.example import Case, Example, Outputs, mismatches
from vyre.gallery.registry import MODULES, load
from vyre.ports.backend import Backend, BackendCatalog
from vyre.testing.execution import execute, find_scheduled
from vyre.testing.fakes import registration_of
from vyre.testing.operator_matrix import operator_matrix
from vyre.testing.random_programs.generator import generate
from vyre.testing.random_programs.memory import Order

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
    "located": EmitOptions(located=True),
}
"""Forms of the PTX of one program, which differ in instructions and parameters and in no byte of a result."""


class Comparable(NamedTuple):
    """One dispatch of a program."""

    name: str
    program: Program
    inputs: Mapping[str, bytes]
    config: DispatchConfig = DEFAULT_CONFIG


class Finding(NamedTuple):
    """The comparison of one program in one schedule; ``complaint`` is empty where all agree."""

    schedule: str
    form: str
    complaint: str
    compared_bytes: int


def compare_case(
    case: Comparable, schedule: Schedule, form: str = "usual", seed: int = 0, rivals: Sequence[str] = RIVALS
) -> Finding:
    """Compares all bytes of a program whose order of lanes shows in no result with those of other engines."""
    found = execute(interpreter(schedule, seed=seed, options=FORMS[form]), case.program, case.inputs, case.config)
    wrong = [
        f"{name} gives other bytes"
        for name in rivals
        if execute(_kept(name, schedule, seed), case.program, case.inputs, case.config) != found
    ]
    return Finding(schedule.name, form, "; ".join(wrong), sum(map(len, found.values())))


def compare_example(module: str, schedule: Schedule, form: str = "usual", seed: int = 0) -> Finding:
    """Compares the outputs of an example with its independent answer, and all bytes with those of the other engines.

    A program whose result depends on the order of lanes is compared with the others in the canonical order only.
    """
    _, program, case = _loaded(module)
    found = _outputs(module, interpreter(schedule, seed=seed, options=FORMS[form]))
    wrong = mismatches(case, found)
    if schedule is SCHEDULES[0] or not order_sensitive(program):  # else its answer alone tells
        for name in RIVALS:
            others = (
                _reference_outputs(module) if name == "reference" else _outputs(module, _made(name, schedule, seed))
            )
            wrong += [f"{name} gives another {key}" for key in found if found[key].tobytes() != others[key].tobytes()]
    return Finding(schedule.name, form, "; ".join(wrong), sum(array.nbytes for array in found.values()))


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


def matrix() -> Iterator[Comparable]:
    """Yields the operator matrix."""
    return (Comparable(*case) for case in operator_matrix())


def others(programs: int) -> Iterator[Comparable]:
    """Yields the programs of the widened language, and random ones; the order of lanes shows in none."""
    for name, case in widened_cases():
        if case.order is Order.INDEPENDENT:
            yield Comparable(name, case.program, case.inputs, case.config)
    for seed in range(programs):
        case = generate(seed, work=8000)
        yield Comparable(f"seed {seed}", case.program, case.inputs, replace(case.config, step_budget=None))


def comparisons(seeds: int, programs: int) -> Iterator[tuple[str, str, Callable[[], Finding]]]:
    """Yields every comparison with the group and the name of its program; only the shuffled schedule has several
    seeds.
    """
    for form in FORMS:
        for schedule in SCHEDULES:
            for seed in range(seeds if schedule is SCHEDULES[-1] else 1):
                for group, cases in (("matrix", matrix()), ("others", others(programs))):
                    for case in cases:
                        yield group, case.name, partial(compare_case, case, schedule, form, seed)
                for module in MODULES:
                    yield "gallery", module, partial(compare_example, module, schedule, form, seed)


def main() -> int:
    """Runs the whole campaign and writes its counts; returns 1 if anything differed or failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3, help="seeds of the shuffled schedule")
    parser.add_argument("--programs", type=int, default=300, help="random programs beside those of the repository")
    parser.add_argument("--out", type=Path, help="the file for the counts")
    arguments = parser.parse_args()
    counts: Counter[str] = Counter()
    names: dict[str, set[str]] = {}
    failures: list[str] = []
    refused: set[str] = set()
    compared = 0
    for group, name, compare in comparisons(arguments.seeds, arguments.programs):
        names.setdefault(group, set()).add(name)
        try:
            finding = compare()
        except UnsupportedFeature as error:
            refused.add(f"{group}, {name}: {error.feature}")
            continue
        except (PtxError, VyreError) as error:
            failures.append(f"{group}, {name}: {type(error).__name__}: {error}")
            continue
        counts[f"{finding.form}, {finding.schedule}"] += 1
        compared += finding.compared_bytes
        if finding.complaint:
            failures.append(f"{group}, {name}, {finding.form}, {finding.schedule}: {finding.complaint}")
    record = {
        "programs": {group: len(found) for group, found in names.items()},
        "answer_only_out_of_order": [module for module in MODULES if order_sensitive(_loaded(module)[1])],
        "seeds": arguments.seeds,
        "comparisons": dict(counts),
        "compared_bytes": compared,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "refused": sorted(refused),
        "failures": failures,
    }
    text = json.dumps(record, indent=1) + "\n"
    put(text)
    if arguments.out is not None:
        arguments.out.write_text(text, encoding="utf-8")
    return 1 if failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
