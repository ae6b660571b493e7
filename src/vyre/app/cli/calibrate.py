"""``vyre calibrate``: measures what launches cost on a device, and stores it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from vyre.adapters.files import write_files
from vyre.adapters.terminal import put
from vyre.app.calibration.service import KnownCosts
from vyre.app.cli import report
from vyre.app.cli.exit_codes import Exit
from vyre.app.cli.options import AsJson, BackendName
from vyre.app.opening import open as open_session
from vyre.domain.cost_limits import USUAL_SAMPLES
from vyre.domain.launch_costs import COSTS, LaunchCosts, Measured, Provenance, to_json, to_text
from vyre.domain.printable import one_line


def calibrate(
    backend: BackendName = "auto",
    rounds: Annotated[int, typer.Option("--rounds", help="Samples of each cost, at least 5.")] = USUAL_SAMPLES,
    store: Annotated[Path | None, typer.Option("--store", help="The cache directory to keep them in.")] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write them to this file too.")] = None,
    as_json: AsJson = False,
) -> int:
    """Measure what launches, graphs and copies cost on this device, and store it for planning."""
    with open_session(backend, cache=store) as session, report.progress(f"measuring launch costs on {session.backend}"):
        calibrated = session.calibrate(rounds=rounds)
    if out is not None:
        write_files({out: (to_text(calibrated.costs) + "\n").encode()})
    if as_json:
        report.put_json(_document(calibrated))
        return Exit.OK
    _print(calibrated.costs)
    for verdict in calibrated.corrected:
        put(f"changed: {verdict.why}")
    if calibrated.provenance is Provenance.EMULATED:
        put("nothing was measured: these are times of an emulator, which say nothing about a GPU")
    put(calibrated.why)
    if out is not None:
        put(f"wrote {one_line(str(out))}")
    return Exit.OK


def _print(costs: LaunchCosts) -> None:
    rows = report.table("cost", "median", "spread", "error", "samples", "provenance")
    for name in COSTS:
        report.add_row(rows, name, *_cells(getattr(costs, name)))
    for kernel in costs.kernels:
        report.add_row(rows, f"kernel {kernel.pipeline}", *_cells(kernel.time))
    report.put_table(rows)


def _cells(cost: Measured | None) -> tuple[str, ...]:
    if cost is None:
        return "-", "-", "-", "0", "unknown"
    times = (cost.median_ns, cost.spread_ns, cost.standard_error_ns)
    return *(f"{ns / 1e3:.3f} us" for ns in times), str(cost.count), cost.provenance.value


def _document(known: KnownCosts) -> dict[str, Any]:
    return {
        **to_json(known.costs),
        "provenance": None if known.provenance is None else known.provenance.value,
        "corrected": [str(verdict.why) for verdict in known.corrected],
        "kept": known.problem is None,
        "why": known.why,
    }
