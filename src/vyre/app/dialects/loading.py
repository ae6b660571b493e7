"""Loading of dialects: manifests in the directories of ``VYRE_DIALECT_PATH``, and entry points of packages."""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Final

from vyre.adapters.files import is_directory
from vyre.adapters.system import ProcessEnvironment
from vyre.app.dialects.registry import DialectRegistry
from vyre.domain.diagnostics import Diagnostic
from vyre.domain.dialects.core import core_dialect
from vyre.domain.dialects.manifests import MAX_MANIFEST_BYTES, UNREADABLE, Manifest, finding, read_manifest
from vyre.domain.dialects.operations import Dialect
from vyre.domain.errors import VyreError
from vyre.domain.printable import shown
from vyre.ports.support import Environment

PATH_VARIABLE: Final = "VYRE_DIALECT_PATH"
ENTRY_POINTS: Final = "vyre.dialects"
"""The group of entry points: each names a ``Dialect``, or a function that returns one or takes the registry."""
EMPTY_PATH: Final = "E-TOML-EMPTY-DIALECT-PATH"
DIR_MISSING: Final = "E-TOML-DIALECT-DIR-MISSING"
DIR_UNREADABLE: Final = "E-TOML-DIALECT-DIR-UNREADABLE"
DIR_ENTRY: Final = "E-TOML-DIALECT-DIR-ENTRY"
BAD_ENTRY_POINT: Final = "E-DIALECT-ENTRY-POINT"


def registry_of(environment: Environment) -> DialectRegistry:
    """Returns the registry of the process, or one of its own for another ``VYRE_DIALECT_PATH`` than the process had."""
    is_ours = isinstance(environment, ProcessEnvironment)
    return loaded_registry(process_path() if is_ours else environment.get(PATH_VARIABLE))


@cache
def process_path() -> str | None:
    """Returns the ``VYRE_DIALECT_PATH`` of the process, as it was when it was first used."""
    return ProcessEnvironment().get(PATH_VARIABLE)


@cache
def loaded_registry(path: str | None) -> DialectRegistry:
    """Returns the registry with the manifests of these directories, and the dialects of installed packages."""
    registry = DialectRegistry()
    registry.register(core_dialect(), registrant="vyre")
    load_entry_points(registry)
    if path is not None:
        load_manifests(registry, path)
    return registry


def load_manifests(registry: DialectRegistry, path: str) -> None:
    """Adds the manifests ``*.toml`` of the directories in ``path``, which colons separate.  Raises nothing."""
    notes: list[Diagnostic] = []
    manifests: list[Manifest] = []
    for name in path.split(os.pathsep):
        if not name:
            notes.append(finding(EMPTY_PATH, f"{PATH_VARIABLE} has an empty entry", "remove the colon.", PATH_VARIABLE))
            continue
        for file in _files(Path(name), notes):
            reading = _read(file)
            notes += reading[1]
            manifests += [] if reading[0] is None else [reading[0]]
    registry.add_manifests(manifests, notes)


def _files(directory: Path, notes: list[Diagnostic]) -> list[Path]:
    if not is_directory(directory):
        notes.append(finding(DIR_MISSING, f"{directory} is no directory", "correct the path.", str(directory)))
        return []
    try:
        files = sorted(file for file in directory.iterdir() if file.suffix == ".toml")
    except OSError as error:
        notes.append(finding(DIR_UNREADABLE, f"{directory}: {error}", "make it readable.", str(directory)))
        return []
    for file in [each for each in files if not each.is_file()]:
        notes.append(finding(DIR_ENTRY, f"{file} is no file", "remove or rename it.", str(file)))
        files.remove(file)
    return files


def _read(file: Path) -> tuple[Manifest | None, Iterable[Diagnostic]]:
    try:
        with file.open("rb") as opened:
            data = opened.read(MAX_MANIFEST_BYTES + 1)
    except OSError as error:
        return None, [finding(UNREADABLE, f"the file cannot be read: {error}", "make it readable.", str(file))]
    return read_manifest(data, str(file))


def load_entry_points(registry: DialectRegistry) -> None:
    """Registers the dialects of installed packages.

    What fails becomes a diagnostic, since a package that is broken must not keep others from running.
    """
    from importlib.metadata import entry_points

    notes: list[Diagnostic] = []
    for point in sorted(entry_points(group=ENTRY_POINTS), key=lambda each: (each.name, each.value)):
        who = f"the entry point {point.name} = {point.value}"
        try:
            _register(registry, point.load(), who)
        except Exception as error:  # it is the code of others
            told = error.message if isinstance(error, VyreError) else shown(error)
            notes.append(
                finding(BAD_ENTRY_POINT, f"{who} failed: {told}", "repair or remove the package.", point.value)
            )
    if notes:
        registry.add_manifests((), notes)


def _register(registry: DialectRegistry, result: object, who: str) -> None:
    if callable(result):
        result = result(registry)
    if result is None:
        return
    for dialect in result if isinstance(result, tuple | list) else [result]:
        if not isinstance(dialect, Dialect):
            raise TypeError(f"{shown(dialect)} is no Dialect")
        registry.register(dialect, registrant=who)
