"""Shadows a backend: returns it with every facet that runs programs replaced by one that is sampled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from vyre.app.shadow.jobs import ShadowedPersistent
from vyre.app.shadow.pipelines import ShadowedAsyncExecutor, ShadowedCompiler, ShadowedExecutor
from vyre.app.shadow.residents import ResidentSamples, ShadowedBinder, ShadowedResidentExecutor, ShadowedSteps

if TYPE_CHECKING:
    from vyre.app.shadow.service import ShadowService
    from vyre.ports.backend import Backend

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
