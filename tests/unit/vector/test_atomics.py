"""Atomics: what the lanes get back follows ascending lanes; what stays in memory is the same however it is computed."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pytest

from support.programs import Case, Order
from support.reference.agreement import ANY_CHUNK, CANONICAL, ENGINE, agreed, ramp, words
from support.running import Outputs, run
from vyre.domain.dispatch import DispatchConfig
from vyre.domain.ir.program import Program

LANES = 40
_UNORDERED = ("add", "or", "and", "xor", "min", "max")
_OPERATORS = (*_UNORDERED, "exchange", "fetch_nand", "compare_exchange")
_DTYPES: Final[dict[str, np.dtype[Any]]] = {
    "u32": np.dtype(np.uint32),
    "i32": np.dtype(np.int32),
    "u64": np.dtype(np.uint64),
}

_INDICES = {
    "one cell": "3u",
    "own cell": "gid.x",
    "few cells": "i[gid.x] % 3u",
    "many cells": "i[gid.x] % 50u",
    "out of range": "60u + gid.x",
    "one out of range": "0xFFFFFFFFu",
    "cell of the workgroup": "wid.x",
    "cell of the lane": "lid.x * 2u",
}


def _values(dtype: str, count: int, seed: int) -> npt.NDArray[Any]:
    bits = np.random.default_rng(seed).integers(0, 1 << 64, count, np.uint64)
    bits[:4] = (0, 1, (1 << 64) - 1, 7)
    values: npt.NDArray[Any] = bits.astype(_DTYPES[dtype])
    return values


def _call(operator: str, buffer: str, index: str, value: str) -> str:
    expected = f", v[{index}]" if operator == "compare_exchange" else ""
    return f"atomic_{operator}({buffer}, {index}{expected}, {value})"


def _kernel(dtype: str, body: str, cells: int = 50) -> str:
    return f"""
        program atomics
        workgroup_size 8, 1, 1
        buffer i @0 read u32[runtime]
        buffer v @1 read {dtype}[runtime]
        buffer cells @2 read_write {dtype}[{cells}]
        buffer old @3 read_write {dtype}[{LANES}] output
        buffer s @- workgroup {dtype}[6]
        body {{
          {body}
        }}
    """


def _inputs(dtype: str, cells: int = 50) -> dict[str, npt.NDArray[Any]]:
    # Expected values of compare_exchange come from v too, and repeat: some exchanges succeed.
    values = _values(dtype, 64, 1)
    return {"i": ramp(LANES), "v": values, "cells": np.resize(values, cells)}


@pytest.mark.parametrize("index", _INDICES.values(), ids=_INDICES.keys())
@pytest.mark.parametrize("operator", _OPERATORS)
@pytest.mark.parametrize("dtype", _DTYPES)
def test_returned_values(dtype: str, operator: str, index: str) -> None:
    """An order-sensitive program: one workgroup at a time, or what the engine knows to give the same."""
    body = f"old[gid.x] = {_call(operator, 'cells', index, 'v[gid.x]')}"
    agreed(_kernel(dtype, body), _inputs(dtype), grid=(5, 1, 1), chunks=(1, None))


@pytest.mark.parametrize("index", _INDICES.values(), ids=_INDICES.keys())
@pytest.mark.parametrize("operator", _OPERATORS)
@pytest.mark.parametrize("dtype", _DTYPES)
def test_unused_results(dtype: str, operator: str, index: str) -> None:
    body = f"let unused = {_call(operator, 'cells', index, 'v[gid.x]')}"
    chunks = ANY_CHUNK if operator in _UNORDERED else (1, None)
    agreed(_kernel(dtype, body), _inputs(dtype), grid=(5, 1, 1), chunks=chunks)


@pytest.mark.parametrize("operator", _OPERATORS)
@pytest.mark.parametrize("dtype", _DTYPES)
@pytest.mark.parametrize("index", ["0u", "lid.x", "i[gid.x] % 4u", "lid.x / 2u", "5u - lid.x"])
def test_workgroup_memory(dtype: str, operator: str, index: str) -> None:
    body = f"""
        if lid.x < 6u {{ s[lid.x] = v[lid.x] }}
        barrier(seq_cst)
        let got = {_call(operator, "s", index, "v[gid.x]")}
        barrier(seq_cst)
        old[gid.x] = got + s[lid.x]
    """
    agreed(_kernel(dtype, body), _inputs(dtype), grid=(5, 1, 1))


@pytest.mark.parametrize("operator", _OPERATORS)
def test_some_lanes_only(operator: str) -> None:
    body = f"if i[gid.x] % 3u == 1u {{ old[gid.x] = {_call(operator, 'cells', 'i[gid.x] % 5u', 'v[gid.x]')} }}"
    agreed(_kernel("u32", body), _inputs("u32"), grid=(5, 1, 1), chunks=(1, None))


@pytest.mark.parametrize("operator", _OPERATORS)
def test_in_a_loop(operator: str) -> None:
    body = f"""
        let total = 0u64
        for k in 0u .. i[gid.x] % 4u {{
          total := total * 3u64 + {_call(operator, "cells", "(gid.x + k) % 6u", "v[gid.x + k]")}
        }}
        old[gid.x] = total
    """
    agreed(_kernel("u64", body), _inputs("u64"), grid=(5, 1, 1), chunks=CANONICAL)


def test_several_in_one_expression_go_left_to_right() -> None:
    body = """
        old[gid.x] = atomic_add(cells, 0u, v[gid.x]) * 3u
          + select(atomic_xor(cells, 1u, gid.x) > 5u, atomic_exchange(cells, 0u, gid.x), atomic_max(cells, 1u, 9u))
          + atomic_add(cells, atomic_add(cells, 2u, 1u) % 5u, atomic_or(cells, 3u, gid.x))
    """
    agreed(_kernel("u32", body), _inputs("u32"), grid=(5, 1, 1), chunks=CANONICAL)


def test_a_buffer_without_elements() -> None:
    text = """
        program nothing
        workgroup_size 8, 1, 1
        buffer cells @0 read_write u32[runtime]
        buffer old @1 read_write u32[8] output
        body {
          old[gid.x] = atomic_add(cells, gid.x, 5u) + 1u
        }
    """
    assert agreed(text, {"cells": words()})["old"].tolist() == [1] * 8


def test_sums_wrap() -> None:
    """More than 2^32 in all, in a single cell and in several, with equal and with different summands."""
    for index in ("0u", "gid.x % 3u"):
        for value in ("0xC0000001u", "v[gid.x]"):
            body = f"let unused = atomic_add(cells, {index}, {value})"
            inputs = _inputs("u32") | {"v": np.full(64, 0xF000_0001, np.uint32)}
            agreed(_kernel("u32", body), inputs, grid=(5, 1, 1))


@pytest.mark.parametrize("cells", [1, 16, 5000])
def test_many_lanes(cells: int) -> None:
    """Enough lanes for several chunks of the engine's own choice; checked against NumPy."""
    lanes = 300_000
    text = f"""
        program many
        workgroup_size 256, 1, 1
        buffer keys @0 read u32[runtime]
        buffer counts @1 read_write u32[{cells}] output
        buffer taken @2 read_write u32[runtime] output like keys
        body {{
          if gid.x < len(keys) {{
            let old = atomic_add(counts, keys[gid.x], 1u)
            taken[gid.x] = old
          }}
        }}
    """
    keys = np.random.default_rng(5).integers(0, cells, lanes, np.uint32)
    found = run(ENGINE, Case(Program.from_text(text), {"keys": keys.tobytes()}, DispatchConfig(), Order.ATOMIC))
    assert isinstance(found, Outputs)
    counts = np.frombuffer(found.bytes["counts"], np.uint32)
    taken = np.frombuffer(found.bytes["taken"], np.uint32)
    order = np.argsort(keys, kind="stable")
    first = np.repeat(np.cumsum(counts) - counts, counts)
    assert np.array_equal(counts, np.bincount(keys, minlength=cells))
    assert np.array_equal(taken[order], np.arange(lanes) - first)
