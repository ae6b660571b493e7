"""The table of where the modules of the Rust driver went says what is so: files, names, askers and tests exist."""

from __future__ import annotations

import ast
import importlib
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

import vyre

ROOT: Final = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "docs"))
SEED_PAGE: Final = importlib.import_module("seed_page")
sys.path.remove(str(ROOT / "docs"))
TABLE: Final[dict[str, dict[str, Any]]] = SEED_PAGE.read()
ROWS: Final = {f"{section}: {name}": row for section, rows in TABLE.items() for name, row in rows.items()}
LISTED: Final = {
    "modules": 64, "re-exports": 132, "root": 18, "trait": 8, "cuda-modules": 26, "cuda-root": 6, "cuda-parts": 31,
}  # fmt: skip
"""The names that the documentation of the crates has, of the trait the groups of methods."""
CONTRACT: Final = ("tests/contract/test_backend_contract.py", "tests/contract/test_driver_contract.py")
THROUGH_OTHERS: Final = {
    "cuda-parts: backend::resident backend::resident_io backend::resident_dispatch": "the facets of an emulated device",
    "cuda-modules: egraph_device_image": "the columns that a graph keeps on a device while it is closed",
    "cuda-root: CudaDeviceBuffer": "the facets of an emulated device",
    "re-exports: device_extraction::DeviceExtraction": "what `ClosedEGraph.extract` returns",
    "modules: async_copy_overlap": "sequences with host data on an emulated device",
}
"""Rows whose tests use what they name only through a facet of the port, and which."""
UNFINISHED: Final = re.compile(r"\b(later|partial(ly)?|planned|not yet|to ?do|unfinished)\b", re.IGNORECASE)


def texts(row: Any) -> Iterator[str]:
    yield from (row[name] for name in ("here", "dropped", "remarks") if name in row)


@cache
def defined(path: str) -> frozenset[str]:
    """The classes, functions, constants and fields of a file; those of a class after its name and a dot, too."""
    found: set[str] = set()

    def collect(body: list[ast.stmt], prefix: str) -> None:
        for node in body:
            names: list[str] = []
            match node:
                case ast.ClassDef(name=name, body=inner):
                    collect(inner, f"{name}.")
                    names = [name]
                case ast.FunctionDef(name="__init__"):  # attributes, among others
                    names = [each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute)]
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                    names = [name]
                case ast.Assign(targets=targets):
                    names = [each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)]
                case ast.AnnAssign(target=ast.Name(id=name)):
                    names = [name]
            found.update(name for each in names for name in (each, prefix + each))

    collect(ast.parse((ROOT / path).read_text("utf-8")).body, "")
    return frozenset(found)


@cache
def imported() -> frozenset[str]:
    """The modules of the package that its own code imports, by statement or by a name in a text."""
    found: set[str] = set()
    for path in (ROOT / "src" / "vyre").rglob("*.py"):
        own, text = ".".join(path.relative_to(ROOT / "src").with_suffix("").parts), path.read_text("utf-8")
        names = set(re.findall(r'"(vyre\.[\w.]+)[:"]', text))
        for source, aliases in re.findall(r"^ *from (vyre[\w.]*) import (\([^)]*\)|.*)", text, re.MULTILINE):
            names |= {source, *(f"{source}.{alias}" for alias in re.findall(r"\w+", aliases))}
        found |= names - {own}
    return frozenset(found)


def paths(row: Any) -> set[str]:
    return {path for text in texts(row) for path in re.findall(r"`((?:src|tests|docs)/[^` ]+)`", text)}


def problem_of(name: str) -> str:
    """Returns what is wrong with the state of a row; an empty text if nothing is."""
    row = ROWS[name]
    if ("here" in row) is ("dropped" in row):
        return "neither or both of here and dropped"
    if any(UNFINISHED.search(text) for text in texts(row)):
        return "unfinished"
    if "here" in row:
        return "" if any(path.startswith("src/") for path in paths(row)) else "no file of ours does it"
    if (same := re.match(r"as `(\w+)`$", row["dropped"])) is not None:
        return "" if "dropped" in TABLE["modules"][same[1]] else "its module is not dropped"
    return "" if len(row["dropped"].split()) > 4 else "no reason"


def proof_of(name: str) -> list[str]:
    """The tests of a row; those of its module if a re-export has none of its own."""
    section, _, item = name.partition(": ")
    own = ROWS[name].get("proof", [])
    module = TABLE["modules"][item.partition("::")[0]] if section == "re-exports" else {}
    proof: list[str] = own or module.get("proof", [])
    return proof


@cache
def proving_text(path: str) -> str:
    """The text of tests; the cases of the contract belong to the file that runs them."""
    files = sorted((ROOT / path).rglob("test_*.py")) if (ROOT / path).is_dir() else [ROOT / path]
    if path in CONTRACT:
        files += sorted((ROOT / "src/vyre/testing/backend_contract").rglob("*.py"))
    return "\n".join(file.read_text("utf-8") for file in files)


def mentions(name: str) -> bool:
    """Whether a test of a row imports a module that the row names, or uses a name that stands there."""
    here = ROWS[name]["here"]
    named = [path.removeprefix("src/").removesuffix(".py").replace("/", ".") for path in paths({"here": here})]
    named += [each.rpartition(".")[2] for each in re.findall(r"`([\w.]+)`", here)]
    pattern = re.compile("|".join(rf"\b{re.escape(each)}\b" for each in named))
    return any(pattern.search(proving_text(path)) for path in proof_of(name))


def is_proof(path: Path) -> bool:
    files = sorted(path.rglob("test_*.py")) if path.is_dir() else [path]
    return bool(files) and all(re.search(r"^def test_", file.read_text("utf-8"), re.MULTILINE) for file in files)


def test_every_row_works_or_is_dropped_for_a_reason() -> None:
    assert {name: problem for name in ROWS if (problem := problem_of(name))} == {}


def test_what_works_has_tests() -> None:
    proofs = {name: proof_of(name) for name, row in ROWS.items() if "here" in row}
    assert [name for name, proof in proofs.items() if not proof] == []
    listed = {path for row in ROWS.values() for path in row.get("proof", ())}
    assert sorted(path for path in listed if not is_proof(ROOT / path)) == []


def test_what_works_is_used_by_a_test_that_is_named() -> None:
    assert {name for name, row in ROWS.items() if "here" in row and not mentions(name)}.symmetric_difference(
        THROUGH_OTHERS
    ) == set()


def test_paths_exist_and_names_are_in_the_file_beside_them() -> None:
    assert sorted(path for row in ROWS.values() for path in paths(row) if not (ROOT / path).exists()) == []
    clauses = [
        clause for row in ROWS.values() for text in texts(row)
        for clause in re.findall(r"((?:`[\w.]+`[^`;:]*)+) in `(src/[^`]+\.py)`", text)
    ]  # fmt: skip
    named = {(name, path) for names, path in clauses for name in re.findall(r"`([\w.]+)`", names)}
    assert len(named) > 150
    assert sorted((name, path) for name, path in named if name not in defined(path)) == []


def has_modules(path: Path) -> bool:
    return path.suffix == ".py" or any(path.rglob("*.py"))


def test_what_does_the_work_is_imported_by_more_than_tests() -> None:
    """A package counts as imported with any of its modules; a folder of files has none."""
    idle = []
    for name, row in ROWS.items():
        for path in paths(row):
            if path.startswith("src/vyre/") and "/testing/" not in path and has_modules(ROOT / path):
                module = path.removeprefix("src/").removesuffix(".py").replace("/", ".")
                if not any(found == module or found.startswith(f"{module}.") for found in imported()):
                    idle.append((name, path))
    assert idle == []


def test_public_names_exist() -> None:
    named = {found for row in ROWS.values() for text in texts(row) for found in re.findall(r"`(\w+)\.(\w+)`", text)}
    faces = {"Session": vyre.Session, "session": vyre.Session, "vyre": vyre, "DispatchConfig": vyre.DispatchConfig}
    asked = {(face, name) for face, name in named if face in faces}
    assert len(asked) > 3
    assert sorted((face, name) for face, name in asked if not hasattr(faces[face], name)) == []


def test_every_rule_is_there_and_every_seed_is_named() -> None:
    named = {rule for row in ROWS.values() for rule in row.get("rule", ())}
    seeds = {path.stem for path in (ROOT / SEED_PAGE.SEEDS).glob("*.py")} - {"__init__"}
    assert (named - seeds, seeds - named) == (set(), set())


def test_the_table_lists_every_name_once() -> None:
    listed = {}
    for section, rows in TABLE.items():
        names = list(rows) if section == "trait" else [one for name in rows for one in name.split()]
        assert len(names) == len(set(names))
        listed[section] = len(names)
    assert listed == LISTED


def test_a_wrong_row_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: a file that does not exist, a name that it lacks, a test that is none, a reason that is none."""
    good = ROWS["modules: speculate"]
    for wrong, check in (
        (good | {"here": "`src/vyre/app/gone.py`"}, test_paths_exist_and_names_are_in_the_file_beside_them),
        (good | {"here": "`Gone` in `src/vyre/app/speculation.py`"},
         test_paths_exist_and_names_are_in_the_file_beside_them),
        (good | {"here": "`src/vyre/testing/gone`"}, test_paths_exist_and_names_are_in_the_file_beside_them),
        (good | {"here": "`session.gone`"}, test_public_names_exist),
        (good | {"rule": ["gone"]}, test_every_rule_is_there_and_every_seed_is_named),
        (good | {"here": "`src/vyre/__main__.py`"}, test_what_does_the_work_is_imported_by_more_than_tests),
        (good | {"proof": ["tests/support/limits.py"]}, test_what_works_has_tests),
        (good | {"proof": []}, test_what_works_has_tests),
        (good | {"remarks": "the rest comes later"}, test_every_row_works_or_is_dropped_for_a_reason),
        (good | {"proof": ["tests/unit/domain/test_binding.py"]}, test_what_works_is_used_by_a_test_that_is_named),
        ({"dropped": "no"}, test_every_row_works_or_is_dropped_for_a_reason),
    ):  # fmt: skip
        monkeypatch.setitem(ROWS, "modules: speculate", wrong)
        with pytest.raises(AssertionError):
            check()
