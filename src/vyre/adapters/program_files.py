"""Program files: ``.vyre`` text, ``.vyrb`` wire, ``.json``, recognized by extension or else by content."""

from __future__ import annotations

import json
from enum import Enum
from pathlib import Path
from typing import Final, NamedTuple

from vyre.domain.errors import MalformedJson, MalformedText
from vyre.domain.ir.program import Program
from vyre.domain.ir.upstream import import_upstream
from vyre.domain.ir.wire_format import MAGIC
from vyre.domain.strict_json import MAX_PROGRAM_DEPTH, NotStrictJson, parse


class ProgramForm(Enum):
    """The written forms of a program."""

    TEXT = "text"
    WIRE = "wire"
    JSON = "json"


_BY_EXTENSION: Final = {".vyre": ProgramForm.TEXT, ".vyrb": ProgramForm.WIRE, ".json": ProgramForm.JSON}


class LoadedProgram(NamedTuple):
    """A program with its origin.

    ``source`` is the text that diagnostics point into, for programs in text form; ``notes`` are the importer's.
    """

    program: Program
    source: str | None = None
    notes: tuple[str, ...] = ()


def form_of(path: Path) -> ProgramForm:
    """Returns the form that the extension of a file stands for, text for any other extension."""
    return _BY_EXTENSION.get(path.suffix, ProgramForm.TEXT)


def parse_program_file(data: bytes, path: Path) -> LoadedProgram:
    """Returns the program in ``data``; ``path`` gives the form and the name in messages.

    Raises ``MalformedText``, ``MalformedWire`` or ``MalformedJson``.
    """
    if path.suffix == ".py":
        raise MalformedText(
            f"{path} is Python, not a program",
            fix="run it with python, and let it write the program to a file: Path('kernel.vyre').write_text("
            "program.to_text()).",
        )
    match _BY_EXTENSION.get(path.suffix) or _detect(data):
        case ProgramForm.WIRE:
            return LoadedProgram(Program.from_wire(data))
        case ProgramForm.JSON:
            return _from_json(data)
        case ProgramForm.TEXT:
            try:
                source = data.decode("utf-8")
            except UnicodeDecodeError as error:
                raise MalformedText(f"{path}: no UTF-8 text ({error.reason} at byte {error.start})") from None
            return LoadedProgram(Program.from_text(source, str(path)), source)


def render_program(program: Program, form: ProgramForm) -> bytes:
    """Returns the program in a written form, as the bytes of a file."""
    match form:
        case ProgramForm.WIRE:
            return program.to_wire()
        case ProgramForm.JSON:
            return json.dumps(program.to_json(), indent=1).encode() + b"\n"
        case ProgramForm.TEXT:
            return program.to_text().encode()


def _detect(data: bytes) -> ProgramForm:
    if data.startswith(MAGIC):
        return ProgramForm.WIRE
    return ProgramForm.JSON if data.lstrip()[:1] == b"{" else ProgramForm.TEXT


def _from_json(data: bytes) -> LoadedProgram:
    try:
        tree = parse(data, depth=MAX_PROGRAM_DEPTH)
    except NotStrictJson as error:
        raise MalformedJson(f"the file {error}", fix="repair the syntax of the file.") from None
    if isinstance(tree, dict) and "format" in tree:
        return LoadedProgram(Program.from_json(tree))
    imported = import_upstream(tree)
    return LoadedProgram(imported.program, None, tuple(map(str, imported.notes)))
