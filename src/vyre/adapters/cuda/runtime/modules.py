"""Loading code: images are passed to the driver, their entries found and compared with the emitter's description."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from vyre.adapters.cuda.codes import is_sticky
from vyre.adapters.cuda.ptx.kernel import EmittedKernel
from vyre.adapters.cuda.runtime.device import CudaDevice, DeviceMember, release_all
from vyre.adapters.cuda.runtime.loaded import LoadedKernel, LoadedModule, SiteFinder
from vyre.adapters.cuda.seam import CudaCallError, Library
from vyre.domain.errors import KernelCompileFailed

STATIC_SHARED_LIMIT: Final = 48 * 1024


def text_image(ptx: str) -> bytes:
    """Returns PTX text as the driver takes it: encoded, with a NUL at its end."""
    return ptx.encode() + b"\0"


class ModuleLoader(DeviceMember):
    """The libraries of a device that have not been unloaded.  Call its methods inside ``device.calls``."""

    def __init__(self, device: CudaDevice) -> None:
        self._device = device
        self._loaded: set[Library] = set()
        device.add(self)

    def load(self, image: bytes, entries: Sequence[EmittedKernel], sites: SiteFinder | None = None) -> LoadedModule:
        """Loads ``image`` into the driver: PTX text that ends in NUL, or machine code.  ``unload`` unloads it.

        Raises ``CudaCallError``, and ``KernelCompileFailed`` with the compiler's log if an entry differs from its
        description in ``entries``.
        """
        device, driver = self._device, self._device.driver
        started = device.clock.now_ns()
        loaded = driver.library_load(image, device.options.jit)
        try:
            kernels = tuple(self._kernel(loaded.library, entry, loaded.log) for entry in entries)
        except CudaCallError as error:
            if is_sticky(error.code):
                device.orphan(partial(driver.library_unload, loaded.library))
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

    # ---- as a member of the device
    def release(self) -> None:
        """Unloads every library."""
        libraries, self._loaded = self._loaded, set()
        release_all([partial(self._device.driver.library_unload, library) for library in libraries])

    def forget(self) -> None:
        """Drops every library without a driver call; they are unloaded in a new context."""
        libraries, self._loaded = self._loaded, set()
        for library in libraries:
            self._device.orphan(partial(self._device.driver.library_unload, library))

    def unload(self, library: Library) -> None:
        """Unloads a library whose module has died, unless all were unloaded meanwhile."""
        if library in self._loaded:
            self._loaded.discard(library)
            try:
                self._device.driver.library_unload(library)
            except CudaCallError as error:
                if is_sticky(error.code):
                    self._device.orphan(partial(self._device.driver.library_unload, library))
                raise

    # ---- details
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
            driver.kernel_allow_dynamic_shared(handle, emitted.shared_dynamic)  # the launch refuses larger amounts
        return LoadedKernel(handle, emitted, facts)
