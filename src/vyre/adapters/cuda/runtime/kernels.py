"""Programs as loaded kernels: their code is made or found in a store, loaded by the driver, and cached by identity.

The key is everything that decides the machine code: the program's digest, its buffers' numbers and names (they appear
in the kernel record), the emission options and the values of specialization constants.  Two threads that need one key
wait for one compilation.  A module stays loaded while the cache or any launch refers to it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final, NamedTuple

from vyre.adapters.caching.memory_cache import Built, MemoryBudget, MemoryCache
from vyre.adapters.cuda.codes import is_sticky
from vyre.adapters.cuda.ptx.options import EmitOptions
from vyre.adapters.cuda.runtime.artifact_keys import interface_names
from vyre.adapters.cuda.runtime.code import Code, CodeMaker
from vyre.adapters.cuda.runtime.device import CudaDevice, DeviceMember
from vyre.adapters.cuda.runtime.loaded import LoadedModule
from vyre.adapters.cuda.runtime.modules import ModuleLoader
from vyre.adapters.cuda.seam import CudaCallError
from vyre.adapters.kernel_source import KernelSource, Steps
from vyre.adapters.pipelines import Compilation
from vyre.domain.errors import KernelCompileFailed
from vyre.domain.identity import program_digest
from vyre.domain.names import Dim3
from vyre.domain.specialization import SpecMap

MODULES: Final = 2048


class Key(NamedTuple):
    """The identity of a module.

    ``program`` is the digest of the program as it was given; ``workgroup`` is the one that it is launched with.
    """

    program: bytes
    workgroup: Dim3
    interface: tuple[str, ...]
    options: EmitOptions
    spec: SpecMap

    def __str__(self) -> str:
        return f"kernels of program {self.program.hex()}, {self.workgroup}, sm_{self.options.target}"


class KernelCache(DeviceMember):
    """Loaded modules by identity.  Call its methods inside ``device.calls``, unless they say otherwise."""

    def __init__(self, device: CudaDevice, maker: CodeMaker, *, limit: int = MODULES) -> None:
        self._device = device
        self.maker: Final = maker
        self._modules: MemoryCache[Key, LoadedModule] = MemoryCache(
            MemoryBudget(entries=limit), now_ns=device.clock.now_ns, sink=maker.decisions
        )
        self._loader = ModuleLoader(device)
        device.add(self)

    def get(
        self, source: KernelSource, options: EmitOptions, told: Callable[[Compilation], object] | None = None
    ) -> LoadedModule:
        """Returns the module of ``source``; keep a reference to it as long as its kernels may be launched.

        ``told`` is called with the compilation if the module was made for this call.  Raises ``KernelCompileFailed``
        with the compiler's log, and the errors of the emitter and of failed driver calls.
        """
        sized = source.sized
        interface = (*interface_names(sized), source.locations)
        key = Key(program_digest(source.program), sized.workgroup_size, interface, options, source.spec)
        counters = self._device.counters
        module = self._modules.get(key)
        if module is not None:
            counters.kernel_cache_hits += 1
            return module
        counters.kernel_cache_misses += 1
        return self._modules.get_or_build(key, lambda: self._build(source, options, told))

    def discard(self, programs: Collection[bytes] | None) -> None:
        """Removes the modules of these programs, or all for None; they are made anew when they are next needed.

        It may be called from any thread, also outside ``device.calls``.
        """
        self._modules.discard_where(lambda key: programs is None or key.program in programs)

    def __len__(self) -> int:
        return len(self._modules)

    # ---- as a member of the device
    def release(self) -> None:
        """Removes every module."""
        self.discard(None)

    def forget(self) -> None:
        """Removes every module."""
        self.discard(None)

    # ---- details
    def _build(
        self, source: KernelSource, options: EmitOptions, told: Callable[[Compilation], object] | None
    ) -> Built[LoadedModule]:
        self._device.enter()  # builds run on threads of their own
        steps = Steps(self._device.clock.now_ns)
        code = self.maker.code(source, options, steps)
        try:
            try:
                module = self._load(code, source, options, steps)
            except (CudaCallError, KernelCompileFailed) as error:
                if code.text or (isinstance(error, CudaCallError) and is_sticky(error.code)):
                    raise
                code = self.maker.text(source, options, steps, str(error))  # the tool may be newer than the driver
                module = self._load(code, source, options, steps)
        except CudaCallError as error:  # threads that wait for this build get the same typed error
            raise self._device.fault(error) from error
        if told is not None:
            told(steps.done())
        return Built(module, len(code.image), self._device.when_dead(self._loader.unload, module.library))

    def _load(self, code: Code, source: KernelSource, options: EmitOptions, steps: Steps) -> LoadedModule:
        with steps.step("load"):
            return self._loader.load(code.image, code.kernels, self.maker.sites(source, options))
