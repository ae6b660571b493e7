"""Compiles two programs into a bundle, and writes what ``main.c`` needs of it.

python build.py FOLDER
cc -O2 -I FOLDER main.c FOLDER/kernels.c FOLDER/kernels-*.o -lm -o FOLDER/main
"""

from __future__ import annotations

import sys
from pathlib import Path

import vyre
from vyre import ProgramBuilder, f32, u32

HISTOGRAM_BINS = 8


def saxpy() -> vyre.Program:
    """Adds ``a * x`` to ``y``."""
    with ProgramBuilder("saxpy", workgroup=64) as p:
        a, x, y = p.param("a", f32), p.input("x", f32), p.inout("y", f32)
        i = p.global_id()
        y[i] = a * x[i] + y[i]  # behind the end of an array, loads give zero and stores do nothing
    return p.build()


def histogram() -> vyre.Program:
    """Counts values; a value that has no bin is a trap."""
    with ProgramBuilder("histogram", workgroup=32) as p:
        values, bins = p.input("values", u32), p.output("bins", u32, count=HISTOGRAM_BINS)
        i = p.global_id()
        with p.if_(i < values.length):
            with p.if_(values[i] >= HISTOGRAM_BINS):
                p.trap(values[i], "no bin")
            bins.atomic_add(values[i], u32(1))
    return p.build()


def main(folder: Path) -> None:
    """Writes bundle, header, source and objects to ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    entries = {"saxpy": saxpy(), "histogram": histogram()}
    written = vyre.build_bundle(entries, folder / "kernels.vyrz", targets=["cpu"])
    for path in vyre.write_c(vyre.load_bundle(written.path), folder):
        print(path)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
