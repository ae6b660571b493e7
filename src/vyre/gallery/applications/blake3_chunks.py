"""BLAKE3 of a whole input: one lane per chunk of 1024 bytes, then the tree level by level.

The compression function is a ``vyre.function`` that both kernels use: every word of the state gets a new name.
"""

from __future__ import annotations

from typing import TypeAlias

import blake3
import numpy as np

import vyre
from vyre import DispatchConfig, In, Out, Program, u32
from vyre.gallery.basics.p14_blake3_block import CHUNK_END, CHUNK_START, IV, PARENT, ROOT
from vyre.gallery.example import Array, Case, Dispatcher, Example, Outputs, random_u32

BLOCK_BYTES, BLOCK_WORDS, CHUNK_BYTES, DIGEST_WORDS = 64, 16, 1024, 8
Words: TypeAlias = tuple[int, ...]


@vyre.function
def mix(a: u32, b: u32, c: u32, d: u32, x: u32, y: u32) -> tuple[u32, u32, u32, u32]:
    """Returns four words of the state after the quarter round G."""
    a0 = a + b + x
    d0 = vyre.rotr(d ^ a0, 16)
    c0 = c + d0
    b0 = vyre.rotr(b ^ c0, 12)
    a1 = a0 + b0 + y
    d1 = vyre.rotr(d0 ^ a1, 8)
    c1 = c0 + d1
    b1 = vyre.rotr(b0 ^ c1, 7)
    return a1, b1, c1, d1


@vyre.function
def mixed(s: Words, m: Words) -> Words:
    """Returns the sixteen words of the state after one round: four columns, then four diagonals."""
    a0, b0, c0, d0 = mix(s[0], s[4], s[8], s[12], m[0], m[1])
    a1, b1, c1, d1 = mix(s[1], s[5], s[9], s[13], m[2], m[3])
    a2, b2, c2, d2 = mix(s[2], s[6], s[10], s[14], m[4], m[5])
    a3, b3, c3, d3 = mix(s[3], s[7], s[11], s[15], m[6], m[7])
    e0, f1, g2, h3 = mix(a0, b1, c2, d3, m[8], m[9])
    e1, f2, g3, h0 = mix(a1, b2, c3, d0, m[10], m[11])
    e2, f3, g0, h1 = mix(a2, b3, c0, d1, m[12], m[13])
    e3, f0, g1, h2 = mix(a3, b0, c1, d2, m[14], m[15])
    return e0, e1, e2, e3, f0, f1, f2, f3, g0, g1, g2, g3, h0, h1, h2, h3


@vyre.function
def permuted(m: Words) -> Words:
    """Returns the words of a block in the order of the next round."""
    return m[2], m[6], m[3], m[10], m[7], m[0], m[4], m[13], m[1], m[11], m[12], m[5], m[9], m[14], m[15], m[8]


@vyre.function
def block_at(words: In[u32], first: u32) -> Words:
    """Returns the sixteen words of a block."""
    w0, w1, w2, w3 = words[first], words[first + 1], words[first + 2], words[first + 3]
    w4, w5, w6, w7 = words[first + 4], words[first + 5], words[first + 6], words[first + 7]
    w8, w9, w10, w11 = words[first + 8], words[first + 9], words[first + 10], words[first + 11]
    w12, w13, w14, w15 = words[first + 12], words[first + 13], words[first + 14], words[first + 15]
    return w0, w1, w2, w3, w4, w5, w6, w7, w8, w9, w10, w11, w12, w13, w14, w15


@vyre.function
def compress(h: Words, m0: Words, counter: u32, length: u32, flags: u32) -> Words:
    """Returns the eight words of the chaining value after one block."""
    s0 = (*h, IV[0], IV[1], IV[2], IV[3], counter, 0, length, flags)
    s1, m1 = mixed(s0, m0), permuted(m0)
    s2, m2 = mixed(s1, m1), permuted(m1)
    s3, m3 = mixed(s2, m2), permuted(m2)
    s4, m4 = mixed(s3, m3), permuted(m3)
    s5, m5 = mixed(s4, m4), permuted(m4)
    s6, m6 = mixed(s5, m5), permuted(m5)
    s = mixed(s6, m6)
    return s[0] ^ s[8], s[1] ^ s[9], s[2] ^ s[10], s[3] ^ s[11], s[4] ^ s[12], s[5] ^ s[13], s[6] ^ s[14], s[7] ^ s[15]


@vyre.kernel(workgroup=32)
def hash_chunks(length: u32, text: In[u32], values: Out[u32]) -> None:
    """Computes the chaining value of each chunk.

    The text is passed as words, padded with zeros to whole blocks.
    """
    chunk = vyre.global_id()
    begin = chunk * CHUNK_BYTES
    if begin < length or chunk == 0:
        size = min(length - begin, CHUNK_BYTES)
        blocks = max((size + (BLOCK_BYTES - 1)) // BLOCK_BYTES, 1)
        root = ROOT if length <= CHUNK_BYTES else 0
        h0, h1, h2, h3, h4, h5, h6, h7 = IV
        for block in range(blocks):
            message = block_at(text, begin // 4 + block * BLOCK_WORDS)
            starts = CHUNK_START if block == 0 else 0
            ends = CHUNK_END | root if block == blocks - 1 else 0
            used = min(size - block * BLOCK_BYTES, BLOCK_BYTES)
            chaining = h0, h1, h2, h3, h4, h5, h6, h7
            h0, h1, h2, h3, h4, h5, h6, h7 = compress(chaining, message, chunk, used, starts | ends)
        for q, word in enumerate((h0, h1, h2, h3, h4, h5, h6, h7)):
            values[chunk * DIGEST_WORDS + q] = word


@vyre.kernel(workgroup=32)
def hash_parents(count: u32, nodes: In[u32], parents: Out[u32]) -> None:
    """Computes one level of the tree: each pair of nodes makes a parent; an odd last node moves up unchanged."""
    i = vyre.global_id()
    if i * 2 + 1 < count:
        message = block_at(nodes, i * (2 * DIGEST_WORDS))
        flags = PARENT | ROOT if count == 2 else PARENT
        for q, word in enumerate(compress(IV, message, 0, BLOCK_BYTES, flags)):
            parents[i * DIGEST_WORDS + q] = word
    else:
        for q in vyre.static(range(DIGEST_WORDS)):
            parents[i * DIGEST_WORDS + q] = nodes[i * (2 * DIGEST_WORDS) + q]


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
    parent_program = hash_parents.program
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
