"""Arithmetic of f16 and bf16 by their own instructions, where that gives the bits of an f32 that is narrowed.

An f32 has 24 bits of precision, which are at least 2 * 11 + 2 and 2 * 8 + 2: a sum, difference or product of two values
of f16 or of bf16 that is rounded to f32 and then to their type is rounded as if once, subnormal results included.  PTX
has no quotient and no root of these types, and of ``fma`` the theorem does not hold.  An explicit ``.rn`` keeps the
assembler from contracting products and sums.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Final

from vyre.adapters.cuda.decisions.ptx_target import HALF_FROM
from vyre.adapters.cuda.ptx.operands import Immediate, Register
from vyre.adapters.cuda.ptx.values import Rounding, Value
from vyre.adapters.cuda.ptx.writer import Writer
from vyre.domain.ir.operators import BinaryOp
from vyre.domain.ir.types import ScalarType
from vyre.domain.numerics import scalar

_S = ScalarType
NAN: Final = {_S.F16: Immediate("0x7E00"), _S.BF16: Immediate("0x7FC0")}
_OPERATIONS: Final = {BinaryOp.ADD: "add.rn", BinaryOp.SUB: "sub.rn", BinaryOp.MUL: "mul.rn"}
_REGISTER: Final = re.compile(r"%[a-z]+\d+")
_UNREAD: Final = re.compile(r"(?:(?:add|sub|mul)\.rn\.f32|cvt\.(?:f32\.f16|u32\.u16)|shl\.b32|mov\.b32) (%[rf]\d+), ")


def rounding_of(target: int, op: BinaryOp, left: Value, right: Value) -> Rounding | None:
    """Returns how a result of f32 is computed where it becomes a value of its operands' type; None: by rounding it."""
    element = next((x.half.dtype for x in (left, right) if x.half is not None), None)
    if op not in _OPERATIONS or element is None or target < HALF_FROM[element]:
        return None
    both = _is_of(element, left) and _is_of(element, right)
    return Rounding(element, _OPERATIONS[op], (left, right)) if both else None


def _is_of(element: ScalarType, x: Value) -> bool:
    if x.bits is not None:
        return x.number and scalar.narrow(element, x.bits) == x.bits
    return x.half is not None and x.half.dtype is element


def rounded(w: Writer, element: ScalarType, x: Value) -> Register | None:
    """Returns the ``element`` to which an f32 rounds, computed without the f32; None if there is no such way."""
    rounding = x.rounding
    if rounding is None or rounding.element is not element:
        return None
    w.computes_halves = True
    first, *others = (_register(w, element, operand) for operand in rounding.operands)
    return w.emit("h", f"{rounding.operation}.{element.text}", first, *others) if others else first


def _register(w: Writer, element: ScalarType, x: Value) -> Register:
    if x.bits is not None:
        return w.emit("h", "mov.b16", Immediate(f"0x{scalar.pack(element, x.bits):04X}"))
    register = (x.half or x).operand
    assert isinstance(register, Register)
    if register.startswith("%f"):
        register = w.emit("r", "shr.u32", w.emit("r", "mov.b32", register), 16)
    return w.emit("h", "cvt.u16.u32", register) if register.startswith("%r") else register


def canonical(w: Writer, element: ScalarType, half: Register) -> Register:
    """Returns an element with NaN made canonical."""
    nan = w.emit("p", f"setp.nan.{element.text}", half, half)
    return w.emit("h", "selp.b16", NAN[element], half, nan)


def drop_unread(w: Writer) -> None:
    """Empties the lines that made an f32 of an element, or computed with one, where nothing reads it any more."""
    if not w.computes_halves:
        return
    uses = Counter(name for line in w.body for name in _REGISTER.findall(line))
    for number in range(len(w.body) - 1, -1, -1):
        unread = _UNREAD.match(w.body[number])
        if unread and uses[unread[1]] == 1:
            uses.subtract(_REGISTER.findall(w.body[number]))
            w.body[number] = ""
