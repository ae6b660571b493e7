"""Computes a certificate again: its cases, the results of the reference here, and the backend where it is present."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from blake3 import blake3

from vyre.domain.errors import BackendUnavailable
from vyre.ports.backend import Backend
from vyre.testing.conform.campaign import CaseRecord
from vyre.testing.conform.cases import Cases, ConformCase, Group
from vyre.testing.conform.certificate import Certificate
from vyre.testing.conform.checking import REFERENCE, opened
from vyre.testing.conform.judging import Judgement, expected_of, judge
from vyre.testing.execution import open_backend


@dataclass
class Verification:
    """The findings of a verification.

    ``computed`` counts the cases whose result the reference gave here, ``reran`` those that the backend ran again;
    ``absent`` says why there are none.  ``objections`` is empty if everything holds.
    """

    computed: int = 0
    reran: int = 0
    absent: str = ""
    objections: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether nothing speaks against the certificate."""
        return not self.objections


Progress = Callable[[CaseRecord], None]


def verify(certificate: Certificate, told: Progress = lambda record: None) -> Verification:
    """Computes every case of a certificate again; ``told`` is called after each.

    A backend is run again if it can be opened here under the id and in the schedule of the certificate.
    """
    subject = certificate.subject
    verification = Verification()
    try:
        with opened(subject.backend, subject.schedule, certificate.seed if subject.schedule else None) as running:
            if (running.subject.version, dict(running.subject.device)) != (subject.version, dict(subject.device)):
                verification.absent = f"`{subject.backend}` here has another version or device than in the certificate"
            _verify(certificate, verification, None if verification.absent else running.backend, told)
    except BackendUnavailable as error:
        verification.absent = error.message
        _verify(certificate, verification, None, told)
    return verification


def _verify(certificate: Certificate, verification: Verification, backend: Backend | None, told: Progress) -> None:
    subject = certificate.subject
    lacking = frozenset(certificate.missing_operations)
    cases = Cases(certificate.seed, subject.canonical_order, subject.counts_steps, lacking)
    reference = open_backend(REFERENCE)
    witnesses: Counter[str] = Counter()
    for record in certificate.cases:
        verification.objections += _objections(record, cases, reference, backend, verification, witnesses)
        told(record)
    for name, number in certificate.witnesses.items():
        if witnesses[name] != number:
            verification.objections.append(
                f"{name}: {number} witnesses are claimed, and the cases hold {witnesses[name]}"
            )


def _objections(
    record: CaseRecord,
    cases: Cases,
    reference: Backend,
    backend: Backend | None,
    verification: Verification,
    witnesses: Counter[str],
) -> Iterator[str]:
    name = f"{record.group}/{record.key}"
    try:
        case: ConformCase = cases.find(Group(record.group), record.key)
    except KeyError:
        yield f"{name}: this version of vyre has no such case"
        return
    if case.identity() != record.identity:
        yield f"{name}: the case here is another one; verify with the version of vyre in the certificate"
        return
    expected = expected_of(reference, case.case)
    verification.computed += 1
    if blake3(expected.identity()).hexdigest() != record.expected:
        yield f"{name}: the reference here gives another result than the certificate holds"
        return
    if record.judgement in (Judgement.AGREED.value, Judgement.DIFFERS.value):
        witnesses[record.key] += len(case.rows)
    if backend is not None:
        verification.reran += 1
        judged = judge(backend, case.case, expected)
        if judged.judgement.value != record.judgement:
            yield f"{name}: the certificate says {record.judgement}, and here: {judged.judgement.value} {judged.text}"
