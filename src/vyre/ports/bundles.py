"""Bundles: programs by name with their code for several targets, and the facet of a registration that compiles it.

Code in a bundle has the form of an entry of the artifact store: a key that says what it was compiled from and for, and
an ``Artifact``.  A session that compiles the program of a bundle looks for fitting code here first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple, NewType, Protocol, TypeAlias
from weakref import WeakSet

from vyre.domain.frozen import frozen
from vyre.domain.shared_dicts import members_of
from vyre.domain.unique import Unique

if TYPE_CHECKING:
    from vyre.domain.artifact_key import ArtifactKey
    from vyre.domain.dispatch import DispatchConfig
    from vyre.domain.ir.program import Program
    from vyre.ports.artifact_store import Artifact

Version: TypeAlias = "tuple[int, int]"
"""A major and a minor version number."""

AotTargetId = NewType("AotTargetId", str)
"""The name of a target, such as ``sm_90`` or ``cpu-x86_64-avx2``."""


@frozen
class BundledCode:
    """Code of one program for one target."""

    target: AotTargetId
    key: ArtifactKey
    artifact: Artifact

    @property
    def name(self) -> str:
        """Returns target and kind, as in ``sm_90.ptx``."""
        return f"{self.target}.{self.key.kind.value}"


class Build(NamedTuple):
    """The code that an emitter makes of a program.

    ``origin`` says how the code was made, in a few words for people; ``assembler`` is the version of the tool that made
    machine code of text, None if there was none.
    """

    codes: tuple[BundledCode, ...]
    origin: str
    assembler: Version | None = None


@frozen
class Bundle:
    """Programs by the names of their entry points, and code; ``vyre`` is the version that built the bundle."""

    vyre: str
    entries: Mapping[str, Program]
    codes: tuple[BundledCode, ...]


class CodeShelf(Unique):
    """Code of a bundle that is loaded in this process, as long as somebody holds the shelf."""

    __slots__ = ("__weakref__", "_codes")

    def __init__(self, codes: Sequence[BundledCode]) -> None:
        by_program: dict[bytes, list[BundledCode]] = {}
        for code in codes:
            by_program.setdefault(code.key.program, []).append(code)
        self._codes: Final = by_program
        _SHELVES.add(self)

    def of(self, program: bytes) -> Sequence[BundledCode]:
        """Returns the code of the program with this digest, 32 bytes."""
        return self._codes.get(program, ())


_SHELVES: Final[WeakSet[CodeShelf]] = WeakSet()


def bundled_code(program: bytes) -> Iterator[BundledCode]:
    """Yields the code of the program with this digest, 32 bytes, in all bundles that are loaded in this process."""
    if _SHELVES:
        for shelf in members_of(_SHELVES):
            yield from shelf.of(program)


@frozen
class AotEmitter:
    """An emitter for one target; ``emit`` compiles a valid program and raises the errors of the compilation."""

    target: AotTargetId
    emit: Callable[[Program, DispatchConfig], Build]


class OwnEmitters(NamedTuple):
    """The emitters of a backend.

    ``groups`` has names that stand for several targets, such as ``cpu``.  ``lacks`` names the tool that is missing for
    machine code; empty if none is.
    """

    emitters: tuple[AotEmitter, ...]
    lacks: str = ""
    groups: Mapping[str, tuple[AotTargetId, ...]] = MappingProxyType({})


class BundleSupport(Protocol):
    """A facet that compiles ahead of time, which needs no device."""

    @property
    def default_target(self) -> str:
        """Returns the target or group whose code runs on as many devices as possible."""

    def emitters(self, *, machine_code: bool) -> OwnEmitters:
        """Returns one emitter for each target; with ``machine_code`` they may use tools that make machine code of
        text.
        """

    def c_files(self, name: str, entries: Mapping[str, Program], /) -> Mapping[str, bytes]:
        """Returns files by which a program in C calls the code of entry points in loaded bundles, by their names.

        ``name`` is that of the header and the source, without a suffix.  It is empty where C cannot call the code, or
        no bundle has any.  Raises ``UnsupportedFeature`` and ``InvalidConfig``.
        """
