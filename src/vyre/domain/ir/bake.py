"""Programs with fixed scalar parameters: each read of such a parameter becomes a constant that compilers can fold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from vyre.domain.errors import InvalidInput
from vyre.domain.ir.expr import Literal, Load, SpecConst
from vyre.domain.ir.node import Node
from vyre.domain.ir.node_facts import node_facts
from vyre.domain.ir.program import Program
from vyre.domain.ir.rebuilding import rebuilt
from vyre.domain.ir.types import ScalarType


def baked(program: Program, values: Mapping[str, bytes]) -> Program:
    """Returns ``program`` with these parameters fixed to these bytes, encoded as inputs are (bool: a 32-bit word).

    The parameters stay in the interface, so that the result takes the inputs of ``program``; it ignores other values
    of these inputs and uses those in ``values``.  Shared nodes stay shared.  O(nodes).  Raises ``InvalidInput`` for a
    name that is no scalar parameter, and for bytes of another length.
    """
    literals = {name: parameter_literal(program, name, data) for name, data in values.items()}

    def fixed(node: Node) -> Node:
        return literals.get(node.buffer, node) if isinstance(node, Load) else node

    return replace(program, body=rebuilt(program.body, fixed))


def with_constants(program: Program, values: Mapping[str, Literal]) -> Program:
    """Returns ``program`` with each specialization constant replaced by its value, or by its default.

    Shared nodes stay shared.  It is ``program`` itself if there is no constant.  O(nodes).
    """
    if SpecConst not in node_facts(program).types:
        return program

    def fixed(node: Node) -> Node:
        return values.get(node.name, node.default) if isinstance(node, SpecConst) else node

    return replace(program, body=rebuilt(program.body, fixed))


def parameter_literal(program: Program, name: str, data: bytes) -> Literal:
    """Returns the value of a scalar parameter for which a caller passes these bytes; raises the errors of ``baked``."""
    buffer = program.buffers_by_name.get(name)
    if buffer is None or not buffer.is_push or not isinstance(buffer.element, ScalarType):
        raise InvalidInput(f"`{name}` is no scalar parameter", fix="name a parameter that `ProgramBuilder.param` made.")
    if len(data) != buffer.static_nbytes:
        raise InvalidInput(
            f"`{name}` has {buffer.static_nbytes} bytes, not {len(data)}", fix="pass the bytes of one element."
        )
    bits = int.from_bytes(data, "little")
    return Literal(buffer.element, int(bits != 0) if buffer.element is ScalarType.BOOL else bits)
