"""The catalogue of decisions leaves nothing out, and its pictures show what the rules say."""

from __future__ import annotations

import importlib
import inspect
import math
import pkgutil
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

import pytest

import vyre.adapters.cpu.decisions
import vyre.adapters.cuda.decisions
import vyre.policies

DOCS = Path(__file__).parents[3] / "docs"
DECISIONS = DOCS / "decisions"
PACKAGES = (vyre.policies, vyre.adapters.cuda.decisions, vyre.adapters.cpu.decisions)
NO_PAGE = {"decision_records", "journal", "record", "ptxas_hazard_table"}
"""What policies are written with, and a table that one of them reads."""
NO_REFERENCE = re.compile(
    r"constant_division|grid_sync_mode|backend_ranking|kernel_variant|ptx|arith"
    r"|vector_width|private_atomics|effort_choice|thread_plan"
)
"""Ours alone, or arithmetic."""
MODULES = {
    found.name.rpartition(".")[2]: importlib.import_module(found.name)
    for package in PACKAGES
    for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    if not found.ispkg and found.name.rpartition(".")[2] not in NO_PAGE
}


@pytest.fixture
def catalogue(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(DOCS)
    return importlib.import_module("decision_catalogue")


@pytest.fixture
def sweeps(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(DOCS)
    return importlib.import_module("decision_sweeps").SWEEPS


def page(name: str) -> str:
    return (DECISIONS / f"{name}.md").read_text("utf-8")


@pytest.mark.parametrize("name", MODULES)
def test_every_public_function_is_on_the_page_of_its_decision(name: str) -> None:
    text, module = page(name), MODULES[name]
    own = [f for f in vars(module).values() if inspect.isfunction(f) and f.__module__ == module.__name__]
    public = [f.__name__ for f in own if not f.__name__.startswith("_")]
    assert [f for f in public if f"\n### `{f}`\n" not in text] == []


@pytest.mark.parametrize("name", MODULES)
def test_every_public_class_and_field_is_on_the_page_of_its_decision(name: str) -> None:
    text, module = page(name), MODULES[name]
    own = [c for c in vars(module).values() if isinstance(c, type) and c.__module__ == module.__name__]
    for cls in (c for c in own if not c.__name__.startswith("_")):
        assert f"`{cls.__name__}`" in text
        fields = {*getattr(cls, "__dataclass_fields__", ()), *getattr(cls, "_fields", ())} - {"why"}
        assert [f for f in fields if not f.startswith("_") and f"| `{f}` |" not in text] == [], cls


@pytest.mark.parametrize("name", MODULES)
def test_every_page_has_what_a_docstring_must_tell(name: str) -> None:
    text = page(name)
    assert "\n## Complexity\n" in text
    assert ("\n## Compared with vyre-driver\n" in text) is (NO_REFERENCE.match(name) is None)


def test_every_decision_stands_under_one_subject_of_the_index(catalogue: Any) -> None:
    listed = re.findall(r"^\| \[(\w+)\]\(\1\.md\) \|", page("README"), re.MULTILINE)
    assert sorted(listed) == sorted(MODULES)
    assert set(catalogue.NOT_DECISIONS) == NO_PAGE


def test_names_of_decisions_are_unique_whatever_their_folder() -> None:
    stems = Counter(
        path.stem for folder in PACKAGES for path in Path(folder.__path__[0]).rglob("*.py") if path.stem != "__init__"
    )
    assert [stem for stem, count in stems.items() if count > 1] == []
    functions = Counter(
        name
        for module in MODULES.values()
        for name, item in vars(module).items()
        if inspect.isfunction(item) and item.__module__ == module.__name__ and not name.startswith("_")
    )
    assert [name for name, count in functions.items() if count > 1] == [], "journals name decisions by their function"


def test_thresholds_have_their_defaults() -> None:
    for name, row in (
        ("param_inlining", "| `max_inline_bytes` | `U32` | bytes | 0..2^32 - 1 | 3 072 |"),
        ("trace_jit", "| `min_confidence_bps` | `BasisPoints` | 1/10 000 | 0..2^32 - 1 | 6 000 |"),
        ("cache_eviction_heat", "| a finite float above 0 | `300.0` |"),
    ):
        assert row in page(name).split("\n## Thresholds\n")[1].split("\n## ")[0]


def test_reasons_are_those_a_verdict_gives() -> None:
    reasons = " ".join(page("persistent_kernel").split("\n## Reasons\n")[1].split())
    assert reasons.startswith("- a batch of … is below the minimum of … - … launches of … ns cost … ns more")
    assert "- … launches of … ns cost no more than a setup of … ns" in reasons


RULES: dict[str, Callable[[Any, Any], str]] = {
    "persistent_kernel": lambda batch, launch: (
        "PersistentKernel" if batch >= 2 and batch * launch > 50_000 else "StandardLaunches"
    ),
    "command_reuse": lambda repeats, launch: (
        "RecordAndReplay" if repeats >= 2 and repeats * (launch - 2_000) > 100_000 else "PlainLaunches"
    ),
    "param_inlining": lambda length, budget: (
        "Inline" if budget and math.ceil(length / 16) * 16 <= budget else "UniformBuffer"
    ),
    "bindless": lambda count, table: "Parameters" if 8 * count <= 400 else "PointerTable" if table else "Unsupported",
    "cache_eviction_heat": lambda age, hits: "evicted" if hits <= 8 * 2 ** (age / 300) else "kept",
}


@pytest.mark.parametrize("name", RULES)
def test_a_picture_shows_the_verdict_of_every_sample(name: str, sweeps: Any) -> None:
    sweep = sweeps[name]
    shown: dict[tuple[int, int], str] = {}
    for left, bottom, width, height, verdict in sweep.areas():
        for cell in ((x, y) for x in range(left, left + width) for y in range(bottom, bottom + height)):
            assert cell not in shown
            shown[cell] = verdict
    rule = RULES[name]
    assert shown == {
        (x, y): rule(sweep.x.values[x], sweep.y.values[y])
        for x in range(len(sweep.x.values))
        for y in range(len(sweep.y.values))
    }
    assert set(shown.values()) == set(sweep.verdicts)


def test_the_five_main_policies_have_a_picture(sweeps: Any) -> None:
    assert set(sweeps) == set(RULES)
    for name, sweep in sweeps.items():
        assert f"({name}.svg)" in page(name)
        text = (DECISIONS / f"{name}.svg").read_text("utf-8")
        assert len(text) < 10_000 and max(map(len, text.splitlines())) < 150, "small, and read as a diff"
        labels = {element.text for element in Xml.fromstring(text).iter("{http://www.w3.org/2000/svg}text")}
        assert labels >= {sweep.title, sweep.x.title, sweep.y.title, *sweep.verdicts}
        assert labels >= {tick.label for axis in (sweep.x, sweep.y) for tick in axis.ticks}


def test_a_tick_stands_at_the_sample_of_its_value(sweeps: Any) -> None:
    checked = 0
    for sweep in sweeps.values():
        for axis in (sweep.x, sweep.y):
            for tick in axis.ticks:
                if (label := tick.label.replace(" ", "")).isdigit():
                    assert axis.values[int(tick.place * len(axis.values))] == int(label)
                    checked += 1
    assert checked > 30


@pytest.mark.parametrize("change", ["missing", "edited", "left over"])
def test_the_generator_notices_and_mends(
    change: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(DOCS)
    generate = importlib.import_module("generate")
    monkeypatch.setattr(generate, "ROOT", tmp_path)
    monkeypatch.setattr(generate, "DECISIONS", tmp_path / "docs" / "decisions")
    (tmp_path / "src" / "vyre" / "gallery").mkdir(parents=True)
    assert generate.main([]) == 0
    assert generate.main(["--check"]) == 0
    capsys.readouterr()
    folder = tmp_path / "docs" / "decisions"
    match change:
        case "missing":
            (folder / "bindless.svg").unlink()
        case "edited":
            (folder / "constant_division.md").write_text("other", "utf-8")
        case "left over":
            (folder / "gone.md").write_text("other", "utf-8")
    assert generate.main(["--check"]) == 1
    assert capsys.readouterr().out.count("is out of date") == 1
    assert generate.main([]) == 0
    assert generate.main(["--check"]) == 0
