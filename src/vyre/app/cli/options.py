"""Arguments and options that several commands take."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

PROGRAM_HELP = "A program: .vyre text, .vyrb wire, .json, or kernel.py:name, which runs that file."
ProgramPath = Annotated[Path, typer.Argument(help=PROGRAM_HELP)]
BackendName = Annotated[str, typer.Option("--backend", "-b", help="A backend's id, or auto.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document for machines.")]
Spec = Annotated[list[str], typer.Option("--spec", help="name=value of a specialization constant.")]
Checks = Annotated[
    str | None, typer.Option("--check", help="races: look for data races; auto then takes the reference.")
]

# What a program is run on.
Inputs = Annotated[
    list[str], typer.Option("--in", help="name=@file (.npy or raw bytes) or name=literal, e.g. x=1,2,3.")
]
Groups = Annotated[str | None, typer.Option("--grid", help="Workgroups per axis, e.g. 64 or 64,4.")]
Lanes = Annotated[str | None, typer.Option("--extent", help="Lanes per axis, e.g. 1000 or 640,480.")]
Sizes = Annotated[list[str], typer.Option("--size", help="name=elements of an output without a size.")]

Gates = Annotated[
    list[str], typer.Option("--gate", help="A rule that the program must pass, e.g. no-traps or gates.py:name.")
]

# How a kernel is emitted.
Target = Annotated[
    str | None, typer.Option("--target", help="Architecture of the emitted code; default: sm_90; cpu: this machine.")
]
Assume = Annotated[str | None, typer.Option("--assume", help="Facts that you guarantee: aligned16,noalias,exact-grid.")]
Form = Annotated[str | None, typer.Option("--as", help="Language of the code: ptx; for cpu llvm or asm.")]
Locations = Annotated[bool, typer.Option("--locations", help="Name the lines of the source in PTX: .file and .loc.")]
AsWritten = Annotated[bool, typer.Option("--as-written", help="Leave the optimizer and lowerings out.")]
GridSync = Annotated[
    str, typer.Option("--grid-sync", help="native (one cooperative kernel) or split (several kernels).")
]

Timeout = Annotated[
    float | None, typer.Option("--timeout", help="Seconds after which the run is ended, with exit code 4.")
]
