"""Export of entries to one file, and import into another cache: a plain tar archive of entries, ended by a marker.

Importing an archive means running its code: it must come from a source as trustworthy as the program itself.
"""

from __future__ import annotations

import io
import os
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from vyre.adapters.disk.entry_directory import EntryDirectory, Untrusted
from vyre.adapters.disk.entry_format import MAX_ENTRY_BYTES, Damaged, decode, encode
from vyre.adapters.disk.inventory import verified
from vyre.adapters.disk.layout import place_of
from vyre.domain.artifact_key import ArtifactKey
from vyre.domain.errors import MalformedWire, UnreadableFile
from vyre.ports.artifact_store import ArtifactStore
from vyre.ports.interrupts import whole

_END: Final = "end-of-vyre-cache"
_MARKER: Final = b"vyre cache\n"


class Exported(NamedTuple):
    """The result of an export.  ``skipped``: entries that do not verify, each with the reason."""

    entries: int
    nbytes: int
    skipped: tuple[str, ...]


class Imported(NamedTuple):
    """The result of an import.  ``refused``: members that were not imported, each with the reason."""

    entries: int
    refused: tuple[str, ...]


@whole
def export_entries(directory: EntryDirectory | ArtifactStore, target: Path) -> Exported:
    """Writes every entry that verifies to ``target``, whole or not at all; equal caches give equal files.

    Raises ``UnreadableFile``.
    """
    try:
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    except OSError as error:
        raise _unwritable(target, error) from None
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file, tarfile.open(fileobj=file, mode="w") as archive:
            exported = _export(directory, archive)
        temporary.replace(target)
    except OSError as error:
        raise _unwritable(target, error) from None
    finally:
        temporary.unlink(missing_ok=True)
    return exported


def _files(source: EntryDirectory | ArtifactStore) -> Iterator[tuple[str, Callable[[], bytes]]]:
    """Yields the path of every entry in a cache directory, and a function that returns its bytes."""
    if isinstance(source, EntryDirectory):
        for entry in sorted(source.scan()):
            yield entry.path, partial(verified, source, entry.path)
        return
    for path, key, digested in sorted((place_of(key).path, place_of(key).key, key) for key, _, _ in source.entries()):
        if (artifact := source.get(digested)) is not None:
            yield path, partial(encode, key, artifact)


def _export(source: EntryDirectory | ArtifactStore, archive: tarfile.TarFile) -> Exported:
    entries = nbytes = 0
    skipped = []
    for path, read in _files(source):
        try:
            data = read()
        except FileNotFoundError:
            continue
        except (OSError, Damaged, Untrusted) as problem:
            skipped.append(f"{path}: {problem}")
            continue
        _add(archive, path, data)
        entries, nbytes = entries + 1, nbytes + len(data)
    _add(archive, _END, _MARKER)
    return Exported(entries, nbytes, tuple(skipped))


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mode = len(data), 0o600
    archive.addfile(member, io.BytesIO(data))


def import_entries(store: ArtifactStore, source: Path) -> Imported:
    """Puts the entries of ``source`` into ``store``; file names are ignored, and each entry is verified.

    Raises ``UnreadableFile`` if it is not such an archive.
    """
    entries, ended, refused = 0, False, list[str]()
    try:
        with tarfile.open(source, "r:") as archive:
            for member in archive:
                if member.name == _END:
                    ended = True
                    continue
                problem = _import(store, archive, member)
                if problem is None:
                    entries += 1
                else:
                    refused.append(f"{member.name}: {problem}")
    except tarfile.TarError as error:
        if not entries and not refused:
            raise UnreadableFile(f"{source} is no exported cache: {error}", fix="export it again.") from None
    except OSError as error:
        raise UnreadableFile(f"cannot read {source}: {error.strerror or error}") from None
    if not ended:
        refused.append(f"{source}: it is cut off after {entries + len(refused)} entries")
    return Imported(entries, tuple(refused))


def _import(store: ArtifactStore, archive: tarfile.TarFile, member: tarfile.TarInfo) -> str | None:
    """Returns why a member is refused, or None."""
    if not member.isreg() or member.size > MAX_ENTRY_BYTES:
        return "it is no entry"
    content = archive.extractfile(member)
    try:
        entry = decode(b"" if content is None else content.read())
        key = ArtifactKey.decode(entry.key)
    except Damaged as damage:
        return str(damage)
    except MalformedWire as error:
        return error.message
    return None if store.put(key, entry.artifact) else "it could not be stored"


def _unwritable(target: Path, error: OSError) -> UnreadableFile:
    return UnreadableFile(
        f"cannot write {target}: {error.strerror or error}", fix="choose a path in an existing, writable directory."
    )
