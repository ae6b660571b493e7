"""A program for one CUDA target in a bundle: its kernels with their ABI, and their code as PTX and machine code."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any, Final, NamedTuple

from vyre.adapters.cuda.ptx.kernel import EmittedKernel, Parameter, ParameterKind
from vyre.adapters.cuda.ptx.module_form import kernel_from_json, kernels_problems
from vyre.domain.frozen import frozen
from vyre.domain.ir.buffers import Buffer
from vyre.domain.ir.types import SCALAR_BY_TEXT
from vyre.domain.names import Dim3
from vyre.domain.plain_values import counts
from vyre.ports.bundles import Bundle, Version

_TARGET: Final = re.compile(r"sm_([1-9][0-9]{1,2})([af]?)")


class MemberKind(Enum):
    """The kinds of code: PTX text, or machine code in a cubin."""

    PTX = "ptx"
    CUBIN = "cubin"


@frozen
class Member:
    """Code of one kind.

    ``version`` is that of the PTX text, or of the toolkit whose assembler made the machine code.  PTX text has no NUL
    at its end.
    """

    kind: MemberKind
    version: Version
    code: bytes


class Needs(NamedTuple):
    """The resources that launches of any size need from a device.

    ``shared`` and ``parameters`` are bytes, of the largest kernel.
    """

    block: Dim3
    shared: int
    parameters: int
    cooperative: bool


@frozen
class Build:
    """A program for one target (``sm_90``): its kernels, in the order of their launches, and their code.

    Every member has the same kernels with the same parameters, and all kernels have the same block.
    """

    target: str
    kernels: tuple[EmittedKernel, ...]
    members: tuple[Member, ...]

    @property
    def needs(self) -> Needs:
        """Returns the resources that the kernels need."""
        return Needs(
            self.kernels[0].block,
            max(kernel.shared_static + kernel.shared_dynamic for kernel in self.kernels),
            max(kernel.parameter_bytes for kernel in self.kernels),
            any(kernel.cooperative for kernel in self.kernels),
        )

    def name_of(self, member: Member) -> str:
        """Returns the name of a member, such as ``sm_90.ptx``."""
        return f"{self.target}.{member.kind.value}"

    @property
    def codes(self) -> tuple[bytes, ...]:
        """Returns the bytes of the members."""
        return tuple(member.code for member in self.members)

    @property
    def member_names(self) -> tuple[str, ...]:
        """Returns the names of the members, in the order of ``codes``."""
        return tuple(map(self.name_of, self.members))

    @property
    def assembler(self) -> Version | None:
        """Returns the version of the toolkit that made the machine code; None if there is none."""
        return max((m.version for m in self.members if m.kind is MemberKind.CUBIN), default=None)

    @property
    def origin(self) -> str:
        """Returns how the code was made, in a few words for people."""
        version = self.assembler
        return "PTX only" if version is None else f"machine code by ptxas of CUDA {version[0]}.{version[1]}"

    def to_json(self) -> dict[str, Any]:
        """Returns everything except the code as JSON values."""
        return {
            "target": self.target,
            "needs": self.needs._asdict(),
            "kernels": [kernel.to_json() for kernel in self.kernels],
            "members": [{"kind": member.kind.value, "version": list(member.version)} for member in self.members],
        }

    def problems(self, bundle: Bundle, /) -> Iterator[str]:
        """Yields the reasons why a launch cannot rely on this build; none for a sound one."""
        if _TARGET.fullmatch(self.target) is None:
            yield "it is no target"
        if not all(counts(*member.version, most=999) for member in self.members):
            yield "it has code of no version"
        if any(member.kind is MemberKind.PTX and not _is_text(member.code) for member in self.members):
            yield "it has PTX that is no text"
        yield from kernels_problems(self.kernels)
        for kernel in self.kernels:
            yield from (f"{kernel.entry!r}: {problem}" for problem in _kernel_problems(bundle, kernel))


def is_target(target: str) -> bool:
    """Whether ``target`` names a CUDA architecture, known or not."""
    return target.startswith("sm_")


def parse_target(target: str) -> tuple[int, str]:
    """Returns number and suffix of a target: 90 and ``a`` for ``sm_90a``; the suffix may be empty.

    ``target`` must be that of a sound build.
    """
    match = _TARGET.fullmatch(target)
    assert match is not None, target
    return int(match[1]), match[2]


def build_of(value: Mapping[str, Any], codes: tuple[bytes, ...]) -> Build:
    """Inverts ``Build.to_json``; raises as ``BuildForm.build_of`` does."""
    return Build(
        value["target"],
        tuple(map(kernel_from_json, value["kernels"])),
        tuple(
            Member(MemberKind(member["kind"]), _version(member["version"]), code)
            for member, code in zip(value["members"], codes, strict=True)
        ),
    )


def _version(value: list[int]) -> Version:
    major, minor = value
    return major, minor


def _kernel_problems(bundle: Bundle, kernel: EmittedKernel) -> Iterator[str]:
    """Yields the reasons why a kernel does not fit the bundle."""
    if kernel.block != bundle.workgroup:
        yield f"its block is {kernel.block}, the workgroup {bundle.workgroup}"
    for parameter in kernel.parameters:
        if not _fits(parameter, bundle.buffers):
            yield f"its {parameter.kind.value} parameter at {parameter.offset} does not fit"


def _fits(parameter: Parameter, buffers: tuple[Buffer, ...]) -> bool:
    """Whether a launcher can fill ``parameter`` with a value of its kind."""
    buffer = next((b for b in buffers if b.binding == parameter.binding), None)
    named = buffer is not None and buffer.name == parameter.name and buffer.element.text == parameter.dtype
    size = parameter.size
    match parameter.kind:
        case ParameterKind.POINTER:
            return named and size == 8
        case ParameterKind.COUNT:
            return named and size == 4
        case ParameterKind.UNIFORM:
            return named and buffer is not None and 0 < size == buffer.static_nbytes
        case ParameterKind.SCALAR if parameter.binding is None:
            return size in (4, 8) and counts(parameter.value, most=256**size - 1)
        case ParameterKind.SCALAR:
            return named and buffer is not None and buffer.is_push and size == SCALAR_BY_TEXT[buffer.element.text].size
        case ParameterKind.TRAP:
            return size == 8 and parameter.nbytes == 32
        case ParameterKind.TABLE:
            return size == 8 and parameter.nbytes == 16 * sum(not b.is_push for b in buffers)
        case _:
            return size == 8 and counts(parameter.nbytes)


def _is_text(code: bytes) -> bool:
    return code.isascii() and b"\0" not in code
