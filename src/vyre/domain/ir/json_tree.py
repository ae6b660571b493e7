"""A reader, without recursion, of trees written as JSON lists ``["tag", field, ...]``.

A ``Grammar`` maps each tag to the kinds of its fields and to a function that builds the node from the fields already
read.  ``fold`` walks a list of statements bottom-up with an explicit stack, within the structural limits, and turns
every defect into ``MalformedJson`` with its path.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias

from vyre.domain.errors import MalformedJson
from vyre.domain.ir.collector import collector_paused
from vyre.domain.ir.limits import MAX_EXPRESSION_DEPTH, MAX_NAME_BYTES, MAX_NODES, MAX_STATEMENT_DEPTH, is_name_too_long
from vyre.domain.ir.stmt import Stmt


class Child(Enum):
    """The kind of a field that holds nodes."""

    EXPR = "an expression"
    OPTIONAL_EXPR = "an expression or null"
    BODY = "a list of statements"
    LABELS = "a list of literals"


Leaf: TypeAlias = Callable[[object], Any]
"""A function that reads a field without nodes in it; raises ``ValueError`` with a description of the defect."""
Field: TypeAlias = Child | Leaf


class Production(NamedTuple):
    """The fields of a node and the function that builds it; the last ``optional`` fields may be missing.

    After ``fields`` those of ``repeated`` may follow any number of times.  The node counts as ``nodes`` nodes, and
    ``repeated_nodes`` more for each repetition.
    """

    fields: tuple[Field, ...]
    build: Callable[..., Any]
    optional: int = 0
    repeated: tuple[Field, ...] = ()
    nodes: int = 1
    repeated_nodes: int = 1

    def fields_of(self, count: int) -> tuple[Field, ...]:
        """Returns the kinds of the fields of a node that has this number of them."""
        if not self.repeated:
            return self.fields
        return self.fields + self.repeated * ((count - len(self.fields)) // len(self.repeated))

    def accepts(self, count: int) -> bool:
        """Returns whether a node may have this number of fields."""
        most = len(self.fields)
        if self.repeated and count > most:
            return (count - most) % len(self.repeated) == 0
        return most - self.optional <= count <= most


def _ignore(*_: object) -> None:
    pass


class Grammar(NamedTuple):
    """Productions by tag; ``labels`` are those of literals, for lists of them.

    ``enter(tag, fields so far)`` and ``leave()`` surround every nested body.  A statement's ``build`` may return
    None, which drops the statement.
    """

    expressions: Mapping[str, Production]
    statements: Mapping[str, Production]
    enter: Callable[[str, list[Any]], None] = _ignore
    leave: Callable[[], None] = _ignore
    labels: Mapping[str, Production] = MappingProxyType({})


class _Frame:
    """A list being read: the fields of one node, or, without a production, a body or labels.

    Labels have depth 0.  ``nodes`` counts the node without the expressions, labels and statements written in it.
    """

    __slots__ = ("depth", "fields", "items", "next", "nodes", "production", "tag", "values")

    def __init__(self, tag: str, production: Production | None, items: list[Any], depth: int) -> None:
        self.tag, self.production, self.items, self.depth = tag, production, items, depth
        self.values: list[Any] = []
        self.fields: tuple[Field, ...] = ()
        if production is None:
            self.next = self.nodes = 0
            return
        self.next, self.nodes = 1, production.nodes
        self.fields = production.fields
        further = len(items) - 1 - len(production.fields)
        if further:
            self.fields = production.fields_of(len(items) - 1)
            # A repetition counts as a node, and so does what a missing field stands for.
            repetitions = further // len(production.repeated) if further > 0 else 0
            self.nodes += repetitions * production.repeated_nodes if further > 0 else -further


_ROOT: Final = "$.entry"
_STATEMENT: Final = -1
"""The depth of a statement or body, so that the expressions in it have depth 0."""


class NodeCount:
    """The number of nodes that have been read; several trees that make one program share it."""

    __slots__ = ("nodes",)

    def __init__(self) -> None:
        self.nodes: int = 0


@collector_paused()
def fold(raw: object, grammar: Grammar, root: str = _ROOT, count: NodeCount | None = None) -> tuple[Stmt, ...]:
    """Returns the statements that ``raw`` describes; raises ``MalformedJson``, with paths below ``root``.

    The nodes are added to ``count``, which the limit of nodes bounds.
    """
    try:
        return _fold(raw, grammar, NodeCount() if count is None else count)
    except MalformedJson as error:
        if root == _ROOT:
            raise
        raise _below(root, error) from None


def _below(root: str, error: MalformedJson) -> MalformedJson:
    """Returns an error with its path below another root."""
    return MalformedJson(
        error.message.removeprefix(f"{error.path}: "), path=root + error.path.removeprefix(_ROOT), fix=error.fix
    )


def _fold(raw: object, grammar: Grammar, count: NodeCount) -> tuple[Stmt, ...]:
    if not isinstance(raw, list):
        raise MalformedJson(f"expected a list of statements, found {brief(raw)}", path=_ROOT)
    frames = [_Frame("", None, raw, _STATEMENT)]
    nodes = count.nodes
    while True:
        frame = frames[-1]
        if frame.next >= len(frame.items):
            frames.pop()
            result = _finish(frame, frames)
            if not frames:
                count.nodes = nodes
                return tuple(result)
            if frame.production is None:
                if frame.depth == _STATEMENT:
                    grammar.leave()
                result = tuple(result)
            if result is not None:
                frames[-1].values.append(result)
            continue
        item = frame.items[frame.next]
        frame.next += 1
        if frame.production is None:
            if frame.depth == _STATEMENT:
                opened = _open(item, grammar.statements, "statement", _STATEMENT, frames)
            else:
                opened = _open(item, grammar.labels, "literal", 0, frames)
            nodes += opened.nodes
            if nodes > MAX_NODES:
                raise _too_large(frames)
            frames.append(opened)
            continue
        kind = frame.fields[frame.next - 2]
        if kind is Child.EXPR or (kind is Child.OPTIONAL_EXPR and item is not None):
            opened = _open(item, grammar.expressions, "expression", frame.depth + 1, frames)
            nodes += opened.nodes
            frames.append(opened)
        elif kind is Child.BODY:
            frames.append(_open_body(item, frames))
            grammar.enter(frame.tag, frame.values)
        elif kind is Child.LABELS:
            frames.append(_open_labels(item, frames))
        elif isinstance(kind, Child):
            frame.values.append(None)
        else:
            frame.values.append(_guard(kind, (item,), frames))
        if nodes > MAX_NODES:
            raise _too_large(frames)


def _open(item: object, table: Mapping[str, Production], what: str, depth: int, frames: list[_Frame]) -> _Frame:
    if not isinstance(item, list) or not item or not isinstance(item[0], str):
        raise MalformedJson(f'expected {what} as ["tag", ...], found {brief(item)}', path=_path(frames))
    if depth > MAX_EXPRESSION_DEPTH:
        raise MalformedJson(
            f"expressions are nested more than {MAX_EXPRESSION_DEPTH} deep",
            path=_path(frames),
            fix="name parts of the expression with let.",
        )
    production = table.get(item[0])
    if production is None:
        raise MalformedJson(f"unknown {what} tag {item[0][:40]!r}", path=_path(frames))
    if len(item) - 1 != len(production.fields) and not production.accepts(len(item) - 1):
        takes = f"{len(production.fields)} fields"
        if production.repeated:
            takes += f" and groups of {len(production.repeated)}"
        raise MalformedJson(f"{what} {item[0]!r} takes {takes}, found {len(item) - 1}", path=_path(frames))
    return _Frame(item[0], production, item, depth)


def _too_large(frames: list[_Frame]) -> MalformedJson:
    return MalformedJson(f"the program has more than {MAX_NODES} nodes", path=_path(frames))


def _open_labels(item: object, frames: list[_Frame]) -> _Frame:
    if not isinstance(item, list):
        raise MalformedJson(f"expected a list of literals, found {brief(item)}", path=_path(frames))
    return _Frame("", None, item, 0)


def _open_body(item: object, frames: list[_Frame]) -> _Frame:
    if not isinstance(item, list):
        raise MalformedJson(f"expected a list of statements, found {brief(item)}", path=_path(frames))
    if item and sum(frame.production is None for frame in frames) > MAX_STATEMENT_DEPTH:
        raise MalformedJson(
            f"statements are nested more than {MAX_STATEMENT_DEPTH} deep",
            path=_path(frames),
            fix="flatten the nesting or split the program.",
        )
    return _Frame("", None, item, _STATEMENT)


def _finish(frame: _Frame, frames: list[_Frame]) -> Any:
    if frame.production is None:
        return frame.values
    return _guard(frame.production.build, tuple(frame.values), frames)


def _guard(call: Callable[..., Any], arguments: tuple[Any, ...], frames: list[_Frame]) -> Any:
    try:
        return call(*arguments)
    except ValueError as error:
        raise MalformedJson(str(error), path=_path(frames)) from None


def _path(frames: list[_Frame]) -> str:
    return _ROOT + "".join(f"[{frame.next - 1}]" for frame in frames)


def brief(value: object) -> str:
    """Returns a short description of any JSON value, however large."""
    if isinstance(value, list):
        return f"a list of {len(value)}"
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, str):
        return repr(value[:40])
    if isinstance(value, int) and value.bit_length() > 128:
        return "a huge integer"
    return repr(value)


def integer(low: int, high: int) -> Leaf:
    """Returns a reader of a JSON integer in ``low..high``; ``true`` and ``1.0`` are refused."""

    def read(value: object) -> int:
        if type(value) is not int or not low <= value <= high:
            raise ValueError(f"expected an integer in {low}..{high}, found {brief(value)}")
        return value

    return read


def choice(table: Mapping[Any, Any], what: str) -> Leaf:
    """Returns a reader of a key of ``table`` (a string or an integer) that yields the key's value."""

    def read(value: object) -> Any:
        if type(value) not in (str, int) or value not in table:
            raise ValueError(f"expected {what}, found {brief(value)}")
        return table[value]

    return read


def hex_bits(digits: int) -> Leaf:
    """Returns a reader of a bit pattern written as exactly ``digits`` lower-case hexadecimal digits."""

    def read(value: object) -> int:
        if not isinstance(value, str) or len(value) != digits or not set(value) <= set("0123456789abcdef"):
            raise ValueError(f"expected {digits} lower-case hexadecimal digits, found {brief(value)}")
        return int(value, 16)

    return read


def text(value: object) -> str:
    """Reads a string."""
    if not isinstance(value, str):
        raise ValueError(f"expected a string, found {brief(value)}")
    if is_name_too_long(value):
        raise ValueError(f"a name has more than {MAX_NAME_BYTES} bytes")
    return value


def optional_text(value: object) -> str | None:
    """Reads a string or null."""
    return None if value is None else text(value)


def boolean(value: object) -> bool:
    """Reads ``true`` or ``false``."""
    if value is not True and value is not False:
        raise ValueError(f"expected true or false, found {brief(value)}")
    return value


def record(value: object, path: str, required: Mapping[str, Leaf], optional: Mapping[str, Leaf]) -> dict[str, Any]:
    """Returns the fields of a JSON object by name, without absent optional ones.  Raises ``MalformedJson``."""
    if not isinstance(value, dict):
        raise MalformedJson(f"expected an object, found {brief(value)}", path=path)
    unknown = [key for key in value if key not in required and key not in optional]
    missing = [key for key in required if key not in value]
    if unknown or missing:
        problem = f"unknown key {brief(unknown[0])}" if unknown else f"missing key {missing[0]!r}"
        raise MalformedJson(problem, path=path)
    fields = {}
    for key, leaf in {**required, **optional}.items():
        if key in value:
            try:
                fields[key] = leaf(value[key])
            except ValueError as error:
                raise MalformedJson(str(error), path=f"{path}.{key}") from None
    return fields
