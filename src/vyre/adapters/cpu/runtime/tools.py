"""The emitter, the compiler, the loader and the workers, as the facets of the backend use them, and their versions.

The parts are functions, so that tests can replace them, and so that a process that only runs stored code imports
neither the emitter nor the compiler.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, Protocol

from vyre.adapters.cpu.native.compilation import Effort, llvm_version
from vyre.adapters.cpu.native.features import CpuFeatures
from vyre.adapters.source_digest import LLVM, emitter_digest
from vyre.domain.frozen import frozen

if TYPE_CHECKING:
    from vyre.adapters.cpu.llvm.emit import EmittedCode
    from vyre.adapters.cpu.llvm.options import EmitOptions
    from vyre.domain.ir.expr import Literal
    from vyre.domain.ir.program import Program
    from vyre.policies.journal import DecisionSink


APART_S: Final = 60.0
"""The time limit of a compilation in another process, in seconds."""


class MachineCode(Protocol):
    """Code in memory; ``addresses`` has the address of each of its functions by name."""

    @property
    def addresses(self) -> Mapping[str, int]:
        """Returns the addresses."""

    @property
    def nbytes(self) -> int:
        """Returns the bytes of memory that the code occupies."""


@frozen(kw_only=True)
class Tools:
    """The parts.

    ``version`` returns the version of the compiler, or None where none is installed; ``compile`` then raises
    ``BackendUnavailable``.  ``compile_apart`` compiles in another process, so that this one can compile meanwhile.
    Both return code in the form that ``load`` has the least work with.
    """

    features: CpuFeatures
    emit: Callable[[Program, EmitOptions, Mapping[str, Literal], DecisionSink | None], EmittedCode]
    version: Callable[[], str | None]
    compile: Callable[[str, CpuFeatures, Effort], bytes]
    compile_apart: Callable[[str, CpuFeatures, Effort], bytes]
    load: Callable[[bytes], MachineCode]


def native_tools(vector_bits: int | None = None) -> Tools:
    """Returns the parts for this machine; imports the emitter and the compiler when they are first used.

    Code uses no vectors wider than ``vector_bits`` bits; None allows all that the processor has.
    """
    from vyre.adapters.cpu.native.compilation import compile_object, is_lost_in_fork, llvm_version
    from vyre.adapters.cpu.native.features import host

    return Tools(
        features=host() if vector_bits is None else host().at_most(vector_bits),
        emit=_emit,
        version=llvm_version,
        compile=lambda *asked: _linked((_compile_apart if is_lost_in_fork() else compile_object)(*asked)),
        compile_apart=lambda *asked: _linked(_compile_apart(*asked)),
        load=_load,
    )


def _linked(data: bytes) -> bytes:
    from vyre.adapters.cpu.native.loading import linked

    return linked(data)


def _load(data: bytes) -> MachineCode:
    from vyre.adapters.cpu.native.loading import load

    return load(data)


def _compile_apart(text: str, features: CpuFeatures, effort: Effort) -> bytes:
    from vyre.adapters.cpu.native.server import shared_server

    return shared_server().compile_object(text, features, effort, timeout_s=APART_S)


def _emit(
    program: Program, options: EmitOptions, spec: Mapping[str, Literal], sink: DecisionSink | None
) -> EmittedCode:
    from vyre.adapters.cpu.llvm.emit import emit

    return emit(program, options, spec, sink)


VERSION: Final = "1"
"""The version of the backend."""


def toolchain_of(features: CpuFeatures) -> str:
    """Returns the versions of the backend, its emitter and its compiler, and the features of the processor."""
    compiler = llvm_version() or "no compiler"
    return f"version {VERSION}, emitter {emitter_digest(LLVM).hex()[:16]}, {compiler}, {features.text}"
