"""Bundles: programs compiled ahead of time, and the facet of a registration that builds and runs them.

A bundle holds one ``Build`` for each target.  The backend whose facet knows a target writes, reads and checks the
builds for it; a bundle may also hold builds for the targets of other backends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, NewType, Protocol, TypeAlias

from vyre.domain.binding import plan_buffers
from vyre.domain.frozen import frozen
from vyre.domain.geometry import NO_REACH, LaneReach
from vyre.domain.ir.buffers import Buffer
from vyre.domain.ir.size_parameters import SizeParameter
from vyre.domain.launch import Interface
from vyre.domain.names import BackendId, Dim3

if TYPE_CHECKING:
    from vyre.domain.dispatch import DispatchConfig
    from vyre.domain.ir.program import Program
    from vyre.ports.execution import CompiledPipeline
    from vyre.ports.support import Surroundings

Version: TypeAlias = "tuple[int, int]"
"""A major and a minor version number."""


class Build(Protocol):
    """A program for one target: its members, each of which is code of one kind that runs alone."""

    @property
    def target(self) -> str:
        """Returns the target, such as ``sm_90``."""

    @property
    def codes(self) -> tuple[bytes, ...]:
        """Returns the bytes of the members."""
        ...

    @property
    def member_names(self) -> tuple[str, ...]:
        """Returns the names of the members, in the order of ``codes``: target and kind, as in ``sm_90.ptx``."""
        ...

    @property
    def assembler(self) -> Version | None:
        """Returns the version of the tool that made machine code; None if there is no machine code."""
        ...

    @property
    def origin(self) -> str:
        """Returns how the code was made, in a few words for people."""
        ...

    def to_json(self) -> dict[str, Any]:
        """Returns everything except the code as JSON values, with ``target``, and with ``members`` in the order of
        ``codes``.

        Each member is an object that has at least ``kind``.
        """
        ...

    def problems(self, bundle: Bundle, /) -> Iterable[str]:
        """Yields the reasons, in words, why a launch cannot rely on this build of ``bundle``; none for a sound build.

        It may raise ``TypeError`` where a value that was read has a wrong type.
        """
        ...


@frozen
class SpecConstant:
    """A specialization value that was compiled in: name and type of the constant, and its bits."""

    name: str
    dtype: str
    bits: int


@frozen(kw_only=True)
class Bundle:
    """The interface of a program for its callers, and its code for each target.

    ``program`` is the digest of the program, 32 bytes, as the builder states it.  ``buffers`` are those that a caller
    binds, in binding order.  ``driven_by_input`` and ``reach`` are those of ``Interface``, and ``sizes``
    those of ``Program``.  ``vyre`` is the version that built the bundle.
    """

    program: bytes
    name: str | None
    vyre: str
    workgroup: Dim3
    driven_by_input: bool
    buffers: tuple[Buffer, ...]
    spec: tuple[SpecConstant, ...]
    builds: tuple[Build, ...]
    reach: LaneReach = NO_REACH
    sizes: tuple[SizeParameter, ...] = ()

    @property
    def abi_buffers(self) -> tuple[Buffer, ...]:
        """Returns the buffers that a caller binds, in ascending binding number, as ``Program.abi_buffers`` does."""
        return self.buffers

    @property
    def interface(self) -> Interface:
        """Returns the interface of the program, from which launches are computed."""
        return Interface(plan_buffers(self.buffers), self.workgroup, self.driven_by_input, lambda: self.reach)

    @property
    def members(self) -> tuple[str, ...]:
        """Returns the names of all members of all builds."""
        return tuple(name for build in self.builds for name in build.member_names)


class BundleRunner(Protocol):
    """A bundle on a device, with its code loaded."""

    @property
    def backend(self) -> BackendId:
        """Returns the id of the backend that runs the bundle."""

    @property
    def image(self) -> str:
        """Returns the name of the member that runs."""

    def pipeline(self, config: DispatchConfig, /) -> CompiledPipeline:
        """Returns a pipeline that runs the bundle under ``config``.

        Raises ``InvalidConfig`` for a field that was fixed when the bundle was built.
        """
        ...

    def recover(self) -> None:
        """Opens the device again after ``DeviceLost``."""
        ...

    def close(self) -> None:
        """Unloads the code and releases the device."""


AotTargetId = NewType("AotTargetId", str)
"""The name of a target, such as ``sm_90``."""


@frozen
class AotEmitter:
    """An emitter for one target; ``emit`` compiles a valid program and raises the errors of the compilation."""

    target: AotTargetId
    emit: Callable[[Program, DispatchConfig], Build]


class OwnEmitters(NamedTuple):
    """The emitters of a backend.  ``lacks`` names the tool that is missing for machine code; empty if none is."""

    emitters: tuple[AotEmitter, ...]
    lacks: str = ""


class BuildForm(Protocol):
    """The written form of a backend's builds in bundles."""

    def knows(self, target: str, /) -> bool:
        """Returns whether builds for ``target`` are written in this form."""
        ...

    def build_of(self, value: Mapping[str, Any], codes: tuple[bytes, ...], /) -> Build:
        """Returns the build that ``Build.to_json`` wrote, with its code; ``Build.problems`` checks its values.

        Raises ``KeyError``, ``TypeError``, ``ValueError`` or ``AttributeError`` where the structure is another.
        """
        ...


class BundleSupport(BuildForm, Protocol):
    """A facet that builds and runs bundles.

    Building needs no device; reading and running need neither an emitter, nor the language, nor the validator.
    """

    @property
    def default_target(self) -> str:
        """Returns the default target, whose code runs on as many devices as possible."""
        ...

    def emitters(self, *, machine_code: bool) -> OwnEmitters:
        """Returns one emitter for each target; with ``machine_code`` they may use tools that make machine code."""
        ...

    def open(self, bundle: Bundle, surroundings: Surroundings, /) -> BundleRunner:
        """Loads the bundle on a device and returns its runner.

        Raises ``BackendUnavailable`` if there is no device, ``UnusableBundle`` with every member and the reason if
        none runs on the device, and ``KernelCompileFailed`` if the driver refuses the code.
        """
        ...
