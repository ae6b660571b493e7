"""``import vyre`` is light, and what it names exists."""

from __future__ import annotations

import ast
import builtins
import subprocess
import sys
from pathlib import Path

import pytest

import vyre
from support.limits import LIMIT_S
from vyre.exporting import homes

HEAVY = {
    "numpy",
    "cuda",
    "logging",
    "structlog",
    "rich",
    "typer",
    "click",
    "dependency_injector",
    "prometheus_client",
    "asyncio",
    "concurrent.futures",
    "importlib.metadata",
}


def imported_by(code: str) -> set[str]:
    """Modules that a fresh interpreter has after running ``code`` and did not have before."""
    script = f"import sys\nbefore = set(sys.modules)\n{code}\nprint(*sorted(set(sys.modules) - before))"
    done = subprocess.run(
        [sys.executable, "-I", "-c", script], capture_output=True, text=True, check=True, timeout=LIMIT_S
    )
    return set(done.stdout.split())


def test_importing_vyre_imports_next_to_nothing() -> None:
    modules = imported_by("import vyre")
    assert not modules & HEAVY
    few = {"vyre", "vyre.domain", "vyre.domain.float_mode", "vyre.domain.lazy_names", "vyre.exporting"}
    assert {m for m in modules if m.startswith("vyre")} == few


def test_building_and_validating_need_no_numpy() -> None:
    code = (
        "from vyre import ProgramBuilder, f32, validate\n"
        "with ProgramBuilder('p', workgroup=64) as p:\n"
        "    x, y = p.input('x', f32), p.inout('y', f32)\n"
        "    y[p.global_id()] = x[p.global_id()]\n"
        "assert validate(p.build()).ok"
    )
    assert not imported_by(code) & HEAVY


def test_opening_a_session_loads_no_logging_container_or_terminal() -> None:
    code = "import vyre\nwith vyre.open('reference-scalar') as session:\n    session.explain()"
    assert not imported_by(code) & (HEAVY - {"numpy"})


def test_a_star_import_shadows_no_builtin_and_leaves_out_nothing_else() -> None:
    names: dict[str, object] = {}
    exec("from vyre import *", names)
    imported = set(names) - {"__builtins__"}
    assert {name for name in imported if hasattr(builtins, name)} == set()
    assert set(vyre._MODULE_OF) - imported == {"open"}
    assert eval("open", names) is builtins.open


WRONG = {
    "float32": "vyre.f32",
    "int64": "vyre.i64",
    "bool": "vyre.bool_",
    "max": "vyre.max_",
    "where": r"select\(c, a, b\)",
    "maximum": r"max_\(a, b\)",
    "arcsin": "vyre.asin",
    "ProgramBuider": "vyre.ProgramBuilder",
    "is_nan_": "vyre.is_nan",
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_name_is_answered_with_the_right_one(name: str) -> None:
    with pytest.raises(AttributeError, match=f"no attribute '{name}'. Fix: write {WRONG[name]}"):
        getattr(vyre, name)
    assert not hasattr(vyre, name)


@pytest.mark.parametrize("name", vyre._MODULE_OF)
def test_every_name_resolves(name: str) -> None:
    assert getattr(vyre, name) is not None
    assert name in dir(vyre)


def test_type_checkers_and_the_interpreter_see_the_same_names() -> None:
    assert vyre.__file__ is not None
    tree = ast.parse(Path(vyre.__file__).read_text())
    block = next(n for n in tree.body if isinstance(n, ast.If) and ast.unparse(n.test) == "TYPE_CHECKING")
    typed = {
        a.asname: "vyre.domain.ir.functions" if n.module == "vyre.domain.ir.typed_functions" else n.module
        for n in block.body
        if isinstance(n, ast.ImportFrom)  # `typed_functions` is what type checkers see of `functions`
        for a in n.names
        if a.name == a.asname
    }
    assert typed == homes("vyre")
    assert {*typed} - {*vyre.__all__} == {"open"}


def test_a_wrong_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="saxpy"):
        vyre.saxpy  # type: ignore[attr-defined]  # noqa: B018
    assert vyre.__version__[0].isdigit()
