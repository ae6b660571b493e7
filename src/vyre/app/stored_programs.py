"""Programs of files, as the registered dialects have them now: migrated, with warnings of what is out of use."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from vyre.adapters.files import read_file
from vyre.adapters.program_files import parse_program_file
from vyre.domain.arguments import expect, path_of
from vyre.domain.diagnostics import Diagnostic
from vyre.domain.dialects.migration import MigratedProgram, MovedCalls
from vyre.domain.float_mode import in_default_mode
from vyre.domain.ir.program import Program


class StoredProgram(NamedTuple):
    """A program of a file.

    ``moved``: the calls that migrations have moved to newer operations; nothing if the program is as it was stored.
    ``warnings``: one for each line that calls what is out of use.  ``notes``: those of the importer.
    """

    program: Program
    moved: tuple[MovedCalls, ...] = ()
    warnings: tuple[Diagnostic, ...] = ()
    notes: tuple[str, ...] = ()


@in_default_mode
def read_program(path: Path | str, *, migrate: bool = True) -> StoredProgram:
    """Reads the program of a file in text, wire or JSON, and moves it to the newest registered operations.

    ``migrate``: False keeps the program as it was stored, as ``Program.from_text`` and its like do.  The program need
    not be valid.  Raises ``UnreadableFile``, ``MalformedText``, ``MalformedWire``, ``MalformedJson``, and
    ``MigrationFailed`` and ``UnknownOperation`` where a registered migration leads nowhere.
    """
    path = path_of("path", path)
    expect("migrate", migrate, bool, "True or False")
    loaded = parse_program_file(read_file(path), path)
    program, moved = migration_of(loaded.program) if migrate else MigratedProgram(loaded.program)
    return StoredProgram(program, moved, deprecated_in(program), loaded.notes)


def migration_of(program: Program) -> MigratedProgram:
    """Returns the program after the registered migrations; raises ``MigrationFailed`` and ``UnknownOperation``."""
    if not program.definitions:
        return MigratedProgram(program)
    from vyre.app.dialects.current import dialect_registry  # few programs define operations

    return dialect_registry().snapshot.migration_of(program)


def deprecated_in(program: Program) -> tuple[Diagnostic, ...]:
    """Returns a warning for each line that calls an operation which is out of use."""
    if not program.definitions:
        return ()
    from vyre.app.dialects.current import deprecated_calls

    return deprecated_calls(program)
