"""``vyre cache``: shows, checks, empties, exports and imports the cache on disk."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final, cast

import typer

from vyre.adapters.disk import inventory
from vyre.adapters.disk.artifact_store import DiskArtifactStore, retention_of
from vyre.adapters.disk.configuration import CacheOption, CacheSettings, cache_settings
from vyre.adapters.disk.entry_directory import EntryDirectory
from vyre.adapters.disk.file_operations import REAL_FILES
from vyre.adapters.disk.ledger import Totals
from vyre.adapters.disk.space import Space
from vyre.adapters.terminal import complain, put
from vyre.app.cli import report
from vyre.app.cli.exit_codes import Exit
from vyre.app.cli.options import AsJson
from vyre.app.services import WIRING, Place, artifact_store
from vyre.domain.artifact_key import ArtifactKey, ArtifactKind
from vyre.domain.cache_config import CacheConfig
from vyre.domain.errors import InvalidConfig, UnreadableFile
from vyre.ports.artifact_store import ArtifactStore
from vyre.ports.support import NullTelemetry

cache: Final = typer.Typer(
    name="cache", help="The cache of compiled kernels on disk.", no_args_is_help=True, rich_markup_mode=None
)
DIGITS: Final = 12
"""Digits of a program's digest that are shown."""

Directory = Annotated[Path | None, typer.Option("--dir", help="The cache directory instead of the configured one.")]


@cache.command()
def path(directory: Directory = None, as_json: AsJson = False) -> int:
    """Print the cache directory, and the read-only layers below it."""
    settings = _settings(directory)
    if as_json:
        report.put_json({"directory": str(settings.directory), "layers": [str(layer) for layer in settings.layers]})
        return Exit.OK
    for layer in (settings.directory, *settings.layers):
        put(str(layer))
    return Exit.OK


@cache.command()
def stats(directory: Directory = None, as_json: AsJson = False) -> int:
    """Count the entries by kind, and show the limits."""
    source = _source(directory)
    settings = _settings(directory) if isinstance(source, EntryDirectory) else None
    listed = list(inventory.listing(source))
    by_kind = Counter(entry.kind for entry in listed)
    facts = {
        "directory": None if settings is None else str(settings.directory),
        "entries": len(listed),
        "max_entries": None if settings is None else settings.max_entries,
        "bytes": sum(entry.found.nbytes for entry in listed),
        "max_bytes": None if settings is None else settings.max_bytes,
        "programs": len({entry.program for entry in listed}),
        "build_seconds": sum(entry.cost_ns for entry in listed) / 1e9,
        "kinds": dict(sorted(by_kind.items())),
    }
    if as_json:
        report.put_json(facts)
        return Exit.OK
    limits = (
        ("", "") if settings is None else (f" of at most {settings.max_entries}", f" of at most {settings.max_bytes}")
    )
    put(f"directory  {'none: the store is in ' + type(source).__name__ if settings is None else settings.directory}")
    put(f"entries    {facts['entries']}{limits[0]}, of {facts['programs']} programs")
    put(f"bytes      {facts['bytes']}{limits[1]}")
    put(f"worth      {facts['build_seconds']:.3g} s of building")
    put(f"kinds      {', '.join(f'{count} {kind}' for kind, count in sorted(by_kind.items())) or 'none'}")
    return Exit.OK


@cache.command("list")
def list_(directory: Directory = None, as_json: AsJson = False) -> int:
    """List the entries, most recently used first."""
    source = _source(directory)
    listed = sorted(inventory.listing(source), key=lambda entry: -entry.found.used_ns)
    names = inventory.names_of_programs(source, listed)
    if as_json:
        report.put_json([_entry_json(entry) | {"names": list(names.get(entry.program, ()))} for entry in listed])
        return Exit.OK
    rows = report.table("kind", "name", "program", "target", "variant", "bytes", "built in", "last used")
    for entry in listed:
        report.add_row(
            rows,
            entry.kind,
            ", ".join(names.get(entry.program, ("-",))),
            _program(entry.program),
            "?" if entry.key is None else entry.key.target,
            "" if entry.key is None else _variant(entry.key),
            str(entry.found.nbytes),
            f"{entry.cost_ns / 1e6:.1f} ms",
            _moment(entry.found.used_ns),
        )
    report.put_table(rows)
    return Exit.OK


@cache.command()
def verify(directory: Directory = None, as_json: AsJson = False) -> int:
    """Read and check every entry; damaged ones are moved to quarantine, and the exit code is 1."""
    settings = _settings(directory)
    checked = [
        (root, check)
        for root in (settings.directory, *settings.layers)
        for check in inventory.verify(_opened_at(root), repair=root == settings.directory)
    ]
    bad = [(root, check) for root, check in checked if check.problem is not None]
    if as_json:
        problems = [{"directory": str(root), "entry": check.path, "problem": check.problem} for root, check in bad]
        report.put_json({"checked": len(checked), "problems": problems})
    else:
        for root, check in bad:
            put(f"{root}: {check.path}: {check.problem}")
        put(f"{len(checked)} entries, {len(bad)} of them bad")
    return Exit.WRONG if bad else Exit.OK


@cache.command()
def prune(
    max_bytes: Annotated[int | None, typer.Option("--bytes", min=1, help="Limit in bytes.")] = None,
    max_entries: Annotated[int | None, typer.Option("--entries", min=1, help="Limit of entries.")] = None,
    directory: Directory = None,
    as_json: AsJson = False,
) -> int:
    """Evict entries that exceed the limits, and remove temporary files of killed processes."""
    settings = _settings(directory, max_bytes, max_entries)
    opened = _opened(settings)
    limits = Totals(settings.max_entries, settings.max_bytes)
    space = Space(opened, _place().files(), limits, retention_of(settings.eviction))
    removed = {"evicted": space.evict_to_fit(), "temporary": opened.sweep()}
    return _done(removed, "evicted {evicted} entries, removed {temporary} temporary files", as_json)


@cache.command()
def clear(directory: Directory = None, as_json: AsJson = False) -> int:
    """Remove every entry, and the quarantine."""
    removed = inventory.clear(_source(directory))
    return _done({"removed": removed}, "removed {removed} entries", as_json)


@cache.command("export")
def export_(
    target: Annotated[Path, typer.Argument(help="The archive to write.")],
    directory: Directory = None,
    as_json: AsJson = False,
) -> int:
    """Write all entries to one file, for import elsewhere."""
    from vyre.adapters.disk.transfer import export_entries  # imported on use: it is slow to import

    exported = export_entries(_source(directory), target)
    for problem in exported.skipped:
        complain(f"skipped {problem}")
    _done(
        {"entries": exported.entries, "bytes": exported.nbytes, "skipped": len(exported.skipped)},
        "exported {entries} entries, {bytes} bytes; skipped {skipped}",
        as_json,
    )
    return Exit.WRONG if exported.skipped else Exit.OK


@cache.command("import")
def import_(
    source: Annotated[Path, typer.Argument(help="An archive that `vyre cache export` wrote and that you trust.")],
    directory: Directory = None,
    as_json: AsJson = False,
) -> int:
    """Import the entries of an exported cache, verifying each."""
    from vyre.adapters.disk.transfer import import_entries

    imported = import_entries(opened_store(directory), source)
    for problem in imported.refused:
        complain(f"refused {problem}")
    _done(
        {"entries": imported.entries, "refused": len(imported.refused)},
        "imported {entries} entries, refused {refused}",
        as_json,
    )
    return Exit.WRONG if imported.refused else Exit.OK


def opened_store(directory: Path | None) -> ArtifactStore:
    """Opens the configured store, or that of ``directory``; its problems are printed on standard error.

    Raises ``UnreadableFile`` and ``UntrustedDirectory`` for a directory that cannot be used.
    """
    if (store := _injected(directory)) is not None:
        return store
    settings = _settings(directory)
    _opened(settings)
    return DiskArtifactStore(settings, _Complaints(), files=_place().files())


def _place() -> Place:
    wiring = WIRING.get()
    cache = cast("CacheOption", wiring.options.get("cache"))
    return Place(cache, wiring.environment(), _Complaints(), clock=wiring.clock())


def _injected(directory: Path | None) -> ArtifactStore | None:
    """Returns the store of the container that is applied; None for the usual one, or if a directory is named."""
    make = WIRING.get().artifact_store
    if directory is not None or make is artifact_store:
        return None
    store = make(_place())
    if store is None:
        raise InvalidConfig("the container that is applied has no artifact store", fix="name a directory with --dir.")
    return store


def _source(directory: Path | None) -> EntryDirectory | ArtifactStore:
    """Returns the directory of the store whose entries a command lists, or a store of the container that has none."""
    store = _injected(directory)
    if store is None or isinstance(store, DiskArtifactStore):
        return _opened(_settings(directory))
    return store


class _Complaints(NullTelemetry):
    """Telemetry that prints the store's events about its directory."""

    def event(self, name: str, /, *, level: str = "info", **fields: object) -> None:
        """Prints the event on standard error."""
        complain(f"{fields['problem']}. Fix: {fields['fix']}")


def _settings(directory: Path | None, max_bytes: int | None = None, max_entries: int | None = None) -> CacheSettings:
    """Returns the settings of the usual store, or of that of the container; raises ``InvalidConfig`` without any."""
    store = _injected(directory)
    if store is not None and not isinstance(store, DiskArtifactStore):
        raise InvalidConfig(
            f"the artifact store of the container, a {type(store).__name__}, has no directory and no limits",
            fix="name a directory with --dir; stats, list, clear, invalidate, export and import take any store.",
        )
    limits, place = CacheConfig(max_bytes=max_bytes, max_entries=max_entries), _place()
    cache = place.cache if directory is None else directory
    settings = cache_settings(cache, place.environment) if store is None else store.settings
    if settings is None:
        raise InvalidConfig("the cache on disk is turned off", fix="unset VYRE_CACHE_DISABLE.")
    return replace(
        settings,
        max_bytes=limits.max_bytes or settings.max_bytes,
        max_entries=limits.max_entries or settings.max_entries,
    )


def _opened(settings: CacheSettings) -> EntryDirectory:
    return _opened_at(settings.directory)


def _opened_at(root: Path) -> EntryDirectory:
    """Returns a directory that may be used, even if it does not exist yet; raises ``UnreadableFile``."""
    opened = EntryDirectory(REAL_FILES, str(root))
    try:
        opened.check()
    except OSError as error:
        raise UnreadableFile(f"cannot use {error.filename}: {error.strerror}") from None
    return opened


def _program(digest: str) -> str:
    """Returns the first digits of a digest, or the name of what is no program, which its digest spells."""
    name = bytes.fromhex(digest).rstrip(b"\0")
    return name.decode() if name and name.isascii() and name.decode().isprintable() else digest[:DIGITS]


def _variant(key: ArtifactKey) -> str:
    """Returns the options by which objects of one program differ: the names of switches that are on, and values."""
    if key.kind is not ArtifactKind.OBJECT:
        return ""
    switches = {"true": "{}", "false": ""}
    shown = (switches.get(value, "{}=" + value).format(name) for name, value in key.policy)
    return " ".join(filter(None, shown))


def _entry_json(entry: inventory.Listed) -> dict[str, object]:
    key = entry.key
    fields: dict[str, object] = {}
    if key is not None:
        fields = {
            "target": key.target,
            "driver": key.driver,
            "tool": key.tool,
            "emitter": key.emitter.hex(),
            "policy": dict(key.policy),
            "workgroup": list(key.workgroup),
            "key": key.digest.hex(),
        }
    return {
        "file": entry.found.path,
        "kind": entry.kind,
        "program": entry.program,
        "bytes": entry.found.nbytes,
        "cost_ns": entry.cost_ns,
        "last_used": _moment(entry.found.used_ns),
        **fields,
    }


def _moment(since_epoch_ns: int) -> str:
    return "-" if not since_epoch_ns else datetime.fromtimestamp(since_epoch_ns / 1e9, UTC).isoformat(" ", "seconds")


def _done(facts: dict[str, int], text: str, as_json: bool) -> int:
    if as_json:
        report.put_json(facts)
    else:
        put(text.format(**facts))
    return Exit.OK
