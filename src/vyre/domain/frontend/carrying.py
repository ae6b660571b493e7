"""Kernels and their functions in other processes.

``pickle`` names them, as it does with functions.  ``cloudpickle``, and with it joblib's workers, hands over functions
of ``__main__`` and local ones with what they use.  So either is pickled as a Python function, which has the text with
it that a process without the file cannot read.
"""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import cached_property, update_wrapper
from types import FunctionType
from typing import Any, TypeAlias

from vyre.domain.frontend.source import Source

Remaking: TypeAlias = "tuple[Callable[..., object], tuple[object, ...]]"
"""The function that makes an object anew from a Python function, and its further arguments."""


class Carried(ABC):
    """A base of kernels and of functions of kernels."""

    __wrapped__: Any

    @abstractmethod
    def _remaking(self) -> Remaking:
        """Returns how another process makes it."""

    @cached_property
    def carrier(self) -> Any:
        """The function that is pickled instead: by this name, or with all that it uses."""
        function: FunctionType = self.__wrapped__
        copied = FunctionType(
            function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
        )
        copied.__kwdefaults__ = function.__kwdefaults__
        update_wrapper(copied, function, updated=())
        copied.__qualname__ += ".carrier"
        copied.__dict__ = {"back": _Back(self)}
        return copied

    def __reduce__(self) -> tuple[Callable[[FunctionType], object], tuple[FunctionType]]:
        return _restored, (self.carrier,)


class _Back:
    """The way from a carrier back to its object, which another process makes first."""

    __slots__ = ("original", "remaking")

    def __init__(self, original: object, remaking: Remaking | None = None) -> None:
        self.original, self.remaking = original, remaking

    def __reduce__(self) -> tuple[type[_Back], tuple[None, Remaking]]:
        assert isinstance(self.original, Carried)
        return _Back, (None, self.original._remaking())


def _restored(function: FunctionType) -> object:
    back: _Back = function.__dict__["back"]
    if back.remaking is not None and back.original is None:
        make, arguments = back.remaking
        function.__qualname__ = function.__qualname__.removesuffix(".carrier")
        back.original = make(function, *arguments)
    return back.original


def names_in(source: Source, function: FunctionType, local_names: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what the annotations of a definition name: a function is pickled with what its code uses alone."""
    annotations = [node.annotation for node in ast.walk(source.tree) if isinstance(node, ast.arg | ast.AnnAssign)]
    texts = [ast.unparse(each) for each in annotations if each is not None]
    texts += [each.value for each in annotations if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    named = {node.id for text in texts for node in ast.walk(ast.parse(text.strip())) if isinstance(node, ast.Name)}
    known = {**function.__globals__, **local_names}
    return {name: known[name] for name in named.difference(function.__code__.co_freevars) if name in known}
