"""Random mixes of kernels and host steps leave what a plain loop in Python leaves, in every mode of every backend."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from random import Random
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pytest

import vyre
from vyre import HostStep, ProgramBuilder, Repeat, Step, UnsupportedFeature, u32
from vyre.app.sequences.steps import Item

Words: TypeAlias = npt.NDArray[np.uint32]
N: Final = 12
GRAPHS: Final = {"cpu": 40, "reference": 20, "reference-scalar": 10, "cuda-machine": 12}
MODES: Final = [{}, {"plain": True}, {"graph": True}, {"persistent": True}, {"fused": True}, {"megakernel": True}]


def mixed() -> vyre.Program:
    """``y = y * 3 + x``."""
    with ProgramBuilder("mixed", workgroup=4) as p:
        x, y = p.input("x", u32), p.inout("y", u32)
        i = p.global_id()
        with p.if_(i < x.length):
            y[i] = y[i] * 3 + x[i]
    return p.build()


def overwritten() -> vyre.Program:
    """``y = x + 1``, of which nothing older is read."""
    with ProgramBuilder("overwritten", workgroup=4) as p:
        x = p.input("x", u32)
        y = p.output("y", u32, like=x)
        i = p.global_id()
        with p.if_(i < x.length):
            y[i] = x[i] + 1
    return p.build()


Change: TypeAlias = Callable[[Words, Words], Words]
KERNELS: Final[list[tuple[vyre.Program, Change]]] = [
    (mixed(), lambda x, y: y * np.uint32(3) + x),
    (overwritten(), lambda x, y: x + np.uint32(1)),
]
FUNCTIONS: Final[list[Change]] = [
    lambda x, y: y ^ x[::-1],
    lambda x, y: np.cumsum(x, dtype=np.uint32) + y,
    lambda x, y: np.sort(y) * np.uint32(5),
]
Planned: TypeAlias = "tuple[Change, int, int]"


def on_host(change: Change) -> Callable[[Any, Any], None]:
    def function(x: Any, y: Any) -> None:
        if isinstance(y, np.ndarray):
            y[...] = change(x, y.copy())
        else:
            y.upload(change(x.download(), y.download()))

    return function


class Mix:
    """A random sequence on six arrays, of which some are temporary, with what Python is to do for it."""

    def __init__(self, random: Random, session: vyre.Session, stack: ExitStack) -> None:
        self.random = random
        self.arrays: list[Any] = [stack.enter_context(session.resident(np.full(N, k, np.uint32))) for k in range(4)]
        self.arrays += [session.temporary(u32, N) for _ in range(2)]
        self.first, self.once = self.listed(random.randrange(3))
        self.steps, self.round = self.listed(random.randrange(1, 7))
        if random.random() < 0.5:
            inner, planned = self.listed(random.randrange(1, 4))
            times = random.randrange(4)
            self.steps.append(Repeat([each for each in inner if not isinstance(each, Repeat)], times))
            self.round += planned * times

    def listed(self, count: int) -> tuple[list[Item], list[Planned]]:
        items: list[Item] = []
        planned: list[Planned] = []
        for _ in range(count):
            x, y = self.random.sample(range(len(self.arrays)), 2)
            if self.random.random() < 0.4:
                change = self.random.choice(FUNCTIONS)
                items.append(HostStep(on_host(change), [self.arrays[x]], [self.arrays[y]]))
            else:
                program, change = self.random.choice(KERNELS)
                items.append(Step(program, {"x": self.arrays[x], "y": self.arrays[y]}))
            planned.append((change, x, y))
        return items, planned

    def wanted(self, rounds: int) -> list[Words]:
        words = [np.full(N, k % 4 if k < 4 else 0, np.uint32) for k in range(6)]
        for change, x, y in self.once + self.round * rounds:
            words[y] = change(words[x], words[y])
        return words[:4]


@pytest.mark.parametrize("backend", GRAPHS)
def test_they_leave_what_a_loop_leaves(backend: str) -> None:
    ran = 0
    with vyre.open(backend, cache=False) as session:
        for seed in range(GRAPHS[backend]):
            random = Random(seed)
            with ExitStack() as stack:
                mix = Mix(random, session, stack)
                try:
                    graph = stack.enter_context(
                        session.sequence(mix.steps, first=mix.first, modes=random.choice(MODES))
                    )
                except UnsupportedFeature:
                    graph = stack.enter_context(session.sequence(mix.steps, first=mix.first))
                for rounds in (random.randrange(4), 1):
                    for k, array in enumerate(mix.arrays[:4]):
                        array.upload(np.full(N, k, np.uint32))
                    graph(rounds)
                    for array, words in zip(mix.arrays, mix.wanted(rounds), strict=False):
                        np.testing.assert_array_equal(array.download(), words, err_msg=f"seed {seed}")
                    ran += 1
    assert ran == 2 * GRAPHS[backend]
