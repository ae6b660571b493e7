"""Errors that a program itself causes, as records: what a run that ended in one must repeat.

A program ends its run by a trap, by more loop steps than the budget of its config allows, by data races where they are
looked for, and by items or workgroups for which there is no room.  Every other error belongs to a machine or to a
moment, and is no result.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from vyre.domain.errors import (
    BackendError,
    DataRaceError,
    GridOverflow,
    MalformedJson,
    StepBudgetExceeded,
    TrapError,
    WorkQueueOverflow,
)
from vyre.domain.frozen import frozen
from vyre.domain.names import Dim3
from vyre.domain.races import DataRace, LanePlace, RacingAccess, place_text
from vyre.domain.strict_json import NotStrictJson, canonical, parse
from vyre.domain.value_json import from_json, to_json

PROGRAM_ERRORS: Final = (TrapError, StepBudgetExceeded, DataRaceError, GridOverflow, WorkQueueOverflow)
"""The errors that evidence records."""
_FIX: Final = "use the evidence as it was written."


@frozen
class Trapped:
    """The payload of a ``TrapError``."""

    tag: str
    address: int
    global_id: Dim3


@frozen
class StepsExhausted:
    """The payload of a ``StepBudgetExceeded``."""

    budget: int
    global_id: Dim3


@frozen
class RecordedAccess:
    """One access of a race; ``line`` is the line of the source as messages name it."""

    kind: str
    lane: LanePlace
    line: str


@frozen
class RecordedRace:
    """A race of a ``DataRaceError``."""

    buffer: str
    element: int
    first: RecordedAccess
    second: RecordedAccess


@frozen
class RacesFound:
    """The payload of a ``DataRaceError``."""

    races: tuple[RecordedRace, ...]


@frozen
class GridExceeded:
    """The payload of a ``GridOverflow``."""

    step: str
    counts: Dim3
    most: Dim3


@frozen
class QueueFull:
    """The payload of a ``WorkQueueOverflow``, without what a schedule decides: how many items were lost."""

    capacity: int


Cause: TypeAlias = Trapped | StepsExhausted | RacesFound | GridExceeded | QueueFull
_CLASSES: Final[dict[type[Cause], type[BackendError]]] = {
    Trapped: TrapError,
    StepsExhausted: StepBudgetExceeded,
    RacesFound: DataRaceError,
    GridExceeded: GridOverflow,
    QueueFull: WorkQueueOverflow,
}


@frozen
class Failure:
    """An error in which a run ended: its class by name, its code, its message, and its payload; ``str`` tells it."""

    error: str
    code: int
    message: str
    cause: Cause

    def repeats(self, other: Failure) -> bool:
        """Returns whether another run ended in the same way.

        Error, code and payload must be equal.  Of data races one element must be in both: which lanes are told is up to
        the schedule of a backend, and a backend may stop at the first race that it finds.
        """
        one, two = self.cause, other.cause
        if isinstance(one, RacesFound) and isinstance(two, RacesFound):
            return not _elements(one).isdisjoint(_elements(two))
        return (self.error, self.code, one) == (other.error, other.code, two)

    def __str__(self) -> str:
        return f"{self.error} ({self.code}): {self.message}"


def failure_of(error: BackendError) -> Failure | None:
    """Returns the record of an error that the program itself caused; None for any other error."""
    cause: Cause
    match error:
        case TrapError():
            cause = Trapped(error.tag, error.address, error.global_id)
        case StepBudgetExceeded():
            cause = StepsExhausted(error.budget, error.global_id)
        case DataRaceError():
            cause = RacesFound(tuple(map(_race, error.races)))
        case GridOverflow():
            cause = GridExceeded(error.step, error.counts, error.most)
        case WorkQueueOverflow():
            cause = QueueFull(error.capacity)
        case _:
            return None
    return Failure(_CLASSES[type(cause)].__name__, int(error.code), error.message, cause)


def failure_bytes(failure: Failure) -> bytes:
    """Returns a failure as canonical JSON."""
    return canonical(to_json(failure)).encode()


def failure_from(data: bytes) -> Failure:
    """Returns the failure that ``failure_bytes`` wrote.  Raises ``MalformedJson`` for anything else."""
    try:
        text = data.decode("ascii")
        failure: Failure = from_json(Failure, parse(text))
    except UnicodeDecodeError:
        raise MalformedJson("a recorded error is no ASCII text", fix=_FIX) from None
    except NotStrictJson as error:
        raise MalformedJson(f"a recorded error {error}", fix=_FIX) from None
    expected = _CLASSES[type(failure.cause)]
    if (failure.error, failure.code) != (expected.__name__, expected.code) or canonical(to_json(failure)) != text:
        raise MalformedJson("a recorded error has the class or code of another, or another form", fix=_FIX)
    return failure


def _elements(races: RacesFound) -> frozenset[tuple[str, int]]:
    return frozenset((race.buffer, race.element) for race in races.races)


def _race(race: DataRace) -> RecordedRace:
    return RecordedRace(race.buffer, race.element, _access(race.first), _access(race.second))


def _access(access: RacingAccess) -> RecordedAccess:
    return RecordedAccess(access.kind, access.lane, place_text(access.loc))
