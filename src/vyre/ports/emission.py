"""The facet of a registration that writes programs as code, for whoever launches them without this library.

Asking for it opens no device and needs no driver.  Each facet knows targets of its own; the application asks the
registrations in their order which of them knows a target.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    from vyre.domain.artifact_key import ArtifactKey
    from vyre.domain.ir.expr import Literal
    from vyre.domain.ir.program import Program
    from vyre.domain.specialization import SpecMap

NATIVE: Final = "native"
SPLIT: Final = "split"
GRID_SYNC_MODES: Final = (NATIVE, SPLIT)
"""Grid barriers inside one kernel whose workgroups all run at once, or one kernel for each part between them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EmissionOptions:
    """``target``: one that the facet knows.  ``assume``: some of its assumptions.  ``grid_sync``: one of the modes."""

    target: str
    assume: frozenset[str] = frozenset()
    grid_sync: str = NATIVE


class EmittedModule(Protocol):
    """A program as code.  ``text``: the code.  ``target``: what it was written for."""

    @property
    def text(self) -> str: ...
    @property
    def target(self) -> str: ...

    def to_json(self) -> dict[str, Any]:
        """The code with everything that a launcher must know, as values of JSON."""
        ...


class CodeEmission(Protocol):
    """Both methods are pure functions of their arguments and may be called from any thread."""

    @property
    def targets(self) -> tuple[str, ...]:
        """Names of all targets, each of them once."""
        ...

    @property
    def default_target(self) -> str:
        """The target for a caller who names none; one of ``targets``."""
        ...

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Names of the facts about launches that a caller may vouch for."""
        ...

    def emit(self, program: Program, options: EmissionOptions, spec: Mapping[str, Literal], /) -> EmittedModule:
        """The code.  ``spec``: values of specialization constants; those left out have their defaults.

        Raises ``InvalidProgram`` with the report, and ``UnsupportedFeature`` for what the target cannot run.
        """
        ...

    def key(self, program: Program, options: EmissionOptions, spec: SpecMap, /) -> ArtifactKey:
        """The key under which a cache keeps what ``emit`` gives.  ``spec``: a value of every constant.

        Raises ``InvalidProgram`` if a name in the program does not resolve.
        """
        ...
