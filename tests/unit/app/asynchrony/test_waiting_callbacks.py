"""A callback or a finaliser waits for work on the thread by which the backend tells of ended runs."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Annotated, Any

import numpy as np
import pytest

import vyre
from support.llvm import NEEDS_LLVM
from vyre import In, Out, f32

LIMIT_S = 60.0
TRIES = 400
POWERS = range(12, 20)
"""The binary logarithms of the elements of runs, of which a longer one has seldom ended when its callback is added."""


@vyre.kernel
def tripled(x: In[f32], y: Annotated[Out[f32], vyre.like("x")]) -> None:
    i = vyre.global_id(0)
    if i < len(x):
        y[i] = x[i] * f32(3)


def answer_in_a_callback(session: vyre.Session, x: np.ndarray[Any, Any], *, submits: bool) -> tuple[object, str]:
    """Returns whether the result that a callback waits for is right, and the name of the thread that called it."""
    answers: list[object] = []
    called = threading.Event()
    later: SimpleQueue[Future[Any]] = SimpleQueue()

    def wait(_: Future[Any]) -> None:
        try:
            other = session.submit(tripled, {"x": x}) if submits else later.get(timeout=LIMIT_S)
            answers.append(np.array_equal(other.result(LIMIT_S)["y"], x * 3))
        except BaseException as error:
            answers.append(error)
        answers.append(threading.current_thread().name)
        called.set()

    first = session.submit(tripled, {"x": x})
    if first.done():
        return True, threading.current_thread().name
    first.add_done_callback(wait)
    later.put(session.submit(tripled, {"x": x}))
    assert called.wait(2 * LIMIT_S)
    right, name = answers
    return right, str(name)


@pytest.mark.parametrize("backend", ["cuda-machine", pytest.param("cpu", marks=NEEDS_LLVM)])
@pytest.mark.parametrize("submits", [False, True])
def test_a_callback_waits_for_other_work(backend: str, submits: bool) -> None:
    with vyre.open(backend, cache=False) as session:
        for attempt in range(TRIES):
            x = np.arange(1 << POWERS[attempt % len(POWERS)], dtype=np.float32)
            right, name = answer_in_a_callback(session, x, submits=submits)
            assert right is True
            if name != threading.current_thread().name:
                return  # it was the thread that tells of ended runs
    pytest.fail("every run had ended before its callback was added")
