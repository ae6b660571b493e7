"""No module of the package imports itself over others, not even from inside a function or for type checkers."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from support.imports import circles, import_graph

PACKAGE: Final = Path(__file__).parents[2] / "src" / "vyre"


def test_nothing_imports_itself_over_others() -> None:
    """So the package can be read from the bottom up; imports for type checkers count, too."""
    graph = import_graph(PACKAGE, types=True)
    assert "vyre.app.session" in graph["vyre"]
    assert circles(graph) == []


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
