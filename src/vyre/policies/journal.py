"""What was decided, kept so that it can be decided again.

A ``DecisionRecord`` holds the name of a policy, the version of its source, what it was given and what it answered.
``replay`` asks the policy of now and compares.  ``decide`` is how code that wants its decisions recorded asks one; a
``DecisionSink`` is told.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any, Final, NamedTuple, Protocol, TypeAlias, TypeVar, TypeVarTuple, get_type_hints

from vyre.domain.errors import MalformedJson, VyreError
from vyre.domain.strict_json import NotStrictJson, parse
from vyre.domain.value_json import Json, canonical, from_json, to_json

T = TypeVar("T")
Arguments = TypeVarTuple("Arguments")
Policy: TypeAlias = Callable[..., object]

FORM: Final = 1
"""Version of the written form."""
ERROR: Final = "$error"
_FIX: Final = "use the journal as it was written."


# ---- while deciding
class Decision(NamedTuple):
    """``policy`` was called with ``arguments``, and answered ``verdict``; a refusal is the error that it raised."""

    policy: Policy
    arguments: tuple[object, ...]
    verdict: object

    @property
    def name(self) -> str:
        return name_of(self.policy)

    def record(self, version_of: Callable[[Policy], str]) -> DecisionRecord:
        """Its written form.  Raises ``InvalidField`` for values that have none."""
        bound = inspect.signature(self.policy).bind(*self.arguments)
        bound.apply_defaults()
        given = {name: to_json(value) for name, value in bound.arguments.items()}
        tunable = _thresholds(self.policy)
        inputs = {name: value for name, value in given.items() if name not in tunable}
        thresholds = {name: value for name, value in given.items() if name in tunable}
        return DecisionRecord(self.name, version_of(self.policy), inputs, thresholds, _answer(self.verdict))


class DecisionSink(Protocol):
    """Is told of every decision.  Never raises; any thread may call it."""

    @property
    def keeps(self) -> bool:
        """Are decisions kept, so that what they were given may say more than deciding takes?  Never changes."""
        ...

    def note(self, decision: Decision, /) -> None: ...


def decide(sink: DecisionSink | None, policy: Callable[[*Arguments], T], *arguments: *Arguments) -> T:
    """``policy(*arguments)``, told to ``sink`` if there is one; a refusal is told too, and raised.

    With a sink, an iterable that can be read only once is read before, and a list is copied.
    """
    if sink is None:
        return policy(*arguments)
    held: Any = tuple(tuple(given) if isinstance(given, list | Iterator) else given for given in arguments)
    try:
        verdict = policy(*held)
    except VyreError as refusal:
        sink.note(Decision(policy, held, refusal))
        raise
    sink.note(Decision(policy, held, verdict))
    return verdict


def sifted(sink: DecisionSink | None, passes: Callable[[Decision], bool]) -> DecisionSink | None:
    """A sink that passes on what ``passes`` wants: of what is asked often, what is news."""
    return None if sink is None else _Sifted(sink, passes)


class _Sifted(NamedTuple):
    sink: DecisionSink
    passes: Callable[[Decision], bool]

    @property
    def keeps(self) -> bool:
        return self.sink.keeps

    def note(self, decision: Decision, /) -> None:
        if self.passes(decision):
            self.sink.note(decision)


def name_of(policy: Policy) -> str:
    """The name of a decision in journals: that of its function, wherever the function is defined."""
    return policy.__name__


def verdict_label(verdict: object) -> str:
    """A few words for the outcome, one of not many.

    Its ``label``, if it has one; its name, or that of the first it holds, for an enum; of a collection whether there is
    anything in it.  Else the name of its class: where there are several, or a refusal, that is the outcome.
    """
    if isinstance(verdict, bool):
        return str(verdict).lower()
    if isinstance(verdict, Collection):
        return "some" if verdict else "none"
    label: str | None = getattr(verdict, "label", None)
    if label is not None:
        return label
    held = (getattr(verdict, f.name) for f in fields(verdict)) if is_dataclass(verdict) else ()
    chosen = next((value for value in (verdict, *held) if isinstance(value, Enum)), None)
    return type(verdict).__name__ if chosen is None else chosen.name.lower()


@cache
def _thresholds(policy: Policy) -> frozenset[str]:
    """Parameters that hold thresholds: those that have a record as default."""
    parameters = inspect.signature(policy).parameters.values()
    return frozenset(p.name for p in parameters if is_dataclass(p.default))


def _answer(verdict: object) -> Json:
    if isinstance(verdict, VyreError):
        return {ERROR: type(verdict).__name__, "message": str(verdict)}
    return to_json(verdict)


# ---- written
@dataclass(frozen=True, slots=True)
class DecisionRecord:
    """``inputs`` and ``thresholds``: arguments by parameter, as ``value_json`` writes them, and likewise ``verdict``;
    that of a refusal is the error.  ``version``: of the source of the policy.
    """

    policy: str
    version: str
    inputs: Mapping[str, Json]
    thresholds: Mapping[str, Json]
    verdict: Json

    def to_text(self) -> str:
        """Canonical JSON on one line, without a line end."""
        return canonical({"form": FORM} | asdict(self))

    @classmethod
    def from_text(cls, line: str) -> DecisionRecord:
        """The inverse; raises ``MalformedJson`` for what is no record."""
        try:
            content = parse(line)
        except NotStrictJson as error:
            raise MalformedJson(f"a decision {error}", fix=_FIX) from None
        if not isinstance(content, dict) or content.get("form") != FORM:
            raise MalformedJson(f"a decision has no form {FORM}", fix=_FIX)
        if content.keys() != {"form", *_MEMBERS}:
            raise MalformedJson(f"a decision has not the members {', '.join(_MEMBERS)}", fix=_FIX)
        for name, kind in _MEMBERS.items():
            if not isinstance(content[name], kind):
                raise MalformedJson(f"it is no {kind.__name__}", fix=_FIX, path=f"$.{name}")
        return cls(**{name: content[name] for name in _MEMBERS})


_MEMBERS: Final[dict[str, type]] = {
    "policy": str,
    "version": str,
    "inputs": dict,
    "thresholds": dict,
    "verdict": object,
}


def to_lines(decisions: Iterable[Decision], version_of: Callable[[Policy], str]) -> str:
    """A record for each, each on a line of its own."""
    return "".join(f"{decision.record(version_of).to_text()}\n" for decision in decisions)


def from_lines(text: str) -> tuple[DecisionRecord, ...]:
    """The inverse; raises ``MalformedJson``, which names the line, for what is no journal."""
    found = []
    for number, line in enumerate(text.removesuffix("\n").split("\n") if text else (), 1):
        try:
            found.append(DecisionRecord.from_text(line))
        except MalformedJson as error:
            message = error.message.removeprefix(f"{error.path}: ")
            raise MalformedJson(message, fix=_FIX, path=f"line {number} {error.path}") from None
    return tuple(found)


# ---- deciding again
class Outcome(Enum):
    """What became of a recorded decision."""

    SAME = "same verdict"
    DIFFERENT = "different verdict"
    CHANGED_POLICY = "changed policy version"
    UNKNOWN_POLICY = "unknown policy"


class Difference(NamedTuple):
    """``place``: a JSON path into the verdict."""

    place: str
    recorded: str
    replayed: str

    def __str__(self) -> str:
        return f"{self.place}: {self.recorded} -> {self.replayed}"


@dataclass(frozen=True, slots=True)
class Replayed:
    """``verdict``: of now; None where there is none.  ``differences``: from the recorded one.

    A policy that changed since may still come to the same verdict: then ``reproduced`` is True all the same.
    """

    record: DecisionRecord
    outcome: Outcome
    reproduced: bool
    verdict: Json = None
    differences: tuple[Difference, ...] = ()
    why: str = ""


class Known(NamedTuple):
    """A policy as it is now."""

    policy: Policy
    version: str


def replay(record: DecisionRecord, find: Callable[[str], Known | None]) -> Replayed:
    """Decide again.  ``find``: the policy of a name.

    Raises ``MalformedJson`` for inputs that this very version cannot have been given.
    """
    known = find(record.policy)
    if known is None:
        return Replayed(record, Outcome.UNKNOWN_POLICY, False, why=f"there is no policy `{record.policy}`")
    changed = known.version != record.version
    try:
        arguments = _arguments(known.policy, record)
    except MalformedJson as error:
        if not changed:
            raise
        why = f"it no longer takes what was recorded: {error.message}"
        return Replayed(record, Outcome.CHANGED_POLICY, False, why=why)
    verdict = _again(known.policy, arguments)
    differences = tuple(_differences("$", record.verdict, verdict))
    if changed:
        outcome, why = Outcome.CHANGED_POLICY, f"version {record.version} then, {known.version} now"
    else:
        outcome, why = Outcome.DIFFERENT if differences else Outcome.SAME, ""
    return Replayed(record, outcome, not differences, verdict, differences, why)


def _arguments(policy: Policy, record: DecisionRecord) -> dict[str, Any]:
    hints = get_type_hints(policy)
    tunable = _thresholds(policy)
    found = {}
    for part, given in (("inputs", record.inputs), ("thresholds", record.thresholds)):
        expected = [
            name for name in inspect.signature(policy).parameters if (name in tunable) is (part == "thresholds")
        ]
        if given.keys() != set(expected):
            raise MalformedJson(f"it takes {', '.join(expected) or 'nothing'}", fix=_FIX, path=f"$.{part}")
        found.update({name: from_json(hints[name], given[name], f"$.{part}.{name}") for name in expected})
    return found


def _again(policy: Policy, arguments: dict[str, Any]) -> Json:
    try:
        return _answer(policy(**arguments))
    except VyreError as refusal:
        return _answer(refusal)


def _differences(place: str, recorded: Json, replayed: Json) -> Iterator[Difference]:
    """Where two documents differ, as deep down as both have the same shape."""
    if isinstance(recorded, dict) and isinstance(replayed, dict) and recorded.keys() == replayed.keys():
        for name in sorted(recorded):
            yield from _differences(f"{place}.{name}", recorded[name], replayed[name])
    elif isinstance(recorded, list) and isinstance(replayed, list) and len(recorded) == len(replayed):
        for index, (before, after) in enumerate(zip(recorded, replayed, strict=True)):
            yield from _differences(f"{place}[{index}]", before, after)
    elif (before := canonical(recorded)) != (after := canonical(replayed)):
        yield Difference(place, before, after)
