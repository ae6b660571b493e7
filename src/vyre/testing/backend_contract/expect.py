"""How contract cases end, and their expectations: a violated one raises ``Violation``, with ``python -O`` too."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import TypeVar

from vyre.domain.errors import ErrorCode, VyreError

ErrorT = TypeVar("ErrorT", bound=VyreError)
_SHOWN = 400


class Skipped(Exception):
    """The backend lacks what the case needs; the text names it."""


class Violation(AssertionError):
    """The backend breaks the rule of the case."""


def equal(actual: object, wanted: object, what: str = "the answer") -> None:
    """Raises ``Violation`` unless the values are equal."""
    if actual != wanted:
        raise Violation(f"{what} is {_short(actual)}, not {_short(wanted)}")


def holds(condition: bool, rule: str) -> None:
    """Raises ``Violation`` with ``rule`` unless the condition is true."""
    if not condition:
        raise Violation(rule)


def refusal(expected: type[ErrorT] | tuple[type[ErrorT], ...], call: Callable[[], object]) -> ErrorT:
    """Returns the error of ``call``, which must be of an expected type and well formed (``check_error``)."""
    names = " or ".join(e.__name__ for e in (expected if isinstance(expected, tuple) else (expected,)))
    try:
        call()
    except expected as error:
        check_error(error)
        return error
    except Skipped:
        raise
    except Exception as error:
        raise Violation(f"{type(error).__name__} is raised instead of {names}: {error}") from error
    raise Violation(f"nothing is raised, {names} is expected")


def check_error(error: VyreError) -> None:
    """Raises ``Violation`` unless ``error`` has its own code, a message and a fix, and survives pickling."""
    name = type(error).__name__
    holds(isinstance(error.code, ErrorCode) and error.code is not ErrorCode.UNKNOWN, f"{name} has no code of its own")
    holds(bool(error.message.strip()), f"{name} says nothing")
    holds(bool(error.fix.strip()) and f"Fix: {error.fix}" in str(error), f"{name} says no fix: {error}")
    copy = pickle.loads(pickle.dumps(error))
    equal(type(copy), type(error), f"the type of an unpickled {name}")
    equal((str(copy), copy.code, copy.fix), (str(error), error.code, error.fix), f"an unpickled {name}")


def _short(value: object) -> str:
    text = value.hex() if isinstance(value, bytes) else repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}... ({len(text)} characters)"
