"""The layers are as they are written: the import contracts hold, they can fail, and the application names no device."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import pytest

from support.limits import LIMIT_S

ROOT: Final = Path(__file__).parents[2]
PACKAGE: Final = ROOT / "src" / "vyre"
NO_DEVICE: Final = "the application and all below the adapters name no device"
LINT: Final = "from importlinter.cli import lint_imports; import sys; sys.exit(lint_imports(no_cache=True))"


def broken_contracts(root: Path) -> list[str]:
    """Names of the contracts in ``root/pyproject.toml`` that the package in ``root/src`` breaks."""
    environment = os.environ | {"PYTHONPATH": str(root / "src"), "NO_COLOR": "1", "COLUMNS": "200"}
    done = subprocess.run(
        [sys.executable, "-c", LINT], cwd=root, env=environment, capture_output=True, text=True, timeout=LIMIT_S
    )
    lines = done.stdout.splitlines()
    assert any(line.startswith(NO_DEVICE) for line in lines), done.stdout + done.stderr
    broken = [line.partition(" BROKEN")[0] for line in lines if " BROKEN" in line]
    assert bool(broken) == bool(done.returncode), done.stdout + done.stderr
    return broken


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("layers")
    shutil.copy(ROOT / "pyproject.toml", root)
    shutil.copytree(PACKAGE, root / "src" / "vyre", ignore=shutil.ignore_patterns("__pycache__"))
    return root


@pytest.mark.skipif(find_spec("importlinter") is None, reason="import-linter is not installed")
def test_the_contracts_hold(copied: Path) -> None:
    assert broken_contracts(copied) == []


ONE_COMPILER: Final = "only the compiler of adapters/cpu/native may import llvmlite"
FORBIDDEN: Final = {
    "app/session.py": (NO_DEVICE, "from vyre.adapters.cuda.driver import RealDriver"),
    "app/cli/doctor.py": (NO_DEVICE, "import vyre.adapters.reference.registration"),
    "adapters/bundles/files.py": (NO_DEVICE, "from vyre.adapters.cuda import ids"),
    "adapters/cpu/native/loading.py": (ONE_COMPILER, "import llvmlite.binding"),
}
"""The contract that a line breaks in a module."""


@pytest.mark.skipif(find_spec("importlinter") is None, reason="import-linter is not installed")
@pytest.mark.parametrize("module", FORBIDDEN)
def test_one_line_breaks_the_contract(module: str, copied: Path) -> None:
    path = copied / "src" / "vyre" / module
    source = path.read_text(encoding="utf-8")
    contract, line = FORBIDDEN[module]
    path.write_text(f"{source}\n\ndef late() -> None:\n    {line}\n", encoding="utf-8")
    try:
        assert contract in broken_contracts(copied)
    finally:
        path.write_text(source, encoding="utf-8")


# ---------------------------------------------------------------- names of devices
INTERFACE: Final = "__cuda_array_interface__"
"""A protocol between libraries, by which arrays of any of them are recognised."""


def named_devices(source: str) -> Iterator[str]:
    """The strings of a module that name CUDA, but docstrings."""
    tree = ast.parse(source)
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str) or id(node) in prose:
            continue
        if "cuda" in node.value.lower().replace(INTERFACE, ""):
            yield f"line {node.lineno}: {node.value!r}"


def test_no_string_of_the_application_names_a_device() -> None:
    modules = sorted((PACKAGE / "app").rglob("*.py"))
    assert len(modules) > 50
    found = {
        str(path.relative_to(PACKAGE)): named
        for path in modules
        if (named := list(named_devices(path.read_text(encoding="utf-8"))))
    }
    assert found == {}


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ('"""Runs on cuda."""', []),
        ('backend = "cuda"', ["line 1: 'cuda'"]),
        ('def f():\n    """On CUDA."""\n    return f"{1} of CUDA"', ["line 3: ' of CUDA'"]),
        ('getattr(a, "__cuda_array_interface__")', []),
    ],
)
def test_strings_that_name_a_device_are_found(source: str, found: list[str]) -> None:
    assert list(named_devices(source)) == found


# ---------------------------------------------------------------- names of higher layers
LAYERS: Final = ("domain", "policies", "ports", "adapters", "app", "graphs", "testing")
NAMED: Final = {"app/cli/commands.py": "the command line loads `vyre conform`, which is part of the tools for testing"}
"""Modules that name a module of a higher layer by a string, each with the reason why it stays."""


def named_above(source: str, layer: str) -> list[str]:
    """The strings of a module that name a layer above its own, or something inside of one, but docstrings."""
    tree = ast.parse(source)
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    above = re.compile(rf"vyre\.({'|'.join(LAYERS[LAYERS.index(layer) + 1 :])})(?!\w)")
    return [
        f"line {node.lineno}: {node.value!r}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose
        if above.match(node.value)
    ]


def test_no_string_names_a_module_of_a_higher_layer() -> None:
    found = {
        str(path.relative_to(PACKAGE)): named
        for layer in LAYERS[:-1]
        for path in sorted((PACKAGE / layer).rglob("*.py"))
        if (named := named_above(path.read_text(encoding="utf-8"), layer))
    }
    assert found.keys() == NAMED.keys(), found


@pytest.mark.parametrize(
    ("source", "layer", "found"),
    [
        ('"""As vyre.app.session does."""', "domain", []),
        ('import_module("vyre.app.dialects.current")', "domain", ["line 1: 'vyre.app.dialects.current'"]),
        ('HOME = "vyre.testing"', "graphs", ["line 1: 'vyre.testing'"]),
        ('HOME = "vyre.domain.names"', "ports", []),
        ('EVENT = "vyre.application.opened"', "domain", []),
    ],
)
def test_strings_that_name_a_higher_layer_are_found(source: str, layer: str, found: list[str]) -> None:
    assert named_above(source, layer) == found
