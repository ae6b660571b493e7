"""Every decision is asked by code that runs."""

from __future__ import annotations

import importlib
import shutil
from pathlib import Path
from typing import Any

import pytest

import vyre

DOCS = Path(__file__).parents[3] / "docs"
SOURCE = Path(vyre.__file__).parent


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(DOCS)
    return importlib.import_module("decision_askers")


def test_every_decision_is_asked(read: Any) -> None:
    idle = [name for name, asked in read.askers(SOURCE).items() if not asked.anybody]
    assert idle == [], "asked by nobody; let something ask it, or move it to the seeds"


def test_every_function_of_a_decision_is_asked(read: Any) -> None:
    assert read.idle_functions(SOURCE) == (), "nobody asks; let something ask it, or move it to tests/vectors/seeds"


def test_a_function_that_nobody_asks_is_found_beside_one_that_is_asked(read: Any, package: Path) -> None:
    beside = "\n\ndef helper() -> int:\n    return 2\n\ndef decide_old() -> int:\n    return helper()\n"
    new = package / "policies" / "launching" / "new.py"
    write(new, new.read_text("utf-8") + beside)
    write(
        package / "app" / "services.py",
        "from vyre.policies.launching.new import decide_new\n\ndef use() -> int:\n    return decide_new()\n",
    )
    write(package / "app" / "main.py", "from vyre.app import services\n\nservices.use()\n")
    assert read.idle_functions(package) == ("policies.launching.new.decide_old", "policies.launching.new.helper")


def test_an_input_that_every_caller_passes_as_one_constant_is_none(read: Any) -> None:
    assert read.constant_inputs(SOURCE) == (), "no input: let it vary, or write the comparison where it is used"


@pytest.mark.parametrize(
    ("calls", "constant"),
    [
        (["NewInputs(1, b=size)"], {"a", "c"}),
        (["NewInputs(a=1, b=2, c=size)"], {"a", "b"}),
        (["NewInputs(size, size + 1)", "NewInputs(1, 2, 3)"], set()),  # ``c`` is its default, and 3
        (["NewInputs(1, size)", "NewInputs(1, 2, 0)"], {"a", "c"}),
        (["NewInputs(*size)"], set()),
        (["NewInputs(1, **size)"], set()),
        (["replace(NewInputs(1, size), a=size)"], {"c"}),
        (["NewInputs(Kind.ONE, FIRST)"], {"a", "b", "c"}),
    ],
)
def test_constants_are_found_in_calls(read: Any, package: Path, calls: list[str], constant: set[str]) -> None:
    write(
        package / "policies" / "launching" / "new.py",
        "@record\nclass NewInputs:\n    a: int\n    b: int\n    c: int = 0\n\n"
        "@record\nclass NewThresholds:\n    least: int = 1\n\n"
        "def decide_new(inputs: NewInputs, thresholds: NewThresholds = NewThresholds()) -> int:\n    return 1\n",
    )
    for place, call in enumerate(calls):
        write(
            package / "app" / f"user_{place}.py",
            "from vyre.policies.launching.new import NewInputs, decide_new\n\n"
            f"def use(size) -> int:\n    decide_new({call})\n",
        )
    forget(read)
    assert set(read.constant_inputs(package)) == {f"new.NewInputs.{field}" for field in constant}
    forget(read)


def test_who_asks_is_named(read: Any) -> None:
    asked = read.askers(SOURCE)
    assert "app/selection.py" in asked["backend_ranking"].by
    assert asked["egraph_kernels"].by == ("graphs/egraph_closing.py",)
    assert asked["claims"].by == ("app/evidence/claims.py",)


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package with one decision, which nothing calls, and with services."""
    package = tmp_path / "vyre"
    write(
        package / "policies" / "launching" / "new.py",
        "class NewInputs: ...\n\ndef decide_new() -> int:\n    return 1\n",
    )
    write(package / "app" / "services.py", "from importlib import import_module\n")
    return package


def forget(read: Any) -> None:
    read.askers.cache_clear()
    read._read.cache_clear()


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


@pytest.mark.parametrize(
    ("line", "asked"),
    [
        ("from vyre.policies.launching.new import decide_new\n\ndef use() -> int:\n    return decide_new()\n", True),
        ("from vyre.policies.launching import new\n\ndef use() -> int:\n    return new.decide_new()\n", True),
        ("from vyre.policies.launching.new import decide_new\n", False),  # imported alone
        ("from vyre.policies.launching.new import NewInputs\n\nINPUTS = NewInputs()\n", False),  # a record alone
        (
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n"
            "    from vyre.policies.launching.new import decide_new\ndef use(new: decide_new) -> None: ...\n",
            False,
        ),
    ],
)
def test_a_new_decision_is_asked_only_by_code_that_calls_it(read: Any, package: Path, line: str, asked: bool) -> None:
    def anybody() -> bool:
        forget(read)
        found = read.askers(package)
        assert found.keys() == {"new"}
        return bool(found["new"].anybody)

    assert not anybody()
    write(package / "app" / "new_user.py", line)
    assert not anybody(), "nobody imports what asks"
    write(
        package / "app" / "services.py",
        "from importlib import import_module\n\nimport_module('vyre.app.new_user')\n",
    )
    assert anybody() is asked
    forget(read)


def test_a_decision_that_loses_its_last_caller_is_seen(read: Any, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(SOURCE, tmp_path / "vyre", ignore=shutil.ignore_patterns("__pycache__", "testing")))
    selection = copy / "app" / "selection.py"
    write(
        selection, selection.read_text("utf-8").replace("rank_candidates", "another").replace("capability_score", "x")
    )
    asked = read.askers(copy)
    forget(read)
    assert not asked["backend_ranking"].anybody
