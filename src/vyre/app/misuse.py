"""Errors for attributes that a session or a result does not have, and for calls with arguments that do not fit.

The methods exist at run time only, so that type checkers go on to refuse these uses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NoReturn

from vyre.domain.errors import UnfitArguments, UnknownName
from vyre.domain.unique import Unique

if TYPE_CHECKING:
    from vyre.domain.ir.foreign_names import Hints

_OWNERS: Final = {"Session": "session", "BoundLaunch": "launch", "Pipeline": "pipeline", "ResidentArray": "array"}


class ForeignSessionUse(Unique):
    """A mixin for the session that explains unknown attributes."""

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            from vyre.domain.ir.foreign_names import SESSION

            _unknown(self, name, "the session", "session", SESSION)


class ForeignResultUse:
    """A mixin for results that explains unknown attributes."""

    __slots__ = ()

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            from vyre.domain.ir.foreign_names import RESULT

            outputs = {name: f'write result["{name}"]'} if not name.startswith("_") and name in self.keys() else RESULT
            _unknown(self, name, "the result", "result", outputs)


def explain_call(error: BaseException | None) -> None:
    """Raises ``UnfitArguments`` if ``error`` says that the arguments of a call of ours do not fit its signature."""
    if type(error) is TypeError:
        from vyre.domain.ir.foreign_calls import explain_call as explain

        explain(error, UnfitArguments, _OWNERS)


def _unknown(thing: object, name: str, what: str, owner: str, hints: Hints) -> NoReturn:
    attributes = [known for known in dir(type(thing)) if not known.startswith("_")]
    if name.startswith("_") or name in attributes:  # private, or a property that failed itself
        raise AttributeError(f"{type(thing).__name__!r} object has no attribute {name!r}")
    from vyre.domain.ir.caller import outside
    from vyre.domain.ir.foreign_names import closest, plain

    near = closest(name, attributes)
    fix = hints.get(plain(name)) or hints.get(name)
    fix = fix or (f"write {owner}.{near}" if near else f"use one of {', '.join(attributes)}")
    raise UnknownName(f"{what} has no attribute `{name}`", fix=f"{fix}.", loc=outside())
