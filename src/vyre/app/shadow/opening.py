"""Gives a selection its shadow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from vyre.app.invalidation import Invalid, invalidate
from vyre.app.shadow.checker import checking_registration
from vyre.app.shadow.jobs import ShadowedPersistent
from vyre.app.shadow.pipelines import ShadowedAsyncExecutor, ShadowedCompiler, ShadowedExecutor
from vyre.app.shadow.residents import ResidentSamples, ShadowedBinder, ShadowedResidentExecutor, ShadowedSteps
from vyre.app.shadow.service import Clock, ShadowService
from vyre.app.shadow.settings import Shadow
from vyre.domain.arguments import expect

if TYPE_CHECKING:
    from vyre.app.selection import Selection
    from vyre.domain.ir.program import Program
    from vyre.ports.backend import Backend, BackendCatalog
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


F = TypeVar("F")


def shadowed(backend: Backend, service: ShadowService) -> Backend:
    """Returns ``backend`` with what it runs sampled."""
    compiler = None if backend.compiler is None else ShadowedCompiler(backend.compiler, service)
    executor = ShadowedExecutor(backend.executor, service)
    samples = executor.samples if compiler is None else compiler.samples
    changes: dict[str, Any] = {
        "executor": executor,
        "compiler": compiler,
        "async_executor": _on(backend.async_executor, lambda inner: ShadowedAsyncExecutor(inner, samples)),
        "persistent": _on(backend.persistent, lambda inner: ShadowedPersistent(inner, samples, backend)),
    }
    if backend.memory is not None and backend.resident_executor is not None:
        residents = ResidentSamples(service)
        changes |= {
            "resident_executor": ShadowedResidentExecutor(backend.resident_executor, residents),
            "resident_binder": _on(backend.resident_binder, lambda inner: ShadowedBinder(inner, residents)),
            "persistent_steps": _on(backend.persistent_steps, lambda inner: ShadowedSteps(inner, residents)),
        }
    return replace(backend, **changes)


def _on(facet: F | None, wrap: Callable[[F], object]) -> object:
    return None if facet is None else wrap(facet)
