"""``python -m benchmarks.gallery_trace``: record what the gallery dispatches, one line a dispatch.

A line names the program, then every array with its type and shape, then a tab and the values that are no arrays: before
the tab is the shape of the dispatch, the whole line is what a specialised kernel is compiled for.
"""

from __future__ import annotations

import lzma
import sys
from dataclasses import fields
from pathlib import Path
from typing import Final

import numpy as np

import vyre
from vyre.domain.dispatch import DEFAULT_CONFIG, DispatchConfig
from vyre.domain.ir.program import Program
from vyre.gallery.example import Answers, Dispatcher, Inputs
from vyre.gallery.registry import examples

PATH: Final = Path(__file__).parents[1] / "tests" / "data" / "gallery_trace.txt.xz"


class Recorder:
    """A dispatcher that writes down what it is asked for."""

    def __init__(self, inner: Dispatcher) -> None:
        self._inner = inner
        self._programs: dict[bytes, str] = {}
        self.lines: list[str] = []

    def dispatch(self, program: Program, inputs: Inputs, config: DispatchConfig | None = None) -> Answers:
        config = config or DEFAULT_CONFIG
        shape = [self._programs.setdefault(program.digest, f"{len(self._programs)}:{program.name}")]
        values = []
        for name, value in inputs.items():
            if isinstance(value, np.ndarray):
                shape.append(f"{name}:{value.dtype}{list(value.shape)}".replace(" ", ""))
            else:
                values.append(f"{name}={value}")
        shape += [
            f"{field.name}={chosen}".replace(" ", "")
            for field in fields(config)
            if (chosen := getattr(config, field.name)) != getattr(DEFAULT_CONFIG, field.name)
        ]
        self.lines.append(f"{' '.join(shape)}\t{' '.join(values)}")
        return self._inner.dispatch(program, inputs, config)


def record() -> list[str]:
    """Every example once, in reading order, on the reference engine; the dispatches are the same on any."""
    with vyre.open("reference") as session:
        recorder = Recorder(session)
        for example in examples().values():
            example.run(recorder, example.program(), example.case())
    return recorder.lines


def load() -> list[str]:
    return lzma.decompress(PATH.read_bytes()).decode("utf-8").splitlines()


if __name__ == "__main__":
    lines = record()
    PATH.write_bytes(lzma.compress("".join(f"{line}\n" for line in lines).encode("utf-8")))
    print(f"{len(lines)} dispatches written to {PATH}", file=sys.stderr)
