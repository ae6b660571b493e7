"""Workgroups of several vectors as machine code: what lives across barriers, who ends where, how far guards reach."""

from __future__ import annotations

import pytest

from support.cpu.agreement import case, disagreements
from support.cpu.kernels import Variant
from support.programs import Case
from vyre.adapters.cpu.llvm.emit import emit
from vyre.adapters.cpu.llvm.options import EmitOptions

SIZE = 37
"""Lanes of a workgroup: no multiple of the width of any vector, and more than the widest has."""
HEAD = """
workgroup_size SIZE, 1, 1
buffer x @0 read u32[2 * SIZE]
buffer y @1 read_write u32[2 * SIZE]
buffer z @2 read_write f32[2 * SIZE]
buffer c @3 uniform u32[4]
buffer s @- workgroup u32[SIZE]
buffer p @- private u32[3]
body {
  let l = lid.x
  let i = gid.x
"""
BARRIER = "barrier(seq_cst)"
FAR = "(SIZEu - 1u - l)"


def _case(body: str, size: int = SIZE, **config: int) -> Case:
    text = f"{HEAD}{body}\n}}".replace("FAR", FAR).replace("BARRIER", BARRIER)
    text = text.replace("2 * SIZE", str(2 * size)).replace("SIZE", str(size))
    numbers = [(7 * n * n + 3 * n) % 23 for n in range(2 * size)]
    return case(text, {"x": numbers, "c": [0, 3, 5, 1000]}, grid=2, **config)


ACROSS = {
    "computed again": "let a = l * 3u + wid.x\ns[l] = a\nBARRIER\ny[i] = s[FAR] + a",
    "kept, long": "let a = (l ^ 5u) * (l + 7u) / 3u + (i << 2u) * (l | 9u)\ns[l] = a\nBARRIER\ny[i] = s[FAR] * a",
    "kept, a load": "let a = x[i]\ns[l] = a\nBARRIER\ny[i] = s[FAR] + a",
    "kept, a bool": "let a = x[i] > 9u\ns[l] = x[i]\nBARRIER\nif a { y[i] = s[FAR] + 1u }",
    "kept, a float": "let a = sqrt(cast<f32>(x[i]))\ns[l] = x[i]\nBARRIER\nz[i] = a + cast<f32>(s[FAR])",
    "kept, 64 bits": "let a = cast<u64>(x[i]) << 40u\ns[l] = x[i]\nBARRIER\ny[i] = cast<u32>(a >> 39u) + s[FAR]",
    "kept, 64 bits and bools": """
  let a = cast<i64>(x[i]) * -5000000000i64
  let b = a < -30000000000i64
  s[l] = x[i]
  BARRIER
  let d = b or s[FAR] > 11u
  BARRIER
  y[i] = select(d, cast<u32>(a / 5i64), 1u) + select(b, 2u, 0u)""",
    "mutable": """
  let a = x[i]
  if a > 9u { a := a + l }
  s[l] = a
  BARRIER
  a := a * 3u + s[FAR]
  if l < 9u { a := 0u }
  BARRIER
  y[i] = a""",
    "mutable, a bool": """
  let a = false
  s[l] = x[i]
  BARRIER
  if s[FAR] > 11u { a := true }
  BARRIER
  if a { y[i] = 1u } else { y[i] = 2u }""",
    "uniform": "let a = c[1u] + wid.x\ns[l] = a + l\nBARRIER\ny[i] = s[FAR] * a",
    "uniform, mutable": """
  let a = c[1u]
  for k in 0u .. c[2u] {
    s[l] = x[i] + a
    BARRIER
    a := a * 2u + k
    y[i] = y[i] * 3u + s[FAR] + a
    BARRIER
  }
  y[i] = y[i] + a""",
    "uniform, assigned by lanes": """
  let a = 5u
  s[l] = x[i]
  BARRIER
  if s[FAR] > 11u { a := a + l }
  BARRIER
  y[i] = a""",
    "of a local of a local": """
  let a = l + 1u
  let b = a * 3u
  s[l] = b
  BARRIER
  let d = b + a
  BARRIER
  y[i] = s[FAR] + d * b""",
    "private memory": "p[l % 3u] = x[i]\ns[l] = p[l % 3u]\nBARRIER\ny[i] = p[l % 3u] + s[FAR] + p[(l + 1u) % 3u]",
    "a shadowed name": """
  if c[0u] == 0u {
    let a = x[i]
    s[l] = a
    BARRIER
    y[i] = a + s[FAR]
  }
  BARRIER
  let a = l
  s[l] = a + y[i]
  BARRIER
  y[i] = s[FAR] * a""",
}
LOOPS = {
    "nested": """
  for k in 0u .. 3u {
    for j in 0u .. 2u {
      s[l] = x[i] + j + k * y[i]
      BARRIER
      y[i] = y[i] * 3u + s[FAR]
      BARRIER
    }
  }""",
    "break": """
  for k in 0u .. 9u {
    s[l] = x[i] + k + y[i]
    BARRIER
    if k == c[1u] { break }
    y[i] = y[i] * 3u + s[FAR]
    BARRIER
  }
  y[i] = y[i] + s[l]""",
    "continue": """
  for k in 0u .. 7u {
    s[l] = x[i] + k + y[i]
    BARRIER
    if k % 2u == c[0u] { continue }
    y[i] = y[i] * 3u + s[FAR]
    BARRIER
  }""",
    "return": """
  for k in 0u .. 9u {
    s[l] = x[i] + k + y[i]
    BARRIER
    y[i] = y[i] * 3u + s[FAR]
    if k == c[1u] { return }
    BARRIER
  }
  y[i] = 0u""",
    "return of one workgroup": """
  for k in 0u .. 9u {
    s[l] = x[i] + k + y[i]
    BARRIER
    if wid.x == 1u { return }
    y[i] = y[i] * 3u + s[FAR]
    BARRIER
  }
  y[i] = y[i] + 1u""",
    "inner break, outer continue, both with barriers": """
  for k in 0u .. 5u {
    for j in 0u .. 5u {
      s[l] = x[i] + j + k
      BARRIER
      y[i] = y[i] * 3u + s[FAR]
      BARRIER
      if j == k { break }
    }
    if k == 2u { continue }
    z[i] = z[i] + cast<f32>(y[i] % 7u)
    BARRIER
  }""",
    "a divergent loop among barriers": """
  for k in 0u .. 4u {
    s[l] = x[i] + k
    BARRIER
    for j in 0u .. s[FAR] { if j == l { break } y[i] = y[i] * 3u + j }
    BARRIER
  }""".replace("} y", "}\ny"),
    "a switch": """
  for k in 0u .. 5u {
    switch k {
      case 0u, 3u {
        s[l] = x[i] + k
        BARRIER
        y[i] = y[i] + s[FAR]
      }
      case 2u { y[i] = y[i] * 5u }
      else { y[i] = y[i] + 1u }
    }
    BARRIER
  }""",
    "a loop that never runs": """
  for k in c[2u] .. c[1u] {
    s[l] = 1u
    BARRIER
    y[i] = s[FAR]
  }
  y[i] = y[i] + 2u
  BARRIER
  s[l] = y[i]""",
    "downwards": """
  for k in 4i .. -1i step -2i {
    s[l] = x[i] + cast<u32>(k)
    BARRIER
    y[i] = y[i] * 3u + s[FAR]
    BARRIER
  }""",
}
ENDS = {
    "a uniform return first": "if c[1u] == 3u { return }\ns[l] = 1u\nBARRIER\ny[i] = s[FAR]",
    "a uniform return that is not taken": "if c[1u] == 4u { return }\ns[l] = l\nBARRIER\ny[i] = s[FAR] + 1u",
    "a return of one workgroup first": "if wid.x == 0u { return }\ns[l] = l\nBARRIER\ny[i] = s[FAR] + 1u",
    "a return of one workgroup between": """
  s[l] = x[i]
  BARRIER
  y[i] = s[FAR]
  if wid.x == 0u { return }
  BARRIER
  s[l] = y[i]
  BARRIER
  y[i] = s[FAR] + 7u""",
    "a divergent return after the last barrier": """
  let a = x[i]
  s[l] = a
  BARRIER
  if s[FAR] > 11u { return }
  y[i] = a + 1u
  if a > 9u { return }
  z[i] = 2.0f""",
    "a divergent return in the last loop": """
  s[l] = x[i]
  BARRIER
  for k in 0u .. 5u {
    y[i] = y[i] + s[FAR] + k
    if y[i] % 3u == 1u { return }
  }
  z[i] = 1.5f""",
    "a return in an else": """
  if c[1u] == 3u {
    s[l] = x[i]
    BARRIER
    y[i] = s[FAR]
  } else {
    return
  }
  BARRIER
  s[l] = y[i] + 1u
  BARRIER
  y[i] = s[FAR]""",
    "a return at the end": "s[l] = x[i]\nBARRIER\ny[i] = s[FAR]\nreturn",
    "a return in a block": "block {\ns[l] = x[i]\nBARRIER\nif wid.x == 1u { return }\n}\nBARRIER\nz[i] = 1.0f",
}
GUARDS = {
    "below": "if lid.x < BOUND { y[i] = s[FAR] }",
    "mirrored": "if BOUND > lid.x { y[i] = s[FAR] }",
    "and": "if lid.x < BOUND and x[i] > 3u { y[i] = s[FAR] }",
    "and, on the right": "if x[i] > 3u and lid.x < BOUND { y[i] = s[FAR] }",
    "equal": "if lid.x == BOUND { y[i] = s[FAR] }",
    "two guards": "if lid.x < BOUND { y[i] = s[FAR] }\nif lid.x < 2u { z[i] = 1.0f }",
    "with a local before": "let a = lid.x * 3u\nif lid.x < BOUND { y[i] = s[FAR] + a }",
    "not below": "if lid.x >= BOUND { y[i] = s[FAR] }",
    "at most": "if lid.x <= BOUND { y[i] = s[FAR] }",
    "or": "if lid.x < BOUND or x[i] > 3u { y[i] = s[FAR] }",
    "with an else": "if lid.x < BOUND { y[i] = s[FAR] } else { y[i] = 5u }",
}
BOUNDS = (
    "0u",
    "1u",
    "8u",
    "9u",
    "36u",
    "37u",
    "38u",
    "4294967295u",
    "(lid.x * 2u)",
    "c[0u]",
    "c[1u]",
    "c[3u]",
    "c[0u] - 1u",
    "8u >> k",
)


@pytest.mark.parametrize("programs", [ACROSS, LOOPS, ENDS], ids=["across", "loops", "ends"])
def test_programs_with_barriers(programs: dict[str, str]) -> None:
    assert disagreements({name: _case(body) for name, body in programs.items()}) == []


def test_budgets_of_loops_with_barriers() -> None:
    counting = [Variant(lanes, counting=True) for lanes in (1, 4, 16, 32)]
    cases = {f"{name}, {n}": _case(body, step_budget=n) for name, body in LOOPS.items() for n in (2, 4, 7)}
    endless = "for k in 0u .. 4294967295u { s[l] = y[i] + k\nBARRIER\ny[i] = s[FAR]\nBARRIER\n}"
    cases["endless"] = _case(endless, step_budget=12)
    assert disagreements(cases, counting) == []


@pytest.mark.parametrize("name", GUARDS)
def test_reach_of_guarded_regions(name: str) -> None:
    cases = {}
    for bound in BOUNDS:
        guarded = GUARDS[name].replace("BOUND", bound)
        body = f"let m = c[1u]\nfor k in 0u .. 3u {{ s[l] = x[i] + k\nBARRIER\n{guarded}\nBARRIER\n}}"
        cases[bound] = _case(body)
    assert disagreements(cases, [Variant(1), Variant(4), Variant(16)]) == []


def test_a_guard_spares_vectors_that_it_lets_nothing_do() -> None:
    guarded, unguarded = (
        emit(
            _case(f"let m = c[1u]\ns[l] = x[i]\nBARRIER\nif {guard} {{ y[i] = s[FAR] }}").program, EmitOptions(lanes=8)
        ).text
        for guard in ("lid.x < m", "lid.x != m")
    )
    assert "@llvm.umin.i64" in guarded and "@llvm.umin.i64" not in unguarded


@pytest.mark.parametrize("size", [1, 3, 4, 5, 8, 15, 16, 17, 31, 32, 33, 64, 65])
def test_tails(size: int) -> None:
    bodies = {
        "barrier": ACROSS["kept, a load"],
        "subgroups": "y[i] = subgroup_add(x[i]) + subgroup_ballot(x[i] > 9u)\nz[i] = subgroup_add(cast<f32>(x[i]))",
        "no barrier": "if x[i] > 9u { y[i] = x[i] * 3u } else { y[i] = l }\nz[i] = cast<f32>(l)",
    }
    assert disagreements({name: _case(body, size) for name, body in bodies.items()}) == []


def test_axes_of_workgroups() -> None:
    cases = {}
    for shape in ((3, 5, 1), (8, 4, 1), (2, 2, 9), (1, 1, 20), (16, 2, 2), (5, 1, 7), (32, 2, 1)):
        body = """
  let at = lid.x + 40u * lid.y + 1600u * lid.z
  let far = gid.x + 3u * gid.y + 5u * gid.z + wid.x * 7u + wid.y * 11u + wid.z * 13u
  let n = lid.x + SX * (lid.y + SY * lid.z)
  s[n] = at
  barrier(seq_cst)
  y[n] = y[n] + s[(n * 7u + 1u) % SIZE] + far * 3u
""".replace("SX", f"{shape[0]}u").replace("SY", f"{shape[1]}u")
        size = shape[0] * shape[1] * shape[2]
        text = f"{HEAD}{body}}}".replace("2 * SIZE", str(2 * size)).replace("% SIZE", f"% {size}u")
        text = text.replace("workgroup_size SIZE, 1, 1", f"workgroup_size {shape[0]}, {shape[1]}, {shape[2]}")
        cases[str(shape)] = case(text.replace("SIZE", str(size)), {"x": [0] * 2 * size, "c": [0] * 4}, grid=(2, 1, 2))
    assert disagreements(cases) == []
