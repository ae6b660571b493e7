"""A value read from memory stays what it was when memory changes, whatever it was read as."""

from __future__ import annotations

import numpy as np
import pytest

from support.reference.agreement import CANONICAL, agreed, ramp

_BODIES = {
    "let before a store": "let v = a[gid.x]\n a[gid.x] = 1u\n b[gid.x] = v",
    "assigned before a store": "let v = 0u\n v := a[gid.x]\n a[gid.x] = 1u\n b[gid.x] = v",
    "select of a load": "let v = select(gid.x < 100u, a[gid.x], 3u)\n a[gid.x] = 1u\n b[gid.x] = v",
    "bitcast of a load": "let v = bitcast<i32>(a[gid.x])\n a[gid.x] = 1u\n b[gid.x] = bitcast<u32>(v)",
    "cast of a load": "let v = cast<i32>(a[gid.x])\n a[gid.x] = 1u\n b[gid.x] = cast<u32>(v)",
    "a copy of a copy": "let v = a[gid.x]\n let w = v\n a[gid.x] = 1u\n b[gid.x] = w",
    "one lane ahead": "a[gid.x] = a[gid.x + 1u]",
    "one lane behind": "a[gid.x + 1u] = a[gid.x]",
    "reversed": "a[gid.x] = a[(wid.x * 8u + 7u) - lid.x]",
    "arithmetic on neighbours": "a[gid.x + 1u] = a[gid.x] + a[gid.x + 2u] * 3u",
    "index from the written buffer": "a[a[gid.x] % 24u] = gid.x",
    "atomics on one element": "b[gid.x] = atomic_add(a, gid.x, 5u) * 3u + atomic_xor(a, gid.x + 1u, 6u)",
    "a load beside an atomic": "b[gid.x] = b[gid.x + 1u] + atomic_add(a, b[gid.x] % 24u, 5u)",
    "load of a let index": "let i = a[gid.x] % 24u\n a[gid.x] = i\n b[gid.x] = a[i]",
    "in a loop": "for k in 0u .. 4u { let v = a[gid.x]\n a[gid.x] = v + k\n b[gid.x] = v }",
    "carried by a loop": "let v = a[gid.x]\n for k in 0u .. 3u { a[gid.x] = v\n v := a[gid.x + 1u] }\n b[gid.x] = v",
    "in a branch": "let v = a[gid.x]\n if lid.x < 3u { a[gid.x] = 9u\n b[gid.x] = v } else { b[gid.x] = v + a[gid.x] }",
    "from workgroup memory": "s[lid.x] = a[gid.x]\n let v = s[lid.x]\n s[lid.x] = 1u\n b[gid.x] = v + s[lid.x]",
    "shifted in workgroup memory": "s[lid.x] = a[gid.x]\n s[lid.x + 1u] = s[lid.x]\n b[gid.x] = s[lid.x]",
    "uniform element": "let v = a[3u]\n a[3u] = gid.x\n b[gid.x] = v + a[3u]",
    "a mask from memory": "let m = a[gid.x] > 7u\n a[gid.x] = 0u\n if m { b[gid.x] = 1u }",
    "bounds of a loop": "for k in 0u .. a[gid.x] % 5u { a[gid.x] = 0u\n b[gid.x] = b[gid.x] + 1u }",
    "stored twice from one value": "let v = a[gid.x]\n a[gid.x] = v + 1u\n a[23u - gid.x] = v",
}


@pytest.mark.parametrize("body", _BODIES.values(), ids=_BODIES.keys())
def test_integer_snapshots(body: str) -> None:
    text = f"""
        program snapshot
        workgroup_size 8, 1, 1
        buffer a @0 read_write u32[24]
        buffer b @1 read_write u32[24]
        buffer s @- workgroup u32[9]
        body {{\n{body}\n}}
    """
    agreed(text, {"a": ramp(24), "b": ramp(24, 50)}, grid=(3, 1, 1), chunks=CANONICAL)


@pytest.mark.parametrize("element", ["f32", "f64", "i64", "bool"])
def test_snapshots_of_other_types(element: str) -> None:
    text = f"""
        program snapshot
        workgroup_size 8, 1, 1
        buffer a @0 read_write {element}[24]
        buffer b @1 read_write {element}[24]
        body {{
          let v = a[gid.x]
          a[gid.x] = a[gid.x + 1u]
          b[gid.x] = v
          a[gid.x + 2u] = b[gid.x]
        }}
    """
    size = 8 if element in ("f64", "i64") else 4
    noise = np.frombuffer(np.random.default_rng(3).bytes(24 * size), np.uint8)
    agreed(text, {"a": noise, "b": noise}, grid=(3, 1, 1), chunks=CANONICAL)
