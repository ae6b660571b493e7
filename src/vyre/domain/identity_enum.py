"""The base class of enumerations whose members are dictionary keys on hot paths."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING


class IdentityEnum(Enum):
    """An enumeration whose members hash by identity.

    Members are singletons, so identity is correct, and it costs a fraction of ``Enum.__hash__``, which hashes the
    name in Python.
    """

    if TYPE_CHECKING:

        def __hash__(self) -> int: ...

    else:
        __hash__ = object.__hash__
