"""BLAKE3 of messages of at most one block: the compression function, fully unrolled.

Rounds, permutation and flags are those of the BLAKE3 specification; Python loops unroll them into about
five hundred statements.
"""

from __future__ import annotations

import blake3
import numpy as np

from vyre import Operand, Program, ProgramBuilder, Value, Variable, rotr, u32
from vyre.gallery.example import Case, Example, random_u32

# The square roots of the first eight primes, as in SHA-256.
IV = (0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A, 0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19)
PERMUTATION = (2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8)
COLUMNS = ((0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15))
DIAGONALS = ((0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14))
ROUNDS = 7
CHUNK_START, CHUNK_END, PARENT, ROOT = 1, 2, 4, 8
MESSAGES = 20


def mix(state: list[Variable], a: int, b: int, c: int, d: int, x: Value, y: Value) -> None:
    """Applies the quarter round G to four words of the state."""
    for word, first, second in ((x, 16, 12), (y, 8, 7)):
        state[a].assign((state[a] + state[b]) + word)
        state[d].assign(rotr(state[d] ^ state[a], first))
        state[c].assign(state[c] + state[d])
        state[b].assign(rotr(state[b] ^ state[c], second))


def mix_rounds(state: list[Variable], message: list[Value]) -> None:
    """Applies all seven rounds to a state of sixteen words."""
    for _ in range(ROUNDS):
        for k, lanes in enumerate((*COLUMNS, *DIAGONALS)):
            mix(state, *lanes, message[2 * k], message[2 * k + 1])
        message = [message[k] for k in PERMUTATION]


def blake3_block() -> Program:
    """Builds the kernel: each lane hashes one message of at most 64 bytes."""
    with ProgramBuilder("blake3_block", workgroup=32) as p:
        msg = p.input("msg", u32, MESSAGES * 16)
        block_len = p.input("block_len", u32, MESSAGES)
        out = p.output("out", u32, MESSAGES * 8)
        i = p.let(p.global_id(), "i")
        with p.if_(i < block_len.length):
            message = [p.let(msg[i * 16 + q], f"m{q}") for q in range(16)]
            start: tuple[Operand, ...] = (*IV, *IV[:4], 0, 0, block_len[i], CHUNK_START | CHUNK_END | ROOT)
            state = [p.var(word, f"s{q}") for q, word in enumerate(start)]
            mix_rounds(state, message)
            for q in range(8):
                out[i * 8 + q] = state[q] ^ state[q + 8]
    return p.build()


def case() -> Case:
    """Returns random messages of several lengths, and their digests from the package blake3."""
    lengths = [(3 * i + 1) % 65 for i in range(MESSAGES)]
    blocks = random_u32(16, MESSAGES * 16).view(np.uint8).reshape(MESSAGES, 64).copy()
    for block, length in zip(blocks, lengths, strict=True):
        block[length:] = 0
    digests = b"".join(
        blake3.blake3(block[:length].tobytes()).digest() for block, length in zip(blocks, lengths, strict=True)
    )
    return Case(
        {"msg": blocks.reshape(-1).view(np.uint32), "block_len": np.array(lengths, np.uint32)},
        {"out": np.frombuffer(digests, np.uint32)},
    )


EXAMPLE = Example("P14", "BLAKE3 compression of single blocks", blake3_block, case, "blake3")
