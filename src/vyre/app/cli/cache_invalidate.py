"""``vyre cache invalidate``: removes entries that depend on something that changed, with the reason for each."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from vyre.adapters.files import exists
from vyre.adapters.terminal import put
from vyre.app.cli import report
from vyre.app.cli.cache import DIGITS, Directory, opened_store
from vyre.app.cli.exit_codes import Exit
from vyre.app.cli.loading import load
from vyre.app.cli.options import AsJson
from vyre.app.invalidation import Invalid, InvalidationReport, InvalidEntry
from vyre.app.invalidation import invalidate as invalidate_store
from vyre.domain.ir.program import Program


def invalidate(
    program: Annotated[str | None, typer.Option(help="A program's file, or the first digits of its digest.")] = None,
    driver: Annotated[str | None, typer.Option(help="Its version, as in `vyre cache list --json`: 13000.")] = None,
    tool: Annotated[str | None, typer.Option(help="First words of its name and version: 'ptxas 13.0.88'.")] = None,
    emitter: Annotated[
        str | None, typer.Option(help="First digits of its digest; old: all but the present one.")
    ] = None,
    target: Annotated[str | None, typer.Option(help="The GPU's architecture, e.g. sm_90.")] = None,
    key: Annotated[str | None, typer.Option(help="First digits of the key of one entry.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only report what would be removed.")] = False,
    directory: Directory = None,
    as_json: AsJson = False,
) -> int:
    """Remove entries that depend on any of these, and say why; exit code 1 if an entry could not be removed."""
    invalid = Invalid(key=key, program=_program(program), driver=driver, tool=tool, emitter=emitter, target=target)
    outcome = invalidate_store(opened_store(directory), invalid, dry_run=dry_run)
    if as_json:
        report.put_json(_document(outcome))
    else:
        _print(outcome)
    return Exit.WRONG if outcome.failed else Exit.OK


def _program(named: str | None) -> Program | str | None:
    """Loads the program if the text names an existing file or has a file suffix; else returns the text, which is a
    digest.
    """
    if named is None:
        return None
    path = Path(named)
    return load(path).program if path.suffix or exists(path) else named


def _print(outcome: InvalidationReport) -> None:
    went = "would go" if outcome.dry_run else "removed"
    if outcome.removed or outcome.failed:
        rows = report.table("", "kind", "program", "bytes", "why")
        for entry in outcome.removed:
            report.add_row(rows, went, *_cells(entry))
        for entry in outcome.failed:
            report.add_row(rows, f"kept in {entry.layer}" if entry.layer else "not removed", *_cells(entry))
        report.put_table(rows)
    verb = "would remove" if outcome.dry_run else "removed"
    failed = f"; {len(outcome.failed)} cannot be removed" if outcome.failed else ""
    put(f"{verb} {len(outcome.removed)} entries, {outcome.nbytes} bytes{failed}; {outcome.kept} stay")


def _cells(entry: InvalidEntry) -> tuple[str, ...]:
    return entry.key.kind.value, entry.key.program.hex()[:DIGITS], str(entry.nbytes), entry.why


def _document(outcome: InvalidationReport) -> dict[str, object]:
    return {
        "dry_run": outcome.dry_run,
        "removed": [_entry(entry) for entry in outcome.removed],
        "failed": [{**_entry(entry), "layer": entry.layer or None} for entry in outcome.failed],
        "kept": outcome.kept,
        "bytes": outcome.nbytes,
    }


def _entry(entry: InvalidEntry) -> dict[str, object]:
    return {
        "kind": entry.key.kind.value,
        "program": entry.key.program.hex(),
        "key": entry.key.digest.hex(),
        "bytes": entry.nbytes,
        "why": entry.why,
    }
