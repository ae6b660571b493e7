"""An interpreter of bytecode: every lane runs a program of its own on a stack in private memory.

The programs lie one after another in a buffer of bytes.  A lane starts at its entry, takes two arguments, and halts
with the top of its stack as the result.
"""

from __future__ import annotations

from enum import IntEnum
from math import factorial, gcd

import numpy as np

import vyre
from vyre import In, Out, like, u8, u32
from vyre.gallery.example import Case, Example, random_u32

STACK = 16
LANES = 10_000


class Op(IntEnum):
    """The instructions; ``PUSH`` is followed by a constant, a jump by the distance from its own byte, modulo 256."""

    HALT = 0
    PUSH = 1
    FIRST = 2
    SECOND = 3
    ADD = 4
    SUB = 5
    MUL = 6
    MOD = 7
    DUP = 8
    SWAP = 9
    ROT = 10
    JUMP = 11
    JUMP_IF_ZERO = 12


@vyre.kernel(workgroup=128)
def stack_machine(
    code: In[u8], entry: In[u32], first: In[u32], second: In[u32], result: Out[u32, like("entry")]
) -> None:
    """One lane runs one program."""
    stack = vyre.private_array(u32, STACK)
    lane = vyre.global_id()
    if lane >= len(entry):
        return
    pc = entry[lane]
    size = 0
    while code[pc] != Op.HALT:
        start = pc
        pc = start + 1
        match code[start]:
            case Op.PUSH:
                stack[size] = code[start + 1]
                size += 1
                pc = start + 2
            case Op.FIRST:
                stack[size] = first[lane]
                size += 1
            case Op.SECOND:
                stack[size] = second[lane]
                size += 1
            case Op.ADD:
                size -= 1
                stack[size - 1] += stack[size]
            case Op.SUB:
                size -= 1
                stack[size - 1] -= stack[size]
            case Op.MUL:
                size -= 1
                stack[size - 1] *= stack[size]
            case Op.MOD:
                size -= 1
                stack[size - 1] %= stack[size]
            case Op.DUP:
                stack[size] = stack[size - 1]
                size += 1
            case Op.SWAP:
                stack[size - 2], stack[size - 1] = stack[size - 1], stack[size - 2]
            case Op.ROT:
                a, b, c = stack[size - 3], stack[size - 2], stack[size - 1]
                stack[size - 3], stack[size - 2], stack[size - 1] = b, c, a
            case Op.JUMP:
                pc = (start + code[start + 1]) & 0xFF
            case Op.JUMP_IF_ZERO:
                size -= 1
                pc = (start + code[start + 1]) & 0xFF if stack[size] == 0 else start + 2
            case _:
                vyre.trap(start, "unknown instruction")
    result[lane] = stack[size - 1]


POLYNOMIAL = (Op.FIRST, Op.DUP, Op.MUL, Op.PUSH, 3, Op.MUL, Op.SECOND, Op.SUB, Op.HALT)
"""Leaves 3 a^2 - b."""
EUCLID = (
    *(Op.FIRST, Op.SECOND),
    *(Op.DUP, Op.JUMP_IF_ZERO, 8, Op.DUP, Op.ROT, Op.SWAP, Op.MOD, Op.JUMP, 249),
    *(Op.ADD, Op.HALT),
)
"""Leaves gcd(a, b): a and b become b and a mod b until b is 0."""
FACTORIAL = (
    *(Op.PUSH, 1, Op.FIRST),
    *(Op.DUP, Op.JUMP_IF_ZERO, 11, Op.DUP, Op.ROT, Op.MUL, Op.SWAP, Op.PUSH, 1, Op.SUB, Op.JUMP, 246),
    *(Op.ADD, Op.HALT),
)
"""Leaves a!: p and n, at first 1 and a, become p n and n - 1 until n is 0."""
PROGRAMS = (POLYNOMIAL, EUCLID, FACTORIAL)


def answer(number: int, a: int, b: int) -> int:
    """Returns what the program of that number leaves, from Python's integers."""
    exact = (3 * a * a - b, gcd(a, b), factorial(a))[number]
    return exact % 2**32


def case() -> Case:
    """Returns 10 000 lanes, each with one of three programs and random arguments, and their results from Python."""
    starts = np.cumsum([0, *map(len, PROGRAMS[:-1])])
    words = random_u32(47, 2 * LANES) >> 16
    chosen, first, second = words[:LANES] % 3, words[:LANES] // 3 % 8, words[LANES:] % 32
    expected = [answer(*lane) for lane in zip(chosen.tolist(), first.tolist(), second.tolist(), strict=True)]
    return Case(
        {
            "code": np.array([byte for program in PROGRAMS for byte in program], np.uint8),
            "entry": starts[chosen].astype(np.uint32),
            "first": first,
            "second": second,
        },
        {"result": np.array(expected, np.uint32)},
    )


EXAMPLE = Example(
    "stack-machine", "an interpreter of bytecode with a private stack", stack_machine, case, "Python integers"
)
