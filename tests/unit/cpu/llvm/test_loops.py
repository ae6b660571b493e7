"""Loops as machine code: bounds and steps of every type, and lanes that leave in different rounds."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import pytest

from support.cpu.agreement import case, disagreements
from support.cpu.kernels import Variant
from support.programs import Case
from vyre.adapters.cpu.llvm.emit import emit
from vyre.adapters.cpu.llvm.options import EmitOptions
from vyre.adapters.cpu.native.compilation import Effort, assembly
from vyre.adapters.cpu.native.features import X86_64, CpuFeatures

SUFFIX = {"u32": "u", "i32": "i", "u64": "u64", "i64": "i64"}
BITS = {"u32": 32, "i32": 32, "u64": 64, "i64": 64}


def _bounds(dtype: str) -> list[tuple[int, int, int]]:
    """Start, stop and step of loops, at both ends of a type and across its middle."""
    signed, bits = dtype[0] == "i", BITS[dtype]
    least, most = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    half = most // 2 + 1
    rows = [(0, 0, 1), (0, 5, 1), (3, 2, 1), (0, 7, 3), (least, least + 3, 2), (most - 3, most, 1), (1, 2, 0)]
    rows += [(most - 5, most, 4), (most - 1, most, most), (least, most, most), (most, least, 1), (0, 100, 1)]
    rows += [(half - 2, half + 2, 1), (half - 2, half + 2, 3), (0, most, half), (least, most, 1), (0, 0, 0)]
    if signed:
        rows += [(-2, 2, 1), (2, -2, -1), (5, 0, -2), (least + 4, least, -1), (least + 5, least, -4), (0, 3, -1)]
        rows += [(most, least, least), (most, least, -most), (3, 3, -1), (-1, least, least), (most, least, -1)]
    return rows


def _body(dtype: str, bounds: str, at: str) -> str:
    zero = f"0{SUFFIX[dtype]}"
    return f"""
  let sum = {zero}
  let rounds = 0u
  for i in {bounds} {{
    sum := sum * 31{SUFFIX[dtype]} + i
    rounds := rounds + 1u
    if rounds == 40u {{
      break
    }}
  }}
  y[{at}] = sum
  n[{at}] = rounds
"""


def _program(dtype: str, body: str) -> Case:
    rows = _bounds(dtype)
    count = len(rows)
    text = f"""
workgroup_size {count}, 1, 1
buffer a @0 read {dtype}[{count}]
buffer b @1 read {dtype}[{count}]
buffer s @2 read {dtype}[{count}]
buffer y @3 write {dtype}[{count}]
buffer n @4 write u32[{count}]
body {{
{body}
}}
"""
    inputs = {name: [row[place] for row in rows] for place, name in enumerate("abs")}
    return case(text, inputs, grid=1)


def _in_every_lane(dtype: str, bounds: str) -> Case:
    """Every lane has the bounds of its own row; in ``bounds`` @ stands for the lane."""
    return _program(dtype, _body(dtype, bounds.replace("@", "gid.x"), "gid.x"))


def _one_after_the_other(dtype: str, bounds: str) -> Case:
    """All lanes run the loop of every row; in ``bounds`` @ stands for the row."""
    inner = _body(dtype, bounds.replace("@", "r"), "r")
    return _program(dtype, f"for r in 0u .. {len(_bounds(dtype))}u {{ {inner} }}")


def _constant(dtype: str) -> Case:
    suffix = SUFFIX[dtype]
    loops = [
        f"if true {{ {_body(dtype, f'{a}{suffix} .. {b}{suffix} step {s}{suffix}', f'{row}u')} }}"
        for row, (a, b, s) in enumerate(_bounds(dtype))
        if s
    ]
    return _program(dtype, "\n".join(loops))


@pytest.mark.parametrize("dtype", SUFFIX)
def test_bounds(dtype: str) -> None:
    suffix = SUFFIX[dtype]
    forms = ["a[@] .. b[@] step s[@]", f"a[@] .. b[@] step 3{suffix}", f"2{suffix} .. b[@] step s[@]"]
    forms += [f"a[@] .. b[@] step 1{suffix}", "a[2u] .. b[@] step s[1u]", "a[@] .. b[1u] step s[1u]"]
    if suffix[0] == "i":
        forms += [f"a[@] .. b[@] step -1{suffix}", f"a[@] .. b[@] step -3{suffix}", "a[5u] .. b[@] step neg(s[1u])"]
    cases = {f"lanes {form}": _in_every_lane(dtype, form) for form in forms}
    cases |= {f"rows {form}": _one_after_the_other(dtype, form) for form in forms}
    assert disagreements({**cases, "constants": _constant(dtype)}) == []


HEAD = """
workgroup_size 13, 1, 1
buffer x @0 read u32[13]
buffer y @1 read_write u32[13]
buffer z @2 read_write u32[13]
body {
  let i = gid.x
"""
NESTS = {
    "divergent stops": "for k in 0u .. x[i] { y[i] = y[i] * 3u + k }",
    "divergent starts": "for k in x[i] .. 9u { y[i] = y[i] * 3u + k }",
    "break and continue": """
  for k in 0u .. 9u {
    if k == x[i] { break }
    if (k + i) % 3u == 0u { continue }
    y[i] = y[i] * 3u + k
  }
  z[i] = y[i]""",
    "inner leaves, outer goes on": """
  for k in 0u .. 5u {
    for j in k .. x[i] {
      if (j + k) % 4u == 3u { break }
      if (j ^ i) % 2u == 0u { continue }
      y[i] = y[i] * 5u + j
    }
    if y[i] % 7u == 6u { break }
    z[i] = z[i] * 3u + y[i]
  }""",
    "return from the inner loop": """
  let a = 1u
  for k in 0u .. 5u {
    for j in 0u .. x[i] {
      a := a * 3u + j
      if a % 11u == 7u { return }
      y[i] = a
    }
    z[i] = a + k
  }
  y[i] = y[i] + 1000u""",
    "return and break and continue": """
  for k in 0u .. 6u {
    switch (k + i) % 5u {
      case 0u { continue }
      case 1u { if x[i] > 6u { return } }
      case 2u { if x[i] < 2u { break } }
      else { y[i] = y[i] * 3u + k }
    }
    z[i] = z[i] + 1u
  }
  z[i] = z[i] + 100u""",
    "a return that ends every lane": """
  for k in 0u .. 6u {
    y[i] = k
    if k >= x[i] { return }
    if k == 3u { return }
  }
  z[i] = 1u""",
    "a uniform break in a loop of divergent rounds": """
  for k in 0u .. x[i] {
    for j in 0u .. 4u {
      if j == 2u { break }
      y[i] = y[i] + j + 1u
    }
    if k == 4u { break }
  }""",
    "a uniform return in a branch": "for k in 0u .. 4u { y[i] = k; if k == 2u { return } }".replace("; ", "\n"),
    "locals assigned under a mask": """
  let a = i
  let b = 7u
  for k in 0u .. 5u {
    if x[i] > k {
      a := a + b
      for j in 0u .. a % 4u { b := b * 3u + j }
    } else {
      b := a
      if b % 3u == 0u { continue }
    }
    y[i] = y[i] + a
  }
  z[i] = a * 7u + b""",
    "loop after a divergent return": """
  if x[i] == 3u { return }
  for k in 0u .. x[i] { y[i] = y[i] + k + 1u }
  if x[i] == 5u { return }
  for k in 0u .. 3u { z[i] = z[i] + k + y[i] }""",
    "nothing after the loop": "for k in 0u .. 4294967295u { if k >= x[i] { return } y[i] = k + 1u }".replace(
        "} y", "}\n y"
    ),
}


def _nests() -> Iterator[tuple[str, Case]]:
    inputs = {"various": [0, 1, 2, 3, 4, 5, 6, 7, 8, 3, 3, 0, 9], "equal": [5] * 13, "none": [0] * 13}
    for name, body in NESTS.items():
        for kind, numbers in inputs.items():
            yield f"{name}, {kind}", case(f"{HEAD}{body}\n}}", {"x": numbers}, grid=1)


def test_lanes_leave_nested_loops_on_their_own() -> None:
    assert disagreements(dict(_nests())) == []


@pytest.mark.parametrize("budget", [0, 1, 2, 5, 9, 30])
def test_budgets_of_divergent_loops(budget: int) -> None:
    numbers = [0, 1, 2, 3, 4, 5, 6, 7, 8, 3, 3, 0, 9]
    names = [name for name in NESTS if "uniform" in name or "leaves" in name or "inner" in name or "break" in name]
    cases = {
        f"{name}, {budget}": case(f"{HEAD}{NESTS[name]}\n}}", {"x": numbers}, grid=1, step_budget=budget)
        for name in names
    }
    assert (
        disagreements(
            cases, [Variant(lanes, counting=True, joined=lanes == 8, narrow=lanes == 16) for lanes in (1, 4, 8, 16, 32)]
        )
        == []
    )


STRIDED: Final = """
workgroup_size 37, 1, 1
buffer first @0 read {dtype}[1]
buffer size @1 read {dtype}[1]
buffer stop @2 read {dtype}[37]
buffer text @3 read {element}[301]
buffer sums @4 write {dtype}[37]
buffer rounds @5 write u32[37]
buffer out @6 read_write u32[301]
body {{
  let lane = gid.x
  let sum = {zero}
  let count = 0u
  for at in first[0u] + {factor} .. stop[lane] step {step} {{
    if at % {three} == {two} {{
      continue
    }}
    let index = cast<u32>(at)
    count := count + cast<u32>(text[index])
    out[index] = count + index
    sum := sum * {three} + at
    if count > 900u {{
      break
    }}
  }}
  sums[lane] = sum
  rounds[lane] = count
}}
"""


def _strided(dtype: str, element: str, factor: int, step: str, first: int, size: int) -> Case:
    """Every lane counts from ``first + factor * lane`` up to a bound of its own, and reads ``text`` there."""
    suffix = SUFFIX[dtype]
    numbers = {"zero": f"0{suffix}", "two": f"2{suffix}", "three": f"3{suffix}"}
    at = f"cast<{dtype}>(lane) * {factor}{suffix}"
    text = STRIDED.format(dtype=dtype, element=element, factor=at, step=step, **numbers)
    inputs = {
        "first": [first],
        "size": [size],
        "stop": [max(0, 40 * (lane % 8) + (lane * 7) % 50 - 20) for lane in range(37)],
        "text": [(5 * place + 3) % 11 for place in range(301)],
    }
    return case(text, inputs, grid=1)


def test_counters_that_keep_their_distance() -> None:
    cases = {}
    for dtype, suffix in SUFFIX.items():
        least = -40 if dtype[0] == "i" else (1 << BITS[dtype]) - 20
        rows = [("u8", 1, "size[0u]", least), ("u32", 1, f"37{suffix}", 0), ("u16", 3, "size[0u]", 5)]
        for element, factor, step, first in rows:
            name = f"{dtype} {element} {factor} {step} {first}"
            cases[name] = _strided(dtype, element, factor, step, first, 41)
    assert disagreements(cases) == []


@pytest.mark.parametrize(("step", "gathers"), [("size[0u]", False), ("37u", False), ("size[0u] + lane", True)])
def test_strided_rounds_access_memory_in_one_piece(step: str, gathers: bool) -> None:
    program = _strided("u32", "u32", 1, step, 0, 41).program
    text = emit(program, EmitOptions(lanes=16, predicated=True)).text
    assert ("masked.scatter" in text) == gathers


ROUNDS = f"""{HEAD}
  let n = 0u
  let size = 0.0f
  for k in 0u .. x[i] {{
    if size * size > 4.0f {{
      break
    }}
    size := size * size + 0.5f
    n := n + 1u
  }}
  y[i] = n
}}"""


@pytest.mark.parametrize("predicated", [False, True])
def test_masks_of_loops_are_words_where_no_register_is_a_mask(predicated: bool) -> None:
    text = emit(case(ROUNDS, grid=1).program, EmitOptions(lanes=16, predicated=predicated)).text
    kept, hidden = re.findall(r"alloca <16 x (i1|i32)>", text), text.count("call <16 x float> @llvm.arithmetic.fence")
    assert ("i1" in kept) == predicated
    assert (hidden == 0) == predicated


def test_rounds_of_narrow_code_hold_no_packed_masks() -> None:
    text = emit(case(ROUNDS, grid=1).program, EmitOptions(lanes=16, predicated=False)).text
    code = assembly(text, CpuFeatures(X86_64, ("avx", "avx2", "sse4.2"), 256), Effort.FULL, system="linux")
    rounds = [block for block in re.split(r"^\.LBB", code, flags=re.M) if "vmulps" in block]
    assert rounds
    assert not [block for block in rounds if "vpack" in block]


TIGHT = {
    "a sum": "s := s * 3u + z[k]",
    "a store": "z[k] = k + s",
    "an atomic": "let old = atomic_add(z, k, 3u)\ns := s + old",
    "a break": "if z[k] > 90u { break }\ns := s + z[k]",
    "a continue": "if z[k] > 50u { continue }\ns := s + z[k] + k",
    "several buffers": "s := s * 3u + z[k] + x[k]",
    "another index": "s := s * 3u + z[k + 1u] + z[k * 2u]",
}
"""Rounds of a loop from ``x[0]`` to ``x[1]`` whose counter may be an index of ``z``, which has 300 elements."""
SPANS = (
    (0, 9),
    (0, 256),
    (0, 257),
    (0, 300),
    (290, 300),
    (290, 301),
    (299, 320),
    (9, 9),
    (9, 3),
    (0, 4000),
    (2**32 - 3, 2**32 - 1),
)


@pytest.mark.parametrize("name", TIGHT)
def test_loops_of_one_lane_in_two_copies(name: str) -> None:
    text = f"""
workgroup_size 1, 1, 1
buffer x @0 read u32[2]
buffer y @1 write u32[1]
buffer z @2 read_write u32[runtime]
body {{
  let s = 1u
  for k in x[gid.x] .. x[gid.x + 1u] {{
    {TIGHT[name]}
  }}
  y[0u] = s
}}
"""
    cases = {f"{span}": case(text, {"x": span, "z": [7 * n % 97 for n in range(300)]}, grid=1) for span in SPANS}
    assert "short" in emit(next(iter(cases.values())).program, EmitOptions(lanes=1)).text
    variants = [Variant(1), Variant(1, Effort.FULL), Variant(1, Effort.FULL, wide=True), Variant(1, counting=True)]
    assert disagreements(cases, variants) == []


def test_few_rounds_of_one_lane_compare_no_counter_and_look_at_no_flag() -> None:
    body = "let s = 0u\n  for k in x[i] .. x[i + 1u] { s := s + x[k] }\n  y[i] = s\n}"
    text = emit(case(f"{HEAD}{body}", grid=1).program, EmitOptions(lanes=1)).text
    _, short, long = re.split(r"\n(?:short|long)\d+:", text)
    assert "load atomic" not in short and "icmp ult i64" not in short
    assert "load atomic" in long and "icmp ult i64" in long
