"""A program with scalar parameters fixed: each reading of them becomes a constant that compilers can fold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from vyre.domain.errors import InvalidInput
from vyre.domain.ir.expr import Literal, Load
from vyre.domain.ir.node import Node
from vyre.domain.ir.program import Program
from vyre.domain.ir.types import ScalarType


def baked(program: Program, values: Mapping[str, bytes]) -> Program:
    """``program`` for callers that pass these parameters these bytes, as inputs have them (bool: a 32-bit word).

    The parameters stay in its interface, so it takes the inputs of ``program``; on inputs with other values it goes by
    those in ``values``.  Shared nodes stay shared.  O(nodes).  Raises ``InvalidInput`` for what is no scalar parameter,
    and for bytes of another length.
    """
    literals = {name: parameter_literal(program, name, data) for name, data in values.items()}
    made: dict[int, Any] = {}
    stack: list[Node | tuple[Any, ...]] = [program.body]
    while stack:
        item = stack[-1]
        parts = item if isinstance(item, tuple) else [getattr(item, name) for name in item.__match_args__]
        waiting = [part for part in parts if isinstance(part, Node | tuple) and id(part) not in made]
        if waiting:
            stack += waiting
            continue
        stack.pop()
        made[id(item)] = _rebuilt(item, made, literals)
    return replace(program, body=made[id(program.body)])


def _rebuilt(item: Node | tuple[Any, ...], made: Mapping[int, Any], literals: Mapping[str, Literal]) -> Any:
    """The same object if nothing below it has changed."""
    if isinstance(item, Load) and item.buffer in literals:
        return literals[item.buffer]
    if isinstance(item, tuple):
        parts = tuple(made.get(id(part), part) for part in item)
        return item if all(new is old for new, old in zip(parts, item, strict=True)) else parts
    changed = {}
    for name in item.__match_args__:
        old = getattr(item, name)
        new = made.get(id(old), old)
        if new is not old:
            changed[name] = new
    return replace(item, **changed) if changed else item


def parameter_literal(program: Program, name: str, data: bytes) -> Literal:
    """The value that a scalar parameter has when a caller passes these bytes; raises as ``baked`` does."""
    buffer = program.buffers_by_name.get(name)
    if buffer is None or not buffer.is_push or not isinstance(buffer.element, ScalarType):
        raise InvalidInput(f"`{name}` is no scalar parameter", fix="name a parameter that `ProgramBuilder.param` made.")
    if len(data) != buffer.static_nbytes:
        raise InvalidInput(
            f"`{name}` has {buffer.static_nbytes} bytes, not {len(data)}", fix="pass the bytes of one element."
        )
    bits = int.from_bytes(data, "little")
    return Literal(buffer.element, int(bits != 0) if buffer.element is ScalarType.BOOL else bits)
