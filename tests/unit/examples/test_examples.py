"""The examples run, and the embedding example keeps to the public face."""

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


@pytest.mark.parametrize("path", sorted((EXAMPLES / "embedding").rglob("*.py")), ids=lambda p: p.name)
def test_the_embedding_example_uses_no_private_name(path: Path) -> None:
    tree = ast.parse(path.read_text())
    imports = [n for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) and (n.module or "").startswith("vyre")]
    names = [a.name for n in imports for a in n.names]
    attributes = [n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute) and ast.unparse(n.value) != "self"]
    assert not [name for name in names + attributes if name.startswith("_") and not name.endswith("__")]


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
