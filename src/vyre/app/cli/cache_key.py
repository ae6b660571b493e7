"""``vyre cache key``: prints the key under which the code of a program is stored, field by field."""

from __future__ import annotations

from enum import Enum
from typing import Any

from vyre.app.cli import arguments, report
from vyre.app.cli.exit_codes import Exit
from vyre.app.cli.loading import load_valid
from vyre.app.cli.options import AsJson, Assume, Form, GridSync, ProgramPath, Spec, Target
from vyre.domain.artifact_key import FIELDS, ArtifactKey
from vyre.domain.specialization import written_spec


def key(
    program: ProgramPath,
    target: Target = None,
    assume: Assume = None,
    grid_sync: GridSync = "native",
    spec: Spec = [],  # noqa: B006  # typer copies defaults
    form: Form = None,
    as_json: AsJson = False,
) -> int:
    """Print the fields of the key of a program's emitted code, and its digest; options as for `vyre emit`."""
    from vyre.app.emission import emission_key

    found = emission_key(
        load_valid(program).program,
        target=target,
        assume=assume.split(",") if assume else (),
        grid_sync=grid_sync,
        spec=arguments.constants(spec),
        form=form,
    )
    document = _document(found)
    if as_json:
        report.put_json(document)
        return Exit.OK
    rows = report.table("field", "value")
    for name, value in document.items():
        for part, text in _lines(value):
            report.add_row(rows, f"{name} {part}" if part else name, text)
    report.put_table(rows)
    return Exit.OK


def _document(found: ArtifactKey) -> dict[str, Any]:
    """Returns the fields by name, the digest last; bytes are hexadecimal, facts and constants by name."""
    document = {name: _value(name, getattr(found, name)) for name in FIELDS}
    return {**document, "digest": found.digest.hex()}


def _value(name: str, value: Any) -> Any:
    match value:
        case bytes() if name == "spec":
            return written_spec(value)
        case bytes():
            return value.hex()
        case Enum():
            return value.value
        case tuple() if name in ("device", "policy"):
            return dict(value)
        case tuple():
            return list(value)
        case _:
            return value


def _lines(value: Any) -> list[tuple[str, str]]:
    """Returns the lines of a field in a table: one for each fact and constant in it."""
    match value:
        case dict() if value:
            return [(part, text or "-") for part, text in value.items()]
        case list() if value:
            return [("", ", ".join(map(str, value)))]
        case _:
            return [("", value or "-")]
