"""mypy and pyright, both strict, agree with vyre on the kernels of ``tests/typing``."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import re
import sys
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, Final, Literal

import pytest

import vyre
from support.checkers import found_by_mypy, found_by_pyright
from vyre import In, InOut, Out, f32, like, u8
from vyre.domain.frontend.annotations import unwrapped
from vyre.domain.ir import functions

ROOT: Final = Path(__file__).resolve().parents[3]
KERNELS: Final = ROOT / "tests" / "typing"
CLEAN: Final = sorted(path for path in KERNELS.glob("*.py") if path.stem != "mistakes")
MISTAKES: Final = KERNELS / "mistakes.py"
REFUSED: Final = "  # refused"


@cache
def loaded(path: Path) -> ModuleType:
    name = f"typed_kernels_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def kernels(path: Path) -> dict[str, vyre.Kernel[...]]:
    return {name: thing for name, thing in vars(loaded(path)).items() if isinstance(thing, vyre.Kernel)}


def marked() -> set[tuple[str, int]]:
    lines = MISTAKES.read_text("utf-8").splitlines()
    return {(MISTAKES.name, number) for number, line in enumerate(lines, 1) if line.endswith(REFUSED)}


@pytest.mark.slow
def test_mypy_accepts_what_is_right_and_refuses_each_mistake_at_its_line() -> None:
    assert found_by_mypy(*CLEAN, MISTAKES) == marked()


@pytest.mark.slow
def test_pyright_accepts_what_is_right_and_refuses_each_mistake_at_its_line(tmp_path: Path) -> None:
    assert found_by_pyright(tmp_path, *CLEAN, MISTAKES) == marked()


def test_there_are_kernels_and_mistakes_of_each_kind() -> None:
    assert {path.stem for path in CLEAN} == {"arrays", "calls", "elements", "functions", "generic"}
    assert len(marked()) > 30


@pytest.mark.parametrize("path", [*CLEAN, MISTAKES], ids=lambda path: path.stem)
def test_nothing_is_hidden_from_the_checkers(path: Path) -> None:
    assert not re.search(r"#\s*(type|pyright|mypy)\s*:", path.read_text("utf-8"))


RIGHT: Final = [(path, name) for path in CLEAN for name in kernels(path)]
SPECIALIZED: Final[dict[str, dict[str, Any]]] = {
    "planes": {"n": 4},
    "scaled": {"Real": vyre.f64},
    "summed": {"Real": vyre.f32, "n": 3},
    "counted": {"Whole": vyre.u64},
    "largest": {"Whole": vyre.i32},
}


@pytest.mark.parametrize(("path", "name"), RIGHT, ids=lambda value: value if isinstance(value, str) else value.stem)
def test_what_the_checkers_accept_is_a_program(path: Path, name: str) -> None:
    kernel = kernels(path)[name]
    assert (kernel.specialize(**SPECIALIZED[name]) if name in SPECIALIZED else kernel.program).name == name


def test_calls_that_the_checkers_accept_run() -> None:
    calls = loaded(KERNELS / "calls.py")
    assert calls.called() == [2.0, 2.0, 1.0]
    with vyre.open(backend="reference") as session:
        assert calls.on_a_session([calls.saxpy], session)[0].name == "saxpy"


@pytest.mark.parametrize("name", kernels(MISTAKES))
def test_what_the_checkers_refuse_in_a_kernel_vyre_refuses_at_the_same_line(name: str) -> None:
    with pytest.raises(vyre.KernelSourceError) as caught:
        _ = kernels(MISTAKES)[name].program
    place = caught.value.loc
    assert place is not None and (Path(place.file).name, place.line) in marked()


@pytest.mark.parametrize(
    ("typed", "short"),
    [
        (In[f32, Literal[2]], In[f32, 2]),
        (Annotated[InOut[f32], 1000], InOut[f32, 1000]),
        (Annotated[InOut[f32, Literal[2]], (3, 4)], InOut[f32, 2, (3, 4)]),
        (Out[f32, Literal["len(x)"]], Out[f32, "len(x)"]),
        (Out[f32, Literal[2], Literal["4, len(x)"]], Out[f32, 2, "4, len(x)"]),
        (Annotated[Out[f32], like("x")], Out[f32, like("x")]),
        (Annotated[Out[u8, Literal[3]], like("x")], Out[u8, 3, like("x")]),
        (Annotated[Out[f32], (2,)], Out[f32, (2,)]),
        (Annotated[f32, "in metres"], f32),
    ],
)
def test_the_annotations_that_checkers_read_are_the_short_ones(typed: object, short: object) -> None:
    assert unwrapped(typed) == short


def test_what_annotated_adds_is_checked_as_in_brackets() -> None:
    with pytest.raises(vyre.KernelSourceError, match=r"In\[...\] cannot hold 'len\(x\)'.*Fix: write In\[f32\]"):
        unwrapped(Annotated[In[f32], "len(x)"])


def test_the_functions_that_checkers_see_are_those_that_exist() -> None:
    stub = ast.parse((ROOT / "src" / "vyre" / "domain" / "ir" / "typed_functions.pyi").read_text("utf-8"))
    of_protocols = {
        node.name: {
            tuple(a.arg for a in method.args.args[1:]) for method in node.body if isinstance(method, ast.FunctionDef)
        }
        for node in stub.body
        if isinstance(node, ast.ClassDef)
    }
    seen: dict[str, set[tuple[str, ...]]] = {}
    for node in stub.body:
        match node:
            case ast.FunctionDef(name=name):
                seen.setdefault(name, set()).add(tuple(a.arg for a in node.args.args))
            case ast.AnnAssign(target=ast.Name(id=name), annotation=ast.Subscript(slice=ast.Name(id=protocol))):
                seen[name] = of_protocols[protocol]
            case _:
                pass
    exist = {name: {tuple(inspect.signature(getattr(functions, name)).parameters)} for name in functions.__all__}
    assert seen == exist
