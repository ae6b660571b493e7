"""The code of the worker threads' runtime: stored and loaded like that of a kernel."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Final

from vyre.adapters.cpu.native.compilation import Effort
from vyre.adapters.cpu.pool.entries import Entries
from vyre.adapters.cpu.runtime.artifact_keys import feature_facts, of_another_compiler
from vyre.adapters.cpu.runtime.tools import MachineCode, Tools
from vyre.adapters.source_digest import POOL, emitter_digest
from vyre.domain.artifact_key import ArtifactKey, ArtifactKind
from vyre.domain.errors import KernelCompileFailed
from vyre.ports.artifact_store import Artifact, ArtifactStore

_METADATA: Final = b"vyre-runtime/1"
_RUNTIME: Final = b"vyre runtime of worker threads".ljust(32, b"\0")
"""It takes the place of the digest of a program."""


def load_entries(
    tools: Tools, store: ArtifactStore | None, now_ns: Callable[[], int] = time.perf_counter_ns
) -> Entries:
    """Returns the runtime, from the store if it holds it, else compiled now and stored.

    Raises ``BackendUnavailable`` if it is not stored and no compiler is installed, or there is none for this machine.
    """
    key = ArtifactKey(
        kind=ArtifactKind.OBJECT,
        target=tools.features.arch,
        device=feature_facts(tools.features),
        driver=sys.platform,
        tool=tools.version() or "",
        emitter=emitter_digest(POOL),
        program=_RUNTIME,
    )
    found = None if store is None else store.get(key)
    if found is None and store is not None and tools.version() is None:
        found = of_another_compiler(store, key)
    if found is not None:
        try:
            code = tools.load(found.code)
            return Entries(code.addresses, code)
        except KernelCompileFailed:  # it is whole, but does not fit this machine
            pass
    started = now_ns()
    image = tools.compile(_text(tools), tools.features, Effort.FULL)
    compile_ns = now_ns() - started
    loaded: MachineCode = tools.load(image)
    if store is not None:
        store.put(key, Artifact(_METADATA, image, compile_ns))
    return Entries(loaded.addresses, loaded)


def _text(tools: Tools) -> str:
    from vyre.adapters.cpu.pool.machine import Target
    from vyre.adapters.cpu.pool.text import runtime_text

    return runtime_text(Target(tools.features.arch, sys.platform))
