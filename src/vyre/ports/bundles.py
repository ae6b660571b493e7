"""Bundles: programs compiled ahead of time, and the facet of a registration that builds and runs them.

A bundle holds one ``Build`` for each target.  The backend whose facet knows a target writes, reads and checks the
builds for it; builds for the targets of other backends may stand beside them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

from vyre.domain.binding import plan_buffers
from vyre.domain.ir.buffers import Buffer
from vyre.domain.launch import Interface
from vyre.domain.names import BackendId, Dim3

if TYPE_CHECKING:
    from vyre.domain.dispatch import DispatchConfig
    from vyre.ports.aot import AotEmitter
    from vyre.ports.backend import CompiledPipeline

Version: TypeAlias = "tuple[int, int]"
"""Major and minor."""


class Build(Protocol):
    """A program for one target: its members, each of which is code of one kind that runs alone."""

    @property
    def target(self) -> str: ...

    @property
    def codes(self) -> tuple[bytes, ...]:
        """The bytes of the members."""
        ...

    @property
    def member_names(self) -> tuple[str, ...]:
        """The names of the members, in the order of ``codes``: target and kind, as in ``sm_90.ptx``."""
        ...

    @property
    def assembler(self) -> Version | None:
        """The version of the tool that made machine code; None where there is none."""
        ...

    @property
    def origin(self) -> str:
        """How the code was made, in a few words for people."""
        ...

    def to_json(self) -> dict[str, Any]:
        """Everything but the code as values of JSON, with ``target``, and with ``members`` in the order of ``codes``.

        Each member is an object that has at least ``kind``.
        """
        ...

    def problems(self, bundle: Bundle, /) -> Iterable[str]:
        """What keeps a launch from relying on this build of ``bundle``, in words; nothing for a sound build.

        It may raise ``TypeError`` where a value that was read has a wrong type.
        """
        ...


@dataclass(frozen=True, slots=True)
class SpecConstant:
    """A value that was built in: the name and the type of the constant, and its bits."""

    name: str
    dtype: str
    bits: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """A program as a caller must know it, and its code for each target.

    ``program`` is the digest of the program, 32 bytes, as the builder states it.  ``buffers`` are those that a caller
    binds, in binding order.  ``driven_by_input`` is that of ``Interface``.  ``vyre`` is the version that built it.
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
        return tuple(name for build in self.builds for name in build.member_names)


class BundleRunner(Protocol):
    """A bundle on a device, with its code loaded.  ``image`` is the name of the member that runs."""

    @property
    def backend(self) -> BackendId: ...
    @property
    def image(self) -> str: ...

    def pipeline(self, config: DispatchConfig, /) -> CompiledPipeline:
        """The bundle under ``config``.  Raises ``InvalidConfig`` for what was decided when it was built."""
        ...

    def recover(self) -> None:
        """Open the device anew after ``DeviceLost``."""
        ...

    def close(self) -> None: ...


class OwnEmitters(NamedTuple):
    """The emitters of a backend.  ``lacks`` says which tool is missing for machine code; empty if none is."""

    emitters: tuple[AotEmitter, ...]
    lacks: str = ""


class BuildForm(Protocol):
    """The builds of a backend as they are written in bundles."""

    def knows(self, target: str, /) -> bool:
        """Whether builds for ``target`` are written in this form."""
        ...

    def build_of(self, value: Mapping[str, Any], codes: tuple[bytes, ...], /) -> Build:
        """The build that ``Build.to_json`` wrote, with its code; ``Build.problems`` tells whether it makes sense.

        Raises ``KeyError``, ``TypeError``, ``ValueError`` or ``AttributeError`` where the structure is another.
        """
        ...


class BundleSupport(BuildForm, Protocol):
    """Building needs no device; reading and running need neither an emitter, nor the language, nor the validator."""

    @property
    def default_target(self) -> str:
        """The target for a caller who names none: its code runs on as many devices as possible."""
        ...

    def emitters(self, *, machine_code: bool) -> OwnEmitters:
        """One for each target.  ``machine_code``: let them use tools that make machine code."""
        ...

    def open(self, bundle: Bundle, /) -> BundleRunner:
        """The bundle on a device.

        Raises ``BackendUnavailable`` where no device is, ``UnusableBundle`` with every member and the reason if none
        runs on the device, and ``KernelCompileFailed`` if the driver refuses the code.
        """
        ...
