"""Output of the commands: text for people, or one JSON document for machines."""

from __future__ import annotations

import io
import json
import linecache
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from vyre.adapters.terminal import complain, put, shows_colours
from vyre.app.result import Result
from vyre.app.selection import SelectionReport
from vyre.domain.diagnostics import Diagnostic, Severity
from vyre.domain.errors import DataRaceError, KernelSourceError, LocatedError, VyreError
from vyre.domain.ir.program import Buffer, Program
from vyre.domain.ir.stmt import walk_statements
from vyre.domain.ir.text_format import name_text
from vyre.domain.ir.walk import unique_expressions
from vyre.domain.printable import indented, one_line
from vyre.domain.program_report import InvalidProgram, Report
from vyre.domain.specialization import spec_constants
from vyre.domain.validation.validator import check_rules

if TYPE_CHECKING:
    import numpy.typing as npt
    from rich.table import Table

    from vyre.app.aot import WrittenBundle
    from vyre.app.cli.doctor import Finding
    from vyre.app.demo import DemoRow

FIRST: Final = 8
"""Number of values that are shown of an output."""
PIPE_COLUMNS: Final = 240


def put_json(document: object) -> None:
    """Prints ``document`` as indented JSON."""
    put(json.dumps(document, indent=2))


def table(*columns: str) -> Table:
    """Returns a table without borders."""
    from rich.table import Table  # imported on use: it is slow to import

    built = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        built.add_column(column, overflow="fold")
    return built


_STYLES: Final = {"ok": "green", "!!": "bold red", "!": "bold red", "*": "bold green"}
"""The colours of cells that are these words."""


def add_row(rows: Table, *cells: str) -> None:
    """Adds a row of cells that hold text without markup, each on one line; some words have a colour of their own."""
    from rich.text import Text

    rows.add_row(*(Text(one_line(cell), style=_STYLES.get(cell, "")) for cell in cells))


def put_table(rows: Table) -> None:
    """Prints a table fitted to the terminal; in a pipe lines are not folded at 80 columns."""
    from rich.console import Console

    width = None if sys.stdout.isatty() else PIPE_COLUMNS
    Console(
        highlight=False,
        markup=False,
        emoji=False,
        width=width,
        force_terminal=sys.stdout.isatty(),
        color_system="standard" if shows_colours(sys.stdout) else None,
        no_color=False,
    ).print(rows)


@contextmanager
def progress(text: str) -> Iterator[Callable[[str], None]]:
    """Shows a spinner on a terminal's standard error during the block; yields the function that changes its text."""
    from rich.console import Console
    from rich.text import Text

    console = Console(
        stderr=True,
        highlight=False,
        soft_wrap=True,
        force_terminal=sys.stderr.isatty(),
        color_system="standard" if shows_colours(sys.stderr) else None,
        no_color=False,
    )
    spinner = "dots" if console.encoding.startswith("utf") else "line"
    with console.status(Text(one_line(text)), spinner=spinner) as status:
        yield lambda new: status.update(Text(one_line(new)))


# ---------------------------------------------------------------- run
def file_content(path: Path, array: npt.NDArray[Any]) -> bytes:
    """Returns the array as a ``.npy`` file, or for any other extension its raw bytes (``bool`` one byte an element)."""
    if path.suffix != ".npy":
        return array.tobytes()
    import numpy as np

    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def print_result(result: Result, targets: dict[str, Path], reason: str, *, as_json: bool) -> None:
    """Prints shapes and first values of the outputs, or the files they were written to."""
    if as_json:
        put_json(
            {
                "backend": result.backend,
                "reason": reason,
                "wall_ns": result.timing.wall_ns,
                "device_ns": result.timing.device_ns,
                "launch": {
                    "grid": result.launch.grid,
                    "workgroup": result.launch.workgroup,
                    "extent": result.launch.extent,
                    "rule": result.launch.rule.name.lower(),
                },
                "outputs": [_output_json(name, array, targets.get(name)) for name, array in result.items()],
            }
        )
        return
    for name, array in result.items():
        target = targets.get(name)
        shown = f"-> {one_line(str(target))}" if target is not None else _first(array)
        put(f"{name_text(name)}: {array.dtype}[{', '.join(map(str, array.shape))}] {shown}")
    put(f"{result.backend}, {result.timing.wall_ns / 1e6:.3f} ms ({reason})")


def print_bundle(written: WrittenBundle, *, as_json: bool) -> None:
    """Prints the members of a bundle, and the digest for ``--expect``."""
    if as_json:
        put_json(
            {
                "file": str(written.path),
                "digest": written.digest,
                "programs": dict(written.programs),
                "bytes": written.nbytes,
                "members": list(written.members),
                "assembler": written.assembler,
                "lowerings": {
                    target: [choice._asdict() for choice in choices] for target, choices in written.lowerings.items()
                },
            }
        )
        return
    put(f"{one_line(str(written.path))}: {', '.join(written.members)} ({written.nbytes} bytes; {written.made})")
    for name, program in written.programs.items():
        put(f"program {program} {name_text(name)}")
    put(f"digest  {written.digest}")
    for target, choices in written.lowerings.items():
        for choice in choices:
            put(f"{target} operation {choice}")


def _output_json(name: str, array: npt.NDArray[Any], target: Path | None) -> dict[str, object]:
    return {
        "name": name,
        "dtype": str(array.dtype),
        "count": array.size,
        **({} if array.ndim == 1 else {"shape": list(array.shape)}),
        "first": [_json_number(v) for v in _flat(array)],
        "file": str(target) if target is not None else None,
    }


def _flat(array: npt.NDArray[Any]) -> list[Any]:
    """Returns the first elements in C order, for any shape."""
    first: list[Any] = array.reshape(-1)[:FIRST].tolist()
    return first


def _json_number(value: object) -> object:
    """Converts NaN and infinities to strings, because JSON has neither."""
    return repr(value) if isinstance(value, float) and not isfinite(value) else value


def _first(array: npt.NDArray[Any]) -> str:
    values = " ".join(str(value) for value in _flat(array))
    return f"{values} ..." if array.size > FIRST else values


# ---------------------------------------------------------------- programs
def summary(program: Program, *, as_json: bool) -> str:
    """Returns name, digest, shape, buffers, constants and node counts of a program."""
    report = check_rules(program)
    statements = Counter(type(stmt).__name__ for stmt in walk_statements(program.body))
    expressions = Counter(type(expr).__name__ for expr in unique_expressions(program))
    facts: dict[str, Any] = {
        "name": program.name,
        "digest": program.digest.hex(),
        "workgroup": list(program.workgroup_size),
        "valid": report.ok,
        "order_sensitive": report.order_sensitive,
        "buffers": [_buffer_json(b) for b in program.buffers],
        "constants": {name: literal.dtype.text for name, literal in spec_constants(program).items()},
        "statements": dict(statements.most_common()),
        "expressions": dict(expressions.most_common()),
    }
    if as_json:
        return json.dumps(facts, indent=2)
    lines = [
        f"program    {'unnamed' if program.name is None else name_text(program.name)}",
        f"digest     {facts['digest']}",
        f"workgroup  {' x '.join(map(str, program.workgroup_size))}",
        f"valid      {'yes' if report.ok else f'no, {len(report.errors)} errors (see vyre validate)'}",
        f"order      {'sensitive to the order of atomics' if report.order_sensitive else 'independent of schedule'}",
        "buffers",
        *(f"  {_buffer_text(b)}" for b in program.buffers),
    ]
    lines += [f"constants  {', '.join(f'{name_text(n)}: {t}' for n, t in facts['constants'].items())}"] * bool(
        facts["constants"]
    )
    lines += [f"{title:<10} {_counts(counts)}" for title, counts in (("stmts", statements), ("exprs", expressions))]
    return "\n".join(lines)


def _buffer_json(buffer: Buffer) -> dict[str, object]:
    return {
        "name": buffer.name,
        "binding": buffer.binding if buffer.is_bound else None,
        "access": buffer.access.name.lower(),
        "kind": buffer.kind.name.lower(),
        "element": buffer.element.text,
        "count": buffer.count or None,
        "like": buffer.like,
        "input": buffer.takes_input,
        "output": buffer.is_returned,
    }


def _buffer_text(buffer: Buffer) -> str:
    roles = [role for role, holds in (("in", buffer.takes_input), ("out", buffer.is_returned)) if holds] or ["scratch"]
    size = str(buffer.count) if buffer.count else f"like {name_text(buffer.like)}" if buffer.like else "run time"
    return f"{name_text(buffer.name)}: {buffer.element.text}[{size}] {buffer.access.name.lower()} ({', '.join(roles)})"


def _counts(counts: Counter[str]) -> str:
    return f"{counts.total()} ({', '.join(f'{n} {name}' for name, n in counts.most_common())})"


class Checked(NamedTuple):
    """The validation of one file; a file that does not parse has a report with that one error."""

    path: Path
    report: Report
    source: str | None = None
    notes: tuple[str, ...] = ()


def print_reports(checked: Sequence[Checked], *, as_json: bool) -> None:
    """Prints the diagnostics of several programs."""
    if as_json:
        put_json([{"file": str(c.path), **c.report.to_json(), "import_notes": list(c.notes)} for c in checked])
        return
    for path, checked_report, source, notes in checked:
        for note in notes:
            put(f"{one_line(str(path))}: note: {indented(note)}")
        put(f"{one_line(str(path))}: {checked_report.render(source)}")


# ---------------------------------------------------------------- backends, doctor, demo
def print_backends(report: SelectionReport, *, as_json: bool) -> None:
    """Prints every candidate with its reason; as JSON with its profile and operations too."""
    if as_json:
        from vyre.app.capabilities import Offer, offer_json, offers

        offers_by_id = offers()
        put_json(
            {
                "requested": report.requested,
                "chosen": report.chosen,
                "reason": report.reason,
                "candidates": [
                    {"id": c.id, "role": c.role.value, "chosen": c.chosen, "reason": c.reason}
                    | offer_json(offers_by_id.get(c.id, Offer(why="it is not installed")))
                    for c in report.candidates
                ],
                "failures": [f._asdict() for f in report.failures],
            }
        )
        return
    rows = table("", "backend", "role", "reason")
    for candidate in report.candidates:
        add_row(rows, "*" if candidate.chosen else "", candidate.id, candidate.role.value, candidate.reason)
    for failure in report.failures:
        add_row(rows, "!", failure.entry_point, "broken", failure.reason)
    put_table(rows)


def print_findings(findings: Sequence[Finding], *, as_json: bool) -> None:
    """Prints the findings of ``doctor``."""
    if as_json:
        put_json([f._asdict() for f in findings])
        return
    rows = table("", "check", "found")
    for finding in findings:
        fix = "" if finding.fix is None else f". Fix: {finding.fix}"
        add_row(rows, "ok" if finding.ok else "!!", finding.check, f"{finding.found}{fix}")
    put_table(rows)


def print_demo(rows: Sequence[DemoRow], *, as_json: bool) -> None:
    """Prints one line per job, the pictures, and which backend ran and why."""
    if as_json:
        put_json([asdict(row) | {"picture": str(row.picture) if row.picture else None} for row in rows])
        return
    shown = table("", "job", "size", "time", "checked by", "")
    for row in rows:
        add_row(
            shown,
            "ok" if row.ok else "!!",
            row.name,
            row.size,
            f"{row.seconds * 1e3:.1f} ms",
            row.checked_by,
            row.detail,
        )
    put_table(shown)
    for row in rows:
        if row.picture is not None:
            put(f"wrote {one_line(str(row.picture))}")
    if rows:
        put(f"ran on {rows[0].backend}: {rows[0].why}")
    passed = sum(row.ok for row in rows)
    put(f"{passed} of {len(rows)} answers agree with the independent computation")


# ---------------------------------------------------------------- errors
def diagnostic_of(error: VyreError) -> Diagnostic:
    """Returns the error as a diagnostic, at its place in the text if it has one."""
    loc = error.loc if isinstance(error, LocatedError) else None
    message = error.message if loc is None else error.message.removeprefix(f"{loc}: ")
    excerpt = ""
    if isinstance(error, KernelSourceError) and error.excerpt:
        excerpt = "\n".join(line.removeprefix("    ") for line in error.excerpt.split("\n"))
    return Diagnostic(Severity.ERROR, f"E{int(error.code)}", message, error.fix, loc, excerpt=excerpt)


def source_of(error: VyreError) -> str | None:
    """Returns the text of the Python file that an error about a kernel points into; None if it is not one file."""
    if isinstance(error, InvalidProgram) and error.excerpt and error.report is not None:
        places = [diagnostic.loc for diagnostic in error.report.diagnostics]
    else:
        places = [error.loc] if isinstance(error, KernelSourceError) else []
    files = {place.file for place in places if place is not None}
    return "".join(linecache.getlines(files.pop())) or None if len(files) == 1 else None


def print_error(error: VyreError, *, as_json: bool, source: str | None = None) -> None:
    """Prints the error and its ``Fix:``, with the line of the program's text underlined where there is one."""
    report = error.report if isinstance(error, InvalidProgram) else None
    if as_json:
        document = {"type": type(error).__name__, "code": int(error.code), **diagnostic_of(error).to_json()}
        if isinstance(error, DataRaceError):
            document["races"] = [race.to_json() for race in error.races]
        put_json({"error": document | ({} if report is None else {"report": report.to_json()})})
        return
    source = source_of(error) if source is None else source
    if report is not None:
        complain(report.render(source))
    else:
        complain(replace(diagnostic_of(error), fix=None).render(source))
    complain(f"Fix: {indented(error.fix)}")
