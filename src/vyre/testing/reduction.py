"""Makes a failing case small, by greedy structural reduction."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Final, TypeAlias

from vyre.domain.dispatch import DispatchConfig
from vyre.domain.ir.expr import EXPR_TYPES, Literal, children
from vyre.domain.ir.stmt import STMT_TYPES, Arm, Block, GridLoop, If, Loop, Region, Switch, bodies
from vyre.domain.ir.types import EXECUTABLE_TYPES
from vyre.domain.specialization import spec_constants
from vyre.domain.validation.validator import validate
from vyre.testing.program_edits import Path, replaced, sites, spliced
from vyre.testing.random_programs.generator import Case

Candidate: TypeAlias = Callable[[], Case]

_SIMPLEST: Final = tuple(Literal(dtype, bits) for dtype in EXECUTABLE_TYPES for bits in (0, 1))
_STEPS: Final = 200


def reduce_case(case: Case, fails: Callable[[Case], bool], seconds: float = 60.0) -> Case:
    """Returns a smaller valid case for which ``fails`` still holds, found in that time; ``fails(case)`` must hold."""
    end = time.monotonic() + seconds

    def accept(candidate: Case) -> bool:
        return validate(candidate.program).ok and fails(candidate)

    if case.config.step_budget is None:  # a loop may lose its way out
        bounded = replace(case, config=replace(case.config, step_budget=_STEPS))
        if not accept(bounded):
            return case
        case = bounded
    smaller = True
    while smaller:
        smaller = False
        for simplify in _PASSES:
            options, index = simplify(case), 0
            while index < len(options):
                if time.monotonic() > end:
                    return case
                candidate = options[index]()
                if accept(candidate):
                    case, smaller = candidate, True
                    options = simplify(case)
                else:
                    index += 1
    return case


def _edited(case: Case, edit: Callable[..., Any], path: Path, new: Any) -> Case:
    """The case with its program edited, and without specializations that lost their constant."""
    program = edit(case.program, path, new)
    spec = case.config.spec
    if spec:
        kept = spec_constants(program)
        spec = type(spec)({name: value for name, value in spec.items() if name in kept})
    return replace(case, program=program, config=replace(case.config, spec=spec))


def _fewer_statements(case: Case) -> list[Candidate]:
    paths = [path for path, value in sites(case.program) if isinstance(value, STMT_TYPES)]
    return [partial(_edited, case, spliced, path, ()) for path in paths]


def _flatter_statements(case: Case) -> list[Candidate]:
    return [
        partial(_edited, case, spliced, path, body)
        for path, value in sites(case.program)
        if isinstance(value, If | Switch | Loop | GridLoop | Block | Region)
        for body in filter(None, bodies(value))
    ]


def _fewer_arms(case: Case) -> list[Candidate]:
    """Without one arm of a switch, or one of several labels."""
    paths = [path for path, value in sites(case.program) if isinstance(value, Arm)]
    paths += [
        (*path, "labels", index)
        for path, value in sites(case.program)
        if isinstance(value, Arm) and len(value.labels) > 1
        for index in range(len(value.labels))
    ]
    return [partial(_edited, case, spliced, path, ()) for path in paths]


def _simpler_values(case: Case) -> list[Candidate]:
    candidates: list[Candidate] = []
    for path, value in sites(case.program):
        if isinstance(value, EXPR_TYPES) and not isinstance(value, Literal):
            operands = children(value)  # type: ignore[arg-type]
            candidates += [partial(_edited, case, replaced, path, new) for new in (*operands, *_SIMPLEST)]
        elif path[-1] == "output_range" and value is not None:
            candidates.append(partial(_edited, case, replaced, path, None))
    return candidates


def _simpler_dispatches(case: Case) -> list[Candidate]:
    config = case.config
    configs: list[DispatchConfig] = []
    if config.spec:
        configs.append(replace(config, spec=None))
    if config.extent or (config.grid and config.grid != (1, 1, 1)):
        configs.append(replace(config, extent=None, grid=(1, 1, 1)))
    return [partial(replace, case, config=simpler) for simpler in configs]


def _fewer_buffers(case: Case) -> list[Candidate]:
    return [partial(_without_buffer, case, index) for index in range(len(case.program.buffers))]


def _without_buffer(case: Case, index: int) -> Case:
    name = case.program.buffers[index].name
    counts = {other: n for other, n in (case.config.output_counts or {}).items() if other != name}
    return replace(
        case,
        program=spliced(case.program, ("buffers", index), ()),
        inputs={other: data for other, data in case.inputs.items() if other != name},
        config=replace(case.config, output_counts=counts),
    )


_PASSES: Final = (
    _simpler_dispatches,
    _fewer_statements,
    _fewer_arms,
    _flatter_statements,
    _fewer_buffers,
    _simpler_values,
)
