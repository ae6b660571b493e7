"""Runs a program on a backend by buffer names and plain bytes, as the runners of this package need it."""

from __future__ import annotations

from collections.abc import Mapping

from vyre.adapters.discovery import load_catalog
from vyre.domain.dispatch import DEFAULT_CONFIG, DispatchConfig, OutputArena
from vyre.domain.errors import BackendUnavailable
from vyre.domain.ir.program import Program
from vyre.ports.backend import Backend, DispatchRequest


def open_backend(name: str) -> Backend:
    """A backend of the catalog by id; raises ``BackendUnavailable``."""
    catalog = load_catalog()
    registration = catalog.get(name)
    if registration is None:
        known = ", ".join(r.id for r in catalog.by_precedence())
        raise BackendUnavailable(f"no backend is called `{name}`", fix=f"use one of: {known}.")
    return registration.factory()


def execute(
    backend: Backend, program: Program, inputs: Mapping[str, bytes], config: DispatchConfig = DEFAULT_CONFIG
) -> dict[str, bytes]:
    """Outputs of a valid program by buffer name; raises what the backend raises.

    Inputs that are missing are left out, which the backend refuses.
    """
    arena = OutputArena()
    views = tuple(memoryview(inputs[b.name]) for b in program.abi_buffers if b.takes_input and b.name in inputs)
    backend.executor.execute(DispatchRequest(program, views, config), arena)
    return dict(zip((b.name for b in program.abi_buffers if b.is_returned), arena.to_bytes(), strict=True))
