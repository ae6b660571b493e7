"""``Definition``: an operation that a program brings along, as a body of statements on locals and one result."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from vyre.domain.ir.expr import Expr
from vyre.domain.ir.forms import node
from vyre.domain.ir.node import Node
from vyre.domain.ir.stmt import Body
from vyre.domain.ir.types import ScalarType
from vyre.domain.lazy_names import FunctionAbove

MAX_VERSION_NUMBER: Final = 0xFFFF_FFFF

_ID: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)+\Z")
_VERSION: Final = re.compile(r"(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\Z", re.ASCII)
_MAX_VERSION_CHARACTERS: Final = 32


@dataclass(frozen=True, slots=True, order=True)
class Version:
    """A version ``major.minor.patch``; versions compare as numbers, so that 10.0.0 is later than 9.0.0."""

    major: int
    minor: int = 0
    patch: int = 0

    @classmethod
    def of(cls, text: str) -> Version:
        """Returns the version that ``1.2.0`` writes.  Raises ``ValueError`` for any other text."""
        parsed = _VERSION.match(text) if len(text) <= _MAX_VERSION_CHARACTERS else None
        numbers = () if parsed is None else tuple(map(int, parsed.groups()))
        if not numbers or max(numbers) > MAX_VERSION_NUMBER:
            raise ValueError(f"{text[:40]!r} is no version: write three numbers below 2^32, such as 1.2.0")
        return cls(*numbers)

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"


@node
class Parameter(Node):
    """A parameter of a definition: a local that the body does not assign.  An attribute is passed a literal."""

    name: str
    dtype: ScalarType
    is_attribute: bool = False


@node
class Definition(Node):
    """An operation with a name, such as ``acme.gelu``, that ``Call`` applies to arguments.

    The parameters and the result have executable types.  ``body`` has ``let``, assignments, ``if``, ``switch``, loops,
    ``break`` and ``continue``, and expressions whose value depends on their operands alone; ``result`` is evaluated
    behind it, with its locals visible.  A definition calls only what stands before it in ``Program.definitions``.  The
    constructor checks nothing, as ``vyre.validate`` does.
    """

    id: str
    version: Version
    parameters: tuple[Parameter, ...]
    result_type: ScalarType
    body: Body
    result: Expr

    @property
    def digest(self) -> bytes:
        """Returns the BLAKE3-256 digest, 32 bytes, of id, version, types and body; names of locals are excluded.

        The bodies of the operations that the definition calls are not part of it, only their names.  Raises
        ``InvalidProgram`` if a name in the definition does not resolve.
        """
        return _digest(self)


_digest: Final[FunctionAbove[[Definition], bytes]] = FunctionAbove("Definition.digest")


def is_operation_id(name: str) -> bool:
    """Returns whether a name is that of an operation: a dialect and a name, joined by a dot, such as ``acme.gelu``."""
    return _ID.match(name) is not None
