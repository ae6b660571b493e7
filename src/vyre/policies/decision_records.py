"""Records of decisions, from which each decision can be taken again.

A ``DecisionRecord`` holds the name of a policy, the version of its source, its arguments and its verdict.  ``replay``
calls the policy as it is now and compares the verdicts.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, is_dataclass
from enum import Enum
from functools import cache
from typing import Any, Final, NamedTuple, get_type_hints

from vyre.domain.errors import MalformedJson, VyreError
from vyre.domain.float_mode import in_default_mode
from vyre.domain.frozen import frozen
from vyre.domain.strict_json import NotStrictJson, canonical, parse
from vyre.domain.value_json import Json, from_json, to_json
from vyre.policies.journal import Decision, Policy

FORM: Final = 1
"""Version of the written form."""
ERROR: Final = "$error"
"""The member of a written verdict that names the error of a policy that refused."""
_FIX: Final = "use the journal as it was written."


# ---- written
@frozen
class DecisionRecord:
    """The written form of a decision.

    ``inputs`` and ``thresholds`` hold the arguments by parameter name, and ``verdict`` the result, all as
    ``value_json`` writes them.  If the policy refused, ``verdict`` describes the error.  ``version`` identifies the
    policy's source.
    """

    policy: str
    version: str
    inputs: Mapping[str, Json]
    thresholds: Mapping[str, Json]
    verdict: Json

    def to_text(self) -> str:
        """Returns canonical JSON on one line, without a line end."""
        return canonical({"form": FORM} | asdict(self))

    @classmethod
    def from_text(cls, line: str) -> DecisionRecord:
        """Parses the output of ``to_text``.  Raises ``MalformedJson`` for anything else."""
        try:
            content = parse(line)
        except NotStrictJson as error:
            raise MalformedJson(f"a decision {error}", fix=_FIX) from None
        if not isinstance(content, dict) or type(content.get("form")) is not int:
            raise MalformedJson(f"a decision has no form {FORM}", fix=_FIX)
        if content["form"] != FORM:
            raise MalformedJson(
                f"a decision has form {content['form']}, this vyre reads {FORM}",
                fix="read it with the vyre that wrote it.",
            )
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


def record_of(decision: Decision, version_of: Callable[[Policy], str]) -> DecisionRecord:
    """Returns the written form of a decision.

    ``version_of`` gives the version of a policy's source.  Raises ``InvalidField`` for values that have no written
    form.
    """
    bound = inspect.signature(decision.policy).bind(*decision.arguments)
    bound.apply_defaults()
    arguments = {name: to_json(value) for name, value in bound.arguments.items()}
    tunable = _thresholds(decision.policy)
    inputs = {name: value for name, value in arguments.items() if name not in tunable}
    thresholds = {name: value for name, value in arguments.items() if name in tunable}
    return DecisionRecord(decision.name, version_of(decision.policy), inputs, thresholds, _answer(decision.verdict))


@cache
def _thresholds(policy: Policy) -> frozenset[str]:
    """Returns the names of the parameters that hold thresholds: those whose default is a dataclass."""
    parameters = inspect.signature(policy).parameters.values()
    return frozenset(p.name for p in parameters if is_dataclass(p.default))


def _answer(verdict: object) -> Json:
    if isinstance(verdict, VyreError):
        return {ERROR: type(verdict).__name__, "message": str(verdict)}
    return to_json(verdict)


def to_lines(decisions: Iterable[Decision], version_of: Callable[[Policy], str]) -> str:
    """Returns the written form of all decisions, one record per line."""
    return "".join(f"{record_of(decision, version_of).to_text()}\n" for decision in decisions)


def from_lines(text: str) -> tuple[DecisionRecord, ...]:
    """Parses the output of ``to_lines``.  Raises ``MalformedJson``, which names the line, for anything else."""
    records = []
    for number, line in enumerate(text.removesuffix("\n").split("\n") if text else (), 1):
        try:
            records.append(DecisionRecord.from_text(line))
        except MalformedJson as error:
            message = error.message.removeprefix(f"{error.path}: ")
            raise MalformedJson(message, fix=_FIX, path=f"line {number} {error.path}") from None
    return tuple(records)


# ---- replay
class ReplayOutcome(Enum):
    """The outcome of replaying a recorded decision.

    ``CHANGED_POLICY`` means that the policy's source has changed since the recording, ``DIFFERENT`` that the verdict
    differs although it has not.
    """

    SAME = "same verdict"
    DIFFERENT = "different verdict"
    CHANGED_POLICY = "changed policy version"
    UNKNOWN_POLICY = "unknown policy"


class VerdictDifference(NamedTuple):
    """A difference between two verdicts; ``place`` is a JSON path into the verdict."""

    place: str
    recorded: str
    replayed: str

    def __str__(self) -> str:
        return f"{self.place}: {self.recorded} -> {self.replayed}"


@frozen
class Replayed:
    """A replayed decision.

    ``verdict`` is the verdict of the present policy, None if there is none; ``differences`` lists where it differs from
    the recorded one.  ``reproduced`` is True if nothing differs, which can also hold for a policy whose source has
    changed.
    """

    record: DecisionRecord
    outcome: ReplayOutcome
    reproduced: bool
    verdict: Json = None
    differences: tuple[VerdictDifference, ...] = ()
    why: str = ""


class Known(NamedTuple):
    """A policy as it is now, with the version of its source."""

    policy: Policy
    version: str


@in_default_mode
def replay(record: DecisionRecord, find: Callable[[str], Known | None]) -> Replayed:
    """Takes a recorded decision again and returns the comparison.

    ``find`` returns the policy of a name, or None.  Raises ``MalformedJson`` for inputs with which this very version of
    the policy cannot have been called, or on which it fails.
    """
    known = find(record.policy)
    if known is None:
        return Replayed(record, ReplayOutcome.UNKNOWN_POLICY, False, why=f"there is no policy `{record.policy}`")
    changed = known.version != record.version
    try:
        arguments = _arguments(known.policy, record)
    except MalformedJson as error:
        if not changed:
            raise
        why = f"it no longer takes what was recorded: {error.message}"
        return Replayed(record, ReplayOutcome.CHANGED_POLICY, False, why=why)
    try:
        verdict = _again(known.policy, arguments)
    except Exception as error:  # each argument is one of its type, and together they are of no caller
        raise MalformedJson(f"nobody asks that: {type(error).__name__}: {error}", fix=_FIX, path="$.inputs") from error
    differences = tuple(_differences("$", record.verdict, verdict))
    if changed:
        outcome, why = ReplayOutcome.CHANGED_POLICY, f"version {record.version} then, {known.version} now"
    else:
        outcome, why = ReplayOutcome.DIFFERENT if differences else ReplayOutcome.SAME, ""
    return Replayed(record, outcome, not differences, verdict, differences, why)


def _arguments(policy: Policy, record: DecisionRecord) -> dict[str, Any]:
    hints = get_type_hints(policy)
    tunable = _thresholds(policy)
    arguments = {}
    for part, values in (("inputs", record.inputs), ("thresholds", record.thresholds)):
        expected = [
            name for name in inspect.signature(policy).parameters if (name in tunable) is (part == "thresholds")
        ]
        if values.keys() != set(expected):
            raise MalformedJson(f"it takes {', '.join(expected) or 'nothing'}", fix=_FIX, path=f"$.{part}")
        arguments.update({name: from_json(hints[name], values[name], f"$.{part}.{name}") for name in expected})
    return arguments


def _again(policy: Policy, arguments: dict[str, Any]) -> Json:
    try:
        return _answer(policy(**arguments))
    except VyreError as refusal:
        return _answer(refusal)


def _differences(place: str, recorded: Json, replayed: Json) -> Iterator[VerdictDifference]:
    """Yields the places where two documents differ, as deep down as both have the same shape."""
    if isinstance(recorded, dict) and isinstance(replayed, dict) and recorded.keys() == replayed.keys():
        for name in sorted(recorded):
            yield from _differences(f"{place}.{name}", recorded[name], replayed[name])
    elif isinstance(recorded, list) and isinstance(replayed, list) and len(recorded) == len(replayed):
        for index, (before, after) in enumerate(zip(recorded, replayed, strict=True)):
            yield from _differences(f"{place}[{index}]", before, after)
    elif (before := canonical(recorded)) != (after := canonical(replayed)):
        yield VerdictDifference(place, before, after)
