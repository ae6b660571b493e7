"""Program text read and written, against Python's own parser and printer on comparable statements.

``ast.parse`` is written in C, and it too makes an object with a place for every operand.
"""

from __future__ import annotations

import ast
from typing import Final

import vyre
from benchmarks.harness import Metric, Row, Samples, compare

LETS: Final = 10_000


def kernel_text(lets: int) -> str:
    """A kernel in which each local follows from the one before."""
    rest = "".join(f"  let x{i} = x{i - 1} * {i}u + gid.x\n" for i in range(1, lets))
    return f"workgroup_size 64, 1, 1\nbody {{\n  let x0 = gid.x\n{rest}}}\n"


def python_text(lets: int) -> str:
    """The same statements as Python."""
    return "x0 = gid.x\n" + "".join(f"x{i} = x{i - 1} * {i} + gid.x\n" for i in range(1, lets))


def _read(rounds: int) -> Samples:
    ours, theirs = kernel_text(LETS), python_text(LETS)
    assert len(vyre.Program.from_text(ours).body) == len(ast.parse(theirs).body) == LETS
    return compare(lambda: vyre.Program.from_text(ours), lambda: ast.parse(theirs), rounds)


def _write(rounds: int) -> Samples:
    program, tree = vyre.Program.from_text(kernel_text(LETS)), ast.parse(python_text(LETS))
    assert program.to_text() == kernel_text(LETS)
    assert ast.unparse(tree) + "\n" == python_text(LETS)
    return compare(program.to_text, lambda: ast.unparse(tree), rounds)


_STATE: Final = "code of both sides warm; the cyclic garbage collector stopped"
ROWS: Final = (
    Row("read-10k-lets", Metric.RATIO, "x ast.parse", 2.5, 1.0, _read, _STATE),
    Row("write-10k-lets", Metric.RATIO, "x ast.unparse", 0.75, 0.25, _write, _STATE),
)
