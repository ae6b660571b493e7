"""The bits of an operator on constant operands: one table, by the class of its node, over ``numerics.scalar``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from vyre.domain.ir import nodes as ir
from vyre.domain.ir.node import Node
from vyre.domain.numerics import scalar

CONVERSIONS: Final[dict[type[Node], Callable[[Any, Any, int], int]]] = {
    ir.Cast: scalar.cast,
    ir.Bitcast: scalar.bitcast,
    ir.WrapCast: scalar.wrap_cast,
    ir.Narrow: lambda source, target, bits: scalar.narrow(target, bits),
    ir.Pack: lambda source, target, bits: scalar.pack(target, bits),
    ir.Unpack: lambda source, target, bits: scalar.unpack(target, bits),
}
"""The rule of each conversion on bit patterns, from source type, target type and bits."""

FOLD: Final[dict[type[Node], Callable[..., int]]] = {
    ir.Binary: scalar.binary,
    ir.Unary: scalar.unary,
    ir.Select: lambda _, condition, chosen, on_true, on_false: int(on_true if chosen else on_false),
    ir.Fma: lambda _, dtype, a, b, c: scalar.fma(dtype, a, b, c),
    **{cls: (lambda target, source, bits, rule=rule: rule(source, target, bits)) for cls, rule in CONVERSIONS.items()},
}
"""The rule of each operator: from its operator or target type (None without one), the type of its first operand, and
the bits of its operands.
"""


def folded(node: Any) -> int:
    """Returns the bits of a node of a class in ``FOLD`` whose operands are literals."""
    operands = ir.CHILDREN[type(node)](node)
    return FOLD[type(node)](
        ir.DISTINCTIONS[type(node)](node), operands[0].dtype, *[operand.bits for operand in operands]
    )
