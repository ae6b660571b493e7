"""The registry of the process during one test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from vyre.app.dialects.current import dialect_registry
from vyre.app.dialects.registry import DialectRegistry
from vyre.domain.dialects.core import core_dialect
from vyre.domain.dialects.operations import Dialect


@contextmanager
def registered(*dialects: Dialect) -> Iterator[DialectRegistry]:
    """Yields the registry of the process, which holds the language and these dialects; it is as before afterwards."""
    found, made = dialect_registry(), DialectRegistry()
    made.register(core_dialect(), *dialects, registrant="vyre")
    before = found.snapshot
    found.install(made.snapshot)
    try:
        yield found
    finally:
        found.install(before)
