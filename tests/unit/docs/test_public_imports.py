"""README, documentation and examples import what is public, and the public face is what was decided.

The face: ``vyre``, ``vyre.container``, ``vyre.egraph``, ``vyre.evidence``, ``vyre.gates``, ``vyre.graphs``,
``vyre.ir``, ``vyre.lowering``, ``vyre.policies``, ``vyre.ports`` and ``vyre.testing``.  All else is internal and may
change without notice.
"""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Final

import pytest

import vyre
import vyre.container
import vyre.egraph
import vyre.evidence
import vyre.gates
import vyre.graphs
import vyre.ir
import vyre.lowering
import vyre.policies
import vyre.ports
import vyre.testing
from vyre.exporting import homes

ROOT: Final = Path(__file__).resolve().parents[3]
FACE: Final = (
    vyre,
    vyre.container,
    vyre.egraph,
    vyre.evidence,
    vyre.gates,
    vyre.graphs,
    vyre.ir,
    vyre.lowering,
    vyre.policies,
    vyre.ports,
    vyre.testing,
)
PUBLIC: Final = frozenset(module.__name__ for module in FACE)
RECORDED: Final = ROOT / "tests" / "data" / "public-face.txt"
_BLOCK: Final = re.compile(r"^```(?:python|py)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def sources() -> Iterator[tuple[str, str]]:
    """Every piece of Python that a reader is shown, and where it stands."""
    for page in (
        ROOT / "README.md",
        *sorted((ROOT / "docs").glob("*.md")),
        *sorted((ROOT / "examples").rglob("*.md")),
    ):
        for number, block in enumerate(_BLOCK.findall(page.read_text("utf-8")), 1):
            yield f"{page.relative_to(ROOT)} block {number}", block
    for path in sorted((ROOT / "examples").rglob("*.py")):
        yield str(path.relative_to(ROOT)), path.read_text("utf-8")


def internal_imports(source: str) -> list[str]:
    """Modules of vyre that a piece of code imports and that are not public."""
    found = []
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.ImportFrom(module=str(module), names=names):
                found += [module, *(f"{module}.{n.name}" for n in names if module == "vyre" and _is_module(n.name))]
            case ast.Import(names=names):
                found += [alias.name for alias in names]
    return [name for name in found if name.split(".")[0] == "vyre" and not _is_public(name)]


def _is_module(name: str) -> bool:
    return (ROOT / "src" / "vyre" / name).is_dir()


def _is_public(module: str) -> bool:
    return module in PUBLIC or module.startswith("vyre.testing.")  # whose runners and contract are modules


SOURCES: Final = dict(sources())


@pytest.mark.parametrize("where", SOURCES)
def test_nothing_internal_is_shown_to_users(where: str) -> None:
    assert internal_imports(SOURCES[where]) == []


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("from vyre.app.session import Session", ["vyre.app.session"]),
        ("import vyre.domain.ir.program", ["vyre.domain.ir.program"]),
        ("from vyre import adapters", ["vyre.adapters"]),
        (
            "def f():\n    from vyre.policies.launching.bindless import plan_resource_table",
            ["vyre.policies.launching.bindless"],
        ),
        ("import vyre\nfrom vyre.policies import bindless\nfrom vyre.testing.backend_contract import CASES", []),
    ],
)
def test_what_counts_as_internal(source: str, found: list[str]) -> None:
    assert internal_imports(source) == found


def exported(module: ModuleType) -> list[str]:
    return [f"{module.__name__}.{name}" for name in sorted({*module.__all__, *(("open",) if module is vyre else ())})]


def test_the_public_face_is_the_recorded_one() -> None:
    """Names are added to the record on purpose; one that is taken away breaks whoever uses it."""
    assert "\n".join(name for module in FACE for name in exported(module)) + "\n" == RECORDED.read_text("utf-8")


@pytest.mark.parametrize(
    "module",
    [vyre.evidence, vyre.graphs, vyre.ir, vyre.lowering, vyre.policies, vyre.ports, vyre.testing],
    ids=lambda m: m.__name__,
)
def test_every_name_of_a_package_resolves_and_is_known_to_type_checkers(module: ModuleType) -> None:
    tree = ast.parse(Path(str(module.__file__)).read_text("utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {
        alias.asname or alias.name: node.module
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert seen == homes(module.__name__)
    assert sorted(seen) == module.__all__
    for name in module.__all__:
        assert getattr(module, name) is not None
    with pytest.raises(AttributeError, match="no_such_name"):
        importlib.import_module(module.__name__).no_such_name  # noqa: B018


@pytest.mark.parametrize("name", sorted(homes("vyre.ir")))
def test_every_name_of_the_language_is_documented(name: str) -> None:
    """A class or a function by its docstring, which may stand in a stub that its module imports, a constant or an alias
    by the string below its definition.
    """
    home = Path(str(importlib.import_module(homes("vyre.ir")[name]).__file__))
    tree = ast.parse(home.read_text("utf-8"))
    imported = [str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    stubs = [home.with_name(module.rpartition(".")[2] + ".pyi") for module in imported]  # what type checkers see
    documented = set()
    for node in (
        one for path in (home, *stubs) if path.exists() for one in ast.walk(ast.parse(path.read_text("utf-8")))
    ):
        match node:
            case ast.ClassDef(name=defined) | ast.FunctionDef(name=defined) if ast.get_docstring(node):
                documented.add(defined)
            case _:
                pass
    for node, below in zip(tree.body, tree.body[1:], strict=False):
        if isinstance(node, ast.AnnAssign | ast.Assign) and isinstance(below, ast.Expr):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            documented |= {target.id for target in targets if isinstance(target, ast.Name)}
    assert name in documented
