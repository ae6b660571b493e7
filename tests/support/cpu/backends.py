"""Native CPU backends for tests: their tools with parts replaced, and small programs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

from vyre.adapters.cpu.native.compilation import Effort
from vyre.adapters.cpu.native.features import CpuFeatures
from vyre.adapters.cpu.runtime.backend import make_backend
from vyre.adapters.cpu.runtime.options import CpuOptions
from vyre.adapters.cpu.runtime.tools import Tools, native_tools
from vyre.domain.errors import BackendUnavailable
from vyre.ports.artifact_store import ArtifactStore
from vyre.ports.backend import NO_SERVICES, Backend, BackendServices
from vyre.testing.backend_contract.bench import parsed
from vyre.testing.recording_telemetry import RecordingTelemetry

ADD: Final = parsed("""
    workgroup_size 4, 1, 1
    buffer x @0 read_write u32[runtime]
    body { x[gid.x] = x[gid.x] + 1u }
    """)
ENDLESS: Final = parsed("""
    workgroup_size 4, 1, 1
    buffer x @0 read_write u32[runtime]
    body { for k in 0u..4294967295u { for l in 0u..4294967295u { x[gid.x] = x[gid.x] * 3u + k } } }
    """)
"""It takes some thousand years."""


class CountedTools:
    """The native tools, which count what is asked of them."""

    def __init__(self, version: str | None = "llvmlite of the tests", **replaced: Any) -> None:
        self.emitted = self.compiled = self.compiled_apart = self.loaded = 0
        self._native = native_tools()
        self._version = version
        self.tools: Final[Tools] = replace(
            self._native,
            emit=self._emit,
            compile=self._compile,
            compile_apart=self._compile_apart,
            load=self._load,
            version=lambda: self._version,
            **replaced,
        )

    def _emit(self, *arguments: Any) -> Any:
        self.emitted += 1
        return self._native.emit(*arguments)

    def _compile(self, text: str, features: CpuFeatures, effort: Effort) -> bytes:
        if self._version is None:
            raise BackendUnavailable("no compiler", fix='`pip install "vyre[cpu]"`.')
        self.compiled += 1
        return self._native.compile(text, self._native.features, effort)

    def _compile_apart(self, text: str, features: CpuFeatures, effort: Effort) -> bytes:
        self.compiled_apart += 1
        return self._native.compile(text, self._native.features, effort)

    def _load(self, data: bytes) -> Any:
        self.loaded += 1
        return self._native.load(data)


@contextmanager
def backend_of(
    tools: Tools,
    store: ArtifactStore | None = None,
    telemetry: RecordingTelemetry | None = None,
    now_ns: Callable[[], int] = NO_SERVICES.now_ns,
    **options: Any,
) -> Iterator[Backend]:
    """Yields a backend of these tools and ``CpuOptions``, and closes it."""
    services = BackendServices(artifacts=lambda: store, telemetry=telemetry or RecordingTelemetry(), now_ns=now_ns)
    backend = make_backend(tools, CpuOptions(**options), services)
    try:
        yield backend
    finally:
        backend.lifecycle.close()
