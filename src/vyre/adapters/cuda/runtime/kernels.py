"""Programs as loaded kernels: emitted, loaded by the driver, kept by identity.

The key is everything that decides the machine code: the program's digest, its buffers' names (they appear in the
kernel record), the emission options and the values of specialization constants.  Two threads that ask for one key wait
for one compilation.  A module stays loaded while the cache or anybody else refers to it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeAlias

from vyre.adapters.caching.memory_cache import Built, MemoryBudget, MemoryCache
from vyre.adapters.cuda.codes import is_sticky
from vyre.adapters.cuda.ptx.kernel import EmittedKernel, EmittedModule
from vyre.adapters.cuda.ptx.options import EmitOptions
from vyre.adapters.cuda.runtime.device import CudaDevice, DeviceMember, release_all
from vyre.adapters.cuda.seam import CudaCallError, Kernel, KernelFacts, Library
from vyre.domain.errors import KernelCompileFailed
from vyre.domain.identity import program_digest
from vyre.domain.ir.expr import Literal
from vyre.domain.ir.program import Program

MODULES: Final = 2048
STATIC_SHARED_LIMIT: Final = 48 * 1024

Emitter: TypeAlias = "Callable[[Program, EmitOptions, Mapping[str, Literal]], EmittedModule]"
Key: TypeAlias = "tuple[Any, ...]"


@dataclass(frozen=True, slots=True)
class LoadedKernel:
    """One entry of a loaded module: its handle, what the emitter said of it, and what the driver says."""

    handle: Kernel
    emitted: EmittedKernel
    facts: KernelFacts


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class LoadedModule:
    """A module in the driver.  ``kernels`` are launched in order.  Whoever launches them holds the module."""

    library: Library
    kernels: tuple[LoadedKernel, ...]
    log: str = ""

    @property
    def cooperative(self) -> bool:
        return any(kernel.emitted.cooperative for kernel in self.kernels)


class KernelCache(DeviceMember):
    """Loaded modules by identity.  Call inside the door of the device."""

    def __init__(self, device: CudaDevice, emitter: Emitter, *, limit: int = MODULES) -> None:
        self._device = device
        self._emitter = emitter
        self._modules: MemoryCache[Key, LoadedModule] = MemoryCache(MemoryBudget(entries=limit))
        self._loaded: set[Library] = set()
        self._orphans: list[Library] = []
        device.add(self)

    def get(self, program: Program, options: EmitOptions, spec: Mapping[str, Literal]) -> LoadedModule:
        """The module of ``program``; hold it as long as its kernels may be launched.

        Raises ``KernelCompileFailed`` with the compiler's log, what the emitter raises, and what a failed call of the
        driver raises.
        """
        values = tuple((name, value.dtype.value, value.bits) for name, value in sorted(spec.items()))
        names = tuple(buffer.name for buffer in program.abi_buffers)
        key = (program_digest(program), program.workgroup_size, names, options, values)
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
        libraries, self._loaded = self._loaded, set()
        self._modules.clear()
        release_all([partial(self._device.driver.library_unload, library) for library in libraries])

    def forget(self) -> None:
        libraries, self._loaded = self._loaded, set()
        self._orphans += libraries
        self._modules.clear()

    def sweep(self) -> None:
        orphans, self._orphans = self._orphans, []
        release_all([partial(self._device.driver.library_unload, library) for library in orphans])

    # ---- details
    def _build(self, program: Program, options: EmitOptions, spec: Mapping[str, Literal]) -> Built[LoadedModule]:
        emitted = self._emit(program, options, spec)
        try:
            module = self._load(emitted)
        except CudaCallError as error:  # threads that wait for this build get the same typed error
            raise self._device.fault(error) from error
        self._loaded.add(module.library)
        unload = partial(self._device.discard, partial(self._unload, module.library))
        return Built(module, len(emitted.ptx), unload)

    def _unload(self, library: Library) -> None:
        """Give back a library whose module has died, unless all were given back meanwhile."""
        if library in self._loaded:
            self._loaded.discard(library)
            self._device.driver.library_unload(library)

    def _emit(self, program: Program, options: EmitOptions, spec: Mapping[str, Literal]) -> EmittedModule:
        now_ns = self._device.clock.now_ns
        started = now_ns()
        emitted = self._emitter(program, options, spec)
        self._device.counters.emit_count += 1
        self._device.counters.emit_ns += now_ns() - started
        return emitted

    def _load(self, emitted: EmittedModule) -> LoadedModule:
        device, driver = self._device, self._device.driver
        started = device.clock.now_ns()
        loaded = driver.library_load(emitted.ptx.encode() + b"\0", device.options.jit)
        try:
            kernels = tuple(self._kernel(loaded.library, kernel, loaded.log) for kernel in emitted.kernels)
        except CudaCallError as error:
            if is_sticky(error.code):
                self._orphans.append(loaded.library)
            device.roll_back(error, [partial(driver.library_unload, loaded.library)])
            raise
        except KernelCompileFailed:
            driver.library_unload(loaded.library)
            raise
        device.counters.jit_count += 1
        device.counters.jit_ns += device.clock.now_ns() - started
        return LoadedModule(loaded.library, kernels, loaded.log)

    def _kernel(self, library: Library, emitted: EmittedKernel, log: str) -> LoadedKernel:
        driver = self._device.driver
        handle = driver.library_kernel(library, emitted.entry)
        facts = driver.kernel_facts(handle)
        declared = tuple((parameter.offset, parameter.size) for parameter in emitted.parameters)
        if facts.parameters is not None and facts.parameters != declared:
            raise KernelCompileFailed(
                backend=self._device.backend,
                compiler_log=f"{emitted.entry} takes parameters at {facts.parameters}, emitted were {declared}. {log}",
            )
        if emitted.shared_dynamic + emitted.shared_static > STATIC_SHARED_LIMIT:
            driver.kernel_allow_dynamic_shared(handle, emitted.shared_dynamic)
        return LoadedKernel(handle, emitted, facts)
