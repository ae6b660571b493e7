"""The registry of the process: the operators of the language, installed packages and manifests, once it is used."""

from __future__ import annotations

from typing import Final
from warnings import warn_explicit

from vyre.app.dialects.registry import DialectRegistry
from vyre.app.services import WIRING
from vyre.domain.diagnostics import Diagnostic
from vyre.domain.dialects.migration import DEPRECATED, deprecation_text, deprecations_in
from vyre.domain.ir.definitions import Definition
from vyre.domain.ir.program import Program
from vyre.domain.source_location import SourceLocation

_WARNED: Final[dict[str | tuple[str, type[Warning], int], int]] = {}
"""The registry of the module `warnings`, which remembers the warnings that it has shown, by text and line."""


def dialect_registry() -> DialectRegistry:
    """Returns the registry in use: that of the process, or of a container that is applied."""
    wiring = WIRING.get()
    return wiring.dialect_registry(wiring.environment())


def definitions_of(operation: str) -> tuple[Definition, ...]:
    """Returns the definition of a registered operation, behind those that it calls; raises ``UnknownOperation``."""
    return dialect_registry().snapshot.definitions_of(operation)


def warn_of_deprecated(definition: Definition, place: SourceLocation) -> None:
    """Warns (``FutureWarning``) at the line that calls an operation which is out of use; once for a line."""
    known = dialect_registry().snapshot.deprecation_of(definition)
    if known is not None:
        message, fix = deprecation_text(known)
        text = f"[{DEPRECATED}] {message}. Fix: {fix}"
        warn_explicit(text, FutureWarning, place.file, place.line, registry=_WARNED)


def deprecated_calls(program: Program) -> tuple[Diagnostic, ...]:
    """Returns a warning for each line of a program that calls an operation which is out of use."""
    return deprecations_in(program, dialect_registry().snapshot.out_of_use)
