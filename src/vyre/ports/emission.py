"""The facet of a registration that translates programs to code, for launchers that do not use this library.

Making the facet opens no device and needs no driver.  Each facet knows targets of its own; the application searches
the registrations, in their order, for one that knows a target.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol

from vyre.domain.frozen import frozen

if TYPE_CHECKING:
    from vyre.domain.artifact_key import ArtifactKey
    from vyre.domain.device import EngineKind
    from vyre.domain.ir.expr import Literal
    from vyre.domain.ir.program import Program
    from vyre.domain.specialization import SpecMap

NATIVE: Final = "native"
SPLIT: Final = "split"
GRID_SYNC_MODES: Final = (NATIVE, SPLIT)
"""The modes of grid barriers: inside one kernel whose workgroups all run at once, or one kernel for each part between
the barriers."""


@frozen(kw_only=True)
class EmissionOptions:
    """Options of an emission.

    ``target`` is one that the facet knows, ``assume`` holds some of its assumptions, ``grid_sync`` is one of
    ``GRID_SYNC_MODES``, and ``form`` is one of its forms; empty for the first of them.  ``passes``: the passes of the
    optimizer that have prepared the program, with their versions, for the keys of its code.  ``locations``: whether the
    code names the lines of the user's source also where it usually does not.
    """

    target: str
    assume: frozenset[str] = frozenset()
    grid_sync: str = NATIVE
    form: str = ""
    passes: str = ""
    locations: bool = False


class EmittedModule(Protocol):
    """A program as code."""

    @property
    def text(self) -> str:
        """Returns the code."""

    @property
    def target(self) -> str:
        """Returns the target for which the code was emitted."""

    def to_json(self) -> dict[str, Any]:
        """Returns the code and all facts that a launcher needs, as JSON values."""


class CodeEmission(Protocol):
    """A facet that emits code.

    ``emit`` and ``keys`` depend on their arguments only, and for a target that is the processor of this machine on it
    and on the settings of its backend.  They may be called from any thread.
    """

    @property
    def targets(self) -> tuple[str, ...]:
        """Returns the names of all targets, each once."""

    @property
    def default_target(self) -> str:
        """Returns the default target, one of ``targets``."""

    @property
    def forms(self) -> tuple[str, ...]:
        """Returns the names of the languages in which the code can be written, the usual one first."""

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Returns the names of the facts about launches that a caller may guarantee."""

    @property
    def optimizes(self) -> EngineKind | None:
        """Returns the kind of engine for which the optimizer prepares programs; None if it prepares none."""

    def emit(self, program: Program, options: EmissionOptions, spec: Mapping[str, Literal], /) -> EmittedModule:
        """Returns the code of a program.

        ``spec`` holds values of specialization constants; omitted constants have their defaults.  Raises
        ``InvalidProgram`` with the report, and ``UnsupportedFeature`` for a program that the target cannot run.
        """

    def keys(self, program: Program, options: EmissionOptions, spec: SpecMap, /) -> tuple[ArtifactKey, ...]:
        """Returns the keys under which a cache stores the code of a program, at least one; ``spec`` holds a value of
        every constant.

        Several keys stand for code that is made in several ways, such as by several pipelines of a compiler.  Raises
        ``InvalidProgram`` if a name in the program does not resolve.
        """
