"""Shadows a backend: returns it with every facet that runs programs replaced by one that is sampled."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from vyre.app.shadow.pipelines import HostSamples, ShadowedAsyncExecutor, ShadowedCompiler, ShadowedExecutor

if TYPE_CHECKING:
    from collections.abc import Callable

    from vyre.app.shadow.service import ShadowService
    from vyre.domain.ir.program import Program
    from vyre.ports.backend import Backend


def shadowed(backend: Backend, service: ShadowService, clean: Callable[[Program], None]) -> Backend:
    """Returns ``backend`` with its dispatches sampled; ``clean`` removes all code of a program."""
    executor = ShadowedExecutor(backend.executor, service)
    compiler = None if backend.compiler is None else ShadowedCompiler(backend.compiler, service, clean)
    samples: HostSamples = executor.samples if compiler is None else compiler.samples
    asynchronous = backend.async_executor
    return replace(
        backend,
        executor=executor,
        compiler=compiler,
        async_executor=None if asynchronous is None else ShadowedAsyncExecutor(asynchronous, service, samples),
    )
