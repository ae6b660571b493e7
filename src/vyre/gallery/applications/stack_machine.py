"""An interpreter of bytecode: every lane runs a program of its own on a stack in private memory.

The programs lie one after another in a buffer of bytes.  A lane starts at its entry, takes two arguments, and halts
with the top of its stack as the result.
"""

from __future__ import annotations

from enum import IntEnum
from math import factorial, gcd

import numpy as np

from vyre import Program, ProgramBuilder, Value, u8, u32
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


def stack_machine() -> Program:
    """Builds the interpreter: one lane runs one program."""
    with ProgramBuilder("stack_machine", workgroup=128) as p:
        code = p.input("code", u8)
        entry = p.input("entry", u32)
        first = p.input("first", u32)
        second = p.input("second", u32)
        result = p.output("result", u32, like=entry)
        stack = p.array("stack", u32, STACK)
        lane = p.global_id()
        with p.if_(lane >= entry.length):
            p.return_()
        pc = p.var(entry[lane], "pc")
        size = p.var(0, "size")

        def push(value: Value) -> None:
            stack[size] = value
            size.assign(size + 1)

        def pop() -> Value:
            size.assign(size - 1)
            return p.let(stack[size], "top")

        with p.while_(code[pc] != Op.HALT):
            at = p.let(pc, "at")
            pc.assign(at + 1)
            with p.switch(code[at]) as instruction:
                with instruction.case(Op.PUSH):
                    push(p.let(code[at + 1]))
                    pc.assign(at + 2)
                with instruction.case(Op.FIRST):
                    push(first[lane])
                with instruction.case(Op.SECOND):
                    push(second[lane])
                with instruction.case(Op.ADD):
                    b, a = pop(), pop()
                    push(a + b)
                with instruction.case(Op.SUB):
                    b, a = pop(), pop()
                    push(a - b)
                with instruction.case(Op.MUL):
                    b, a = pop(), pop()
                    push(a * b)
                with instruction.case(Op.MOD):
                    b, a = pop(), pop()
                    push(a % b)
                with instruction.case(Op.DUP):
                    top = pop()
                    push(top)
                    push(top)
                with instruction.case(Op.SWAP):
                    b, a = pop(), pop()
                    push(b)
                    push(a)
                with instruction.case(Op.ROT):
                    c, b, a = pop(), pop(), pop()
                    push(b)
                    push(c)
                    push(a)
                with instruction.case(Op.JUMP):
                    pc.assign((at + code[at + 1]) & 0xFF)
                with instruction.case(Op.JUMP_IF_ZERO):
                    condition = pop()
                    pc.assign(at + 2)
                    with p.if_(condition == 0):
                        pc.assign((at + code[at + 1]) & 0xFF)
                with instruction.default():
                    p.trap(at, "unknown instruction")
        result[lane] = stack[size - 1]
    return p.build()


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
