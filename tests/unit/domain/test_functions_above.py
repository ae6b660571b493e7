"""The functions above the data, by which methods of data are carried out: each stands where the package says."""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path
from typing import Final

import pytest

import vyre.app
from vyre.domain.ir import functions
from vyre.domain.ir.function_names import FUNCTION_NAMES
from vyre.domain.lazy_names import _PLACES

PACKAGE: Final = Path(vyre.app.__file__).parents[1]


@pytest.mark.parametrize("method", _PLACES)
def test_every_function_stands_where_it_is_said_to_stand(method: str) -> None:
    module, _, name = _PLACES[method].rpartition(".")
    assert callable(getattr(import_module(module), name))


def test_a_place_is_stated_for_every_method() -> None:
    methods = {
        ast.literal_eval(node.args[0])
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func).partition("[")[0] == "FunctionAbove"
    }
    assert methods == {*_PLACES}


def test_the_names_of_functions_are_those_of_the_functions() -> None:
    public = {
        name
        for name, thing in vars(functions).items()
        if callable(thing) and not isinstance(thing, type) and name[0] != "_"
        if getattr(thing, "__module__", None) == functions.__name__
    }
    assert {*FUNCTION_NAMES} == public
    assert all(callable(getattr(functions, name)) for name in FUNCTION_NAMES)
