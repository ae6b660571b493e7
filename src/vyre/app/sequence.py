"""Sequences: launches on resident memory that run in order, any number of times, with one wait at the end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass

from vyre.app.lease import BackendLease
from vyre.app.pipeline import Inputs
from vyre.app.shorthand import Keywords
from vyre.domain.arguments import expect, items_of
from vyre.domain.dispatch import DispatchConfig, DispatchTiming
from vyre.domain.errors import BackendError, InvalidConfig, InvalidInput, VyreError
from vyre.domain.ir.program import ProgramLike
from vyre.domain.names import Grid
from vyre.domain.record import U64_MAX
from vyre.domain.shown import shown
from vyre.domain.specialization import SpecInput
from vyre.ports.backend import ResidentSequence, ResidentStep


@dataclass(frozen=True, slots=True)
class Step:
    """A launch of a sequence.

    Every buffer that the program writes is bound to a resident array; other inputs are numbers, host data, which is
    copied when the sequence is made, or resident arrays too.  ``spec``, ``grid``, ``extent``, ``output_counts`` and
    ``race_check`` are the shorthand of ``Session.compile``: fields of the config, given here or there, not in both.
    """

    program: ProgramLike
    inputs: Inputs = ()
    config: DispatchConfig | None = None
    _: KW_ONLY
    spec: Mapping[str, SpecInput] | None = None
    grid: Grid | None = None
    extent: Grid | None = None
    output_counts: Mapping[str, int] | None = None
    race_check: bool = False

    @property
    def shorthand(self) -> Keywords:
        """Returns the keywords that ``Session.compile`` takes beside program and config."""
        return {
            "spec": self.spec,
            "grid": self.grid,
            "extent": self.extent,
            "output_counts": self.output_counts,
            "race_check": self.race_check,
        }


class StepSequence:
    """Steps with all their memory bound: call it to run them, from any thread.

    The results are those of running the steps strictly in order; a backend may overlap steps that share no memory, and
    submit a round as one graph.  ``bind`` binds the memory of a step.  ``remember`` receives the timing of every run
    that launched a step by itself.
    """

    __slots__ = ("_first", "_lease", "_remember", "_steps")

    def __init__(
        self,
        lease: BackendLease,
        bind: Callable[[Step], ResidentStep],
        steps: Sequence[Step],
        first: Sequence[Step],
        remember: Callable[[DispatchTiming], None],
    ) -> None:
        lease.check_open()
        steps, first = tuple(items_of("steps", steps)), tuple(items_of("first", first))
        if not steps and not first:
            raise InvalidInput("a sequence without steps", fix="give at least one.")
        lease.backend.require_resident_executor()
        self._lease = lease
        self._first = _bound("first", first, bind)
        self._steps = _bound("steps", steps, bind)
        self._remember = remember

    def __call__(self, rounds: int = 1) -> DispatchTiming:
        """Runs ``first`` once and then ``steps`` that many times, and waits.

        Raises what a dispatch raises; after a failure the arrays hold what the steps had written until then.
        """
        if type(rounds) is not int or not 0 <= rounds <= U64_MAX:
            raise InvalidConfig(f"rounds={shown(rounds)}", fix="give an int that is not negative.")
        self._lease.check_open()
        sequence = ResidentSequence(prefix=self._first, repeated=self._steps, repeat_count=rounds)
        try:
            timing = self._lease.backend.require_resident_executor().run(sequence)
        except BackendError as error:
            error.add_note(f"backend={self._lease.backend.id} sequence={self!r}")
            raise
        if timing.launches != 0 and (rounds or self._first):  # else nothing ran, or all was replayed
            self._remember(timing)
            self._lease.launched()
        return timing

    def __repr__(self) -> str:
        names = (step.program.name or "unnamed" for step in (*self._first, *self._steps))
        return f"<StepSequence {' '.join(names)}>"


def _bound(part: str, steps: Sequence[Step], bind: Callable[[Step], ResidentStep]) -> tuple[ResidentStep, ...]:
    found = []
    for number, step in enumerate(steps):
        expect(f"{part}[{number}]", step, Step, "a Step", InvalidInput)
        try:
            found.append(bind(step))
        except VyreError as error:
            error.add_note(f"{part}[{number}]")
            raise
    return tuple(found)
