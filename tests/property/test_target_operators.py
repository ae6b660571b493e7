"""Passes add no operator and no type that their target lacks, whatever they would make of a program."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import pytest

import vyre
from support.optimizer.disguised_programs import disguised
from support.optimizer.optimized_programs import random_case
from support.profiles import SOAK
from support.restricted_backend import PROFILE as RESTRICTED
from vyre import Program, ProgramBuilder, u32
from vyre.domain.dialects.expansion import expanded
from vyre.domain.ir.operators import operators_at
from vyre.domain.ir.types import ScalarType
from vyre.domain.missing import undeclared_in
from vyre.domain.names import BackendId
from vyre.domain.optimize.pass_list import DEFAULT_ORDER, PASSES
from vyre.domain.optimize.passes import UNSUPPORTED, run_passes
from vyre.gallery.registry import BASICS, load
from vyre.ports import DeviceProfile
from vyre.testing.fakes import claiming_all

SEEDS = range(400 if SOAK else 12)
WHOLE = claiming_all(BackendId("whole"), element_types=frozenset(ScalarType), operators=operators_at())
NOTHING = replace(WHOLE, element_types=frozenset(), operators=frozenset())


def programs() -> Iterator[Program]:
    for module in BASICS:
        yield load(f"basics.{module}").program()
    for seed in SEEDS:
        case = random_case(seed)
        yield case.program
        yield disguised(case, seed).program


def least(program: Program, more: random.Random) -> DeviceProfile:
    """A target with what the program needs, and by chance with half of the other operators."""
    types = frozenset(t for t in ScalarType if t.text in undeclared_in(program, NOTHING))
    typed = replace(WHOLE, element_types=types, operators=frozenset())
    needed = undeclared_in(program, typed)
    operators = frozenset(each for each in operators_at() if str(each) in needed or more.random() < 0.5)
    profile = replace(typed, operators=operators)
    assert not undeclared_in(program, profile)
    return profile


def test_no_pass_adds_what_a_target_lacks() -> None:
    left_out = 0
    for number, program in enumerate(map(expanded, programs())):
        profile = least(program, random.Random(number))
        steps = [PASSES[name] for name in DEFAULT_ORDER]
        optimized = run_passes(program, steps, partial(undeclared_in, profile=profile))
        assert not undeclared_in(optimized.program, profile)
        left_out += sum(UNSUPPORTED in result.counts for result in optimized.results)
        assert not undeclared_in(run_passes(program, steps).program, WHOLE)
    assert left_out


@pytest.mark.parametrize("name", PASSES)
def test_passes_add_no_numeric_type(name: str) -> None:
    for program in map(expanded, programs()):
        after = PASSES[name].run(program, Counter())
        added = undeclared_in(after, NOTHING) - undeclared_in(program, NOTHING)
        assert added <= {"bool", "u32"}, added


def test_a_program_for_a_poor_device_stays_within_it() -> None:
    for program in map(expanded, programs()):
        lacks = undeclared_in(program, RESTRICTED)
        assert undeclared_in(vyre.optimize(program, profile=RESTRICTED).program, RESTRICTED) <= lacks


def test_a_left_out_pass_is_counted_and_not_run_again() -> None:
    with ProgramBuilder("p", workgroup=64) as p:
        x, y = p.input("x", u32), p.inout("y", u32)
        y[p.global_id()] = x[p.global_id()] / 8
    program = p.build()
    without_shifts = replace(WHOLE, operators=frozenset(o for o in operators_at() if str(o) != "shr u32"))
    plain, kept = (vyre.optimize(program, passes=["strength"], profile=profile) for profile in (WHOLE, without_shifts))
    assert plain.results[0].counts == {"divisions": 1} and plain.program != program
    assert kept.results[0].counts == {UNSUPPORTED: 1} and kept.program == program
    assert str(kept) == "strength: 6 -> 6 nodes; unsupported 1"
    assert vyre.optimize(program, profile=without_shifts).rewrites() == ()
    with pytest.raises(vyre.VyreError, match="profile"):
        vyre.optimize(program, profile="cpu")  # type: ignore[arg-type]
