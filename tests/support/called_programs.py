"""Programs that call operations, and the same programs with the bodies of these written by hand."""

from __future__ import annotations

from typing import Final, NamedTuple

from vyre.domain.ir.program import Program

DEFINITIONS: Final = """
define acme.mix version 1.2.0 (h: u32, k: u32) -> u32 {
  let t = h
  if k > 7u {
    t := t ^ (k << 3u)
  } else if k > 3u {
    t := rotl(t, k)
  } else {
    t := t + 1u
  }
  result t * 0x9e3779b1u
}
define acme.hash version 10.0.1 (x: u32, rounds: u32) -> u32 {
  let s = x
  for r in 0u .. rounds {
    if s == 0u {
      continue
    }
    let t = acme.mix(s, r)
    s := acme.mix(t, acme.mix(r, s))
    switch s & 3u {
      case 1u {
        break
      }
      else {
        s := s + r
      }
    }
  }
  result s
}
define acme.even version 1.0.0 (x: u32) -> bool {
  result (x & 1u) == 0u
}
"""
_HEAD: Final = """workgroup_size 64, 1, 1
buffer a @0 read u32[runtime]
buffer hits @1 read_write u32[runtime] output
buffer out @2 read_write u32[runtime] like a output
"""


class CalledProgram(NamedTuple):
    """A program with calls, and one without that has the same bytes."""

    called: Program
    plain: Program


def _pair(called: str, plain: str) -> CalledProgram:
    return CalledProgram(
        Program.from_text(f"{_HEAD}{DEFINITIONS}body {{\n{called}\n}}"),
        Program.from_text(f"{_HEAD}body {{\n{plain}\n}}"),
    )


_MIX: Final = """
  let t{n} = {h}
  if {k} > 7u {{
    t{n} := t{n} ^ ({k} << 3u)
  }} else if {k} > 3u {{
    t{n} := rotl(t{n}, {k})
  }} else {{
    t{n} := t{n} + 1u
  }}
  let m{n} = t{n} * 0x9e3779b1u
"""


def _mix(n: int, h: str, k: str) -> str:
    return _MIX.format(n=n, h=h, k=k)


PROGRAMS: Final = {
    "let": _pair(
        "let i = gid.x out[i] = acme.mix(a[i], i)", f"let i = gid.x let x = a[i] {_mix(0, 'x', 'i')} out[i] = m0"
    ),
    "loop": _pair(
        "let i = gid.x out[i] = acme.hash(a[i], 9u)",
        f"""let i = gid.x let s = a[i]
        for r in 0u .. 9u {{ if s == 0u {{ continue }}
          {_mix(0, "s", "r")} {_mix(1, "r", "s")} {_mix(2, "m0", "m1")} s := m2
          switch s & 3u {{ case 1u {{ break }} else {{ s := s + r }} }} }}
        out[i] = s""",
    ),
    "else if": _pair(
        """let i = gid.x let v = a[i]
        if acme.even(v) { out[i] = 1u } else if acme.even(acme.mix(v, i)) { out[i] = 2u }
        else if v > 100u { out[i] = 3u } else if acme.even(v >> 1u) { out[i] = 4u } else { out[i] = 5u }""",
        f"""let i = gid.x let v = a[i] {_mix(0, "v", "i")}
        if (v & 1u) == 0u {{ out[i] = 1u }} else if (m0 & 1u) == 0u {{ out[i] = 2u }}
        else if v > 100u {{ out[i] = 3u }} else if ((v >> 1u) & 1u) == 0u {{ out[i] = 4u }} else {{ out[i] = 5u }}""",
    ),
    "bounds": _pair(
        """let i = gid.x let n = 0u
        for k in acme.mix(0u, 0u) & 3u .. (acme.mix(i, i) & 7u) step (acme.mix(i, 2u) & 1u) + 1u { n := n + k }
        switch acme.mix(n, i) & 1u { case 0u { out[i] = n } else { out[i] = acme.mix(n, 1u) } }""",
        f"""let i = gid.x let n = 0u {_mix(0, "0u", "0u")} {_mix(1, "i", "i")} {_mix(2, "i", "2u")}
        for k in m0 & 3u .. (m1 & 7u) step (m2 & 1u) + 1u {{ n := n + k }} {_mix(3, "n", "i")} {_mix(4, "n", "1u")}
        switch m3 & 1u {{ case 0u {{ out[i] = n }} else {{ out[i] = m4 }} }}""",
    ),
    "atomics": _pair(
        """let i = gid.x
        out[i] = atomic_add(hits, 0u, 1u) * 9u + acme.mix(atomic_add(hits, 0u, 2u), i) + atomic_add(hits, 0u, 4u)""",
        f"""let i = gid.x let p = atomic_add(hits, 0u, 1u) let q = atomic_add(hits, 0u, 2u)
        {_mix(0, "q", "i")} out[i] = p * 9u + m0 + atomic_add(hits, 0u, 4u)""",
    ),
    "index": _pair(
        "out[acme.mix(a[gid.x], 1u) & 63u] = acme.mix(a[gid.x] + 0u, 1u) & 63u",
        f"let x = a[gid.x] {_mix(0, 'x', '1u')} out[m0 & 63u] = m0 & 63u",
    ),
}
"""By name; inputs are ``a`` and ``hits``, of any length."""
