"""The inventory of a cache directory, or of another store: its entries, their verification, and their removal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from blake3 import blake3

from vyre.adapters.disk.entry_directory import EntryDirectory, Found, Untrusted
from vyre.adapters.disk.entry_format import Damaged, decode
from vyre.adapters.disk.layout import PROGRAM_BYTES, parse_path, place_of
from vyre.domain.artifact_key import ArtifactKey, ArtifactKind
from vyre.domain.errors import InvalidField, MalformedWire
from vyre.ports.artifact_store import ArtifactStore


class Listed(NamedTuple):
    """An entry of a listing.

    ``program``: its digest, as hex.  ``key``: None if it cannot be read, such as that of another version of vyre.  A
    store that is no directory does not tell when an entry was used, which is 0 then.
    """

    found: Found
    program: str
    kind: str
    key: ArtifactKey | None
    cost_ns: int


class Checked(NamedTuple):
    """A verified entry; ``problem`` is None if it is valid."""

    path: str
    problem: str | None


def key_of_entry(directory: EntryDirectory, path: str) -> ArtifactKey | None:
    """Returns the key at the start of an entry if it matches the entry's name, else None.  Raises nothing."""
    try:
        key = ArtifactKey.decode(directory.read_key(path))
        return key if place_of(key).path == path else None
    except (OSError, Damaged, Untrusted, MalformedWire, InvalidField):
        return None


def listing(directory: EntryDirectory | ArtifactStore) -> Iterator[Listed]:
    """Yields every entry, in a directory described by its first bytes.  Raises nothing."""
    if not isinstance(directory, EntryDirectory):
        for stored, nbytes, _ in directory.entries():
            if (artifact := directory.get(stored)) is not None:
                place = Found(place_of(stored).path, nbytes, 0)
                yield Listed(place, stored.program.hex(), stored.kind.value, stored, artifact.cost_ns)
        return
    for entry in directory.scan():
        name = parse_path(entry.path)
        assert name is not None  # a scan skips other files
        key = key_of_entry(directory, entry.path)
        yield Listed(entry, name.program, name.kind, key, directory.cost_ns(entry.path))


def names_of_programs(
    directory: EntryDirectory | ArtifactStore, listed: Iterable[Listed]
) -> dict[str, tuple[str, ...]]:
    """Returns names of programs by digest, as hex, from the verdicts among the entries.  Raises nothing.

    A verdict holds the digest by which a program's code is stored, and the program's name; its own digest is another.
    Programs of one digest may have several names.
    """
    by_digest: dict[str, dict[str, None]] = {}
    for entry in listed:
        if entry.kind != ArtifactKind.VERDICT.value:
            continue
        try:
            if isinstance(directory, EntryDirectory):
                metadata = decode(directory.read(entry.found.path).data).artifact.metadata
            else:
                artifact = None if entry.key is None else directory.get(entry.key)
                metadata = b"" if artifact is None else artifact.metadata
        except (OSError, Damaged, Untrusted):
            continue
        name = metadata[PROGRAM_BYTES:].decode("utf-8", "ignore")
        if name:
            for digest in (metadata[:PROGRAM_BYTES].hex(), entry.program):
                by_digest.setdefault(digest, {})[name] = None
    return {digest: tuple(names) for digest, names in by_digest.items()}


def verified(directory: EntryDirectory, path: str) -> bytes:
    """Returns all bytes of an entry that is whole and in its place; raises ``OSError``, ``Damaged`` and
    ``Untrusted``.
    """
    data = directory.read(path).data
    entry = decode(data)
    name = parse_path(path)
    if name is None or name.key_digest != blake3(entry.key).hexdigest():
        raise Damaged("it is of another key")
    return data


def verify(directory: EntryDirectory, *, repair: bool) -> Iterator[Checked]:
    """Reads and verifies every entry; ``repair`` moves damaged ones to quarantine."""
    for entry in directory.scan():
        problem = None
        try:
            verified(directory, entry.path)
        except FileNotFoundError:
            continue
        except Damaged as damage:
            problem = str(damage)
            if repair:
                directory.quarantine(entry.path, None)
        except (OSError, Untrusted) as trouble:
            problem = str(trouble)
        yield Checked(entry.path, problem)


def clear(directory: EntryDirectory | ArtifactStore) -> int:
    """Removes all entries, and the quarantine and temporary files of a directory; returns how many entries were
    removed.  Raises nothing.
    """
    if not isinstance(directory, EntryDirectory):
        return sum(directory.remove(entry.key) for entry in list(directory.entries()) if not entry.layer)
    removed = sum(directory.remove(entry.path) for entry in list(directory.scan()))
    directory.remove_empty_shards()
    directory.empty_quarantine()
    directory.sweep()
    directory.forget_announcements()
    return removed
