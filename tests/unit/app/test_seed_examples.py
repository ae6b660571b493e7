"""The worked examples of the page of the driver that vyre is written after, and how many lines each takes a user."""

from __future__ import annotations

import inspect
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vyre
from support.seeded_backends import SEEDED, seeded
from support.small_programs import square_kernel, square_program
from vyre.ports import BackendCatalog, BackendRegistration, BackendRole
from vyre.testing import function_backend, load_catalog, registration_of
from vyre.testing.backend_contract import CASES, Subject, run_cases
from vyre.testing.conform.checking import check, opened_registration
from vyre.testing.execution import Scheduled
from vyre.testing.outcomes import Verdict

PROGRAM = square_program()
VALUES = np.arange(100, dtype=np.uint32)


def lines_of(example: Callable[..., Any]) -> int:
    """The lines of a function that are neither its head nor a return."""
    lines = [line.strip() for line in inspect.getsource(example).splitlines()]
    return sum(not line.startswith(("def ", "return")) for line in lines if line)


# ---------------------------------------------------------------- 1: the best backend
def dispatched_on_the_best(program: vyre.Program, values: Any) -> Any:
    with vyre.open() as session:
        result = session.dispatch(program, [values])
        best = session.profile.backend
    return result, best


def probed(registration: BackendRegistration) -> bool:
    try:
        return registration.probe().backend == registration.id
    except vyre.BackendError:
        return False


def test_the_best_backend_takes_four_lines_at_most() -> None:
    assert lines_of(dispatched_on_the_best) <= 4
    result, best = dispatched_on_the_best(PROGRAM, VALUES)
    usable = [each for each in load_catalog().by_precedence() if each.role is BackendRole.PRODUCTION and probed(each)]
    assert best == result.backend == usable[0].id
    assert result["y"].tolist() == [value * value for value in range(100)]


# ---------------------------------------------------------------- 2: a gate on what it offers
def dispatched_if_offered(session: vyre.Session, program: vyre.Program, values: Any) -> Any:
    result = None
    if not session.missing(program):
        result = session.dispatch(program, [values])
    return result


def test_a_gate_on_a_capability_takes_three_lines_at_most() -> None:
    assert lines_of(dispatched_if_offered) <= 3
    wide = replace(PROGRAM, workgroup_size=(4096, 1, 1))
    for name, runs in (("reference", True), ("cuda-machine", False)):
        with vyre.open(name) as session:
            assert dispatched_if_offered(session, PROGRAM, VALUES)["y"][9] == 81
            assert (dispatched_if_offered(session, wide, VALUES) is not None) is runs


# ---------------------------------------------------------------- 3: the shadow
def shadowed(catalog: BackendCatalog, backend: str, program: vyre.Program, values: Any) -> Any:
    with vyre.open(backend, catalog=catalog, shadow=vyre.Shadow(rate=1.0, budget=None)) as session:
        result = session.dispatch(program, [values])
        result.shadow.wait(60)
    return result.shadow.status


def test_a_shadow_agrees_with_a_right_backend_and_differs_from_a_wrong_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # where the evidence of a difference goes
    assert lines_of(shadowed) <= 3
    assert shadowed(load_catalog(), "reference", PROGRAM, VALUES) is vyre.ShadowStatus.AGREED
    wrong = seeded(lambda program: replace(program, body=()), "reference")
    assert shadowed(wrong, SEEDED, PROGRAM, VALUES) is vyre.ShadowStatus.DIFFERS


# ---------------------------------------------------------------- a new backend, and its conformance
def with_a_new_backend() -> BackendCatalog:
    mine = registration_of(function_backend(square_kernel, "mine"), rank=0)
    return BackendCatalog((*load_catalog().registrations, mine))


def test_a_new_backend_is_registered_chosen_by_precedence_and_used_in_its_place() -> None:
    assert lines_of(with_a_new_backend) <= 1
    catalog = with_a_new_backend()
    assert catalog.by_precedence()[0].id == "mine"
    with vyre.open(catalog=catalog) as session:
        assert session.profile.backend == "mine"
        assert session.dispatch(PROGRAM, [VALUES])["y"].tolist() == [value * value for value in range(100)]
    with vyre.open("reference", catalog=catalog) as session:
        assert session.dispatch(PROGRAM, [VALUES]).backend == "reference"


def conformance(registration: BackendRegistration) -> tuple[int, int]:
    """The failures of the contract of ids, and those of a certificate with random programs."""
    with Subject(registration) as subject:
        failed = [each for each in run_cases(CASES, subject, "geometry.*ids*") if each.verdict is Verdict.FAILED]
    with opened_registration(Scheduled(registration, canonical_order=True)) as found:
        certificate = check(found, seed=3, budget_s=1.0, random_programs=2)
    return len(failed), len(certificate.failures)


def test_conformance_passes_a_right_backend_and_fails_a_wrong_one() -> None:
    catalog = seeded(lambda program: replace(program, body=()), "reference")
    right, wrong = (catalog.get(name) for name in ("reference", SEEDED))
    assert right is not None and wrong is not None
    assert conformance(right) == (0, 0)
    assert min(conformance(wrong)) > 0
