"""Loading of programs that are named on the command line."""

from __future__ import annotations

from pathlib import Path

from vyre.adapters.files import read_file
from vyre.adapters.program_files import LoadedProgram, parse_program_file
from vyre.adapters.terminal import complain
from vyre.app.cli.targets import python_target
from vyre.app.stored_programs import deprecated_in, migration_of
from vyre.app.verdicts import with_names_resolved
from vyre.domain.errors import MalformedJson, MalformedText, MalformedWire, VyreError
from vyre.domain.printable import indented, one_line
from vyre.domain.program_report import InvalidProgram
from vyre.domain.validation.validator import check_rules


class InvalidSource(Exception):
    """An error about a program, with the source text that it points into."""

    def __init__(self, error: VyreError, source: str | None) -> None:
        super().__init__(str(error))
        self.error = error
        self.source = source


def load(path: Path) -> LoadedProgram:
    """Loads a program, from a Python file too: ``kernel.py:saxpy``, which runs the file.

    Raises ``InvalidSource`` for a file that is not a program, ``UnreadableFile`` for an unreadable one, and what
    ``python_files.held`` raises.
    """
    target = python_target(path)
    if target is not None:
        from vyre.app.cli.python_files import python_program  # few programs come from Python files

        return python_program(target)
    data = read_file(path)
    try:
        return parse_program_file(data, path)
    except (MalformedText, MalformedWire, MalformedJson) as error:
        raise InvalidSource(error, data.decode("utf-8", "replace")) from None


def load_migrated(path: Path) -> LoadedProgram:
    """Loads a program, moved to the newest registered operations; its notes say what was moved.

    Raises as ``load``, and ``MigrationFailed`` and ``UnknownOperation`` where a registered migration leads nowhere.
    """
    loaded = load(path)
    program, moved = migration_of(loaded.program)
    return loaded._replace(program=program, notes=(*loaded.notes, *map(str, moved)))


def load_resolved(path: Path) -> LoadedProgram:
    """Loads a program ``load_migrated``, with the definitions of registered operations that it calls and does not
    carry.
    """
    loaded = load_migrated(path)
    return loaded._replace(program=with_names_resolved(loaded.program))


def load_valid(path: Path) -> LoadedProgram:
    """Loads a valid program, with registered operations; diagnostics of an invalid one point into its text."""
    loaded = load_resolved(path)
    try:
        check_rules(loaded.program).raise_if_invalid()
    except InvalidProgram as error:
        raise InvalidSource(error, loaded.source) from None
    tell(path, loaded)
    for warning in deprecated_in(loaded.program):
        complain(warning.render(loaded.source))
    return loaded


def tell(path: Path, loaded: LoadedProgram) -> None:
    """Prints the notes about a program that was read."""
    for note in loaded.notes:
        complain(f"{one_line(str(path))}: note: {indented(note)}")
