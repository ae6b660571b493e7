"""Small programs in text before and after passes of the optimizer, which must keep their bytes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from support.optimizer.optimized_programs import check_passes_kept
from support.small_programs import case_of
from vyre.domain.ir.program import Program
from vyre.domain.optimize.passes import Pass

HEADER = """program k
workgroup_size 4, 1, 1
buffer out @0 write u32[16]
buffer data @1 read_write u32[16]
buffer input @2 read u32[16]
buffer count @3 read_write u32[4]
buffer reals @4 read_write f32[16]
buffer any @5 read u32[runtime]
buffer bytes @6 read u8[16]
param n @7 u32
buffer shared @- workgroup u32[4]
buffer mine @- private u32[4]
"""


def program_of(body: str) -> Program:
    """The program with the buffers of ``HEADER`` and a body, one statement a line."""
    return Program.from_text(f"{HEADER}body {{\n{body}\n}}\n")


def after(body: str, *passes: Pass) -> str:
    """The lines of a body after passes, which must keep its bytes and errors; blanks at both ends of a line are cut."""
    return _lines_of(check_passes_kept(case_of(program_of(body)), passes))


def normal(body: str) -> str:
    """The lines of a body as ``after`` returns them."""
    return _lines_of(program_of(body))


def _lines_of(program: Program) -> str:
    lines = program.to_text().split("body {\n")[1].splitlines()[:-1]
    return "\n".join(line.strip() for line in lines)


def lines(*wanted: str) -> str:
    """Lines as ``after`` returns them."""
    return "\n".join(wanted)


def is_kept(body: str, passes: Sequence[Pass]) -> bool:
    """Whether passes return the very program."""
    program = program_of(body)
    return all(step.run(program, Counter()) is program for step in passes)
