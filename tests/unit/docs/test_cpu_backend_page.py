"""The page on the inside of the CPU backend names what the code has: files, names, and the layout of records."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from vyre.adapters.cpu import llvm, runtime
from vyre.adapters.cpu.llvm import control
from vyre.adapters.cpu.llvm.context import FIRST_BUFFER
from vyre.adapters.cpu.pool import layout

ROOT = Path(__file__).parents[3]
CODE = ROOT / "src/vyre/adapters/cpu"
PAGE = (ROOT / "docs/maintainers/cpu-backend.md").read_text("utf-8")


def section(title: str) -> str:
    return PAGE.split(f"\n## {title}\n", 1)[1].split("\n## ", 1)[0]


def table(text: str, head: str) -> dict[str, str]:
    """The first two cells of each row of the table whose head begins with these words."""
    lines = text.split(f"\n| {head} |", 1)[1].split("\n\n", 1)[0].splitlines()[2:]
    return dict([cell.strip() for cell in line.strip("|").split(" | ")][:2] for line in lines)


def test_every_file_of_the_page_exists() -> None:
    paths = re.findall(r"`((?:\w+/)+(?:[\w.]+\.py)?)`", PAGE)
    assert len(set(paths)) > 20
    assert [path for path in paths if not (CODE / path).exists() and not (ROOT / path).exists()] == []


def test_every_name_of_the_page_is_in_the_file_it_names() -> None:
    named = re.findall(r"`([\w.]+)`(?:\s+in|\s+\()\s*`((?:\w+/)+\w+\.py)`", PAGE)
    named += [(name, path) for path, name in re.findall(r"`((?:\w+/)+\w+\.py)` \(`([\w.]+)`\)", PAGE)]
    assert {"Value", "Shapes", "Writer", "Kernel.mask", "Join", "Regions", "can_join", "_extremum"} <= {
        name for name, _ in named
    }
    wrong = [(name, path) for name, path in named if name.split(".")[-1] not in (CODE / path).read_text("utf-8")]
    assert wrong == []


def test_the_words_of_a_frame_are_those_of_the_code() -> None:
    words = table(section("The call of a kernel"), "word")
    assert words[str(control.CONTROL)].startswith("address of the control block")
    assert words[str(control.BUDGET)].startswith("step budget")
    assert words[str(control.STEPS_USED)].startswith("address of the steps used")
    assert words[f"{FIRST_BUFFER} + 2i"].startswith("address of buffer i")
    assert (layout.Frame.control, layout.Frame.buffers) == (8 * control.CONTROL, 8 * FIRST_BUFFER)


def test_the_bytes_of_the_control_block_are_those_of_the_code() -> None:
    found = table(section("The call of a kernel"), "byte")
    assert "stop flag" in found[str(layout.Job.stop)]
    assert "lock" in found[str(layout.Job.lock)]
    assert "trapped" in found[str(layout.Job.trap_lane)]
    assert "tag" in found[f"{layout.Job.trap_address}, {layout.Job.trap_tag}"]
    assert "budget" in found[str(layout.Job.budget_lane)]


def test_the_packages_name_modules_that_exist() -> None:
    for package, least in ((llvm, 25), (runtime, 7)):
        assert package.__doc__ is not None and package.__file__ is not None
        folder = Path(package.__file__).parent
        indented = [line[4:] for line in package.__doc__.splitlines() if re.match(r" {4}\w", line)]
        names = {name for line in indented for name in re.split(r",\s*", re.split(r"\s{2,}", line.strip())[0])}
        assert len(names) >= least
        assert sorted(name for name in names if not (folder / f"{name}.py").is_file()) == []


def test_only_one_module_imports_the_compiler() -> None:
    found = set()
    for path in CODE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            if any(name.split(".")[0] == "llvmlite" for name in names):
                found.add(str(path.relative_to(CODE)))
    assert found == {"native/compilation.py"}
