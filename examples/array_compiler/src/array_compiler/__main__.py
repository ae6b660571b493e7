"""``python -m array_compiler heat.arr --in x=x.npy --steps 100``: runs a program, and tells what vyre did."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import vyre
from array_compiler import ArrayError, Executable
from vyre.container import Container


def main(arguments: Sequence[str] | None = None, container: Container | None = None) -> int:
    """Returns 1 for an ``ArrayError``, which is printed; an application passes a container with its own adapters."""
    parser = argparse.ArgumentParser(prog="array-compiler")
    parser.add_argument("file", type=Path)
    parser.add_argument("--in", dest="inputs", action="append", default=list[str](), metavar="NAME=FILE.npy")
    parser.add_argument("--steps", type=int, default=1)
    parser.add_argument("--tune", action="store_true", help="measure workgroups first, and say what has won")
    parser.add_argument("--metrics", action="store_true", help="print the plan of the run, and vyre's metrics")
    parser.add_argument("--bundle", type=Path, help="take code from this file, or write it there")
    options = parser.parse_args(arguments)
    inputs = {name: np.load(path) for name, path in (each.split("=", 1) for each in options.inputs)}
    bundle = vyre.load_bundle(options.bundle) if options.bundle and options.bundle.exists() else None
    try:
        with (
            (container or Container()).session() as session,
            Executable(session, options.file.read_text("utf-8"), options.file.name, bundle) as program,
        ):
            for report in program.tune() if options.tune else ():
                print(report.winner, report.why)
            for name, array in program.run(inputs, options.steps).items():
                print(f"{name} =\n{array}")
            if options.bundle and bundle is None:
                program.write_bundle(options.bundle)
            if options.metrics:
                print(program.last_run and program.last_run.plan, session.metrics_text(), sep="\n")
    except ArrayError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
