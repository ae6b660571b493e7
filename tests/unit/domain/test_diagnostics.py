"""Diagnostics as text and as JSON."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vyre.domain.diagnostics import Diagnostic, OpLocation, Severity
from vyre.domain.errors import MalformedJson
from vyre.domain.printable import one_line
from vyre.domain.source_location import SourceLocation

_SOURCE = "workgroup_size 64, 1, 1\nbody {\n\tif lid.x < 2 {\n        barrier(seq_cst)\n    }\n}\n"


def _error(line: int, column: int | None) -> Diagnostic:
    loc = SourceLocation("scan.vyre", line, column)
    return Diagnostic(Severity.ERROR, "V010", "barrier in divergent flow", "move it.", loc)


def test_the_token_at_the_column_is_underlined() -> None:
    assert _error(4, 9).render(_SOURCE).split("\n") == [
        "error[V010]: barrier in divergent flow",
        "  --> scan.vyre:4:9",
        "   |",
        " 4 |         barrier(seq_cst)",
        "   |         ^^^^^^^",
        "  = help: move it.",
    ]


def test_a_tab_stays_a_tab_so_that_the_mark_lines_up() -> None:
    assert _error(3, 5).render(_SOURCE).split("\n")[3:5] == [" 3 | \tif lid.x < 2 {", "   | \t   ^^^"]


def test_without_a_column_the_whole_line_is_underlined() -> None:
    assert _error(4, None).render(_SOURCE).split("\n")[3:5] == [
        " 4 |         barrier(seq_cst)",
        "   |         ^^^^^^^^^^^^^^^^",
    ]


@pytest.mark.parametrize(("line", "column"), [(99, 1), (0, None)])
def test_a_place_outside_the_source_is_named_but_not_shown(line: int, column: int | None) -> None:
    assert "|" not in _error(line, column).render(_SOURCE)
    assert f"scan.vyre:{line}" in _error(line, column).render(_SOURCE)


def test_a_column_past_the_end_underlines_the_line() -> None:
    assert _error(6, 40).render(_SOURCE).split("\n")[3:5] == [" 6 | }", "   | ^"]


def test_absent_parts_are_left_out() -> None:
    assert Diagnostic(Severity.WARNING, "W-X", "careful").render(_SOURCE) == "warning[W-X]: careful"
    assert Diagnostic(Severity.NOTE, "N-X", "so it is").render_json() == (
        '{"severity":"note","code":"N-X","message":"so it is"}'
    )


def test_operation_location_and_page_are_shown() -> None:
    diagnostic = Diagnostic(
        Severity.ERROR,
        "E-X",
        "bad",
        "good.",
        location=OpLocation("core.add", 1, "axis"),
        doc_url="https://example.org/E-X",
    )
    assert str(diagnostic).split("\n") == [
        "error[E-X]: bad",
        "  --> op `core.add` operand[1] `axis`",
        "  = help: good.",
        "  = note: https://example.org/E-X",
    ]


_texts = st.text(st.characters(), max_size=20) | st.sampled_from(['"', "\n", "\\", "é\u2028", "\ud800"])
_locations = st.builds(SourceLocation, _texts, st.integers(), st.none() | st.integers())
_places = st.builds(OpLocation, _texts, st.none() | st.integers(), st.none() | _texts)
_diagnostics = st.builds(
    Diagnostic,
    st.sampled_from(Severity),
    _texts,
    _texts,
    st.none() | _texts,
    st.none() | _locations,
    st.none() | _places,
    st.none() | _texts,
)


@given(_diagnostics)
def test_json_parses_back_to_an_equal_value(diagnostic: Diagnostic) -> None:
    assert Diagnostic.parse_json(diagnostic.render_json()) == diagnostic
    assert Diagnostic.from_json(diagnostic.to_json()) == diagnostic


@given(_diagnostics, _texts)
def test_rendering_never_fails(diagnostic: Diagnostic, source: str) -> None:
    assert diagnostic.render(source).startswith(f"{diagnostic.severity.value}[{one_line(diagnostic.code)}]: ")


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("", "$"),
        ("[" * 100_000, "$"),
        ("[]", "$"),
        ('{"severity":"error","code":"V010"}', "$"),
        ('{"severity":"fatal","code":"V010","message":""}', "$.severity"),
        ('{"severity":"error","code":7,"message":""}', "$.code"),
        ('{"severity":"error","code":"V010","message":"","colour":"red"}', "$"),
        ('{"severity":"error","code":"V010","message":"","loc":{"file":"a","line":true}}', "$.loc.line"),
        ('{"severity":"error","code":"V010","message":"","loc":{"file":"a"}}', "$.loc"),
        ('{"severity":"error","code":"V010","message":"","location":{"attr_name":"a"}}', "$.location"),
    ],
)
def test_malformed_json_is_refused_with_its_path(text: str, path: str) -> None:
    with pytest.raises(MalformedJson) as raised:
        Diagnostic.parse_json(text)
    assert raised.value.path == path
