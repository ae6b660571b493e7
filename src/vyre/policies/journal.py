"""Taking decisions: code whose decisions are to be recorded calls a policy through ``decide``, which passes each
decision to a ``DecisionSink``.  ``decision_records`` writes them down.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar, TypeVarTuple

from vyre.domain.errors import VyreError
from vyre.domain.float_mode import in_default_mode

T = TypeVar("T")
Arguments = TypeVarTuple("Arguments")
Policy: TypeAlias = Callable[..., object]


class Decision(NamedTuple):
    """One call of a policy: ``policy`` was called with ``arguments`` and returned ``verdict``.

    If the policy raised a ``VyreError``, ``verdict`` is that error.
    """

    policy: Policy
    arguments: tuple[object, ...]
    verdict: object

    @property
    def name(self) -> str:
        """The name under which journals list the policy."""
        return name_of(self.policy)


class DecisionSink(Protocol):
    """A receiver of decisions.  Its methods never raise and may be called from any thread."""

    @property
    def keeps(self) -> bool:
        """Whether decisions are kept, so that a caller may pass arguments that say more than deciding needs.  Never
        changes.
        """

    def note(self, decision: Decision, /) -> None:
        """Receives one decision."""


@in_default_mode
def decide(sink: DecisionSink | None, policy: Callable[[*Arguments], T], *arguments: *Arguments) -> T:
    """Returns ``policy(*arguments)`` and passes the decision to ``sink``, unless that is None.

    A ``VyreError`` that the policy raises is passed to the sink as the verdict, and then raised.  With a sink,
    iterators are read into tuples before the call and lists are copied, so that the recorded arguments cannot change.
    """
    if sink is None:
        return policy(*arguments)
    kept: Any = arguments
    for argument in arguments:
        if isinstance(argument, list) or hasattr(argument, "__next__"):
            kept = tuple(tuple(each) if isinstance(each, list | Iterator) else each for each in arguments)
            break
    try:
        verdict = policy(*kept)
    except VyreError as refusal:
        sink.note(Decision(policy, kept, refusal))
        raise
    sink.note(Decision(policy, kept, verdict))
    return verdict


def sifted(sink: DecisionSink | None, passes: Callable[[Decision], bool]) -> DecisionSink | None:
    """Returns a sink that passes to ``sink`` the decisions for which ``passes`` is true; None if ``sink`` is None.

    Example: a question that is asked at every call is recorded only when its answer changes.
    """
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
    """Returns the name of a decision in journals: the name of its function, whichever module defines it."""
    return policy.__name__


def verdict_label(verdict: object) -> str:
    """Returns a few words for the outcome of a decision, out of a small set, for use as a telemetry label.

    - A ``bool``: ``true`` or ``false``.
    - A collection: ``some``, or ``none`` if it is empty.
    - A verdict with an attribute ``label``: that label.
    - An enum, or a verdict with a field that is one: the name of the (first) enum member in lower case.
    - Anything else, such as one of several verdict classes or an error: the name of its class.
    """
    if isinstance(verdict, bool):
        return str(verdict).lower()
    if isinstance(verdict, Collection):
        return "some" if verdict else "none"
    label: str | None = getattr(verdict, "label", None)
    if label is not None:
        return label
    values = (getattr(verdict, f.name) for f in fields(verdict)) if is_dataclass(verdict) else ()
    chosen = next((value for value in (verdict, *values) if isinstance(value, Enum)), None)
    return type(verdict).__name__ if chosen is None else chosen.name.lower()
