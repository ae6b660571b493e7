"""The input of an emission, and the record of a compilation: what compiling backends have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final, NamedTuple, Self

from vyre.adapters.pipelines import Compilation
from vyre.domain.artifact_key import ArtifactKey
from vyre.domain.ir.expr import Literal
from vyre.domain.ir.program import Program
from vyre.domain.names import Dim3
from vyre.domain.optimize.dialect_laws import keep_stated_laws, stated_laws
from vyre.domain.specialization import SpecInput, SpecMap, spec_literals, spec_of
from vyre.policies.journal import decide
from vyre.ports.artifact_store import ArtifactStore
from vyre.ports.backend import BackendServices


class KernelSource(NamedTuple):
    """The input of an emission.

    ``sized`` is the program with the workgroup that it is launched with.  ``literals`` has a value for every constant;
    ``spec`` holds the same values for keys, and ``constants`` are its canonical bytes.  ``locations``: those of
    the nodes, where reports of races name them; they tell apart what is kept in memory.
    """

    program: Program
    sized: Program
    spec: SpecMap
    literals: Mapping[str, Literal]
    constants: bytes
    locations: str = ""

    @classmethod
    def of(
        cls, program: Program, spec: Mapping[str, SpecInput] | None = None, workgroup: Dim3 | None = None
    ) -> KernelSource:
        """Returns the source for a program, values of constants and a workgroup.  Raises ``InvalidConfig`` as
        ``spec_literals`` does.
        """
        sized = program
        if workgroup is not None and workgroup != program.workgroup_size:
            sized = replace(program, workgroup_size=workgroup)
            keep_stated_laws(sized, stated_laws(program))
        literals = spec_literals(program, spec)
        if not literals:
            return cls(program, sized, _NO_CONSTANTS, literals, _NO_BYTES)
        values = spec_of(literals)
        return cls(program, sized, values, literals, values.canonical_bytes())


_NO_CONSTANTS: Final = SpecMap()
_NO_BYTES: Final = _NO_CONSTANTS.canonical_bytes()


class Steps:
    """The nanoseconds that each step of one compilation took, and why the store had no code
    (``Compilation.missed``).
    """

    __slots__ = ("_now_ns", "_phases", "_started", "_stepped", "missed")

    def __init__(self, now_ns: Callable[[], int]) -> None:
        self._now_ns = now_ns
        self._phases: dict[str, int] = {}
        self._stepped = ""
        self._started = 0
        self.missed: str | None = None

    def step(self, name: str) -> Self:
        """Times the body of a ``with`` statement as a step of this name; repeated steps add up.

        A step has no steps within it.
        """
        self._stepped = name
        return self

    def __enter__(self) -> None:
        self._started = self._now_ns()

    def __exit__(self, *raised: object) -> None:
        took = self._now_ns() - self._started
        self._phases[self._stepped] = self._phases.get(self._stepped, 0) + took

    def spent_ns(self, name: str) -> int:
        """Returns the nanoseconds spent on that step so far."""
        return self._phases.get(name, 0)

    def explain(self, services: BackendServices, store: ArtifactStore, key: ArtifactKey) -> None:
        """Reports why an artifact was missed.  The first reason is kept: missing text explains missing machine code."""
        from vyre.policies.caching.cache_outcome import explain_miss

        miss = decide(services.decisions, explain_miss, key, store.neighbours(key))
        if self.missed is None:
            self.missed = str(miss.why)
        fields = ",".join(miss.fields)
        services.telemetry.count("vyre.compile.miss", kind=key.kind.value, cause=miss.cause.value, fields=fields)

    def done(self) -> Compilation:
        """Returns the record of the compilation."""
        return Compilation(tuple(self._phases.items()), self.missed)
