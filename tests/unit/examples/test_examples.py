"""The examples run, and the compilers among them keep to the public face."""

from __future__ import annotations

import ast
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from support.limits import LIMIT_S

EXAMPLES = Path(__file__).parents[3] / "examples"
TESTS = {
    name: value
    for name, value in runpy.run_path(str(EXAMPLES / "testing_without_a_gpu.py")).items()
    if name.startswith("test_")
}


@pytest.mark.parametrize("name", TESTS)
def test_testing_without_a_gpu(name: str) -> None:
    TESTS[name]()


def test_the_script_runs_as_it_says() -> None:
    script = EXAMPLES / "testing_without_a_gpu.py"
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True, timeout=LIMIT_S)
    assert done.stdout.count(": ok\n") == len(TESTS) == 3


@pytest.mark.parametrize("name", ["array_compiler", "embedding"])
def test_compilers_of_the_examples_use_no_private_name(name: str) -> None:
    for path in sorted((EXAMPLES / name).rglob("*.py")):
        _check_names(path)


def _check_names(path: Path) -> None:
    tree = ast.parse(path.read_text())
    imports = [n for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) and (n.module or "").startswith("vyre")]
    names = [a.name for n in imports for a in n.names]
    attributes = [n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute) and ast.unparse(n.value) != "self"]
    private = [name for name in names + attributes if name.startswith("_") and not name.endswith("__")]
    inner = [n.module for n in imports if (n.module or "").startswith(("vyre.app", "vyre.domain", "vyre.adapters"))]
    assert not private and not inner


def test_the_compiler_of_the_embedding_example_lowers_with_the_language_and_its_events_only() -> None:
    tree = ast.parse((EXAMPLES / "embedding" / "src" / "tinylang" / "lower.py").read_text())
    imports = {
        (node.module or "", alias.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    modules = {module for module, _ in imports if module.startswith("vyre")}
    assert modules == {"vyre.ir"}
    assert ("vyre.ir", "EventBuilder") in imports


def test_the_array_compiler_is_small() -> None:
    package = EXAMPLES / "array_compiler" / "src" / "array_compiler"
    assert sum(len(path.read_text().splitlines()) for path in package.glob("*.py")) <= 900
