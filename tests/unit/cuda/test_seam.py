"""Every call of the driver seam is there because the product makes it."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Final

from vyre.adapters.cuda import seam

CUDA: Final = Path(seam.__file__).parent
DRIVERS: Final = ("seam.py", "driver.py", "machine/")
"""What declares and what implements the calls."""


def attributes_of(path: Path) -> set[str]:
    """Names that a module reads as attributes of something."""
    return {node.attr for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.Attribute)}


def test_every_call_of_the_seam_is_made() -> None:
    calls = {name for name in vars(seam.CudaDriver) if not name.startswith("_")}
    modules = [path for path in CUDA.rglob("*.py") if not path.relative_to(CUDA).as_posix().startswith(DRIVERS)]
    made = set().union(*map(attributes_of, modules))
    assert len(calls) > 50
    assert calls <= made
