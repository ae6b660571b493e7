"""Four defects of a kind that users meet: the contract, ``vyre conform`` and a shadow find each of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

import vyre
from support.conform_defects import DEFECTS, Defect
from support.llvm import NEEDS_LLVM
from support.seeded_backends import Seed, Wrong, seeded_backend
from support.shadowed_programs import histogram, numbers, roots, settled, shadowed
from vyre import ShadowStatus
from vyre.domain.ir.program import Program
from vyre.domain.ir.stmt import Barrier, Block
from vyre.ports.backend import BackendRegistration
from vyre.testing.backend_contract import CASES, Subject, run_cases
from vyre.testing.conform.cases import Cases, Group
from vyre.testing.conform.judging import expected_of, judge
from vyre.testing.execution import find_backend, open_backend
from vyre.testing.outcomes import Verdict

pytestmark = NEEDS_LLVM

REFERENCE: Final = open_backend("reference")


def shifted() -> Program:
    """Every lane reads what the next one stored: a race without the barrier."""
    with vyre.ProgramBuilder("shifted", workgroup=64) as p:
        x = p.input("x", vyre.u32)
        y = p.output("y", vyre.u32, like=x)
        shared = p.workgroup("shared", vyre.u32, 64)
        i = p.local_id()
        shared[i] = x[i]
        p.barrier()
        y[i] = shared[(i + 1) % 64]
    return p.build()


def times(factor: int) -> Program:
    with vyre.ProgramBuilder("times", workgroup=64) as p:
        x = p.input("x", vyre.u32)
        y = p.output("y", vyre.u32, like=x)
        i = p.global_id()
        y[i] = x[i] * factor
    return p.build()


def seeded_defect(name: str) -> Wrong:
    return next(each for each in DEFECTS if each.name == name).of


def stale_cache() -> Wrong:
    """The code of the program that came first with the same buffers and workgroup."""
    made: dict[object, Program] = {}

    def first(program: Program) -> Program:
        return made.setdefault((program.buffers, program.workgroup_size), program)

    return first


def without_barriers(program: Program) -> Program:
    return Defect("barriers are dropped", lambda node, types: Block(()) if isinstance(node, Barrier) else node).of(
        program
    )


@dataclass(frozen=True)
class Wrongness:
    """How to make the defect, and where it shows.

    ``contract`` and ``conform`` choose the cases that are run; ``dispatches`` are what a session with a shadow runs, of
    which the last one differs.  ``base`` is the backend that is made wrong.
    """

    make: Callable[[], Wrong]
    contract: str
    conform: tuple[Group, str]
    dispatches: tuple[tuple[Program, Any], ...]
    base: str = "reference-scalar"

    @property
    def registration(self) -> BackendRegistration:
        base, seed = find_backend(self.base), Seed(self.make(), always=True)
        return replace(base, factory=lambda services: seeded_backend(base.make(services), seed))


WORDS: Final = np.arange(64, dtype=np.uint32)
WRONG: Final = {
    "an operation is a unit in the last place off": Wrongness(
        lambda: seeded_defect("f32 sqrt is one unit off"),
        "operators.*sqrt_f32*",
        (Group.OPERATIONS, "sqrt f32"),
        ((roots(), numbers()),),
    ),
    "lanes race": Wrongness(
        lambda: without_barriers,
        "parallel.lanes_meet_at_a_barrier.*",
        (Group.GALLERY, "P*"),
        ((shifted(), WORDS),),
        "cpu",  # the references run the lanes of a workgroup in step
    ),
    "a cache is stale": Wrongness(
        stale_cache,
        "operators.*_u32",
        (Group.OPERATIONS, "*u32 u32"),
        ((times(3), WORDS), (times(5), WORDS)),
    ),
    "updates are lost": Wrongness(
        lambda: seeded_defect("atomic_add forgets: the last one wins"),
        "atomics.*",
        (Group.OPERATIONS, "atomic add u32"),
        ((histogram(), WORDS),),
    ),
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_the_contract_finds_it(wrong: Wrongness) -> None:
    with Subject(wrong.registration) as subject:
        verdicts = {outcome.verdict for outcome in run_cases(CASES, subject, wrong.contract)}
    assert Verdict.FAILED in verdicts


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_conform_finds_it(wrong: Wrongness) -> None:
    group, keys = wrong.conform
    cases = [each.case for each in Cases(0).group(group) if fnmatchcase(each.key, keys)]
    backend = wrong.registration.make()
    try:
        assert any(judge(backend, case, expected_of(REFERENCE, case)).failed for case in cases)
    finally:
        backend.lifecycle.close()


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_a_shadow_finds_it(wrong: Wrongness, tmp_path: Path) -> None:
    with shadowed(wrong.make(), tmp_path, wrong.base, on="reference") as session:
        *before, last = [settled(session.dispatch(program, {"x": x})).status for program, x in wrong.dispatches]
    assert before == [ShadowStatus.AGREED] * len(before) and last is ShadowStatus.DIFFERS


@pytest.mark.parametrize("base", sorted({wrong.base for wrong in WRONG.values()}))
def test_without_a_defect_nothing_is_found(base: str, tmp_path: Path) -> None:
    with shadowed(lambda program: program, tmp_path, base, on="reference") as session:
        for wrong in WRONG.values():
            for program, x in wrong.dispatches:
                assert settled(session.dispatch(program, {"x": x})).status is ShadowStatus.AGREED
