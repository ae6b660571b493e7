"""Turns Python's ``TypeError`` for arguments that do not fit a signature into a typed error that shows the signature.

Errors are examined where a ``with`` block ends with one, so that calls cost nothing; outside of blocks they stay as
they are.
"""

from __future__ import annotations

import builtins
import inspect
import re
import sys
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Final, ParamSpec

from vyre.domain.errors import LocatedError, UnsupportedUse
from vyre.domain.ir.caller import given_location, is_ours, outside, was_entered
from vyre.domain.ir.foreign_names import closest
from vyre.domain.ir.foreign_use import explain_unbound
from vyre.domain.source_location import UNSHOWN, SourceLocation

Called = Callable[..., object]
P = ParamSpec("P")
_OWNERS: Final = {
    "ProgramBuilder": "p",
    "SharedBuilder": "p",
    "BufferHandle": "buffer",
    "Atomics": "buffer",
    "SwitchArms": "s",
    "Variable": "v",
    "Value": "x",
    "ScalarType": "f32",
}
_UNKNOWN_KEYWORD: Final = re.compile(r"unexpected keyword argument '(\w+)'")
_UNFIT: Final = re.compile(r"(?:(\w+)\.)?(\w+)\(\) (?:missing|takes|got) ")


def explain_call(error: BaseException, raised: type[LocatedError], owners: Mapping[str, str]) -> None:
    """Raises ``raised`` if ``error`` says that the arguments of a public function or method of vyre do not fit.

    ``owners`` maps the name of a class to the name that the fix gives an instance of it.
    """
    unfit = _UNFIT.match(str(error)) if type(error) is TypeError else None
    from traceback import walk_tb  # only for errors

    frames = [(frame, line) for frame, line in walk_tb(error.__traceback__) if not is_ours(frame)]
    if unfit is None or not frames:
        return
    frame, line = frames[-1]
    called = _called({**frame.f_globals, **frame.f_locals}, unfit[1], unfit[2])
    if called is not None:
        loc = given_location() or SourceLocation(frame.f_code.co_filename, line, None, UNSHOWN)
        _tell(error, called, raised, owners, loc)


def _called(names: Mapping[str, object], cls: str | None, name: str) -> Called | None:
    """Returns the function of vyre that ``cls.name()`` in a message refers to, or None.

    Other libraries use the same words, so the function, the class or an instance of it must be among ``names``.
    """
    if name.startswith("_") and name not in ("__init__", "__call__"):
        return None
    if cls is None:
        package = sys.modules["vyre"]
        is_by_module = name not in names and not hasattr(builtins, name) and package in names.values()
        function = getattr(package, name, None) if is_by_module else names.get(name)
        return function if inspect.isfunction(function) and _is_vyres(function) else None
    for value in names.values():
        for base in (value if isinstance(value, type) else type(value)).__mro__:
            if base.__name__ == cls and _is_vyres(base) and inspect.isfunction(method := vars(base).get(name)):
                return method
    return None


def _is_vyres(thing: type | Called) -> bool:
    return thing.__module__.partition(".")[0] == "vyre"


def _tell(
    error: BaseException, called: Called, raised: type[LocatedError], owners: Mapping[str, str], loc: SourceLocation
) -> None:
    text = str(error).partition(". Did you mean ")[0]  # of Python 3.13
    text = text.replace("SharedBuilder.", "ProgramBuilder.")  # the class that users know
    raise raised(text, fix=f"{_fix(text, called, owners)}.", loc=loc) from error


def _fix(text: str, called: Called, owners: Mapping[str, str]) -> str:
    """Returns the call with its parameters, ``write p.param(name, dtype)``, or the nearest keyword."""
    cls, _, name = called.__qualname__.rpartition(".")
    owner = owners.get(cls, cls)
    target = {"": name}.get(cls, {"__init__": cls, "__call__": owner}.get(name, f"{owner}.{name}"))
    parameters = list(inspect.signature(called).parameters.values())[bool(cls) :]
    unknown = _UNKNOWN_KEYWORD.search(text)
    if unknown is not None and (near := closest(unknown[1], [p.name for p in parameters])):
        return f"write {near}=value"
    keywords = [p for p in parameters if p.kind is p.KEYWORD_ONLY]
    shown = [str(p.replace(annotation=p.empty)) for p in parameters if p not in keywords]
    shown += [f"{p.name}=..." for p in keywords if p.default is p.empty]
    optional = ", ".join(p.name for p in keywords if p.default is not p.empty and p.name != "loc")
    inputs = "; inputs are one dict or one list" if any(p.name == "inputs" for p in parameters) else ""
    return f"write {target}({', '.join(shown)}){f', and by keyword {optional}' if optional else ''}{inputs}"


def explain(error: BaseException) -> None:
    """Raises the typed error for a mistake that Python itself reports in the code of a kernel, if it is one."""
    explain_unbound(error)
    explain_call(error, UnsupportedUse, _OWNERS)


def explained(construct: Callable[P, None]) -> Callable[P, None]:
    """Returns ``__init__`` with its errors examined at once, since no ``with`` block is open yet."""

    @wraps(construct)
    def init(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            construct(*args, **kwargs)
        except TypeError as error:
            if not was_entered(error):
                _tell(error, construct, UnsupportedUse, _OWNERS, outside())
            raise

    return init
