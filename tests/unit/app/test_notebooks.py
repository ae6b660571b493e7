"""What values show in notebooks: whole, escaped HTML without scripts, in the colours of the page."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from types import ModuleType, SimpleNamespace
from typing import Annotated, Any

import numpy as np
import pytest

import vyre
from support.cuda.tuned_device import TunedDevice
from support.launch_costs import shorten_calibrations
from support.small_programs import saxpy_program, square_program
from vyre import In, Out, ProgramBuilder, Static, f32, like, u32
from vyre.app.demo.png import png_bytes
from vyre.app.demo.runner import run_demo
from vyre.app.notebooks.progress import Bar, progress
from vyre.app.services import USUAL, wired
from vyre.domain.html import charts
from vyre.domain.html.markup import MOST_ROWS, Html, panel, table, text
from vyre.domain.launch_costs import Provenance
from vyre.domain.tuning import TimeKind
from vyre.testing import cuda_machine

VOID = {"img", "br", "hr"}
ALLOWED = {
    "div", "p", "b", "table", "thead", "tbody", "tr", "th", "td", "pre", "details", "summary", "img", "svg", "title",
    "path", "polyline", "rect", "text",
}  # fmt: skip
NASTY = "<script>alert('n')</script>&\"\x1b[31m"


class Checker(HTMLParser):
    """Reads HTML strictly: known elements, all closed in order, no scripts, nothing from elsewhere."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.seen: list[str] = []
        self.words: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        assert tag in ALLOWED, tag
        self.seen.append(tag)
        for name, value in attributes:
            assert not name.startswith("on"), name
            assert name not in ("href", "class", "id"), name
            assert value is not None
            if name == "src":
                assert value.startswith("data:image/png;base64,")
            elif name != "xmlns":
                assert "//" not in value
            if name == "style":
                assert not re.search(r"(?<![-\w])color\s*:(?!\s*inherit)|background(-color)?\s*:(?!\s*none)", value), (
                    value
                )
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def shown(value: Any) -> tuple[str, list[str]]:
    """The text of a value's HTML and the elements that it has, after checking it."""
    checker = Checker()
    checker.feed(value._repr_html_())
    checker.close()
    assert checker.open == []
    words = " ".join(checker.words)
    assert "\x1b" not in words
    return words, checker.seen


def nasty_program() -> vyre.Program:
    with ProgramBuilder(NASTY, workgroup=64) as p:
        x = p.input("x" + NASTY, u32)
        y = p.output("y" + NASTY, u32, like=x)
        with p.if_(p.global_id() < x.length):
            y[p.global_id()] = x[p.global_id()] + 1
    return p.build()


# ---------------------------------------------------------------- values
def test_a_result_has_values_pictures_and_times() -> None:
    with vyre.open("reference-scalar") as session:
        result = session.dispatch(
            saxpy_program(), {"a": 2.0, "x": np.arange(9, dtype=np.float32), "y": np.ones(9, "f4")}
        )
    words, elements = shown(result)
    assert "float32[9]" in words
    assert "1.0, 3.0, 5.0, 7.0, 9.0, 11.0, ..." in words
    assert "whole dispatch" in words
    assert {"svg", "table", "details"} <= set(elements)
    assert "whole dispatch" in shown(result.timing)[0]


@pytest.mark.parametrize(
    "array",
    [
        np.zeros((0,), "f4"),
        np.array([np.nan, np.inf, -np.inf, 1.0], "f4"),
        np.full((5, 4), np.nan, "f4"),
        np.array([[np.inf, 1.0], [-np.inf, 3e38]], "f4"),
        np.array([True, False, True]),
        np.arange(2 * 10**5, dtype=np.uint64).reshape(400, 500),
        np.array([[1e308, -1e308], [0, 1]]),
        np.array(["<b>"]),
        np.zeros((2, 2, 2), "f4"),
    ],
    ids=str,
)
def test_every_array_has_a_small_picture_or_none(array: Any) -> None:
    from vyre.app.notebooks.views import _picture

    found = _picture(array)
    shown(SimpleNamespace(_repr_html_=lambda: panel("x", found)))
    assert len(found) < 100_000
    assert ("<img" in found) is (array.ndim == 2)


def test_a_program_is_escaped() -> None:
    words, elements = shown(nasty_program())
    assert "<script>alert('n')</script>" in words  # as text
    assert "program text" in words
    assert "details" in elements
    assert "a number" in shown(saxpy_program())[0]


def test_reports_of_the_validator_tell_everything() -> None:
    assert "nothing to report" in shown(vyre.validate(square_program()))[0]
    from dataclasses import replace

    from vyre.domain.ir.expr import Var
    from vyre.domain.ir.stmt import Let

    invalid = replace(nasty_program(), body=(Let("v", Var(NASTY)),))
    words, _ = shown(vyre.validate(invalid))
    assert "The program is invalid" in words
    assert "error" in words


def test_an_explanation_draws_the_prices() -> None:
    with cuda_machine().open() as session:
        words, elements = shown(session.explain(nasty_program(), batch=8))
        selection = shown(session.explain())
    assert "(chosen)" in words
    assert "predicted" in words
    assert {"polyline", "path"} <= set(elements)
    assert "cuda-machine (chosen)" in selection[0]


@pytest.fixture
def device() -> Iterator[TunedDevice]:
    found = TunedDevice(lambda size, profile: 900_000 if size == 256 else 1_000_000)
    with wired(USUAL._replace(catalog=lambda: found.catalog)):
        yield found


def test_reports_of_tuning_have_bars(device: TunedDevice) -> None:
    inputs = {"x": np.arange(1000, dtype=np.uint32)}
    with vyre.open(cache=False) as session:
        words, elements = shown(session.tune(square_program(), inputs))
        assert "Fastest: workgroup 256" in words
        assert elements.count("svg") == 6
        device.kind, device.jitter_ns = TimeKind.ESTIMATED, (0,)
        assert "Nothing was measured" in shown(session.tune(square_program(), inputs))[0]
        device.failing = frozenset((32,))
        assert "no 32 lanes today" in shown(session.tune(square_program(), inputs))[0]


def test_costs_say_where_they_come_from() -> None:
    with cuda_machine().open() as session:
        found = session.launch_costs()
        assert "round trip" in shown(found)[0]
        assert found.provenance is Provenance.ASSUMED
        assert "assumed" in shown(found.costs)[0]


@vyre.kernel
def doubled(x: In[f32], y: Annotated[Out[f32], like("x")]) -> None:
    i = vyre.global_id()
    if i < len(x):  # & < >
        y[i] = x[i] * 2


@vyre.kernel
def repeated(n: Static[int], y: Out[u32]) -> None:
    y[vyre.global_id()] = n


def test_a_kernel_shows_its_source_and_its_program() -> None:
    words, elements = shown(doubled)
    assert "if i < len(x):  # & < >" in words
    assert "program text" in words
    assert "details" in elements
    generic, elements = shown(repeated)
    assert "It is generic over n." in generic
    assert "details" not in elements


def test_a_kernel_with_a_mistake_shows_it() -> None:
    @vyre.kernel
    def wrong(y: Out[u32]) -> None:
        y[0] = nowhere  # type: ignore[name-defined]  # noqa: F821

    assert "nowhere" in shown(wrong)[0]


# ---------------------------------------------------------------- pieces
def test_text_is_escaped_once() -> None:
    assert text(NASTY) == "&lt;script&gt;alert(&#x27;n&#x27;)&lt;/script&gt;&amp;&quot;\\u{1b}[31m"
    found = table(("a",), [(Html("<b>x</b>"),), ("<b>y</b>",)])
    assert "<b>x</b>" in found
    assert "&lt;b&gt;y&lt;/b&gt;" in found


def test_long_tables_are_cut() -> None:
    found = table(("n",), [(n,) for n in range(MOST_ROWS + 7)])
    assert found.count("<tr>") == MOST_ROWS + 1
    assert "... and 7 more" in found


def test_charts_of_little() -> None:
    assert charts.curves([1], {"a": [1]}, "t") == ""
    assert charts.curves([1, 2], {}, "t") == ""
    assert charts.line([1.0]) == ""
    assert charts.line([float("nan")] * 3) == ""
    for found in (charts.curves([1, 2], {"a": [0, 0]}, NASTY), charts.line([1.0, float("nan"), 1.0]), charts.bar(7.0)):
        shown(SimpleNamespace(_repr_html_=lambda found=found: found))
        assert "nan" not in found


def test_png_of_a_picture_is_one() -> None:
    assert png_bytes(np.zeros((2, 2), np.uint8)).startswith(b"\x89PNG")


# ---------------------------------------------------------------- progress
class Display:
    """Stands for the display of IPython."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def __call__(self, value: Any, *, display_id: bool) -> Display:
        assert display_id
        self.update(value)
        return self

    def update(self, value: Any) -> None:
        self.texts.append(shown(value)[0])


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> Iterator[Display]:
    """This process as a notebook."""
    display = Display()
    interactive, module = ModuleType("IPython"), ModuleType("IPython.display")
    monkeypatch.setattr(interactive, "get_ipython", lambda: SimpleNamespace(kernel=object()), raising=False)
    monkeypatch.setattr(module, "display", display, raising=False)
    monkeypatch.setitem(sys.modules, "IPython", interactive)
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    yield display


def test_a_bar_goes_on_and_ends(notebook: Display) -> None:
    with progress("counting", 4) as step:
        for _ in range(3):
            step("")
        step(NASTY)
    assert "0 of 4" in notebook.texts[0]
    assert "4 of 4" in notebook.texts[-1]
    assert len(notebook.texts) == 6


def test_long_work_sends_few_messages(notebook: Display) -> None:
    with progress("counting", 10_000) as step:
        for _ in range(10_000):
            step("")
    assert 100 <= len(notebook.texts) <= 103


def test_outside_notebooks_nothing_is_shown(notebook: Display, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["IPython"], "get_ipython", lambda: SimpleNamespace())
    with progress("counting", 2) as step:
        step("")
    monkeypatch.delitem(sys.modules, "IPython")
    with progress("counting", 2) as step:
        step("")
    assert notebook.texts == []


def test_a_display_that_fails_stops_nothing(notebook: Display, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*given: Any, **named: Any) -> None:
        raise RuntimeError("no page")

    monkeypatch.setattr(sys.modules["IPython.display"], "display", broken)
    with progress("counting", 2) as step:
        step("")


def test_calibration_and_tuning_show_bars(
    notebook: Display, device: TunedDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    with vyre.open(cache=False) as session:
        session.tune(square_program(), {"x": np.arange(1000, dtype=np.uint32)})
    assert any("checking candidates, 6 of 6" in each for each in notebook.texts)
    assert any("timing candidates" in each for each in notebook.texts)
    notebook.texts.clear()
    shorten_calibrations(monkeypatch)
    with cuda_machine().open() as session:
        session.calibrate(rounds=5)
    assert "measuring launch costs" in notebook.texts[0]


def test_the_demo_shows_a_bar(notebook: Display, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setattr("vyre.app.demo.runner.all_jobs", list)
    with vyre.open("reference-scalar") as session:
        assert run_demo(session, tmp_path, lambda row: None) == []
    assert "running the demo" in notebook.texts[0]


def test_a_bar_has_words_for_terminals() -> None:
    bar = Bar("counting", 2)
    bar.advance("one")
    assert repr(bar) == "counting: 1 of 2: one"
