"""Commands about this machine: backends, doctor and demo."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from vyre.app.cli import report
from vyre.app.cli.exit_codes import Exit
from vyre.app.cli.options import AsJson, BackendName
from vyre.app.opening import open as open_session


def backends(backend: BackendName = "auto", as_json: AsJson = False) -> int:
    """List the backends: the one that is chosen, and for each other the reason why not."""
    with open_session(backend) as session:
        report.print_backends(session.explain(), as_json=as_json)
    return Exit.OK


def doctor(as_json: AsJson = False) -> int:
    """Check this installation: versions, plug-ins, and a small kernel on every backend that can run."""
    from vyre.app.cli.doctor import examine

    findings = examine()
    report.print_findings(findings, as_json=as_json)
    return Exit.OK if all(f.ok for f in findings) else Exit.UNAVAILABLE


def demo(
    out: Annotated[Path, typer.Option("--out", help="Directory for the pictures.")] = Path("demo-output"),
    backend: BackendName = "auto",
    as_json: AsJson = False,
) -> int:
    """Run real kernels on data found on this machine and check every answer independently."""
    from vyre.app.demo import run_demo

    with open_session(backend) as session, report.progress("running the demo") as status:
        rows = run_demo(session, out, lambda row: status(f"running the demo: {row.name} done"))
    report.print_demo(rows, as_json=as_json)
    return Exit.OK if all(row.ok for row in rows) else Exit.WRONG
