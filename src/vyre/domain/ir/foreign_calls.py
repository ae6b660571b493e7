"""Turns Python's ``TypeError`` for arguments that do not fit a signature into a typed error that shows the signature.

Errors are examined where a ``with`` block ends with one, so that calls cost nothing; outside of blocks they stay as
they are.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import cache, wraps
from traceback import walk_tb
from typing import Final, ParamSpec

from vyre.domain.errors import LocatedError, UnsupportedUse
from vyre.domain.ir.caller import is_ours, outside
from vyre.domain.ir.foreign_names import closest
from vyre.domain.ir.foreign_use import explain_unbound
from vyre.domain.ir.node import SourceLocation

Callables = Mapping[str, Callable[..., object]]
P = ParamSpec("P")
_OWNERS: Final = {
    "ProgramBuilder": "p",
    "BufferHandle": "buffer",
    "Variable": "v",
    "Value": "x",
    "ScalarType": "f32",
}
_UNKNOWN_KEYWORD: Final = re.compile(r"unexpected keyword argument '(\w+)'")
_UNFIT: Final = re.compile(r"([\w.]+)\(\) (?:missing|takes|got) ")


def methods(classes: Iterable[type], *special: str) -> Callables:
    """Returns the public methods of the classes, and the ``special`` ones, as Python names them in a ``TypeError``."""
    return {
        found.__qualname__: found
        for cls in classes
        for name, found in vars(cls).items()
        if inspect.isfunction(found) and (not name.startswith("_") or name in special)
    }


def explain_call(
    error: BaseException, callables: Callables, raised: type[LocatedError], owners: Mapping[str, str]
) -> None:
    """Raises ``raised`` if ``error`` says that the arguments of one of ``callables`` do not fit.

    ``owners`` maps the name of a class to the name that the fix gives an instance of it.
    """
    found = _UNFIT.match(str(error)) if type(error) is TypeError else None
    if found is None or (called := callables.get(found[1])) is None:
        return
    frames = [(frame, line) for frame, line in walk_tb(error.__traceback__) if not is_ours(frame)]
    loc = outside()
    if frames:
        frame, line = frames[-1]
        if not _is_in_use({**frame.f_globals, **frame.f_locals}, called):
            return
        loc = SourceLocation(frame.f_code.co_filename, line)
    text = str(error).partition(". Did you mean ")[0]  # of Python 3.13
    raise raised(text, fix=f"{_fix(text, called, owners)}.", loc=loc) from error


def _is_in_use(names: Mapping[str, object], called: Callable[..., object]) -> bool:
    """Returns whether ``called``, or an instance of its class, is among the names: others use the same words."""
    module = sys.modules[called.__module__]
    cls = getattr(module, called.__qualname__.partition(".")[0])
    if isinstance(cls, type):
        return any(held is cls or isinstance(held, cls) for held in names.values())
    held = names.get(called.__name__)
    return held is called or (held is None and sys.modules["vyre"] in names.values())


def _fix(text: str, called: Callable[..., object], owners: Mapping[str, str]) -> str:
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
    optional = ", ".join(p.name for p in keywords if p.default is not p.empty)
    inputs = "; inputs are one dict or one list" if any(p.name == "inputs" for p in parameters) else ""
    return f"write {target}({', '.join(shown)}){f', and by keyword {optional}' if optional else ''}{inputs}"


def explain(error: BaseException) -> None:
    """Raises the typed error for a mistake that Python itself reports in the code of a kernel, if it is one."""
    explain_unbound(error)
    if type(error) is TypeError:
        explain_call(error, _surface(), UnsupportedUse, _OWNERS)


@cache
def _surface() -> Callables:
    from vyre.domain.ir import functions
    from vyre.domain.ir.builder import ProgramBuilder
    from vyre.domain.ir.handles import BufferHandle, Variable
    from vyre.domain.ir.types import ScalarType
    from vyre.domain.ir.value import Value

    classes = (ProgramBuilder, BufferHandle, Variable, Value, ScalarType)
    return {
        **methods(classes, "__call__", "__init__"),
        **{name: getattr(functions, name) for name in functions.__all__},
    }


def explained(construct: Callable[P, None]) -> Callable[P, None]:
    """Returns ``__init__`` with its errors examined at once, since no ``with`` block is open yet."""

    @wraps(construct)
    def init(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            construct(*args, **kwargs)
        except TypeError as error:
            if error.__traceback__ is not None and error.__traceback__.tb_next is None:  # it was not even entered
                explain(error)
            raise

    return init
