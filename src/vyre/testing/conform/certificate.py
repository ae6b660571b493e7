"""Certificates: what a check found, written down so that others can compute it again.

The digest of a certificate detects damage and edits.  It is no signature and says nothing about who wrote it: what
makes a certificate worth something is that ``vyre conform --verify`` recomputes it.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any, Final

from vyre import __version__
from vyre.adapters.files import read_file, write_files
from vyre.domain.errors import MalformedJson
from vyre.domain.frozen import frozen
from vyre.domain.plain_values import texts
from vyre.domain.sealed_json import SealedForm
from vyre.testing.conform.campaign import Campaign, CaseRecord
from vyre.testing.conform.cases import Group
from vyre.testing.conform.judging import Judgement
from vyre.testing.execution import SCHEDULES

VERSION: Final = 1
"""The version of the form."""


def _malformed(reason: str) -> MalformedJson:
    return MalformedJson(f"the certificate is unusable: {reason}", fix="write it anew by `vyre conform -o`.")


_FORM: Final = SealedForm(b"vyre conformance certificate", _malformed)
_COUNTS: Final = ("witnesses", "statements", "unfinished")


@frozen
class Subject:
    """The backend that was checked: its id and version, facts about its device, and how it ran lanes and steps."""

    backend: str
    version: str
    device: Mapping[str, str]
    schedule: str | None
    canonical_order: bool
    counts_steps: bool


@frozen
class Certificate:
    """The findings of a check.

    ``cases`` holds every case that was run; ``witnesses`` the number of operands by operation, ``statements`` the
    number of compared programs by kind of statement, ``unfinished`` the cases by group that the budget did not allow,
    and ``missing_operations`` the names of operations, types, operators and
    features that the backend declares not to have.
    """

    subject: Subject
    seed: int
    seconds: float
    cases: tuple[CaseRecord, ...]
    witnesses: Mapping[str, int]
    statements: Mapping[str, int]
    unfinished: Mapping[str, int]
    missing_operations: tuple[str, ...] = ()
    vyre: str = __version__
    python: str = platform.python_version()
    version: int = VERSION

    @property
    def failures(self) -> tuple[CaseRecord, ...]:
        """The cases that speak against the backend."""
        wrong = (Judgement.DIFFERS.value, Judgement.RAISED.value)
        return tuple(each for each in self.cases if each.judgement in wrong)

    @property
    def complete(self) -> bool:
        """Whether every case of the groups that end was run."""
        return not self.unfinished

    def write(self, path: Path, failures: Path) -> None:
        """Writes the certificate, and beside it the failing programs into the folder ``failures``."""
        files: dict[Path, bytes] = {}
        cases: list[CaseRecord] = []
        for number, case in enumerate(self.cases):
            if case.reproducer:
                name = f"{number:05}.vyre"
                files[failures / name] = case.reproducer.encode()
                case = case._replace(reproducer=name)
            cases.append(case)
        if files:
            failures.mkdir(parents=True, exist_ok=True)
        files[path] = (replace(self, cases=tuple(cases)).to_json() + "\n").encode()
        write_files(files)

    def to_json(self) -> str:
        """Returns the sealed text, indented for readers."""
        content = asdict(self) | {"cases": [list(case) for case in self.cases]}
        return json.dumps(json.loads(_FORM.seal(content)), indent=1)

    @classmethod
    def from_json(cls, text: str | bytes) -> Certificate:
        """Returns the certificate of a text; raises ``MalformedJson`` for damage, edits and other forms."""
        content = _FORM.unseal(text)
        if content.get("version") != VERSION:
            raise _malformed(f"its form has version {content.get('version')!r}, and this is version {VERSION}")
        if content.keys() != {field.name for field in fields(cls)}:
            raise _malformed("its fields are not those of a certificate")
        content["cases"] = tuple(_record(each) for each in _checked(content["cases"], list))
        content["subject"] = _subject(_checked(content["subject"], dict))
        for name in _COUNTS:
            if not all(type(value) is int for value in _checked(content[name], dict).values()):
                raise _malformed(f"`{name}` holds something that is no count")
        for name, kind in (("seed", int), ("seconds", float), ("vyre", str), ("python", str)):
            _checked(content[name], kind)
        content["missing_operations"] = tuple(_checked(content["missing_operations"], list))
        if not texts(*content["missing_operations"]):
            raise _malformed("an operation is no text")
        return cls(**content)

    @classmethod
    def read(cls, path: Path) -> Certificate:
        """Returns the certificate in a file; raises ``UnreadableFile`` and ``MalformedJson``."""
        return cls.from_json(read_file(path))


def certificate_of(campaign: Campaign, subject: Subject, seed: int, missing: tuple[str, ...]) -> Certificate:
    """Returns the certificate of a check."""
    return Certificate(
        subject,
        seed,
        round(campaign.seconds, 1),
        tuple(campaign.records),
        dict(campaign.witnesses),
        dict(campaign.statements),
        dict(campaign.unfinished),
        missing,
    )


def _checked(value: Any, kind: type) -> Any:
    if type(value) is not kind:
        raise _malformed(f"a {kind.__name__} is missing")
    return value


def _record(row: object) -> CaseRecord:
    if not isinstance(row, list) or len(row) != len(CaseRecord._fields):
        raise _malformed("a case does not have the fields of a case")
    if not texts(*row):
        raise _malformed("a field of a case is no text")
    record = CaseRecord(*row)
    if record.group not in {group.value for group in Group}:
        raise _malformed(f"there is no group {record.group!r}")
    if record.judgement not in {judgement.value for judgement in Judgement}:
        raise _malformed(f"there is no verdict {record.judgement!r}")
    return record


def _subject(members: dict[str, Any]) -> Subject:
    if members.keys() != {field.name for field in fields(Subject)}:
        raise _malformed("the fields of its subject are not those of a subject")
    for name in ("backend", "version"):
        _checked(members[name], str)
    for name in ("canonical_order", "counts_steps"):
        _checked(members[name], bool)
    if not texts(*_checked(members["device"], dict).values()) or members["schedule"] not in (None, *SCHEDULES):
        raise _malformed("its device or its schedule is none")
    return Subject(**members)
