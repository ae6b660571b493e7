"""Every backend of the catalog that can run here keeps the contract of the port."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from vyre.adapters.discovery import load_catalog
from vyre.domain.errors import BackendError
from vyre.ports.backend import BackendRegistration, BackendRole
from vyre.testing.backend_contract import CASES, Case, Skipped, Subject, check_case


def _backends() -> Iterator[object]:
    for registration in load_catalog().by_precedence():
        marks: list[pytest.MarkDecorator] = []
        if registration.role is BackendRole.PRODUCTION:
            marks.append(pytest.mark.gpu)
            try:
                registration.probe()
            except BackendError as error:
                marks.append(pytest.mark.skip(reason=f"`{registration.id}` cannot run here: {error.message}"))
        yield pytest.param(registration, id=str(registration.id), marks=marks)


@pytest.fixture(scope="module", params=_backends())
def subject(request: pytest.FixtureRequest) -> Iterator[Subject]:
    registration: BackendRegistration = request.param
    with Subject(registration) as subject:
        yield subject


@pytest.mark.parametrize("case", [pytest.param(case, id=case.id) for case in CASES])
def test_contract(subject: Subject, case: Case) -> None:
    try:
        check_case(case, subject)
    except Skipped as reason:
        pytest.skip(str(reason))


def test_cases_are_told_apart_by_their_ids() -> None:
    assert len({case.id for case in CASES}) == len(CASES)


def test_every_case_says_its_rule() -> None:
    assert [case.id for case in CASES if not case.rule.endswith(".")] == []
