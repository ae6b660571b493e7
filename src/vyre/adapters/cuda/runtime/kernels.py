"""Programs as loaded kernels: emitted, loaded by the driver, kept by identity.

The key is everything that decides the machine code: the program's digest, its buffers' names (they appear in the
kernel record), the emission options and the values of specialization constants.  Two threads that ask for one key wait
for one compilation.  A module stays loaded while somebody has it pinned.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TypeAlias

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


@dataclass(slots=True, eq=False)
class LoadedModule:
    """A module in the driver.  ``kernels`` are launched in order.  ``pins`` counts who may still launch them."""

    key: Key
    library: Library
    kernels: tuple[LoadedKernel, ...]
    epoch: int
    log: str = ""
    pins: int = field(default=0)

    @property
    def cooperative(self) -> bool:
        return any(kernel.emitted.cooperative for kernel in self.kernels)


class KernelCache(DeviceMember):
    """Loaded modules by identity.  Call inside the door of the device.

    ``get`` raises ``KernelCompileFailed`` with the compiler's log, what the emitter raises, and ``CudaCallError``.
    """

    def __init__(self, device: CudaDevice, emitter: Emitter, *, limit: int = MODULES) -> None:
        self._device = device
        self._emitter = emitter
        self._limit = limit
        self._modules: OrderedDict[Key, LoadedModule] = OrderedDict()
        self._orphans: list[Library] = []
        self._compiling: dict[Key, threading.Lock] = {}
        self._lock = threading.Lock()
        device.add(self)

    def get(self, program: Program, options: EmitOptions, spec: Mapping[str, Literal]) -> LoadedModule:
        """The module of ``program``, pinned: call ``unpin`` when it is launched no more."""
        values = tuple((name, value.dtype.value, value.bits) for name, value in sorted(spec.items()))
        names = tuple(buffer.name for buffer in program.abi_buffers)
        key = (program_digest(program), program.workgroup_size, names, options, values)
        with self._lock:
            found = self._pinned(key)
            if found is not None:
                self._device.counters.kernel_cache_hits += 1
                return found
            compiling = self._compiling.setdefault(key, threading.Lock())
        with compiling:
            with self._lock:
                found = self._pinned(key)
                if found is not None:
                    self._device.counters.kernel_cache_hits += 1
                    return found
            self._device.counters.kernel_cache_misses += 1
            try:
                module = self._load(key, self._emit(program, options, spec))
            finally:
                with self._lock:
                    self._compiling.pop(key, None)
            with self._lock:
                module.pins = 1
                self._modules[key] = module
        self._evict()
        return module

    def unpin(self, module: LoadedModule) -> None:
        """The caller launches ``module`` no more; its work may still be running on a stream it waits for."""
        with self._lock:
            module.pins -= 1

    def __len__(self) -> int:
        return len(self._modules)

    # ---- as a member of the device
    def release(self) -> None:
        with self._lock:
            modules = list(self._modules.values())
            self._modules.clear()
        release_all([partial(self._device.driver.library_unload, module.library) for module in modules])

    def forget(self) -> None:
        with self._lock:
            self._orphans += [module.library for module in self._modules.values()]
            self._modules.clear()

    def sweep(self) -> None:
        orphans, self._orphans = self._orphans, []
        release_all([partial(self._device.driver.library_unload, library) for library in orphans])

    # ---- details
    def _pinned(self, key: Key) -> LoadedModule | None:
        found = self._modules.get(key)
        if found is None or found.epoch != self._device.epoch:
            return None
        found.pins += 1
        self._modules.move_to_end(key)
        return found

    def _emit(self, program: Program, options: EmitOptions, spec: Mapping[str, Literal]) -> EmittedModule:
        now_ns = self._device.clock.now_ns
        started = now_ns()
        emitted = self._emitter(program, options, spec)
        self._device.counters.emit_count += 1
        self._device.counters.emit_ns += now_ns() - started
        return emitted

    def _load(self, key: Key, emitted: EmittedModule) -> LoadedModule:
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
        return LoadedModule(key, loaded.library, kernels, device.epoch, loaded.log)

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

    def _evict(self) -> None:
        """Unload the modules unused for longest until the limit holds; pinned ones stay."""
        with self._lock:
            over = len(self._modules) - self._limit
            if over <= 0:
                return
            idle = [module for module in self._modules.values() if module.pins == 0][:over]
            for module in idle:
                del self._modules[module.key]
        release_all([partial(self._device.driver.library_unload, module.library) for module in idle])
