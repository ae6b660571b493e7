"""Code that is loaded: modules in the driver, and their entries with the emitter's description."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from vyre.adapters.cuda.ptx.kernel import EmittedKernel
from vyre.adapters.cuda.ptx.sites import KernelSites
from vyre.adapters.cuda.seam import Kernel, KernelFacts, Library
from vyre.domain.frozen import frozen
from vyre.domain.unique import Unique

SiteFinder: TypeAlias = "Callable[[], Mapping[str, KernelSites]]"


@frozen
class LoadedKernel:
    """One entry of a loaded module: its handle, the emitter's description of it, and the driver's facts about it."""

    handle: Kernel
    emitted: EmittedKernel
    facts: KernelFacts


@frozen(eq=False, weakref_slot=True)
class LoadedModule(Unique):
    """A module in the driver.  ``kernels`` are launched in order.

    A launch keeps a reference to its module, which keeps it loaded.  ``sites`` returns, by entry, the source lines that
    the text was written for; it is None where the program is not available.
    """

    library: Library
    kernels: tuple[LoadedKernel, ...]
    log: str = ""
    sites: SiteFinder | None = None

    @property
    def cooperative(self) -> bool:
        """Whether some kernel of the module needs a cooperative launch."""
        return any(kernel.emitted.cooperative for kernel in self.kernels)
