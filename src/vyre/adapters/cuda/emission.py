"""The emission facet of the CUDA backends, which emits PTX; it needs neither a driver nor a CUDA package."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from vyre.adapters.cuda.decisions.ptx_target import BASE_VERSIONS, sm_number
from vyre.adapters.cuda.ptx.kernel import Assumption, EmittedModule
from vyre.domain.device import EngineKind
from vyre.domain.errors import UnsupportedFeature
from vyre.ports.emission import NATIVE, EmissionOptions

if TYPE_CHECKING:
    from vyre.adapters.cuda.ptx.options import EmitOptions
    from vyre.domain.artifact_key import ArtifactKey
    from vyre.domain.ir.expr import Literal
    from vyre.domain.ir.program import Program
    from vyre.domain.specialization import SpecMap

DEFAULT_TARGET: Final = "sm_90"


class PtxEmission:
    """``CodeEmission`` for PTX.  The emitter is imported when the first program is emitted."""

    __slots__ = ()

    @property
    def targets(self) -> tuple[str, ...]:
        """Returns the targets that the emitter knows, such as ``sm_90``."""
        return tuple(f"sm_{number}" for number in BASE_VERSIONS)

    @property
    def default_target(self) -> str:
        """Returns ``sm_90``."""
        return DEFAULT_TARGET

    @property
    def forms(self) -> tuple[str, ...]:
        """Returns ``ptx``, the only form."""
        return ("ptx",)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Returns the names of the launch-time facts that a kernel may rely on."""
        return tuple(assumption.value for assumption in Assumption)

    @property
    def optimizes(self) -> EngineKind:
        """Returns the kind of engine of code by an assembler of PTX."""
        return EngineKind.DEVICE

    def emit(self, program: Program, options: EmissionOptions, spec: Mapping[str, Literal], /) -> EmittedModule:
        """Implements ``CodeEmission.emit``; a grid loop is not split, because its rounds need a host between them."""
        from vyre.adapters.cuda.ptx.emit import emit
        from vyre.domain.grid_sync import has_grid_loops

        if options.grid_sync != NATIVE and has_grid_loops(program):
            raise UnsupportedFeature(
                feature="splitting a grid loop in emitted code", backend="cuda", fix="emit it with grid_sync=native."
            )
        return emit(program, _options(options), spec)

    def keys(self, program: Program, options: EmissionOptions, spec: SpecMap, /) -> tuple[ArtifactKey, ...]:
        """Returns the key of the PTX in an artifact store."""
        from vyre.adapters.cuda.runtime.artifact_keys import ptx_keys

        return (ptx_keys(_options(options)).key(program, spec),)


def _options(options: EmissionOptions) -> EmitOptions:
    from vyre.adapters.cuda.ptx.options import EmitOptions

    return EmitOptions(
        target=sm_number(options.target),
        assume=frozenset(map(Assumption, options.assume)),
        native_grid_sync=options.grid_sync == NATIVE,
        passes=options.passes,
        located=options.locations,
    )
