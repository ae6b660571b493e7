"""``@vyre.function``: functions that kernels call.  Their statements become part of the kernel."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from functools import lru_cache
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, Final, Generic, ParamSpec, TypeVar

from vyre.domain.errors import KernelSourceError
from vyre.domain.frontend.captures import Captured
from vyre.domain.frontend.carrying import Carried, Remaking, names_in
from vyre.domain.frontend.names import Names, names_of
from vyre.domain.frontend.source import Source, carried_source, source_of
from vyre.domain.ir.numpy_scalars import value_type
from vyre.domain.ir.types import ScalarType

if TYPE_CHECKING:
    from vyre.domain.frontend.typed_calls import TypedCalls as _Calls
else:
    _Calls = Generic

P = ParamSpec("P")
R = TypeVar("R")


class Inlined(Carried, _Calls[P, R]):
    """A function of kernels.  Called by Python, it is the Python function that it was made of."""

    def __init__(self, function: Callable[P, R], local_names: Mapping[str, Any], lines: tuple[str, ...] = ()) -> None:
        """``lines``: the text of the function, where another process has read it."""
        self.function: Final = function
        self._local_names = local_names
        self.__name__: str = function.__name__
        self.__qualname__: str = function.__qualname__
        self.__module__: str = function.__module__
        self.__doc__ = function.__doc__
        self.__wrapped__: Callable[P, R] = function
        assert isinstance(function, FunctionType)
        self.captured: Final = Captured(function)
        self._source = carried_source(function, lines) if lines else source_of(function)
        self._names: Names | None = None
        self._annotated: dict[str, ScalarType | None] = {}

    if not TYPE_CHECKING:

        def __call__(self, *arguments: P.args, **named: P.kwargs) -> R:
            return self.function(*arguments, **named)

    @property
    def source(self) -> Source:
        """Returns the source of the code that the function has now."""
        if self._source.code is not self.captured.function.__code__:
            self._source, self._names, self._annotated = source_of(self.captured.function), None, {}
        return self._source

    @property
    def names(self) -> Names:
        """Returns how the local names are kept."""
        tree = self.source.tree
        if self._names is None:
            self._names = names_of(tree, frozenset(argument_names(tree)))
        return self._names

    def annotated(self, parameter: ast.arg) -> ScalarType | None:
        """Returns the scalar type with which a parameter is annotated; None for none, and for any other annotation.

        Raises ``KernelSourceError`` for an annotation that means nothing, and for a type that no value has.
        """
        if parameter.annotation is None:
            return None
        if parameter.arg in self._annotated:
            return self._annotated[parameter.arg]
        assert isinstance(self.function, FunctionType)
        annotated = annotation_of(self.function, self.source, self._local_names, parameter.annotation, parameter.arg)
        dtype = annotated if isinstance(annotated, ScalarType) else value_type(annotated)
        if dtype is not None and not dtype.is_executable:
            fix = f"write {dtype.widened.text}; arrays of {dtype.text} narrow what is stored to them."
            self.source.fail(parameter, f"no value has the type {dtype.text}, which exists in arrays only", fix)
        self._annotated[parameter.arg] = dtype
        return dtype

    def _remaking(self) -> Remaking:
        return Inlined, (names_in(self.source, self.captured.function, self._local_names), self.source.lines)

    def __repr__(self) -> str:
        return f"<vyre.function {self.__name__}>"


def argument_nodes(tree: ast.FunctionDef) -> tuple[ast.arg, ...]:
    """Returns the parameters of a function, in order."""
    arguments = tree.args
    return (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)


def argument_names(tree: ast.FunctionDef) -> list[str]:
    """Returns the names of the parameters of a function, in order."""
    return [one.arg for one in argument_nodes(tree)]


# ---------------------------------------------------------------- annotations
def annotation_of(
    function: FunctionType, source: Source, local_names: Mapping[str, Any], node: ast.expr, parameter: str | None = None
) -> Any:
    """Returns what an annotation means; ``parameter`` is the name of the parameter that has it.

    ``local_names``: the names of the function in which this one was made.  Raises ``KernelSourceError``.
    """
    annotated = _annotations(function).get(parameter) if parameter is not None else None
    if annotated is not None and not isinstance(annotated, str):
        return annotated
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        text = node.value
    else:
        text = annotated if isinstance(annotated, str) else ast.unparse(node)
    names = dict(local_names)
    for name in function.__code__.co_freevars:
        try:
            names[name] = Captured(function)(name)
        except KeyError:
            continue
    names |= {one.__name__: one for one in getattr(function, "__type_params__", ())}
    try:
        return eval(_code(text), function.__globals__, names)  # an annotation is the user's own code
    except KernelSourceError:
        raise
    except Exception as error:
        source.fail(node, f"the annotation `{text}` cannot be read: {error}", "import or define what it names.")


@lru_cache(maxsize=512)
def _code(text: str) -> CodeType:
    """Returns the code that evaluates an annotation; most kernels have the same few."""
    return compile(text.strip(), "<annotation>", "eval")


def _annotations(function: FunctionType) -> Mapping[str, Any]:
    """Returns the annotations of a function; empty where they cannot be evaluated yet."""
    try:
        return function.__annotations__
    except NameError:  # CPython 3.14 evaluates them when they are asked for
        return {}
