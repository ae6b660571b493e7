"""Opens a backend for a check, and describes it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from vyre.domain.dispatch import DispatchConfig
from vyre.domain.errors import BackendError, UnsupportedFeature
from vyre.domain.ir.expr import Literal
from vyre.domain.ir.program import Access, Buffer, Program
from vyre.domain.ir.stmt import Store
from vyre.domain.ir.types import u32
from vyre.domain.missing import undeclared
from vyre.ports.backend import Backend, BackendRegistration
from vyre.testing.conform.campaign import Begun, Campaign, Report, run_campaign
from vyre.testing.conform.cases import Cases
from vyre.testing.conform.certificate import Certificate, Subject, certificate_of
from vyre.testing.execution import Scheduled, execute, find_scheduled, open_backend

REFERENCE: Final = "reference"


class Opened(NamedTuple):
    """A backend that can run cases, and what a certificate says about it."""

    backend: Backend
    subject: Subject


@contextmanager
def opened(name: str, schedule: str | None = None, seed: int | None = None) -> Iterator[Opened]:
    """Opens a backend of the catalog by id and closes it behind the block; raises ``BackendUnavailable``."""
    with opened_registration(find_scheduled(name, schedule, seed), schedule) as running:
        yield running


@contextmanager
def opened_registration(scheduled: Scheduled, schedule: str | None = None) -> Iterator[Opened]:
    """Opens a backend by its registration and closes it behind the block."""
    backend = scheduled.registration.make()
    try:
        backend.lifecycle.prepare()
        subject = Subject(
            backend.id,
            backend.version,
            _facts(scheduled.registration),
            schedule,
            scheduled.canonical_order,
            _counts_steps(backend),
        )
        yield Opened(backend, subject)
    finally:
        backend.lifecycle.close()


def check(
    target: Opened,
    *,
    seed: int,
    budget_s: float,
    random_programs: int | None = None,
    told: Report = lambda case, judged: None,
    begun: Begun = lambda case, judged: None,
) -> Certificate:
    """Runs the cases of ``seed`` on an open backend for about ``budget_s`` seconds and returns the certificate."""
    lacking = undeclared(target.backend.profile, target.backend.supported_ops)
    cases = Cases(seed, target.subject.canonical_order, target.subject.counts_steps, lacking)
    campaign: Campaign = run_campaign(
        target.backend,
        open_backend(REFERENCE),
        cases,
        budget_s=budget_s,
        random_programs=random_programs,
        told=told,
        begun=begun,
    )
    return certificate_of(campaign, target.subject, seed, tuple(sorted(lacking)))


def _facts(registration: BackendRegistration) -> dict[str, str]:
    try:
        return {} if registration.facts is None else dict(registration.facts())
    except BackendError as error:
        return {"unknown": error.message}


def _counts_steps(backend: Backend) -> bool:
    """Returns whether the backend heeds a budget of steps, by a program without loops."""
    y = Buffer.make("y", 0, Access.READ_WRITE, u32, 1, is_output=True)
    program = Program((y,), (1, 1, 1), (Store("y", Literal.of(u32, 0), Literal.of(u32, 1)),))
    try:
        execute(backend, program, {}, DispatchConfig(step_budget=1))
    except UnsupportedFeature:
        return False
    return True
