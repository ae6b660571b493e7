"""``vyre cache key``: prints the keys under which the code of a program is stored, field by field."""

from __future__ import annotations

from enum import Enum
from typing import Any

from vyre.app.cli import arguments, report
from vyre.app.cli.exit_codes import Exit
from vyre.app.cli.loading import load_valid
from vyre.app.cli.options import AsJson, Assume, Form, GridSync, Locations, ProgramPath, Spec, Target
from vyre.domain.artifact_key import FIELDS, ArtifactKey
from vyre.domain.specialization import written_spec


def key(
    program: ProgramPath,
    target: Target = None,
    assume: Assume = None,
    grid_sync: GridSync = "native",
    spec: Spec = [],  # noqa: B006  # typer copies defaults
    form: Form = None,
    locations: Locations = False,
    as_json: AsJson = False,
) -> int:
    """Print the fields of the keys of a program's stored code, and their digests; options as for `vyre emit`."""
    from vyre.app.emission import emission_keys

    keys = emission_keys(
        load_valid(program).program,
        target=target,
        assume=assume.split(",") if assume else (),
        grid_sync=grid_sync,
        spec=arguments.constants(spec),
        form=form,
        locations=locations,
    )
    documents = [_document(each) for each in keys]
    if as_json:
        report.put_json(documents[0] if len(documents) == 1 else {"keys": documents})
        return Exit.OK
    # What all keys have in common is printed once, and then what distinguishes each of them.
    rows = [[row for name, value in document.items() for row in _rows(name, value)] for document in documents]
    common = [row for row in rows[0] if all(row in others for others in rows)]
    table = report.table("field", "value")
    for name, text in (*common, *(row for each in rows for row in each if row not in common)):
        report.add_row(table, name, text)
    report.put_table(table)
    return Exit.OK


def _document(artifact: ArtifactKey) -> dict[str, Any]:
    """Returns the fields by name, the digest last; bytes are hexadecimal, facts and constants by name."""
    document = {name: _value(name, getattr(artifact, name)) for name in FIELDS}
    return {**document, "digest": artifact.digest.hex()}


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


def _rows(name: str, value: Any) -> list[tuple[str, str]]:
    return [(f"{name} {part}" if part else name, text) for part, text in _lines(value)]


def _lines(value: Any) -> list[tuple[str, str]]:
    """Returns the lines of a field in a table: one for each fact and constant in it."""
    match value:
        case dict() if value:
            return [(part, text or "-") for part, text in value.items()]
        case list() if value:
            return [("", ", ".join(map(str, value)))]
        case _:
            return [("", value or "-")]
