"""Targets name a program on the command line: by a file, or by a name in a Python file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from vyre.app.cli.arguments import constant
from vyre.domain.errors import InvalidConfig
from vyre.domain.ir.types import ScalarType

_TARGET: Final = re.compile(r"(.+\.py)(?::([^:]*))?(?::([^:]*))?", re.DOTALL)


class Target(NamedTuple):
    """A program in a Python file: the file, the name in it (None: the only one), and values for a generic kernel."""

    file: Path
    name: str | None
    values: Mapping[str, ScalarType | int | float | bool]

    def __str__(self) -> str:
        return f"{self.file}:{self.name}" if self.name else str(self.file)


def python_target(named: Path) -> Target | None:
    """Returns what ``kernel.py:name:T=f32`` names, or None for files that are not Python.

    Raises ``InvalidConfig`` for values that are not written as ``name=value``.
    """
    parts = _TARGET.fullmatch(str(named))
    if parts is None:
        return None
    name = (parts[2] or "").strip()
    if name and not name.isidentifier():
        raise InvalidConfig(f"{name!r} is no name of Python", fix=f"write {parts[1]}:name.")
    return Target(Path(parts[1]), name or None, dict(_values(parts[3])) if parts[3] else {})


def _values(text: str) -> Iterator[tuple[str, ScalarType | int | float | bool]]:
    types = {scalar.text: scalar for scalar in ScalarType}
    for part in text.split(","):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not name or not equals:
            raise InvalidConfig(f"{part!r} is not name=value", fix="write kernel.py:scale:T=f32,n=16.")
        yield name, types[value] if value in types else constant(value, name)
