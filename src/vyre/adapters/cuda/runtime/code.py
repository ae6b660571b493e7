"""From a program to code that the driver loads: read from the artifact store, or emitted and stored.

The cheapest source is used: code in a loaded bundle, else stored machine code, else stored PTX, else PTX emitted now.
If a tool is available that makes machine code, text is assembled and the result is stored too; otherwise the driver
assembles it, and keeps the result in a cache of its own.  Without a store no tool is used, because neither would pay
for itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple, TypeAlias

from vyre.adapters.cuda.aot.choice import choose
from vyre.adapters.cuda.aot.layouts import checked_kernels
from vyre.adapters.cuda.code_tools import AssemblyFailed, CodeTool
from vyre.adapters.cuda.ptx.kernel import EmittedKernel, EmittedModule
from vyre.adapters.cuda.ptx.module_form import decode_layout, encode_layout, from_artifact, layout_of, to_artifact
from vyre.adapters.cuda.ptx.options import EmitOptions
from vyre.adapters.cuda.ptx.sites import KernelSites
from vyre.adapters.cuda.runtime.artifact_keys import cubin_keys, ptx_keys
from vyre.adapters.cuda.runtime.device import CudaDevice
from vyre.adapters.cuda.runtime.loaded import SiteFinder
from vyre.adapters.cuda.runtime.modules import text_image
from vyre.adapters.cuda.seam import JitOptions
from vyre.adapters.host.stored_code import KeyMakers, StoredCode, layout_in
from vyre.adapters.kernel_source import KernelSource, Steps
from vyre.adapters.optimizing import prepared
from vyre.domain.artifact_key import ArtifactKind
from vyre.domain.errors import MalformedWire
from vyre.domain.ir.expr import Literal
from vyre.domain.ir.program import Program
from vyre.policies.journal import DecisionSink
from vyre.ports.artifact_store import Artifact, ArtifactStore
from vyre.ports.backend import BackendServices

Emitter: TypeAlias = "Callable[[Program, EmitOptions, Mapping[str, Literal], DecisionSink | None], EmittedModule]"
Locator: TypeAlias = "Callable[[Program, EmitOptions, Mapping[str, Literal]], Mapping[str, KernelSites]]"
"""Returns, by entry, the source lines that the text of an emitter was written for."""


class Code(NamedTuple):
    """Code for the driver: ``image`` is PTX text that ends in NUL, or machine code; ``text`` tells whether it
    is PTX.
    """

    image: bytes
    kernels: tuple[EmittedKernel, ...]
    text: bool


class CodeMaker(StoredCode):
    """Makes the code of one device.  Call its methods inside ``device.calls``.

    ``find_tool`` is called if there is a store for the tool's output; it is None on a device that takes text only.
    ``locate`` is None if faults of kernels should name no source lines.
    """

    def __init__(
        self,
        device: CudaDevice,
        emitter: Emitter,
        services: BackendServices,
        find_tool: Callable[[], CodeTool | None] | None = None,
        locate: Locator | None = None,
    ) -> None:
        super().__init__(device.backend, services)
        self._device = device
        self._emitter = emitter
        self._find_tool = find_tool
        self._locate = locate
        self._tool: CodeTool | None = None
        self._takes_machine_code = find_tool is not None
        self._ptx_keys: KeyMakers[EmitOptions] = KeyMakers()
        self._cubin_keys: KeyMakers[EmitOptions] = KeyMakers()

    def code(self, source: KernelSource, options: EmitOptions, steps: Steps) -> Code:
        """Returns the code of ``source``: that of a loaded bundle, or stored, or made now.

        Raises ``MalformedBundle`` and the errors of the emitter; no failure of the store or the tool is an error.
        """
        bundled = self._bundled(source, options)
        if bundled is not None:
            return bundled
        store = self._store if self._opened else self._open()
        if store is None:
            steps.missed = ""
            return _text(self._emit(source, options, steps))
        if self._tool is None:
            return _text(self._module(store, source, options, steps))
        return self._machine_code(store, self._tool, source, options, steps)

    def text(self, source: KernelSource, options: EmitOptions, steps: Steps, problem: str) -> Code:
        """Returns the code of ``source`` as text, for a driver that has just refused machine code.

        From now on this maker makes text only.
        """
        self._tool, self._takes_machine_code = None, False
        self._warn("vyre.compile.machine_code_refused", problem=problem)
        return self.code(source, options, steps)

    def sites(self, source: KernelSource, options: EmitOptions) -> SiteFinder | None:
        """Returns a function that returns the source lines which the text of ``source`` was written for, by entry."""
        if self._locate is None:
            return None
        return partial(self._located, self._locate, source, options)

    @staticmethod
    def _located(locate: Locator, source: KernelSource, options: EmitOptions) -> Mapping[str, KernelSites]:
        return locate(prepared(source, options.passes), options, source.literals)

    def _bundled(self, source: KernelSource, options: EmitOptions) -> Code | None:
        """Returns the code in a loaded bundle; machine code only for a driver that compiles as it does by itself."""
        machine_code = self._takes_machine_code and self._device.options.jit == JitOptions()
        code = choose(source, options, self._device.facts, machine_code=machine_code)
        if code is None:
            return None
        kernels = layout_in(code, lambda data: checked_kernels(data, source.sized))
        if code.key.kind is ArtifactKind.CUBIN:
            return Code(code.artifact.code, kernels, text=False)
        return _text(layout_in(code, lambda _: from_artifact(code.artifact)))

    # ---- machine code
    def _machine_code(
        self, store: ArtifactStore, tool: CodeTool, source: KernelSource, options: EmitOptions, steps: Steps
    ) -> Code:
        jit = self._device.options.jit
        facts = self._device.facts
        key = self._cubin_keys.key(source, options, lambda: cubin_keys(options, facts, tool.named(jit)))
        with steps.step("read"):
            stored = _cubin(store.get(key))
        if stored is not None:
            return stored
        module = self._module(store, source, options, steps)
        steps.explain(self._services, store, key)
        try:
            with steps.step("assemble"):
                cubin = tool.assemble(module.ptx, module.target, jit)
        except AssemblyFailed as failure:  # the driver may still accept the text
            self._warn("vyre.compile.assembly_failed", tool=tool.named(jit), log=str(failure))
            return _text(module)
        cost_ns = steps.spent_ns("assemble")
        self._device.counters.compiles += 1
        self._device.counters.compile_ns += cost_ns
        with steps.step("store"):
            store.put(key, Artifact(encode_layout(layout_of(module)), cubin, cost_ns))
        return Code(cubin, module.kernels, text=False)

    # ---- text
    def _module(self, store: ArtifactStore, source: KernelSource, options: EmitOptions, steps: Steps) -> EmittedModule:
        key = self._ptx_keys.key(source, options, lambda: ptx_keys(options))
        with steps.step("read"):
            stored = store.get(key)
            try:
                if stored is not None:
                    return from_artifact(stored)
            except MalformedWire as error:  # the file is whole, but its content is not a module
                self._warn("vyre.compile.unusable", problem=error.message)
        steps.explain(self._services, store, key)
        module = self._emit(source, options, steps)
        with steps.step("store"):
            store.put(key, to_artifact(module, max(0, steps.spent_ns("emit"))))
        return module

    def _emit(self, source: KernelSource, options: EmitOptions, steps: Steps) -> EmittedModule:
        program = prepared(source, options.passes, steps, self._services.device_passes)
        with steps.step("emit"):
            module = self._emitter(program, options, source.literals, self.decisions)
        self._device.counters.emits += 1
        self._device.counters.emit_ns += steps.spent_ns("emit")
        return module

    # ---- details
    def _open(self) -> ArtifactStore | None:
        """Also looks for the tool."""
        store = super()._open()
        if store is not None and self._find_tool is not None:
            self._tool = self._find_tool()
        return store


def _text(module: EmittedModule) -> Code:
    return Code(text_image(module.ptx), module.kernels, text=True)


def _cubin(stored: Artifact | None) -> Code | None:
    if stored is None:
        return None
    try:
        return Code(stored.code, decode_layout(stored.metadata).kernels, text=False)
    except MalformedWire:
        return None
