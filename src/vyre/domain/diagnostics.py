"""Diagnostics: the findings of a check, as values, as text for people and as JSON for machines."""

from __future__ import annotations

from dataclasses import field
from typing import Any, Final

from vyre.domain.errors import MalformedJson
from vyre.domain.excerpts import excerpt, in_a_frame
from vyre.domain.frozen import frozen
from vyre.domain.identity_enum import IdentityEnum
from vyre.domain.printable import indented, one_line
from vyre.domain.source_location import SourceLocation


class Severity(IdentityEnum):
    """The severity of a finding; the value is the word in text and JSON."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@frozen
class OpLocation:
    """A position in an operation rather than in a source file."""

    op_id: str
    operand_idx: int | None = None
    attr_name: str | None = None

    def __str__(self) -> str:
        operand = "" if self.operand_idx is None else f" operand[{self.operand_idx}]"
        attribute = "" if self.attr_name is None else f" `{self.attr_name}`"
        return f"op `{self.op_id}`{operand}{attribute}"


@frozen
class Diagnostic:
    """One finding.

    ``code`` is stable and searchable, and ``fix`` describes the repair.  ``loc`` is a position in a source file and
    ``location`` a position in an operation.  ``excerpt`` is the line at ``loc`` with what is meant underlined, as the
    errors of kernels in Python have it; it is part of no JSON, and does not count where diagnostics are compared.
    """

    severity: Severity
    code: str
    message: str
    fix: str | None = None
    loc: SourceLocation | None = None
    location: OpLocation | None = None
    doc_url: str | None = None
    excerpt: str = field(default="", compare=False, repr=False)

    def __str__(self) -> str:
        return self.render()

    def render(self, source: str | None = None) -> str:
        """Returns text for people, with the position underlined in its line; ``source`` is the text of the file to
        which ``loc`` refers, None: the line is the one that ``loc`` or the file has.

        Characters that are not printable are escaped, because messages contain names and lines of other people's
        programs.
        """
        lines = [f"{self.severity.value}[{one_line(self.code)}]: {indented(self.message)}"]
        if self.location is not None:
            lines.append(f"  --> {one_line(str(self.location))}")
        if self.loc is not None:
            lines.append(f"  --> {one_line(str(self.loc))}")
            if text := self.excerpt or excerpt(self.loc, source):
                lines += in_a_frame(self.loc.line, text)
        if self.fix:
            lines.append(f"  = help: {indented(self.fix)}")
        if self.doc_url:
            lines.append(f"  = note: {one_line(self.doc_url)}")
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """Returns a JSON object without absent members; ``from_json`` is the inverse."""
        members: dict[str, Any] = {
            "severity": self.severity.value,
            "code": self.code,
            "message": self.message,
            "location": _members(self.location, _OP_MEMBERS),
            "suggested_fix": self.fix,
            "doc_url": self.doc_url,
            "loc": _members(self.loc, _LOC_MEMBERS),
        }
        return {key: value for key, value in members.items() if value is not None}

    @classmethod
    def from_json(cls, value: object) -> Diagnostic:
        """Returns the diagnostic that ``to_json`` wrote; raises ``MalformedJson`` for other values."""
        members = _object(value, "$", _MEMBERS, required=("severity", "code", "message"))
        severities = {severity.value: severity for severity in Severity}
        if members["severity"] not in severities:
            raise MalformedJson(
                f"unknown severity {members['severity']!r}", fix=f"use one of {sorted(severities)}.", path="$.severity"
            )
        location, loc = members.get("location"), members.get("loc")
        return cls(
            severities[members["severity"]],
            members["code"],
            members["message"],
            members.get("suggested_fix"),
            None if loc is None else SourceLocation(**_object(loc, "$.loc", _LOC_MEMBERS, ("file", "line"))),
            None if location is None else OpLocation(**_object(location, "$.location", _OP_MEMBERS, ("op_id",))),
            members.get("doc_url"),
        )

    def render_json(self) -> str:
        """Returns ``to_json`` as compact ASCII text."""
        import json  # a dispatch never needs it

        return json.dumps(self.to_json(), separators=(",", ":"))

    @classmethod
    def parse_json(cls, text: str) -> Diagnostic:
        """Returns the diagnostic that ``render_json`` wrote; raises ``MalformedJson`` for other text."""
        from vyre.domain.strict_json import NotStrictJson, parse  # a dispatch never needs it

        try:
            value = parse(text)
        except NotStrictJson as error:
            raise MalformedJson(f"a diagnostic {error}") from error
        return cls.from_json(value)


_OP_MEMBERS: Final[dict[str, type]] = {"op_id": str, "operand_idx": int, "attr_name": str}
_LOC_MEMBERS: Final[dict[str, type]] = {"file": str, "line": int, "column": int}
_MEMBERS: Final[dict[str, type]] = {
    "severity": str,
    "code": str,
    "message": str,
    "location": dict,
    "suggested_fix": str,
    "doc_url": str,
    "loc": dict,
}


def _members(value: object, names: dict[str, type]) -> dict[str, Any] | None:
    if value is None:
        return None
    return {name: member for name in names if (member := getattr(value, name)) is not None}


def _object(value: object, path: str, members: dict[str, type], required: tuple[str, ...]) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise MalformedJson(f"expected an object, found {type(value).__name__}", path=path)
    for key, member in value.items():
        if key not in members:
            raise MalformedJson(f"unknown member {key!r}", fix=f"use only {sorted(members)}.", path=path)
        if type(member) is not members[key]:
            raise MalformedJson(f"expected {members[key].__name__}, found {member!r}", path=f"{path}.{key}")
    for key in required:
        if key not in value:
            raise MalformedJson(f"member {key!r} is missing", path=path)
    return value
