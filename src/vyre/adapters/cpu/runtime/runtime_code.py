"""The code of the worker threads' runtime: stored and loaded like that of a kernel."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Final

from vyre.adapters.cpu.aot.choice import choose_runtime
from vyre.adapters.cpu.native.compilation import Effort
from vyre.adapters.cpu.pool.entries import Entries
from vyre.adapters.cpu.runtime.artifact_keys import of_another_compiler, runtime_key
from vyre.adapters.cpu.runtime.tools import MachineCode, Tools
from vyre.domain.errors import KernelCompileFailed
from vyre.ports.artifact_store import Artifact, ArtifactStore

METADATA: Final = b"vyre-runtime/1"


def load_entries(
    tools: Tools, store: ArtifactStore | None, now_ns: Callable[[], int] = time.perf_counter_ns
) -> Entries:
    """Returns the runtime, from the store or a loaded bundle if one holds it, else compiled now and stored.

    Raises ``BackendUnavailable`` if it is not stored and no compiler is installed, or there is none for this machine.
    """
    key = runtime_key(tools.features, tools.version() or "")
    artifact = None if store is None else store.get(key)
    if artifact is None and store is not None and tools.version() is None:
        artifact = of_another_compiler(store, key)
    if artifact is None:
        bundled = choose_runtime(key, tools.features)
        artifact = None if bundled is None else bundled.artifact
    if artifact is not None:
        try:
            code = tools.load(artifact.code)
            return Entries(code.addresses, code)
        except KernelCompileFailed:  # it is whole, but does not fit this machine
            pass
    started = now_ns()
    image = tools.compile(_text(tools), tools.features, Effort.FULL)
    compile_ns = now_ns() - started
    loaded: MachineCode = tools.load(image)
    if store is not None:
        store.put(key, Artifact(METADATA, image, compile_ns))
    return Entries(loaded.addresses, loaded)


def _text(tools: Tools) -> str:
    from vyre.adapters.cpu.pool.machine import Target
    from vyre.adapters.cpu.pool.translation import runtime_text

    return runtime_text(Target(tools.features.arch, sys.platform))
