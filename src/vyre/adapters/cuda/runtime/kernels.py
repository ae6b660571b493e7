"""Programs as loaded kernels: emitted, loaded by the driver, kept by identity.

The key is everything that decides the machine code: the program's digest, its buffers' numbers and names (they appear
in the kernel record), the emission options and the values of specialization constants.  Two threads that ask for one
key wait for one compilation.  A module stays loaded while the cache or anybody else refers to it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, TypeAlias

from vyre.adapters.caching.memory_cache import Built, MemoryBudget, MemoryCache
from vyre.adapters.cuda.ptx.kernel import EmittedModule
from vyre.adapters.cuda.ptx.options import EmitOptions
from vyre.adapters.cuda.runtime.artifact_keys import interface_names
from vyre.adapters.cuda.runtime.device import CudaDevice, DeviceMember
from vyre.adapters.cuda.runtime.modules import LoadedModule, ModuleLoader, text_image
from vyre.adapters.cuda.seam import CudaCallError
from vyre.domain.identity import program_digest
from vyre.domain.ir.expr import Literal
from vyre.domain.ir.program import Program

MODULES: Final = 2048

Emitter: TypeAlias = "Callable[[Program, EmitOptions, Mapping[str, Literal]], EmittedModule]"
Key: TypeAlias = "tuple[Any, ...]"


class KernelCache(DeviceMember):
    """Loaded modules by identity.  Call inside the door of the device."""

    def __init__(self, device: CudaDevice, emitter: Emitter, *, limit: int = MODULES) -> None:
        self._device = device
        self._emitter = emitter
        self._modules: MemoryCache[Key, LoadedModule] = MemoryCache(MemoryBudget(entries=limit))
        self._loader = ModuleLoader(device)
        device.add(self)

    def get(self, program: Program, options: EmitOptions, spec: Mapping[str, Literal]) -> LoadedModule:
        """The module of ``program``; hold it as long as its kernels may be launched.

        Raises ``KernelCompileFailed`` with the compiler's log, what the emitter raises, and what a failed call of the
        driver raises.
        """
        values = tuple((name, value.dtype.value, value.bits) for name, value in sorted(spec.items()))
        key = (program_digest(program), program.workgroup_size, interface_names(program), options, values)
        counters = self._device.counters
        module = self._modules.get(key)
        if module is not None:
            counters.kernel_cache_hits += 1
            return module
        counters.kernel_cache_misses += 1
        return self._modules.get_or_build(key, lambda: self._build(program, options, spec))

    def __len__(self) -> int:
        return len(self._modules)

    # ---- as a member of the device
    def release(self) -> None:
        self._modules.clear()

    def forget(self) -> None:
        self._modules.clear()

    # ---- details
    def _build(self, program: Program, options: EmitOptions, spec: Mapping[str, Literal]) -> Built[LoadedModule]:
        emitted = self._emit(program, options, spec)
        try:
            module = self._loader.load(text_image(emitted.ptx), emitted.kernels)
        except CudaCallError as error:  # threads that wait for this build get the same typed error
            raise self._device.fault(error) from error
        return Built(module, len(emitted.ptx), partial(self._loader.discard, module.library))

    def _emit(self, program: Program, options: EmitOptions, spec: Mapping[str, Literal]) -> EmittedModule:
        now_ns = self._device.clock.now_ns
        started = now_ns()
        emitted = self._emitter(program, options, spec)
        self._device.counters.emit_count += 1
        self._device.counters.emit_ns += now_ns() - started
        return emitted
