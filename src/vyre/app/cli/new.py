"""``vyre new``: writes a Python file with a kernel that runs, to begin with."""

from __future__ import annotations

import keyword
from pathlib import Path
from typing import Annotated, Final

import typer

from vyre.adapters.files import exists, write_files
from vyre.adapters.terminal import put
from vyre.app.cli import report
from vyre.app.cli.exit_codes import Exit
from vyre.app.cli.options import AsJson
from vyre.domain.errors import InvalidConfig
from vyre.domain.printable import one_line

TEMPLATE: Final = '''"""A kernel, and a check of what it computes.

    python {file}
    vyre run {file}:{name} --in a=2.0 --in x=1,2,3 --in y=10,20,30
"""

import numpy as np

import vyre
from vyre import In, InOut, f32


@vyre.kernel(workgroup=256)
def {name}(a: f32, x: In[f32], y: InOut[f32]):
    """Adds a * x to y.  All lanes run these lines, each with an index of its own."""
    i = vyre.global_id()
    if i < len(x):  # the last workgroup may have more lanes than there are elements
        y[i] = a * x[i] + y[i]


def main() -> None:
    x = np.arange(1_000, dtype=np.float32)
    y = np.ones(1_000, dtype=np.float32)
    expected = np.float32(2.0) * x + y

    {name}(2.0, x, y)  # runs on the best device of this machine, and writes y

    np.testing.assert_array_equal(y, expected)
    print(f"{name}: all {{y.size}} elements are right, such as y[10] = {{y[10]}}")


if __name__ == "__main__":
    main()
'''


def new(
    file: Annotated[Path, typer.Argument(help="The Python file to write, e.g. kernel.py.")],
    name: Annotated[str, typer.Option("--name", help="The name of the kernel.")] = "saxpy",
    force: Annotated[bool, typer.Option("--force", help="Replace the file if there is one.")] = False,
    as_json: AsJson = False,
) -> int:
    """Write a Python file with a kernel and a check of its answer, to begin with."""
    if file.suffix != ".py":
        raise InvalidConfig(f"{file} is no name of a Python file", fix=f"write {file.with_suffix('.py')}.")
    if not name.isidentifier() or keyword.iskeyword(name) or name in _TAKEN:
        raise InvalidConfig(f"--name {name!r} cannot name a kernel", fix="use a name of Python such as saxpy.")
    if exists(file) and not force:
        raise InvalidConfig(f"{file} exists already", fix="name another file, or replace it with --force.")
    write_files({file: TEMPLATE.format(file=file.name, name=name).encode()})
    if as_json:
        report.put_json({"file": str(file), "kernel": name})
        return Exit.OK
    shown = one_line(str(file))
    put(f"wrote {shown}; try `python {shown}`, then `vyre run {shown}:{name} --in a=2.0 --in x=1,2,3 --in y=10,20,30`")
    return Exit.OK


_TAKEN: Final = frozenset(("np", "vyre", "In", "InOut", "f32", "main", "a", "x", "y", "i", "len", "print"))
"""The names that the file uses otherwise."""
