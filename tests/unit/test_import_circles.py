"""No module of the package imports itself over others, not even from inside a function."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from support.imports import circles, import_graph

PACKAGE: Final = Path(__file__).parents[2] / "src" / "vyre"


@cache
def graph_of_package() -> Mapping[str, frozenset[str]]:
    return import_graph(PACKAGE)


def test_nothing_imports_itself_over_others() -> None:
    graph = graph_of_package()
    assert len(graph) > 100
    assert circles(graph) == []


def test_the_application_can_be_read_from_the_bottom_up() -> None:
    graph = import_graph(PACKAGE, types=True)
    of_application = [circle for circle in circles(graph) if any(name.startswith("vyre.app") for name in circle)]
    assert "vyre.app.session" in graph["vyre"] and of_application == []


@pytest.mark.parametrize(
    ("sources", "found"),
    [
        ({"a": "import p.b", "b": "from p.c import x", "c": ""}, []),
        ({"a": "import p.b", "b": "from p import c", "c": "from p.a import x"}, [["p.a", "p.b", "p.c"]]),
        ({"a": "import p.b", "b": "def f():\n    import p.a"}, [["p.a", "p.b"]]),
        ({"a": "import p.b", "b": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import p.a"}, []),
        (
            {"a": "import p.b, p.c", "b": "import p.a", "c": "import p.d", "d": "import p.c"},
            [["p.a", "p.b"], ["p.c", "p.d"]],
        ),
        ({"a": "from p import x", "__init__": "def f():\n    from p.a import x"}, [["p", "p.a"]]),
    ],
)
def test_circles_are_found(tmp_path: Path, sources: dict[str, str], found: list[list[str]]) -> None:
    package = tmp_path / "p"
    package.mkdir()
    for name, source in ({"__init__": ""} | sources).items():
        (package / f"{name}.py").write_text(source)
    assert circles(import_graph(package)) == found
