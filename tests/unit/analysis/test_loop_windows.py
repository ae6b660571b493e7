"""The elements of a loop that can be computed before its rounds."""

from __future__ import annotations

import pytest

from vyre.domain.analysis.loop_windows import MOST_ELEMENTS, LoopWindow, loop_window
from vyre.domain.ir.stmt import Loop, walk_statements
from vyre.domain.ir.text import parse_program
from vyre.domain.ir.text_printer import expression_text


def window(body: str, head: str = "for k in first[gid.x] .. 9u") -> LoopWindow | None:
    program = parse_program(
        f"""workgroup_size 64, 1, 1
        buffer first @0 read u32[runtime]
        buffer col @1 read u32[runtime]
        buffer x @2 read f32[runtime]
        buffer half @3 read f16[runtime]
        buffer wide @4 read f64[runtime]
        buffer y @5 read_write f32[runtime]
        buffer own @- private f32[4]
        buffer scale @6 uniform f32[4]
        body {{ let s = 0f let t = first[gid.x] let w = s {head} {{ {body} }} y[gid.x] = s }}"""
    )
    loop = next(stmt for stmt in walk_statements(program.body) if isinstance(stmt, Loop))
    return loop_window(loop, program.buffers_by_name)


CASES = {
    "s := s + x[k] * x[col[k]]": (["x[k] * x[col[k]]"], [], ["s"]),
    "s := s + x[k] * x[t]": None,
    "s := x[k] + s * x[k + 1u]": (["x[k]", "x[k + 1u]"], [], ["s"]),
    "let c = col[k] s := s + x[c]": (["x[c]"], ["c"], ["s"]),
    "let c = col[k] s := s + x[c] + cast<f32>(c)": (["x[c]", "cast<f32>(c)"], ["c"], ["s"]),
    "let c = col[k] c := c + 1u s := s + cast<f32>(c)": (["col[k]"], [], ["c", "c", "s"]),
    "let c = col[k] let d = c s := s + w * cast<f32>(d) + x[k]": (["cast<f32>(d)", "x[k]"], ["c", "d"], ["s"]),
    "let j = k + 1u s := s + x[j] * cast<f32>(j)": (["x[j] * cast<f32>(j)"], ["j"], ["s"]),
    "let j = k + 1u s := s * cast<f32>(j) + x[j]": (["x[j]"], ["j"], ["j", "s"]),
    "let c = col[k] t := t + c s := s + x[c]": (["col[k]", "x[c]"], ["c"], ["c", "t", "s"]),
    "s := s + half[k] * scale[2u]": (["half[k] * scale[2u]"], [], ["s"]),
    "s := s + scale[2u] * scale[3u]": None,
    "s := s + cast<f32>(k)": None,
    "s := s + cast<f32>(wide[k])": None,
    "s := s + cast<f32>(cast<f64>(x[k]) * 2f64)": (["x[k]"], [], ["s"]),
    "s := s + y[k]": None,
    "s := s + own[k & 3u] + x[k]": None,
    "s := s + x[k + gid.x]": None,
    "if s < 1f { s := s + x[k] }": None,
    "s := s + x[k] break": None,
    "y[k] = x[k]": None,
    "let s = x[k] let s2 = s": None,
}


@pytest.mark.parametrize("body", CASES)
def test_elements(body: str) -> None:
    found, expected = window(body), CASES[body]
    if found is None or expected is None:
        assert found is None
        assert expected is None
        return
    elements, lets, rest = expected
    assert [expression_text(element) for element in found.elements] == elements
    assert [let.name for let in found.lets] == lets
    assert [stmt.name for stmt in found.rest] == rest


def test_the_most_elements() -> None:
    for count, is_window in ((MOST_ELEMENTS, True), (MOST_ELEMENTS + 1, False)):
        terms = " ".join(f"s := s + x[k + {number}u]" for number in range(count))
        assert (window(terms) is not None) is is_window


@pytest.mark.parametrize(
    "head", ["for k in 9u .. 0u step 4294967295u", "for k in 0u .. 9u step 2u", "for k in 0i .. 9i step 1i"]
)
def test_counters_that_do_not_go_up_by_one(head: str) -> None:
    assert window("s := s + x[k]", head) is None
