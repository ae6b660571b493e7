"""The bundle facet of the two CUDA backends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from vyre.ports.bundles import AotTargetId, OwnEmitters

if TYPE_CHECKING:
    from vyre.domain.ir.program import Program

GROUP: Final = "cuda"
"""The name that stands for the lowest target, whose PTX runs on every device that the backend supports."""
LOWEST: Final = AotTargetId("sm_75")


class CudaBundles:
    """``BundleSupport`` for NVIDIA devices."""

    __slots__ = ()

    @property
    def default_target(self) -> str:
        """Returns ``cuda``."""
        return GROUP

    def emitters(self, *, machine_code: bool) -> OwnEmitters:
        """Returns the emitters of this installation; with ``machine_code`` they use the installed assembler, if there
        is one.
        """
        from vyre.adapters.cuda.aot.emitters import NO_ASSEMBLER, cuda_emitters
        from vyre.adapters.cuda.code_tools import newest_assembler

        assembler = newest_assembler() if machine_code else None
        lacks = NO_ASSEMBLER if machine_code and assembler is None else ""
        return OwnEmitters(cuda_emitters(assembler), lacks, {GROUP: (LOWEST,)})

    def c_files(self, name: str, entries: Mapping[str, Program], /) -> Mapping[str, bytes]:
        """Returns nothing: a driver launches the code."""
        return {}
