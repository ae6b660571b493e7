"""Makes a failing case small: greedy structural reduction, for cases that come from a seed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Final

from vyre.domain.validation.validator import validate

from support.edits import Path, replaced, sites, spliced
from support.programs import Case
from vyre.domain.ir.expr import EXPR_TYPES, Literal, Load, Var, children
from vyre.domain.ir.program import Program
from vyre.domain.ir.stmt import STMT_TYPES, Block, If, Loop, Region, bodies
from vyre.domain.ir.types import EXECUTABLE_TYPES

_SIMPLEST: Final = tuple(Literal(dtype, bits) for dtype in EXECUTABLE_TYPES for bits in (0, 1))


def reduce_case(case: Case, fails: Callable[[Case], bool], attempts: int = 4000) -> Case:
    """A smaller valid case for which ``fails`` still holds; ``fails(case)`` must hold."""
    remaining = attempts
    progress = True
    while progress and remaining > 0:
        progress = False
        for candidate in _smaller(case):
            remaining -= 1
            if remaining <= 0:
                break
            if validate(candidate.program).ok and fails(candidate):
                case, progress = candidate, True
                break
    return case


def _smaller(case: Case) -> Iterator[Case]:
    """Simpler cases, the most promising first."""
    program = case.program
    yield from _simpler_dispatches(case)
    for path, value in sites(program):
        if isinstance(value, STMT_TYPES):
            yield replace(case, program=spliced(program, path, ()))
    for path, value in sites(program):
        if isinstance(value, If | Loop | Block | Region):
            for body in filter(None, bodies(value)):
                yield replace(case, program=spliced(program, path, body))
    for index in range(len(program.buffers)):
        yield _without_buffer(case, index)
    for path, value in sites(program):
        if isinstance(value, EXPR_TYPES) and not isinstance(value, Literal):
            yield from (replace(case, program=p) for p in _simpler_expressions(program, path, value))
    for path, value in sites(program):
        if value is True or (isinstance(value, tuple) and path[-1] == "output_range"):
            yield replace(case, program=replaced(program, path, False if value is True else None))


def _simpler_expressions(program: Program, path: Path, value: Any) -> Iterator[Program]:
    for simple in (*children(value), *(() if isinstance(value, Var | Load) else _SIMPLEST)):
        yield replaced(program, path, simple)
    if isinstance(value, Var | Load):
        for literal in _SIMPLEST:
            yield replaced(program, path, literal)


def _simpler_dispatches(case: Case) -> Iterator[Case]:
    config = case.config
    if config.step_budget is not None:
        yield replace(case, config=replace(config, step_budget=None))
    if config.spec:
        yield replace(case, config=replace(config, spec=None))
    if config.grid and config.grid != (1, 1, 1):
        yield replace(case, config=replace(config, grid=(1, 1, 1)))
    if config.extent:
        yield replace(case, config=replace(config, extent=None, grid=(1, 1, 1)))


def _without_buffer(case: Case, index: int) -> Case:
    name = case.program.buffers[index].name
    counts = {other: n for other, n in (case.config.output_counts or {}).items() if other != name}
    return replace(
        case,
        program=spliced(case.program, ("buffers", index), ()),
        inputs={other: data for other, data in case.inputs.items() if other != name},
        config=replace(case.config, output_counts=counts),
    )


def size(program: Program) -> int:
    """Statements and expressions, for reports."""
    return sum(isinstance(value, (*STMT_TYPES, *EXPR_TYPES)) for _, value in sites(program))
