"""Operands that a lane does not choose: what they would load is no access of that lane, whatever the form."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

import vyre
from support.both_ways import as_python
from vyre import DataRaceError, DispatchConfig, In, InOut, Kernel, KernelSourceError, f32, i32, u32
from vyre.adapters.cuda.machine.options import RunOptions
from vyre.domain.ir.expr import Select, walk
from vyre.domain.ir.program import program_of
from vyre.domain.ir.stmt import If, operands, walk_statements
from vyre.testing import cuda_machine
from vyre.testing.races import races

LANES = 16
CHOOSING = np.array([1, 0] * 8, np.uint32)
"""Lanes with even ids choose; each would otherwise read what its neighbour stores."""
ALL = np.ones(LANES, np.uint32)
Y = np.arange(3, LANES + 3, dtype=np.uint32)


@vyre.kernel
def on_true(c: In[u32], y: InOut[u32]) -> None:
    i = vyre.global_id()
    v = y[i ^ 1] if c[i] != 0 else i
    if i % 2 == 0 or c[i] != 0:
        y[i] = v


@vyre.kernel
def on_false(c: In[u32], y: InOut[u32]) -> None:
    i = vyre.global_id()
    v = 7 if c[i] == 0 else y[i ^ 1] * 3
    if i % 2 == 0 or c[i] != 0:
        y[i] = v


@vyre.kernel
def on_both_sides(c: In[u32], y: InOut[u32]) -> None:
    i = vyre.global_id()
    v = y[i ^ 1] if c[i] != 0 else y[i]
    if i % 2 == 0 or c[i] != 0:
        y[i] = v


@vyre.kernel
def in_an_operand(c: In[u32], y: InOut[u32]) -> None:
    i = vyre.global_id()
    v = 1 if c[i] == 0 else (2 if i == 4 else y[i ^ 1]) + 1
    if i % 2 == 0 or c[i] != 0:
        y[i] = v + (0 if c[i] == 0 else y[i ^ 1] if c[i] == 1 else y[i])


@vyre.kernel
def in_a_condition(c: In[u32], y: InOut[u32]) -> None:
    i = vyre.global_id()
    v = 3 if c[i] != 0 and y[i ^ 1] > 5 else 4
    if i % 2 == 0 or c[i] != 0:
        y[i] = v


@vyre.kernel
def in_a_tuple(c: In[u32], y: InOut[u32]) -> None:
    i = vyre.global_id()
    v, (w, x) = (y[i ^ 1], (4, i)) if c[i] != 0 else (5, (i * 2, 6))
    if i % 2 == 0 or c[i] != 0:
        y[i] = v * 100 + w * 10 + x


@vyre.kernel
def conjunction(c: In[u32], y: InOut[u32]) -> None:
    i = vyre.global_id()
    if i < len(y) and c[i] != 0 and y[i ^ 1] > 4 and y[i] + y[i ^ 1] < 30:
        y[i] += 100


@vyre.kernel
def disjunction(c: In[u32], y: InOut[u32]) -> None:
    i = vyre.global_id()
    if not (i >= len(y) or c[i] == 0 or y[i ^ 1] > 10 or y[i] == y[i ^ 1]):
        y[i] += 100


@vyre.kernel
def of_numbers(c: In[u32], y: InOut[u32]) -> None:
    i = vyre.global_id()
    v = c[i] and y[i ^ 1]
    w = (1 - c[i]) or y[i ^ 1]
    if i % 2 == 0 or c[i] != 0:
        y[i] = v * 100 + w


@vyre.kernel
def of_truth_values(c: In[u32], y: InOut[u32]) -> None:
    i = vyre.global_id()
    v = c[i] != 0 and y[i ^ 1] > 4
    w = c[i] == 0 or y[i ^ 1] > 4
    if i % 2 == 0 or c[i] != 0:
        y[i] = u32(v) + u32(w) * 2


@vyre.kernel
def chain(c: In[u32], y: InOut[u32]) -> None:
    i = vyre.global_id()
    if 0 < c[i] < y[i ^ 1] < y[i ^ 1] + y[i]:
        y[i] = 77


@vyre.kernel
def loop(c: In[u32], y: InOut[u32]) -> None:
    i = vyre.global_id()
    j = u32(0)
    while j < 3 * c[i] and y[i ^ 1] + j != 6:
        j += 1
    if i % 2 == 0 or c[i] != 0:
        y[i] = j


@vyre.function
def neighbour(y: InOut[u32], at: u32) -> u32:
    other = at ^ 1
    if at > 8:
        return y[other] * 2
    return y[other]


@vyre.kernel
def function(c: In[u32], y: InOut[u32]) -> None:
    i = vyre.global_id()
    v = neighbour(y, i) if c[i] != 0 else i
    if i % 2 == 0 or c[i] != 0:
        y[i] = v


KERNELS = {
    kernel.__name__: kernel
    for kernel in (
        on_true,
        on_false,
        on_both_sides,
        in_an_operand,
        in_a_condition,
        in_a_tuple,
        conjunction,
        disjunction,
        of_numbers,
        of_truth_values,
        chain,
        loop,
        function,
    )
}
kernels = pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
CHECKED = DispatchConfig(grid=(1, 1, 1), workgroup=(LANES, 1, 1), race_check=True)


@kernels
def test_what_is_not_chosen_races_with_nobody(kernel: Kernel[...]) -> None:
    expected = as_python(kernel, CHOOSING, Y, lanes=LANES)[1]
    assert not np.array_equal(expected, Y)
    inputs = {"c": CHOOSING, "y": Y}
    report = races(kernel.program, inputs, CHECKED)
    assert not report.races
    for options in (RunOptions(), RunOptions(schedule="reverse"), *[RunOptions("shuffled", seed) for seed in (1, 5)]):
        with cuda_machine(kernels=options).open() as session:
            np.testing.assert_array_equal(session.dispatch(kernel.program, inputs, CHECKED)["y"], expected)
    for backend in ("reference", "cpu"):
        y = Y.copy()
        with vyre.open(backend):
            kernel.over(LANES)(CHOOSING, y)
        np.testing.assert_array_equal(y, expected)


@kernels
@pytest.mark.parametrize("seed", [1, 5])
def test_what_is_chosen_still_races(kernel: Kernel[...], seed: int) -> None:
    inputs = {"c": ALL, "y": Y}
    assert races(kernel.program, inputs, CHECKED).races
    with cuda_machine(kernels=RunOptions("shuffled", seed)).open() as session, pytest.raises(DataRaceError) as info:
        session.dispatch(kernel.program, inputs, CHECKED)
    assert {race.buffer for race in info.value.races} == {"y"}


CHAINS = {
    "values": ("v", "y[i ^ {near}] + {n} if c[i] == {n} else", "7"),
    "conditions": ("v", "{n} if y[i ^ 1] == {n} else", "7"),
    "both": ("v", "y[i ^ {near}] * {n} if y[i ^ 1] == {n} else", "y[i ^ 1]"),
    "tuples": ("v, w", "(y[i ^ {near}], {n}) if c[i] == {n} else", "(3, y[i ^ 1])"),
}
"""The target, a link and the end of a chain.  Lanes of even ids choose links of even numbers, which read what no lane
stores; the others would read what the next lane but one stores.
"""


@pytest.mark.parametrize(("target", "link", "end"), CHAINS.values(), ids=CHAINS)
def test_long_chains_of_choices_do_not_nest(
    target: str, link: str, end: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are chains of ``else if``, which are as long as those of choices that race with nobody."""
    chain = " ".join(link.format(n=n, near=1 + n % 2) for n in range(128))
    (tmp_path / "long_chain.py").write_text(f"""
import vyre
from vyre import In, InOut, u32

@vyre.kernel
def k(c: In[u32], y: InOut[u32]) -> None:
    i = vyre.global_id()
    if i % 2 == 0:
        {target} = {chain} {end}
        y[i] = {target.replace(",", " +")}
""")
    monkeypatch.syspath_prepend(tmp_path)
    kernel = importlib.import_module("long_chain").k
    del sys.modules["long_chain"]
    c = np.arange(LANES, dtype=np.uint32) * 10
    expected = as_python(kernel, c, Y, lanes=LANES)[1]
    assert len(set(expected.tolist())) >= LANES // 2
    assert not races(kernel.program, {"c": c, "y": Y}, CHECKED).races
    with cuda_machine(kernels=RunOptions("shuffled", 3)).open() as session:
        np.testing.assert_array_equal(session.dispatch(kernel.program, {"c": c, "y": Y}, CHECKED)["y"], expected)


@vyre.function
def counted(n):  # type: ignore[no-untyped-def]
    found = 5
    for j in range(n):
        found += j
    return found, found


@vyre.function
def fixed():  # type: ignore[no-untyped-def]
    found = 5
    return found, found + 1


@vyre.kernel
def functions_in_a_chain(c: In[u32], y: InOut[u32]) -> None:
    i = vyre.global_id()
    v, w = (y[i ^ 1], i) if c[i] == 1 else counted(i) if i < 4 else fixed() if i < 9 else (i, i)
    a, b = counted(i) if c[i] == 0 else (y[i ^ 1], 1) if i < 6 else counted(3)
    t = f32(i) if c[i] == 0 else 1.5 if y[i ^ 1] < 7 else 2
    if i % 2 == 0 or c[i] != 0:
        y[i] = v * 1000 + w * 100 + a * 10 + b + u32(t * 2)


@pytest.mark.parametrize("backend", ["reference", "cpu", "cuda-machine"])
def test_results_of_functions_are_links_of_a_chain(backend: str) -> None:
    y = Y.copy()
    with vyre.open(backend):
        functions_in_a_chain.over(LANES)(CHOOSING, y)
    np.testing.assert_array_equal(y, as_python(functions_in_a_chain, CHOOSING, Y, lanes=LANES)[1])


def test_operations_on_values_of_all_lanes_stay_outside_of_the_branch_beside_them() -> None:
    @vyre.kernel(workgroup=32)
    def k(c: In[u32], y: InOut[u32], z: InOut[u32]) -> None:
        i = vyre.global_id()
        z[i] = y[i ^ 1] if c[i] != 0 else vyre.subgroup_add(c[i]) + 1
        if i % 2 == 0:
            y[i] = 3

    y, z = Y.copy(), np.zeros_like(Y)
    with vyre.open("cuda-machine"):
        k.over(LANES)(CHOOSING, y, z)
    np.testing.assert_array_equal(z, np.where(CHOOSING != 0, Y[np.arange(LANES) ^ 1], CHOOSING.sum() + 1))


# ---------------------------------------------------------------- programs in which no lane could tell
def statements(kernel: Kernel[...]) -> list[type]:
    return [type(stmt) for stmt in walk_statements(program_of(kernel).body)]


def has_select(kernel: Kernel[...]) -> bool:
    roots = [root for stmt in walk_statements(program_of(kernel).body) for root in operands(stmt)]
    return any(isinstance(expr, Select) for root in roots for expr in walk(root))


def test_loads_of_elements_to_which_no_other_lane_stores_need_no_branch() -> None:
    @vyre.kernel
    def never_written(x: In[u32], kept: InOut[u32], y: InOut[u32]) -> None:
        i = vyre.global_id()
        y[i] = x[i + 1] if x[i] > 2 and kept[i ^ 1] > 3 else kept[i + 2]

    @vyre.kernel
    def own(y: InOut[u32]) -> None:
        i = vyre.global_id()
        y[i] = y[i] + 1 if i < len(y) and y[i] > 3 else y[vyre.global_id()]

    @vyre.kernel
    def private(y: InOut[u32]) -> None:
        i = vyre.global_id()
        own = vyre.private_array(u32, 4)
        own[i % 4] = i
        y[i] = own[1] if i > 2 else own[i % 3]

    for kernel in (never_written, own, private):
        assert has_select(kernel)
        assert If not in statements(kernel)


def test_an_id_along_one_of_two_axes_is_no_lane_of_its_own() -> None:
    @vyre.kernel
    def k(y: InOut[u32]) -> None:
        i = vyre.global_id(0)
        y[i] = y[i] if vyre.global_id(1) == 0 else 4

    assert If in statements(k)


def test_a_variable_that_starts_as_the_id_is_no_lane_of_its_own() -> None:
    @vyre.kernel
    def k(y: InOut[u32]) -> None:
        i = vyre.global_id()
        v = y[i] if i > 3 else 4
        i += 1
        y[i] = v

    assert If in statements(k)


def test_atomics_store_too() -> None:
    @vyre.kernel
    def k(c: In[u32], y: InOut[u32]) -> None:
        i = vyre.global_id()
        v = y[i ^ 1] if c[i] != 0 else 4
        vyre.barrier()
        if c[i] == 2:
            y.atomic_max(i, v)

    assert If in statements(k)
    y = Y.copy()
    with vyre.open("reference"):
        k.over(LANES)(CHOOSING * 2, y)
    assert y.tolist() == [max(Y[i], Y[i ^ 1]) if c else Y[i] for i, c in enumerate(CHOOSING)]


def test_an_operand_with_values_of_all_lanes_is_evaluated_by_all() -> None:
    @vyre.kernel
    def k(c: In[u32], y: InOut[u32]) -> None:
        i = vyre.global_id()
        total = vyre.subgroup_add(y[i ^ 1]) if c[i] != 0 else 0
        vyre.barrier()
        y[i] = total

    assert If not in statements(k)
    y = Y.copy()
    with vyre.open("reference"):
        k.over(LANES)(CHOOSING, y)
    assert y.tolist() == [int(Y.sum()) * int(c) for c in CHOOSING]


def test_workgroup_memory_is_seen_by_others() -> None:
    @vyre.kernel(workgroup=LANES)
    def k(x: In[u32], y: InOut[u32]) -> None:
        lane = vyre.local_id()
        tile = vyre.workgroup_array(u32, LANES)
        tile[lane] = x[lane]
        vyre.barrier()
        for step in (8, 4, 2, 1):
            total = tile[lane] + (tile[lane ^ step] if lane < step else 0)
            if lane < step:
                tile[lane] = total
            vyre.barrier()
        if lane == 0:
            y[0] = tile[0]

    with cuda_machine(kernels=RunOptions("shuffled", 3)).open() as session:
        result = session.dispatch(k.program, {"x": Y, "y": np.zeros(1, np.uint32)}, DispatchConfig(race_check=True))
    assert result["y"].tolist() == [int(Y.sum())]


# ---------------------------------------------------------------- types, and what stays refused
def test_numbers_take_the_types_that_they_have_without_a_branch() -> None:
    @vyre.kernel
    def k(c: In[u32], y: InOut[f32]) -> None:
        i = vyre.global_id()
        low = 0
        total = 1.5 if c[i] == 0 else y[i ^ 1]
        step = low if c[i] == 0 or y[i ^ 1] > 100.0 else 2
        count: i32 = -3 if c[i] == 0 else i32(y[i ^ 1])
        if i % 2 == 0:
            y[i] = total + f32(step) + f32(count)

    y = Y.astype(np.float32)
    expected = as_python(k, CHOOSING, y, lanes=LANES)[1]
    with vyre.open("cpu"):
        k.over(LANES)(CHOOSING, y)
    np.testing.assert_array_equal(y, expected)


def test_the_guard_of_an_index_is_seen_behind_the_branch() -> None:
    """The grid is that of the array whose length is the guard, as it is with a guard of its own."""

    @vyre.kernel
    def joined(x: In[u32], y: InOut[u32]) -> None:
        i = vyre.global_id()
        if i < len(x) and y[i + 1] > 2:
            y[i + 500] = x[i]

    @vyre.kernel
    def nested(x: In[u32], y: InOut[u32]) -> None:
        i = vyre.global_id()
        if i < len(x):
            v = y[i + 1]
            if v > 2:
                y[i + 500] = x[i]

    assert If in statements(joined)
    inputs = {"x": np.arange(300, dtype=np.uint32), "y": np.full(9000, 3, np.uint32)}
    with vyre.open("reference") as session:
        one, other = (session.dispatch(kernel, inputs) for kernel in (joined, nested))
    np.testing.assert_array_equal(one["y"], other["y"])
    assert one.launch == other.launch


def test_an_atomic_in_a_nested_operand_is_refused() -> None:
    @vyre.kernel
    def k(y: InOut[u32]) -> None:
        i = vyre.global_id()
        if y[i ^ 1] > 1 and (y[0] if y[i] > 2 else y.atomic_add(0, 1)) > 3:
            y[i] = 1

    with pytest.raises(KernelSourceError, match="stands in a conditional expression"):
        k.program  # noqa: B018
