"""Programs on which two implementations of a pass are compared: recorded kernels, gallery, filetests, random ones."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from support.optimizer.optimized_programs import random_cases
from support.recorded_kernels import NAMES, kernel
from support.validation.flow_programs import Extra, flow_program
from vyre.domain.dialects.expansion import expanded
from vyre.domain.errors import VyreError
from vyre.domain.ir.expr import walk
from vyre.domain.ir.program import Program
from vyre.domain.ir.stmt import operands, walk_statements
from vyre.domain.optimize.passes import Pass
from vyre.domain.validation.validator import validate
from vyre.gallery.registry import MODULES, load
from vyre.testing.filetests import load_filetests

FILETESTS = Path(__file__).parents[2] / "filetests"


def flow_programs(seeds: range) -> Iterator[Program]:
    """Yields the valid ones of small programs made of control flow."""
    for seed in seeds:
        chance = random.Random(seed)
        program = flow_program(seed, *[extra for extra in Extra if chance.random() < 0.5])
        if validate(program).ok:
            yield program


@cache
def written_programs() -> tuple[Program, ...]:
    """Returns the recorded kernels, the programs of the gallery, and those of the filetests that are valid."""
    found = [*map(kernel, NAMES), *[load(module).program() for module in MODULES]]
    tested = [test.program for test in load_filetests([FILETESTS]) if test.program is not None]
    return (*found, *[program for program in tested if validate(program).ok])


@cache
def random_programs(count: int, flows: int) -> tuple[Program, ...]:
    """Returns random programs of both generators."""
    return (*[case.program for case in random_cases(range(count))], *flow_programs(range(flows)))


def without_calls(program: Program) -> Program | None:
    """Returns a program as passes get it; None where it calls what is not there."""
    try:
        return expanded(program)
    except VyreError:
        return None


def difference(program: Program, one: Pass, other: Pass) -> str:
    """Returns how the programs and the counts of two passes differ; empty if they do not."""
    meant = without_calls(program)
    if meant is None:
        return ""
    counts: list[Counter[str]] = [Counter(), Counter()]
    made = [step.run(meant, found) for step, found in zip((one, other), counts, strict=True)]
    if made[0] != made[1]:
        return f"{meant.to_text()}\n--- {one}\n{made[0].to_text()}\n--- {other}\n{made[1].to_text()}"
    if (made[0] is meant) is not (made[1] is meant):
        return f"{meant.to_text()}\n--- one of them returns the very program"
    if places(made[0]) != places(made[1]):
        return f"{meant.to_text()}\n--- places in the source differ"
    return "" if +counts[0] == +counts[1] else f"{meant.to_text()}\n--- {counts[0]} and {counts[1]}"


def places(program: Program) -> list[object]:
    """Returns the places in the source of all statements and expressions, in program order."""
    found: list[object] = []
    for stmt in walk_statements(program.body):
        found.append(stmt.loc)
        found += [expr.loc for root in operands(stmt) for expr in walk(root)]
    return found
