"""A bundle as values: what a caller must know of the program, and for each target its kernels and their code."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple, TypeAlias

from vyre.adapters.cuda.ptx.kernel import EmittedKernel
from vyre.domain.binding import plan_buffers
from vyre.domain.ir.buffers import Buffer
from vyre.domain.launch import Interface
from vyre.domain.names import Dim3

Version: TypeAlias = "tuple[int, int]"
"""Major and minor."""
MAX_TARGETS: Final = 64


class MemberKind(Enum):
    PTX = "ptx"
    CUBIN = "cubin"


@dataclass(frozen=True, slots=True)
class Member:
    """Code of one kind.  ``version``: of the PTX text, or of the toolkit whose assembler made the machine code.

    PTX text has no NUL at its end.
    """

    kind: MemberKind
    version: Version
    code: bytes


class Needs(NamedTuple):
    """What launches of any size need of a device.  ``shared`` and ``parameters`` in bytes, of the largest kernel."""

    block: Dim3
    shared: int
    parameters: int
    cooperative: bool


@dataclass(frozen=True, slots=True)
class Build:
    """A program for one target (``sm_90``): its kernels, in the order of their launches, and their code.

    Every member has the same kernels with the same parameters, and all kernels have the same block.
    """

    target: str
    kernels: tuple[EmittedKernel, ...]
    members: tuple[Member, ...]

    @property
    def needs(self) -> Needs:
        return Needs(
            self.kernels[0].block,
            max(kernel.shared_static + kernel.shared_dynamic for kernel in self.kernels),
            max(kernel.parameter_bytes for kernel in self.kernels),
            any(kernel.cooperative for kernel in self.kernels),
        )

    def name_of(self, member: Member) -> str:
        return f"{self.target}.{member.kind.value}"


@dataclass(frozen=True, slots=True)
class SpecConstant:
    """A value that was built in: the name and the type of the constant, and its bits."""

    name: str
    dtype: str
    bits: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """``program``: digest of the program, 32 bytes, as the builder states it.  ``buffers``: those that a caller
    binds, in binding order.  ``driven_by_input`` as in ``Interface``.  ``vyre``: version that built it.
    """

    program: bytes
    name: str | None
    vyre: str
    workgroup: Dim3
    driven_by_input: bool
    buffers: tuple[Buffer, ...]
    spec: tuple[SpecConstant, ...]
    builds: tuple[Build, ...]

    @property
    def abi_buffers(self) -> tuple[Buffer, ...]:
        return self.buffers

    @property
    def interface(self) -> Interface:
        return Interface(plan_buffers(self.buffers), self.workgroup, self.driven_by_input)

    @property
    def members(self) -> tuple[str, ...]:
        """Names of all code in it."""
        return tuple(build.name_of(member) for build in self.builds for member in build.members)
