"""Gives a selection its shadow."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from vyre.app.invalidation import Invalid, invalidate
from vyre.app.shadow.checker import checking_registration
from vyre.app.shadow.facets import shadowed
from vyre.app.shadow.service import Clock, ShadowService
from vyre.app.shadow.settings import Shadow
from vyre.domain.arguments import expect

if TYPE_CHECKING:
    from vyre.app.selection import Selection
    from vyre.domain.ir.program import Program
    from vyre.ports.backend import BackendCatalog
    from vyre.ports.support import Telemetry

_SYSTEM = Clock()


def with_shadow(
    selection: Selection, settings: object, catalog: BackendCatalog, telemetry: Telemetry, clock: Clock = _SYSTEM
) -> Selection:
    """Returns the selection with its backend sampled.  Raises ``InvalidConfig`` and ``BackendUnavailable``."""
    expect("shadow", settings, Shadow, "a Shadow, or None")
    assert isinstance(settings, Shadow)
    backend, services = selection.backend, selection.services
    registration = checking_registration(catalog, str(backend.id), settings.on)

    def clean(program: Program) -> None:
        """Removes stored code of the program first, so that it is not read again."""
        store = services.artifacts() if backend.stores_code else None
        invalid = Invalid(program=program)
        report = invalidate(store, invalid, sink=services.decisions)
        if backend.compiler is not None:
            backend.compiler.forget(invalid.programs(report))

    service = ShadowService(settings, registration, backend, telemetry, services.decisions, clock, clean)
    return replace(selection, backend=shadowed(backend, service), shadow=service)
