"""The input of an emission, and the record of a compilation: what compiling backends have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from vyre.adapters.pipelines import Compilation
from vyre.domain.ir.expr import Literal
from vyre.domain.ir.program import Program
from vyre.domain.names import Dim3
from vyre.domain.specialization import SpecInput, SpecMap, spec_literals, spec_of


@dataclass(frozen=True, slots=True, eq=False)
class KernelSource:
    """The input of an emission.

    ``sized`` is the program with the workgroup that it is launched with.  ``literals`` has a value for every constant;
    ``spec`` holds the same values for keys.
    """

    program: Program
    sized: Program
    spec: SpecMap
    literals: Mapping[str, Literal]

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
        literals = spec_literals(program, spec)
        return cls(program, sized, spec_of(literals), literals)


class _Step:
    """Adds the time of a ``with`` statement to that of a step."""

    __slots__ = ("_name", "_now_ns", "_phases", "_started")

    def __init__(self, phases: dict[str, int], name: str, now_ns: Callable[[], int]) -> None:
        self._phases, self._name, self._now_ns = phases, name, now_ns

    def __enter__(self) -> None:
        self._started = self._now_ns()

    def __exit__(self, *raised: object) -> None:
        self._phases[self._name] = self._phases.get(self._name, 0) + self._now_ns() - self._started


class Steps:
    """The nanoseconds that each step of one compilation took, and why the store had no code
    (``Compilation.missed``).
    """

    def __init__(self, now_ns: Callable[[], int]) -> None:
        self._now_ns = now_ns
        self._phases: dict[str, int] = {}
        self.missed: str | None = None

    def step(self, name: str) -> _Step:
        """Times the body of a ``with`` statement as a step of this name; repeated steps add up."""
        return _Step(self._phases, name, self._now_ns)

    def spent_ns(self, name: str) -> int:
        """Returns the nanoseconds spent on that step so far."""
        return self._phases.get(name, 0)

    def done(self) -> Compilation:
        """Returns the record of the compilation."""
        return Compilation(tuple(self._phases.items()), self.missed)
