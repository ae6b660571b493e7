"""The kernels that are measured."""

from __future__ import annotations

import operator
from collections.abc import Callable

from vyre import Program, ProgramBuilder, f32, u8, u32
from vyre.domain.ir.builder import Value
from vyre.domain.ir.handles import BufferHandle

FNV_OFFSET = 0x811C_9DC5
FNV_PRIME = 0x0100_0193


def saxpy() -> Program:
    """``y2 = a * x + y``."""
    with ProgramBuilder("saxpy", workgroup=256) as p:
        a = p.param("a", f32)
        x = p.input("x", f32)
        y = p.input("y", f32)
        y2 = p.output("y2", f32, like=y)
        i = p.global_id()
        with p.if_(i < x.length):
            y2[i] = a * x[i] + y[i]
    return p.build()


def mapped(expression: str) -> Program:
    """``y[i] = expression``, text over the element ``x[i]`` of a buffer of f32."""
    return Program.from_text(f"""
        workgroup_size 256, 1, 1
        buffer x @0 read f32[runtime]
        buffer y @1 write f32[runtime] like x
        body {{ y[gid.x] = {expression} }}
    """)


def fnv1a(lanes: int, length: int) -> Program:
    """FNV-1a of one message of ``length`` bytes a lane."""
    with ProgramBuilder("fnv1a", workgroup=64) as p:
        messages = p.input("messages", u8)
        hashes = p.output("hashes", u32, lanes)
        i = p.global_id()
        with p.if_(i < hashes.length):
            h = p.var(u32(FNV_OFFSET))
            with p.for_(0, length) as k:
                h.assign((h ^ messages[i * length + k]) * FNV_PRIME)
            hashes[i] = h
    return p.build()


def histogram(bins: int) -> Program:
    """How often each word below ``bins`` occurs."""
    with ProgramBuilder("histogram", workgroup=256) as p:
        words = p.input("words", u32)
        counts = p.output("counts", u32, bins)
        i = p.global_id()
        with p.if_(i < words.length):
            counts.atomic_add(words[i], 1)
    return p.build()


def tickets(cells: int) -> Program:
    """Each lane takes the next number of its cell: an atomic whose result is used."""
    with ProgramBuilder("tickets", workgroup=256) as p:
        keys = p.input("keys", u32)
        counters = p.output("counters", u32, cells)
        taken = p.output("taken", u32, like=keys)
        i = p.global_id()
        with p.if_(i < keys.length):
            taken[i] = counters.atomic_add(keys[i], 1)
    return p.build()


def add_up(
    p: ProgramBuilder,
    shared: BufferHandle,
    lane: Value,
    workgroup: int,
    combine: Callable[[Value, Value], Value] = operator.add,
) -> None:
    """Adds ``workgroup`` words of workgroup memory to its first one, by halving; ``lane`` is the local id.

    ``combine`` takes the place of the addition.
    """
    p.barrier()
    width = workgroup // 2
    while width:
        with p.if_(lane < width):
            shared[lane] = combine(shared[lane], shared[lane + width])
        p.barrier()
        width //= 2


def tree_reduction(groups: int, workgroup: int) -> Program:
    """Sums of ``workgroup`` consecutive words, by halving in workgroup memory."""
    with ProgramBuilder("tree_reduction", workgroup=workgroup) as p:
        x = p.input("x", u32)
        sums = p.output("sums", u32, groups)
        shared = p.workgroup("shared", u32, workgroup)
        lane = p.local_id()
        shared[lane] = x[p.global_id()]
        add_up(p, shared, lane, workgroup)
        with p.if_(lane == 0):
            sums[p.group_id()] = shared[0]
    return p.build()


def one_store() -> Program:
    """A single statement."""
    with ProgramBuilder("one_store", workgroup=64) as p:
        x = p.input("x", u32)
        y = p.output("y", u32, like=x)
        y[p.global_id()] = x[p.global_id()] + 1
    return p.build()


def counter(workgroup: int) -> Program:
    """Every lane adds one to the same word."""
    with ProgramBuilder("counter", workgroup=workgroup) as p:
        total = p.inout("total", u32, 1)
        total.atomic_add(0, 1)
    return p.build()


def fifty_nodes(variant: int) -> Program:
    """About fifty nodes of arithmetic under a guard; every variant is another program."""
    with ProgramBuilder("fifty_nodes", workgroup=128) as p:
        x = p.input("x", f32)
        y = p.inout("y", f32)
        i = p.global_id()
        with p.if_(i < y.length):
            t: Value = p.let(x[i] * f32(variant + 0.5))
            with p.for_(0, 4) as k:
                u = p.let(t * t + x[i + k])
                y[i + k * 2] = u + y[i] * f32(0.25)
            with p.if_(t > y[i]):
                y[i] = t - y[i]
            with p.else_():
                y[i] = y[i] * t + f32(variant)
    return p.build(check=False)


def long_program(statements: int) -> Program:
    """A straight-line program of about twelve nodes a statement."""
    with ProgramBuilder("long", workgroup=64) as p:
        x = p.input("x", u32)
        y = p.inout("y", u32)
        i = p.global_id()
        v: Value = p.let(x[i])
        for k in range(statements // 2):
            v = p.let((v ^ x[i + k]) * u32(2 * k + 1))
            y[i + k] = (v >> 3) + y[i] * u32(k)
    return p.build()


def chain_constants(operations: int) -> list[tuple[int, int]]:
    """Operands of the dependent chain: an odd factor and a mask for every two operations."""
    return [
        ((k * 0x9E37_79B9) & 0x7FFF_FFFF, (k * 0x85EB_CA6B & 0x7FFF_FFFF) | 1) for k in range(1, operations // 2 + 1)
    ]


def dependent_chain(operations: int) -> Program:
    """``y[i] = (((x[i] ^ a) * b) ^ c) * d ...``: every operation needs the one before."""
    with ProgramBuilder("chain", workgroup=64) as p:
        x = p.input("x", u32)
        y = p.inout("y", u32)
        i = p.global_id()
        with p.if_(i < y.length):
            v = p.var(x[i])
            for mask, factor in chain_constants(operations):
                v.assign((v ^ mask) * factor)
            y[i] = v
    return p.build(check=False)


def counted_hash(lanes: int, trips: int) -> Program:
    """FNV-1a over ``trips`` words that every lane makes itself: a loop of integer operations, one store at its end."""
    with ProgramBuilder("counted_hash", workgroup=256) as p:
        hashes = p.inout("hashes", u32, lanes)
        i = p.global_id()
        h = p.var(u32(FNV_OFFSET))
        with p.for_(0, trips) as k:
            h.assign((h ^ (i + k)) * FNV_PRIME)
        hashes[i] = h
    return p.build()
