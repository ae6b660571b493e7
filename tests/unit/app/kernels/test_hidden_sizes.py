"""Sizes of rows and planes that callers need not pass, in copies and rewritten forms of a kernel's program."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

import vyre
from vyre import In, InOut, Out, Program, Step, f32, like

X = np.arange(6, dtype=np.float32).reshape(2, 3)


@vyre.function
def next_to(v: f32) -> f32:
    return v + 1.0


@vyre.kernel
def into(x: In[f32, 2], y: Out[f32, 2, like("x")]) -> None:
    row, column = vyre.global_id(1), vyre.global_id(0)
    y[row, column] = next_to(x[row, column])


@vyre.kernel
def within(y: InOut[f32, 2]) -> None:
    row, column = vyre.global_id(1), vyre.global_id(0)
    y[row, column] = y[row, column] + 1.0


WRITTEN: dict[str, Callable[[Program], Program]] = {
    "text": lambda program: Program.from_text(program.to_text()),
    "wire": lambda program: Program.from_wire(program.to_wire()),
    "json": lambda program: Program.from_json(program.to_json()),
}
FORMS: dict[str, Callable[[Program], Program]] = WRITTEN | {
    "itself": lambda program: program,
    "pickled": lambda program: pickle.loads(pickle.dumps(program)),
    "copied": copy.copy,
    "copied deeply": copy.deepcopy,
    "renamed": lambda program: replace(program, name="renamed"),
    "optimized": lambda program: vyre.optimize(program).program,
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("backend", ["reference", "cpu", "cuda-machine"])
def test_copies_and_rewritten_forms_need_no_sizes(backend: str, form: str) -> None:
    program, updating = FORMS[form](into.program), FORMS[form](within.program)
    with vyre.open(backend, cache=False) as session:
        for inputs in ({"x": X}, [X]):
            np.testing.assert_array_equal(session.dispatch(program, inputs, extent=(3, 2))["y"], X + 1)
        np.testing.assert_array_equal(session.specialize(program, extent=(3, 2))({"x": X})["y"], X + 1)
        np.testing.assert_array_equal(session.bind(program, {"x": X}, extent=(3, 2))()["y"], X + 1)
        y = session.resident(X)
        session.bind_resident(updating, {"y": y}, extent=(3, 2))()
        session.sequence([Step(updating, {"y": y}, extent=(3, 2))])()
        np.testing.assert_array_equal(y.download(), X + 2)
        if backend != "reference":
            with session.persistent(program, extent=(3, 2)) as jobs:
                np.testing.assert_array_equal(jobs.submit({"x": X}).result()["y"], X + 1)


def test_sizes_are_in_neither_the_digest_nor_comparisons() -> None:
    plain = replace(into.program, sizes=())
    assert into.program.sizes and plain == into.program
    assert hash(plain) == hash(into.program) and plain.digest == into.program.digest


@pytest.mark.parametrize("form", WRITTEN)
def test_a_program_without_them_says_what_to_give(form: str) -> None:
    """As files of earlier versions hold it."""
    program = WRITTEN[form](replace(into.program, sizes=()))
    assert program == into.program
    with vyre.open("reference") as session:
        with pytest.raises(vyre.InvalidInput, match=r"`x_width` is x.shape\[-1\], `y_width` is y.shape\[-1\]"):
            session.dispatch(program, {"x": X}, extent=(3, 2))
        given = {"x": X, "x_width": 3, "y_width": 3}
        np.testing.assert_array_equal(session.dispatch(program, given, extent=(3, 2))["y"], X + 1)
