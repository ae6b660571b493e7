"""BLAKE3 of a whole input: one lane per chunk of 1024 bytes, then the tree level by level.

The compression function is that of P14: a Python function over values that all three kernels use.
"""

from __future__ import annotations

from functools import cache

import blake3
import numpy as np

from vyre import DispatchConfig, Operand, Program, ProgramBuilder, Value, max_, min_, select, u32
from vyre.gallery.basics.p14_blake3_block import CHUNK_END, CHUNK_START, IV, PARENT, ROOT, mix_rounds
from vyre.gallery.example import Array, Case, Dispatcher, Example, Outputs, random_u32

BLOCK_BYTES, BLOCK_WORDS, CHUNK_BYTES, DIGEST_WORDS = 64, 16, 1024, 8


def compress(
    p: ProgramBuilder, chaining: list[Operand], message: list[Value], counter: Operand, length: Operand, flags: Operand
) -> list[Value]:
    """Returns the eight words of the chaining value after one block."""
    start: tuple[Operand, ...] = (*chaining, *IV[:4], counter, 0, length, flags)
    state = [p.var(word, f"s{q}") for q, word in enumerate(start)]
    mix_rounds(state, message)
    return [state[q] ^ state[q + 8] for q in range(DIGEST_WORDS)]


def hash_chunks() -> Program:
    """Builds the kernel that computes the chaining value of each chunk.

    The text is passed as words, padded with zeros to whole blocks.
    """
    with ProgramBuilder("blake3_chunks", workgroup=32) as p:
        length = p.param("length", u32)
        text = p.input("text", u32)
        values = p.output("values", u32)
        chunk = p.let(p.global_id(), "chunk")
        begin = p.let(chunk * CHUNK_BYTES, "begin")
        with p.if_((begin < length) | (chunk == 0)):
            size = p.let(min_(length - begin, CHUNK_BYTES), "size")
            blocks = p.let(max_((size + (BLOCK_BYTES - 1)) / BLOCK_BYTES, 1), "blocks")
            root = p.let(select(length <= CHUNK_BYTES, ROOT, 0), "root")
            chaining = [p.var(word, f"h{q}") for q, word in enumerate(IV)]
            with p.for_(0, blocks, name="block") as block:
                first = p.let(begin / 4 + block * BLOCK_WORDS, "first")
                message = [p.let(text[first + q], f"m{q}") for q in range(BLOCK_WORDS)]
                starts = select(block == 0, CHUNK_START, 0)
                ends = select(block == blocks - 1, u32(CHUNK_END) | root, 0)
                used = min_(size - block * BLOCK_BYTES, BLOCK_BYTES)
                for word, new in zip(
                    chaining, compress(p, [*chaining], message, chunk, used, starts | ends), strict=True
                ):
                    word.assign(new)
            for q, word in enumerate(chaining):
                values[chunk * DIGEST_WORDS + q] = word
    return p.build()


@cache
def hash_parents() -> Program:
    """Builds the kernel for one level of the tree: each pair of nodes makes a parent; an odd last node moves up
    unchanged.
    """
    with ProgramBuilder("blake3_parents", workgroup=32) as p:
        count = p.param("count", u32)
        nodes = p.input("nodes", u32)
        parents = p.output("parents", u32)
        i = p.let(p.global_id(), "i")
        with p.if_(i * 2 + 1 < count):
            message = [p.let(nodes[i * (2 * DIGEST_WORDS) + q], f"m{q}") for q in range(BLOCK_WORDS)]
            flags = u32(PARENT) | select(count == 2, ROOT, 0)
            for q, word in enumerate(compress(p, [*IV], message, 0, BLOCK_BYTES, flags)):
                parents[i * DIGEST_WORDS + q] = word
        with p.else_():
            for q in range(DIGEST_WORDS):
                parents[i * DIGEST_WORDS + q] = nodes[i * (2 * DIGEST_WORDS) + q]
    return p.build()


def digest(session: Dispatcher, chunk_program: Program, text: Array) -> bytes:
    """Returns BLAKE3-256 of ``text`` (u8, shorter than 2^32 bytes)."""
    padded = np.zeros(max(-(-text.size // BLOCK_BYTES), 1) * BLOCK_BYTES, np.uint8)
    padded[: text.size] = text
    count = max(-(-text.size // CHUNK_BYTES), 1)
    nodes = session.dispatch(
        chunk_program,
        {"length": int(text.size), "text": padded.view(np.uint32)},
        DispatchConfig(extent=(count,), output_counts={"values": count * DIGEST_WORDS}),
    )["values"]
    parent_program = hash_parents()
    while count > 1:
        above = (count + 1) // 2
        config = DispatchConfig(extent=(above,), output_counts={"parents": above * DIGEST_WORDS})
        nodes = session.dispatch(parent_program, {"count": count, "nodes": nodes}, config)["parents"]
        count = above
    return nodes.tobytes()


def case() -> Case:
    """Returns 9001 random bytes, and their digest from the package blake3."""
    text = random_u32(33, 2500).view(np.uint8)[:9001]
    return Case({"text": text}, {"digest": np.frombuffer(blake3.blake3(text.tobytes()).digest(), np.uint8)})


def run(session: Dispatcher, program: Program, case: Case) -> Outputs:
    """Hashes the text and returns its digest."""
    return {"digest": np.frombuffer(digest(session, program, np.asarray(case.inputs["text"])), np.uint8)}


EXAMPLE = Example("blake3-chunks", "BLAKE3 of chunks and their tree", hash_chunks, case, "blake3", run)
