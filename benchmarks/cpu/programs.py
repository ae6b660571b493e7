"""The kernels of the jobs, written for a CPU, where the lanes of a vector lie side by side along the first axis.

What a kernel writes completely is an ``inout`` buffer: an ``output`` is zeroed before every launch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from benchmarks.kernels import FNV_OFFSET, FNV_PRIME, add_up
from vyre import (
    Program,
    ProgramBuilder,
    Value,
    exp,
    f32,
    max_,
    min_,
    select,
    subgroup_shuffle,
    u32,
)
from vyre.gallery.applications.graphs import UNREACHED

Order = Callable[[int], Value | bool]
BLOCK_ROWS: Final = 4
BLOCK_COLUMNS: Final = 4
SORTED_REGISTERS: Final = 8
SUBGROUP: Final = 32
SORTED_BLOCK: Final = SORTED_REGISTERS * SUBGROUP
SOFTMAX_LANES: Final = 64


def saxpy() -> Program:
    """``y2 = a * x + y``."""
    with ProgramBuilder("saxpy", workgroup=256) as p:
        a = p.param("a", f32)
        x = p.input("x", f32)
        y = p.input("y", f32)
        y2 = p.inout("y2", f32)
        i = p.global_id()
        with p.if_(i < y2.length):
            y2[i] = a * x[i] + y[i]
    return p.build()


def mapped(function: Callable[[Value], Value]) -> Program:
    """``y = function(x)``."""
    with ProgramBuilder("mapped", workgroup=256) as p:
        x = p.input("x", f32)
        y = p.inout("y", f32)
        i = p.global_id()
        with p.if_(i < y.length):
            y[i] = function(x[i])
    return p.build()


def fnv1a(lanes: int, length: int) -> Program:
    """FNV-1a of one message of ``length`` bytes a lane; the messages are read as words of four bytes."""
    with ProgramBuilder("fnv1a", workgroup=64) as p:
        messages = p.input("messages", u32, lanes * length // 4)
        hashes = p.inout("hashes", u32, lanes)
        i = p.global_id()
        with p.if_(i < hashes.length):
            h = p.var(u32(FNV_OFFSET), "h")
            with p.for_(0, length // 4, name="k") as k:
                word = p.let(messages[i * (length // 4) + k], "word")
                for byte in range(4):
                    h.assign((h ^ ((word >> (8 * byte)) & 255)) * FNV_PRIME)
            hashes[i] = h
    return p.build()


def matmul(n: int, lanes: int) -> Program:
    """The product of two square matrices of ``n`` rows: each lane computes a block of elements, held in registers.

    Each element is the sum of the products in ascending order, every operation rounded.  The columns of a block are
    ``lanes`` apart, so that the lanes of a vector read and write side by side.
    """
    with ProgramBuilder("matmul", workgroup=lanes) as p:
        a = p.input("a", f32, n * n)
        b = p.input("b", f32, n * n)
        c = p.inout("c", f32, n * n)
        row = p.let(p.group_id(0) * BLOCK_ROWS, "row")
        col = p.let(p.group_id(1) * (lanes * BLOCK_COLUMNS) + p.local_id(), "col")
        totals = [[p.var(0.0, f"total{r}_{q}") for q in range(BLOCK_COLUMNS)] for r in range(BLOCK_ROWS)]
        with p.for_(0, n, name="k") as k:
            right = [p.let(b[k * n + col + q * lanes], f"right{q}") for q in range(BLOCK_COLUMNS)]
            for r, of_row in enumerate(totals):
                left = p.let(a[(row + r) * n + k], f"left{r}")
                for total, factor in zip(of_row, right, strict=True):
                    total += left * factor
        for r, of_row in enumerate(totals):
            for q, total in enumerate(of_row):
                c[(row + r) * n + col + q * lanes] = total
    return p.build()


def tiled_matmul(n: int, tile: int) -> Program:
    """The same product through square tiles in workgroup memory, one element a lane."""
    with ProgramBuilder("tiled_matmul", workgroup=(tile, tile)) as p:
        a = p.input("a", f32, n * n)
        b = p.input("b", f32, n * n)
        c = p.inout("c", f32, n * n)
        tile_a = p.workgroup("tile_a", f32, tile * tile)
        tile_b = p.workgroup("tile_b", f32, tile * tile)
        x, y = p.local_id(0), p.local_id(1)
        row, col = p.global_id(1), p.global_id(0)
        total = p.var(0.0, "total")
        with p.for_(0, n, tile, name="first") as first:
            tile_a[y * tile + x] = a[row * n + first + x]
            tile_b[y * tile + x] = b[(first + y) * n + col]
            p.barrier()
            with p.for_(0, tile) as k:
                total += tile_a[y * tile + k] * tile_b[k * tile + x]
            p.barrier()
        c[row * n + col] = total
    return p.build()


def summed_tiles(groups: int, workgroup: int, per_lane: int) -> Program:
    """Sums of words: each lane adds ``per_lane`` of them, and a tree in workgroup memory adds those."""
    with ProgramBuilder("summed_tiles", workgroup=workgroup) as p:
        x = p.input("x", u32, groups * workgroup * per_lane)
        sums = p.inout("sums", u32, groups)
        shared = p.workgroup("shared", u32, workgroup)
        lane = p.local_id()
        first = p.let(p.group_id() * (workgroup * per_lane) + lane, "first")
        total = p.var(u32(0), "total")
        with p.for_(0, per_lane, name="k") as k:
            total += x[first + k * workgroup]
        shared[lane] = total
        add_up(p, shared, lane, workgroup)
        with p.if_(lane == 0):
            sums[p.group_id()] = shared[0]
    return p.build()


def copied() -> Program:
    """``to = source``."""
    with ProgramBuilder("copied", workgroup=256) as p:
        source = p.input("source", u32)
        to = p.inout("to", u32)
        i = p.global_id()
        with p.if_(i < source.length):
            to[i] = source[i]
    return p.build()


def start_search() -> Program:
    """The state before a breadth-first search: level 0 for the source, UNREACHED for all other nodes."""
    with ProgramBuilder("start_search", workgroup=256) as p:
        source = p.param("source", u32)
        levels = p.inout("levels", u32)
        marks = p.inout("marks", u32)
        depths = p.inout("depths", u32, 2)
        node = p.let(p.global_id(), "node")
        with p.if_(node < levels.length):
            level = p.let(select(node == source, u32(0), UNREACHED), "level")
            levels[node] = level
            marks[node] = level
        with p.if_(node == 0):
            depths[0] = 0
    return p.build()


def bfs_push() -> Program:
    """One level of a breadth-first search: each node at depth ``depths[0]`` marks its targets.

    All lanes that mark a target store the same word, so an atomic minimum without a result keeps the order out.
    """
    with ProgramBuilder("bfs_push", workgroup=64) as p:
        row_ptr = p.input("row_ptr", u32)
        col = p.input("col", u32)
        levels = p.input("levels", u32)
        marks = p.inout("marks", u32)
        depths = p.inout("depths", u32, 2)
        node = p.let(p.global_id(), "node")
        depth = p.let(depths[0], "depth")
        with p.if_(node == 0):
            depths[1] = depth + 1
        with (
            p.if_((node < levels.length) & (levels[node] == depth)),
            p.for_(row_ptr[node], row_ptr[node + 1], name="edge") as edge,
        ):
            marks.atomic_min(p.let(col[edge], "target"), depth + 1)
    return p.build()


def bfs_settle() -> Program:
    """The second half of a level: marked nodes without a level get one, and ``changed`` says whether any did."""
    with ProgramBuilder("bfs_settle", workgroup=256) as p:
        marks = p.input("marks", u32)
        levels = p.inout("levels", u32)
        changed = p.inout("changed", u32, 1)
        depths = p.inout("depths", u32, 2)
        node = p.let(p.global_id(), "node")
        depth = p.let(depths[1], "depth")
        with p.if_(node == 0):
            depths[0] = depth
        with p.if_((node < levels.length) & (levels[node] == UNREACHED) & (marks[node] == depth)):
            levels[node] = depth
            changed.atomic_or(0, u32(1))
    return p.build()


def compare_exchange(stride: int) -> Program:
    """One step of a bitonic sort with pairs ``stride`` apart, which a row of ``stride`` lanes orders."""
    width = min(stride, 256)
    with ProgramBuilder("compare_exchange", workgroup=width) as p:
        block = p.param("block", u32)
        keys = p.inout("keys", u32)
        low = p.let(p.group_id(1) * (2 * stride) + p.global_id(0), "low")
        high = p.let(low + stride, "high")
        x, y = p.let(keys[low], "x"), p.let(keys[high], "y")
        ascending = p.let((p.group_id(1) * (2 * stride) & block) == 0, "ascending")
        smaller, larger = p.let(min_(x, y), "smaller"), p.let(max_(x, y), "larger")
        keys[low] = select(ascending, smaller, larger)
        keys[high] = select(ascending, larger, smaller)
    return p.build()


def compare_exchange_three(stride: int) -> Program:
    """Three steps of a bitonic sort, ``stride``, ``stride / 2`` and ``stride / 4``: each lane orders eight keys."""
    return _compare_exchange_many(stride, 3)


def compare_exchange_two(stride: int) -> Program:
    """Two steps of a bitonic sort, ``stride`` and ``stride / 2``: each lane orders four keys."""
    return _compare_exchange_many(stride, 2)


def _compare_exchange_many(stride: int, steps: int) -> Program:
    apart, count = stride >> (steps - 1), 1 << steps
    width = min(apart, 256)
    with ProgramBuilder(f"compare_exchange_{count}", workgroup=width) as p:
        block = p.param("block", u32)
        keys = p.inout("keys", u32)
        base = p.let(p.group_id(1) * (2 * stride), "base")
        first = p.let(base + p.global_id(0), "first")
        held: list[Value] = [p.let(keys[first + q * apart], f"x{q}") for q in range(count)]
        ascending = p.let((base & block) == 0, "ascending")
        with p.if_(ascending):
            for q, key in enumerate(_ordered(p, held, True)):
                keys[first + q * apart] = key
        with p.else_():
            for q, key in enumerate(_ordered(p, held, False)):
                keys[first + q * apart] = key
    return p.build()


def _ordered(p: ProgramBuilder, held: list[Value], ascending: bool) -> list[Value]:
    """The keys after compare-exchange steps of half their number, a quarter, and so on to 1."""
    keys, apart = list(held), len(held) // 2
    while apart:
        for q in range(len(keys)):
            if not q & apart:
                least, most = p.let(min_(keys[q], keys[q + apart])), p.let(max_(keys[q], keys[q + apart]))
                keys[q], keys[q + apart] = (least, most) if ascending else (most, least)
        apart //= 2
    return keys


def sort_blocks(first_block: int) -> Program:
    """The steps of a bitonic sort inside 256 keys, which a subgroup holds in eight registers a lane.

    With ``first_block`` 2 they are all steps up to blocks of 256; with 512 those of the present ``block`` with pairs
    128 and fewer apart.
    """
    with ProgramBuilder(f"sort_blocks_{first_block}", workgroup=SUBGROUP) as p:
        block = p.param("block", u32)
        keys = p.inout("keys", u32)
        lane = p.let(p.local_id(), "lane")
        base = p.let(p.group_id() * SORTED_BLOCK, "base")
        held: list[Value] = [p.let(keys[base + q * SUBGROUP + lane], f"x{q}") for q in range(SORTED_REGISTERS)]
        if first_block > SORTED_BLOCK:
            ascending = p.let((base & block) == 0, "ascending")
            held = _merged(p, held, lane, SORTED_BLOCK // 2, _same(ascending))
        else:
            size = first_block
            while size <= SORTED_BLOCK:
                # Bit ``size`` of the index is in the lane number, in the register number, or in that of the block.
                if size < SUBGROUP:
                    in_lane = p.let((lane & size) == 0)
                    held = _merged(p, held, lane, size // 2, _same(in_lane))
                elif size < SORTED_BLOCK:
                    held = _merged(p, held, lane, size // 2, _by_register(size // SUBGROUP))
                else:
                    in_base = p.let((base & size) == 0)
                    held = _merged(p, held, lane, size // 2, _same(in_base))
                size *= 2
        for q, key in enumerate(held):
            keys[base + q * SUBGROUP + lane] = key
    return p.build()


def _same(order: Value) -> Order:
    return lambda q: order


def _by_register(bit: int) -> Order:
    return lambda q: not q & bit


def _merged(p: ProgramBuilder, held: list[Value], lane: Value, stride: int, ascending: Order) -> list[Value]:
    """The keys after the steps with pairs ``stride`` and fewer apart; ``ascending(q)`` is the order in register q."""
    keys = list(held)
    while stride >= SUBGROUP:
        apart = stride // SUBGROUP
        for q in range(len(keys)):
            if not q & apart:
                least, most, up = (
                    p.let(min_(keys[q], keys[q + apart])),
                    p.let(max_(keys[q], keys[q + apart])),
                    ascending(q),
                )
                if isinstance(up, bool):
                    keys[q], keys[q + apart] = (least, most) if up else (most, least)
                else:
                    keys[q], keys[q + apart] = p.let(select(up, least, most)), p.let(select(up, most, least))
        stride //= 2
    while stride:
        is_low = p.let((lane & stride) == 0)
        for q, key in enumerate(keys):
            other = p.let(subgroup_shuffle(key, lane ^ stride))
            up = ascending(q)
            takes_least = is_low if up is True else p.let(~is_low) if up is False else p.let(is_low == up)
            keys[q] = p.let(select(takes_least, min_(key, other), max_(key, other)))
        stride //= 2
    return keys


def softmax_rows(width: int) -> Program:
    """The softmax of each row of a matrix, by one workgroup a row; maximum and sum are found by trees."""
    lanes = SOFTMAX_LANES
    with ProgramBuilder("softmax_rows", workgroup=lanes) as p:
        x = p.input("x", f32)
        out = p.inout("out", f32)
        scratch = p.workgroup("scratch", f32, lanes)
        lane = p.local_id()
        base = p.let(p.group_id() * width, "base")
        most = p.var(float("-inf"), "most")
        with p.for_(lane, width, lanes, name="k") as k:
            most.assign(max_(most, x[base + k]))
        scratch[lane] = most
        add_up(p, scratch, lane, lanes, max_)
        peak = p.let(scratch[0], "peak")
        p.barrier()
        total = p.var(0.0, "total")
        with p.for_(lane, width, lanes, name="k") as k:
            e = p.let(exp(x[base + k] - peak), "e")
            out[base + k] = e
            total += e
        scratch[lane] = total
        add_up(p, scratch, lane, lanes)
        whole = p.let(scratch[0], "whole")
        with p.for_(lane, width, lanes, name="k") as k:
            out[base + k] = out[base + k] / whole
    return p.build()


def two_thousand_nodes(variant: int) -> Program:
    """A straight line of about two thousand nodes; every variant is another program."""
    with ProgramBuilder("two_thousand_nodes", workgroup=64) as p:
        x = p.input("x", u32)
        y = p.inout("y", u32)
        i = p.global_id()
        v: Value = p.let(x[i])
        for k in range(95):
            v = p.let((v ^ x[i + k]) * u32(2 * k + 1 + variant))
            y[i + k] = (v >> 3) + y[i] * u32(k)
    return p.build(check=False)
