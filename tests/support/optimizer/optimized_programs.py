"""Random programs before and after passes of the optimizer: the bytes and errors of the reference must be the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from support.programs import Case, generate
from support.running import Outcome, oracle, run
from vyre.adapters.reference.vector.engine import VectorKernel
from vyre.domain.ir.program import Program
from vyre.domain.optimize.passes import Pass, run_passes
from vyre.domain.specialization import SpecMap, spec_constants
from vyre.domain.validation.known import order_sensitive
from vyre.domain.validation.validator import validate
from vyre.testing.random_programs.memory import Order

_ENGINE: Final = VectorKernel
_ORDERS: Final = (Order.INDEPENDENT, Order.ATOMIC)


def random_case(seed: int) -> Case:
    """Returns the program of a seed with witnesses: every second one has atomics, every fifth may trap."""
    return generate(seed, order=_ORDERS[seed % len(_ORDERS)], traps=seed % 5 == 0)


def random_cases(seeds: range) -> Iterator[Case]:
    """Yields the programs of some seeds."""
    yield from map(random_case, seeds)


def changed_case(case: Case, program: Program) -> Case:
    """Returns a case with another program, and with values for the constants that this one has."""
    return replace(case, program=program, config=replace(case.config, spec=_spec_of(program, case.config.spec)))


def check_kept(case: Case, change: Callable[[Program], Program]) -> Program:
    """Returns the changed program of a case, after it was seen to be valid, as sensitive to order as before, and to
    give the same bytes or error on the oracle and on the vectorised engine.

    A program that is left as it is has nothing to compare with.
    """
    made = change(case.program)
    if made is case.program:
        return made
    validate(made).raise_if_invalid()
    assert made.abi_buffers == case.program.abi_buffers
    assert order_sensitive(case.program) or not order_sensitive(made)
    case = replace(case, config=replace(case.config, step_budget=None))
    changed = changed_case(case, made)
    expected: Outcome = oracle(case)
    assert oracle(changed) == expected, f"the oracle differs\n{case.program.to_text()}\n--- after\n{made.to_text()}"
    assert run(_ENGINE, changed, None) == expected, f"the engine differs\n{made.to_text()}"
    return made


def _spec_of(program: Program, given: SpecMap | None) -> SpecMap | None:
    """Returns the values of the constants that a program has; passes may have dropped some of them."""
    known = spec_constants(program)
    return None if given is None else SpecMap({name: value for name, value in given.items() if name in known})


def check_passes_kept(case: Case, passes: Sequence[Pass]) -> Program:
    """Returns the program of a case after passes; checks as ``check_kept`` does."""
    return check_kept(case, lambda program: run_passes(program, passes).program)
