"""Code in the driver: images loaded, their entries found and held against what is known of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeAlias

from vyre.adapters.cuda.codes import is_sticky
from vyre.adapters.cuda.ptx.kernel import EmittedKernel
from vyre.adapters.cuda.ptx.sites import KernelSites
from vyre.adapters.cuda.runtime.device import CudaDevice, DeviceMember, release_all
from vyre.adapters.cuda.seam import CudaCallError, Kernel, KernelFacts, Library
from vyre.domain.errors import KernelCompileFailed

SiteFinder: TypeAlias = "Callable[[], Mapping[str, KernelSites]]"
STATIC_SHARED_LIMIT: Final = 48 * 1024


@dataclass(frozen=True, slots=True)
class LoadedKernel:
    """One entry of a loaded module: its handle, what the emitter said of it, and what the driver says."""

    handle: Kernel
    emitted: EmittedKernel
    facts: KernelFacts


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class LoadedModule:
    """A module in the driver.  ``kernels`` are launched in order.  Whoever launches them holds the module.

    ``sites``: which source lines its text was written for, by entry; None where the program is not at hand.
    """

    library: Library
    kernels: tuple[LoadedKernel, ...]
    log: str = ""
    sites: SiteFinder | None = None

    @property
    def cooperative(self) -> bool:
        return any(kernel.emitted.cooperative for kernel in self.kernels)


def text_image(ptx: str) -> bytes:
    """PTX text as the driver takes it."""
    return ptx.encode() + b"\0"


class ModuleLoader(DeviceMember):
    """The libraries of a device that have not been unloaded.  Call inside the door of the device."""

    def __init__(self, device: CudaDevice) -> None:
        self._device = device
        self._loaded: set[Library] = set()
        self._orphans: list[Library] = []
        device.add(self)

    def load(self, image: bytes, entries: Sequence[EmittedKernel], sites: SiteFinder | None = None) -> LoadedModule:
        """``image`` in the driver: PTX text that ends in NUL, or machine code.  ``discard`` gives it back.

        Raises ``CudaCallError``, and ``KernelCompileFailed`` with the compiler's log where an entry is not what
        ``entries`` say of it.
        """
        device, driver = self._device, self._device.driver
        started = device.clock.now_ns()
        loaded = driver.library_load(image, device.options.jit)
        try:
            kernels = tuple(self._kernel(loaded.library, entry, loaded.log) for entry in entries)
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
        self._loaded.add(loaded.library)
        handle, log = loaded
        module = LoadedModule(handle, kernels, log, sites)
        device.loaded.update((kernel.emitted.entry, module) for kernel in kernels)
        return module

    def discard(self, library: Library) -> None:
        """Unload at the next passage of the door; safe from a finaliser and from any thread."""
        self._device.discard(partial(self._unload, library))

    # ---- as a member of the device
    def release(self) -> None:
        libraries, self._loaded = self._loaded, set()
        release_all([partial(self._device.driver.library_unload, library) for library in libraries])

    def forget(self) -> None:
        libraries, self._loaded = self._loaded, set()
        self._orphans += libraries

    def sweep(self) -> None:
        orphans, self._orphans = self._orphans, []
        release_all([partial(self._device.driver.library_unload, library) for library in orphans])

    # ---- details
    def _unload(self, library: Library) -> None:
        """Give back a library whose module has died, unless all were given back meanwhile."""
        if library in self._loaded:
            self._loaded.discard(library)
            self._device.driver.library_unload(library)

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
        shared = emitted.shared_dynamic + emitted.shared_static
        if STATIC_SHARED_LIMIT < shared <= self._device.facts.envelope.shared_memory_per_block_bytes:
            driver.kernel_allow_dynamic_shared(handle, emitted.shared_dynamic)  # the launch refuses what is more
        return LoadedKernel(handle, emitted, facts)
