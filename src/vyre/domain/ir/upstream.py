"""Import of programs of vyre-driver, the Rust system, written as JSON in either of its two schemas.

*Named* schema: operators and types by name; a program has ``workgroup_size``.
*Tagged* schema: operators, types and accesses by integer wire tag; a program has ``wg``.

Both describe a language whose typing is looser than that of vyre.  The importer makes every conversion explicit, so
that an imported program keeps its meaning; ``upstream_body`` lists the conversions.  A construct without meaning in
vyre raises ``UnsupportedFeature``, a violated declaration ``InvalidProgram``, and any value that is no program
``MalformedJson``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from vyre.domain.errors import MalformedJson
from vyre.domain.ir.json_form import LABELS, PROGRAM_FIELDS, buffer_list
from vyre.domain.ir.json_tree import brief, fold, record
from vyre.domain.ir.program import NO_HINTS, Access, Buffer, Program
from vyre.domain.ir.upstream_body import BodyImporter
from vyre.domain.ir.upstream_schema import BUFFER_OPTIONS, NAMED, TAGGED, Schema, unsupported
from vyre.domain.program_report import InvalidProgram


class Imported(NamedTuple):
    """An imported program, and notes in words on everything that was changed or dropped."""

    program: Program
    notes: tuple[str, ...]


def import_upstream(value: object) -> Imported:
    """Returns the program that a JSON value of vyre-driver describes.

    Raises ``MalformedJson``, ``UnsupportedFeature`` or ``InvalidProgram``.
    """
    if not isinstance(value, dict):
        raise MalformedJson(f"expected a program, found {brief(value)}")
    schema = TAGGED if "wg" in value else NAMED
    renamed = {schema.keys.get(key, key): field for key, field in value.items() if key != "raw"}
    fields = record(renamed, "$", PROGRAM_FIELDS, LABELS)
    notes: list[str] = []
    buffers = tuple(
        _buffer(raw, f"$.buffers[{i}]", schema, notes) for i, raw in enumerate(buffer_list(fields["buffers"]))
    )
    body = fold(fields["entry"], BodyImporter(buffers, schema, notes).grammar)
    program = Program(
        buffers,
        fields["workgroup_size"],
        body,
        name=fields.get("entry_op_id"),
        non_composable=fields.get("non_composable_with_self", False),
    )
    return Imported(program, tuple(dict.fromkeys(notes)))


def _buffer(raw: object, path: str, schema: Schema, notes: list[str]) -> Buffer:
    renamed: Any = {schema.keys.get(key, key): field for key, field in raw.items()} if isinstance(raw, dict) else raw
    required = {key: leaf for key, leaf in schema.buffer_fields.items() if key != "kind"}
    optional = {**BUFFER_OPTIONS, "kind": schema.buffer_fields["kind"], "hints": schema.hints}
    fields = record(renamed, path, required, optional)
    name, access, count = fields["name"], fields["access"], fields["count"]
    if fields.get("linear_type", "Unrestricted") != "Unrestricted":
        raise unsupported(f"linear type {fields['linear_type']} of buffer `{name}`")
    predicate = fields.get("shape_predicate")
    if predicate is not None:
        if not predicate.holds(count):
            raise InvalidProgram(
                f"buffer `{name}` declares {count} elements, which its shape predicate `{predicate.text}` forbids",
                fix="declare a count that satisfies the predicate.",
            )
        notes.append(f"buffer `{name}`: shape predicate `{predicate.text}` checked and dropped")
    if fields.get("bytes_extraction", False):
        notes.append(f"buffer `{name}`: permission to extract bytes dropped")
    return Buffer.make(
        name,
        fields["binding"],
        access,
        fields["dtype"],
        count,
        is_output=fields["is_output"] or (fields.get("pipeline_live_out", False) and access is Access.READ_WRITE),
        kind=fields.get("kind"),
        output_range=fields.get("output_byte_range"),
        hints=fields.get("hints", NO_HINTS),
    )
