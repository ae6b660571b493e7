"""Programs with narrow values, private memory, indices and loops of every integer type, switches and bool8.

Each is a small case with its inputs, comparable byte for byte on any backend.  Values and bounds include those at which
something could wrap.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import chain
from typing import Final, TypeAlias

import numpy as np

from support.programs import Case, Order
from vyre.domain.dispatch import DispatchConfig
from vyre.domain.ir.program import Program

Named: TypeAlias = tuple[str, Case]

LANES: Final = 64
_RANDOM: Final = np.random.default_rng(14)
_WORDS: Final = np.array(
    [
        *(0, 1, 2, 3, 7, 9, 17, 100, 127, 128, 255, 256, 32767, 32768, 65535, 65536, 0x7FFF_FFFF, 0x8000_0000),
        *(0xFFFF_FFFF, 0xFFFF_FFFE, 0x7F80_0000, 0xFF80_0000, 0x7FC0_0000, 0x7F80_0001, 0xFFFF_8000),
        *(0x477F_EFFF, 0x477F_F000, 0x3300_0000, 0x3300_0001, 0x7F7F_FFFF, 0x3F80_8000, 0x3F81_8000, 0xBF40_0000),
        *(np.float32(2.0) ** np.arange(-3, 94, 4)).astype(np.float32).view(np.uint32).tolist(),
        *_RANDOM.integers(0, 1 << 32, 6, np.uint32).tolist(),
    ][:LANES],
    np.uint32,
)
_DOUBLES: Final = np.concatenate(
    [
        np.array([0, -0.0, 0.5, -2.5, 2.0**63, -(2.0**63), 2.0**64, -3e20, np.inf, np.nan, 2.0**84 + 2.0**40, 1e-310]),
        _RANDOM.standard_normal(LANES - 12) * np.float64(2.0) ** _RANDOM.integers(-3, 90, LANES - 12),
    ]
)
_SMALL: Final = np.array([0, 1, 2, 3, 0xFFFF_FFFF, 7, 9, 17] * (LANES // 8), np.uint32)
_NUMPY: Final = {"u32": np.uint32, "i32": np.int32, "u64": np.uint64, "i64": np.int64}
_SUFFIX: Final = {"u32": "u", "i32": "i", "u64": "u64", "i64": "i64"}


@cache
def widened_cases() -> tuple[Named, ...]:
    """All cases; the names are all different."""
    return tuple(chain(_narrow_values(), _indices(), _loops(), _private_arrays(), _switches(), _truth_values()))


def _case(text: str, inputs: Mapping[str, np.ndarray], groups: int = 2) -> Case:
    data = {name: values.tobytes() for name, values in inputs.items()}
    return Case(Program.from_text(text), data, DispatchConfig(grid=(groups, 1, 1)), Order.INDEPENDENT)


def _narrow_values() -> Iterator[Named]:
    for dtype in ("u8", "u16", "i8", "i16", "f16", "bf16"):
        kind = "f32" if "f" in dtype else "i32" if dtype[0] == "i" else "u32"
        same = f"bitcast<{kind}>(v)" if kind != "u32" else "v"
        number = f"cast<{kind}>(v)" if kind != "u32" else "v"
        values = [
            *(f"narrow<{dtype}>({x})" for x in (same, number)),
            *(f"bitcast<{kind}>(pack<{dtype}>({x}))" for x in (same, number)),
            f"unpack<{dtype}>(v)",
            f"narrow<{dtype}>(unpack<{dtype}>(v) + unpack<{dtype}>(v >> 16u))",
        ]
        yield f"narrow {dtype}", _case(_one_lane(kind, values), {"x": _WORDS, "z": _DOUBLES})
    for target in _NUMPY:
        values = [f"wrap_cast<{target}>({x})" for x in ("bitcast<f32>(v)", "bitcast<f64>(d)", "-5.5f", "3.0e10f")]
        yield f"wrapping casts to {target}", _case(_one_lane(target, values), {"x": _WORDS, "z": _DOUBLES})
    for kind, x in (("f32", "bitcast<f32>(v)"), ("f64", "bitcast<f64>(d) * 0.5f64")):
        yield f"round_even {kind}", _case(_one_lane(kind, [f"round_even({x})"]), {"x": _WORDS, "z": _DOUBLES})


def _one_lane(kind: str, values: Sequence[str]) -> str:
    stores = "\n".join(f"  y[i * {len(values)}u + {k}u] = {value}" for k, value in enumerate(values))
    return f"""program values
workgroup_size 32, 1, 1
buffer x @0 read u32[{LANES}]
buffer z @1 read u64[{LANES}]
buffer y @2 write {kind}[{LANES * len(values)}]
body {{
  let i = gid.x
  let v = x[i]
  let d = z[i]
{stores}
}}
"""


def _indices() -> Iterator[Named]:
    computed = {"i32": "bitcast<i32>(v)", "u64": "cast<u64>(v)", "i64": "cast<i64>(bitcast<i32>(v))"}
    known = {"i32": ("3i", "-2i"), "u64": ("3u64", "4294967297u64"), "i64": ("3i64", "-1i64")}
    for dtype, index in computed.items():
        inside, outside = known[dtype]
        for name, source in (
            ("runtime", "read u32[runtime]"),
            ("static", "read u32[16]"),
            ("inlined", "uniform u32[16]"),
        ):
            text = f"""program indices
workgroup_size 32, 1, 1
buffer x @0 read u32[{LANES}]
buffer s @1 {source}
buffer y @2 write u32[{LANES * 5}]
buffer w @3 read_write u64[8] output
buffer n @4 read_write u32[8] output
buffer shared @- workgroup u32[32]
body {{
  let i = gid.x
  let v = x[i]
  let k = {index}
  shared[lid.x] = v
  barrier(acq_rel)
  y[i * 5u] = s[k]
  y[i * 5u + 1u] = s[{inside}] + s[{outside}]
  y[i * 5u + 2u] = shared[k]
  y[i * 5u + 3u] = shared[{inside}] + shared[{outside}]
  w[k] = 7u64
  let old = atomic_add(n, k, 1u)
}}
"""
            yield f"{dtype} indices, {name}", _case(text, {"x": _WORDS, "s": _WORDS[:16]})


_BOUNDS: Final[Mapping[str, Sequence[tuple[int, int, int]]]] = {
    "u32": [(0, 10, 3), (2**32 - 10, 2**32 - 1, 4), (5, 3, 1), (0, 3, 0)],
    "i32": [
        *((-5, 5, 2), (5, -5, -3), (2**31 - 8, 2**31 - 1, 3), (8 - 2**31, -(2**31), -5), (0, 9, -1), (0, 0, 1)),
        *((10, 0, -(2**31)), (-(2**31), 2**31 - 1, 2**31 - 1), (2**31 - 1, -(2**31), -(2**30)), (3, 9, 0)),
    ],
    "u64": [(0, 10, 3), (2**64 - 10, 2**64 - 1, 4), (5, 3, 1), (0, 3, 2**64 - 1), (2, 6, 0)],
    "i64": [
        *((-5, 5, 2), (5, -5, -3), (2**63 - 8, 2**63 - 1, 3), (8 - 2**63, -(2**63), -5), (0, 9, -1)),
        *((-(2**63), 2**63 - 1, 2**62), (2**62, -(2**62), -(2**63)), (1, 5, 0)),
    ],
}
"""Start, stop and step of loops of each type."""


def _loops() -> Iterator[Named]:
    for dtype, rows in _BOUNDS.items():
        table = np.array(rows, _NUMPY[dtype])
        yield (
            f"{dtype} loops, computed",
            _case(_loop(dtype, "b[i * 3u]", "b[i * 3u + 1u]", "b[i * 3u + 2u]"), {"b": table}),
        )
        for start, stop, step in rows:
            if step:
                bounds = (f"{number}{_SUFFIX[dtype]}" for number in (start, stop, step))
                yield f"{dtype} loop from {start} to {stop} by {step}", _case(_loop(dtype, *bounds), {"b": table}, 1)


def _loop(dtype: str, start: str, stop: str, step: str) -> str:
    return f"""program loops
workgroup_size 8, 1, 1
buffer b @0 read {dtype}[runtime]
buffer y @1 write {dtype}[128]
buffer n @2 write u32[16]
body {{
  let i = gid.x
  let m = 0u
  for j in {start} .. {stop} step {step} {{
    if m > 20u {{
      break
    }}
    y[i * 8u + min(m, 7u)] = j
    m := m + 1u
  }}
  n[i] = m
}}
"""


_ELEMENTS: Final = {
    "u32": ("{}", "{}"),
    "u8": ("{}", "{}"),
    "i16": ("bitcast<i32>({}) * 1000i", "bitcast<u32>({})"),
    "f16": ("cast<f32>({}) * 0.1f", "bitcast<u32>({})"),
    "bf16": ("cast<f32>({}) * 0.1f", "bitcast<u32>({})"),
    "f64": ("cast<f64>({}) * 0.1f64", "cast<u32>({})"),
    "bool": ("{} > 2u", "cast<u32>({})"),
    "bool8": ("{} > 2u", "cast<u32>({})"),
    "u64": ("cast<u64>({}) * 7777777777u64", "cast<u32>({} >> 32u)"),
}
"""For each element type how a u32 becomes an element, and how a loaded element becomes a u32."""


def _private_arrays() -> Iterator[Named]:
    for dtype, (store, load) in _ELEMENTS.items():
        for count, index in ((7, "x[i] % 9u + {}u"), (300, "x[i] % 9u + {}u"), (7, "{}u")):
            stores = "\n".join(
                f"  st[{index.format(2 * k % 5)}] = {store.format(f'x[(i + {k}u) % 64u]')}" for k in range(4)
            )
            loads = "\n".join(
                f"  let v{k} = st[{index.format(k)}]\n  y[i * 5u + {k}u] = {load.format(f'v{k}')}" for k in range(4)
            )
            text = f"""program private
workgroup_size 32, 1, 1
buffer x @0 read u32[{LANES}]
buffer y @1 write u32[{LANES * 5}]
buffer st @- private {dtype}[{count}]
body {{
  let i = gid.x
{stores}
{loads}
  let first = st[0u]
  st[0u] = st[1u]
  st[1u] = first
  let second = st[1u]
  y[i * 5u + 4u] = {load.format("second")}
}}
"""
            where = "in registers" if index == "{}u" else f"of {count}"
            yield f"private {dtype} {where}", _case(text, {"x": _SMALL})
    yield "private memory between grid barriers", _case(_SPLIT, {"x": _SMALL, "y": _WORDS})


_SPLIT: Final = f"""program split
workgroup_size 32, 1, 1
buffer x @0 read u32[{LANES}]
buffer y @1 read_write u32[{LANES}]
buffer st @- private u32[16]
body {{
  let i = gid.x
  y[i] = y[i] + x[i]
  barrier(grid_sync)
  for k in 0u .. 16u {{
    st[(i + k) % 16u] = y[(i * k) % 64u]
  }}
  let sum = 0u
  for k in 0u .. 16u {{
    sum := sum * 3u + st[k]
  }}
  barrier(grid_sync)
  y[i] = y[i] + 1u
}}
"""


def _switches() -> Iterator[Named]:
    selectors = {
        "u32": "x[i]",
        "i32": "bitcast<i32>(x[i])",
        "u64": "cast<u64>(x[i])",
        "i64": "cast<i64>(bitcast<i32>(x[i]))",
    }
    for dtype, selector in selectors.items():
        least = -1 if dtype[0] == "i" else 0
        forms: dict[str, list[list[int]]] = {
            "few arms": [[1], [2, 3, 7], [least]],
            "consecutive labels": [[k] for k in range(least, 12)],
            "gaps": [[k, k + 1] for k in range(0, 24, 4)],
            "256 arms": [[k] for k in range(256)],
            "sparse labels": [[k * 1000] for k in range(9)],
        }
        for form, arms in forms.items():
            if form == "256 arms" and dtype in ("i32", "u64"):
                continue  # they take long, and differ in nothing from those of the other types
            for default in (False, True):
                name = f"switch over {dtype} with {form}{' and a default' if default else ''}"
                yield name, _case(_switch(selector, _SUFFIX[dtype], arms, default=default), {"x": _SMALL})


def _switch(selector: str, suffix: str, arms: Sequence[Sequence[int]], *, default: bool) -> str:
    cases = "\n".join(
        f"    case {', '.join(f'{label}{suffix}' for label in labels)} {{\n"
        f"      y[i * 3u] = {k + 100}u\n      s := {labels[-1]}{suffix} + 1{suffix}\n    }}"
        for k, labels in enumerate(arms)
    )
    otherwise = "\n    else {\n      y[i * 3u + 1u] = 7u\n    }" if default else ""
    return f"""program arms
workgroup_size 32, 1, 1
buffer x @0 read u32[{LANES}]
buffer y @1 read_write u32[{LANES * 3}] output
buffer shared @- workgroup u32[32]
body {{
  let i = gid.x
  let s = {selector}
  switch s {{
{cases}{otherwise}
  }}
  y[i * 3u + 1u] = y[i * 3u + 1u] + cast<u32>(s)
  switch x[0u] {{
    case 5u {{
      y[i * 3u + 2u] = 1u
    }}
    case 0u, 1u, 2u, 9u {{
      let sum = subgroup_add(x[i])
      shared[lid.x] = sum + i
      barrier(acq_rel)
      y[i * 3u + 2u] = shared[lid.x ^ 1u]
    }}
  }}
}}
"""


def _truth_values() -> Iterator[Named]:
    text = f"""program truth
workgroup_size 32, 1, 1
buffer x @0 read u32[{LANES}]
buffer b @1 read bool8[{LANES}]
buffer y @2 write bool8[{LANES}]
buffer z @3 write u32[{LANES}]
buffer shared @- workgroup bool8[32]
body {{
  let i = gid.x
  shared[lid.x] = b[i]
  barrier(acq_rel)
  y[i] = (x[i] > 2u) and b[i]
  z[i] = cast<u32>(shared[lid.x ^ 1u])
}}
"""
    yield "bool8", _case(text, {"x": _SMALL, "b": np.array([0, 1, 1, 0, 1, 1, 0, 0] * 8, np.uint8)})
