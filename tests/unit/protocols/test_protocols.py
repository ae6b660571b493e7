"""The protocols between a host and its workers, as models: right in every interleaving, and wrong once weakened.

``ring`` is that of the processor's workers, ``mailbox`` that of a kernel that stays on a device.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from support.profiles import SOAK
from support.protocols.mailbox import leaving, mailbox
from support.protocols.memory_model import (
    ORDERED,
    RELAXED,
    Await,
    Check,
    Checker,
    Found,
    Instruction,
    Load,
    Store,
    at,
)
from support.protocols.ring import WAVES, ring, sleeping, sleeping_beside_another, waiting, waves

Model = Callable[[], Found]
MAILBOXES = [(3, 1, 1), (5, 1, 1), (1, 2, 2), (2, 2, 1), *([(3, 2, 1), (2, 2, 2)] if SOAK else [])]
RINGS = [(3, 1), (5, 1), (2, 2), *([(3, 2)] if SOAK else [])]


def named(model: Model) -> str:
    assert isinstance(model, partial)
    words = [model.func.__name__, *model.args, *(f"{name}={value}" for name, value in model.keywords.items())]
    return " ".join(map(str, words))


@pytest.mark.parametrize(
    "model",
    [
        *[partial(ring, *sizes) for sizes in RINGS],
        *[partial(mailbox, *sizes, by_row=by_row) for sizes in MAILBOXES for by_row in (True, False)],
        partial(waves, 1),  # the count of ended rows tells it, although rows of one wave end in any order
        partial(waves, 2),
        partial(sleeping),
        partial(sleeping_beside_another),
        partial(waiting),
        partial(leaving),
    ],
    ids=named,
)
def test_a_protocol_holds_in_every_interleaving(model: Model) -> None:
    """No job is lost or done twice, no step begins early, and nobody sleeps while there is work or an end to see."""
    found = model()
    assert found.violation is None
    assert found.states > 10


@pytest.mark.parametrize(
    ("model", "violation"),
    [
        (partial(ring, publish=RELAXED), "a worker read another payload"),
        (partial(ring, look=RELAXED), "a worker read another payload"),
        (partial(ring, complete=RELAXED), "the host read another result"),
        (partial(ring, collect=RELAXED), "the host read another result"),
        (partial(ring, claims=False), "an entry ran twice"),
        (partial(ring, reuse=False, workers=1), "another"),
        (partial(ring, by_number=False, entries=5, workers=1), "another"),
        (partial(mailbox, publish=RELAXED), "a block read another payload"),
        (partial(mailbox, look=RELAXED), "a block read another payload"),
        (partial(mailbox, state=RELAXED), "the host read another result"),
        (partial(mailbox, ends=RELAXED), "the host read another result"),
        (partial(mailbox, end=RELAXED, by_row=False), "the host read another result"),
        (partial(mailbox, ends=RELAXED, by_row=False), "the host read another result"),
        (partial(mailbox, 1, 2, 2, count=RELAXED, by_row=False), "the host read another result"),
        (partial(mailbox, 2, 2, claims=False), "a job ran twice"),
        (partial(mailbox, waits=False), "another"),
        (partial(leaving, order=ORDERED), "wait for ever"),
        (partial(leaving, order=RELAXED), "wait for ever"),
        (partial(leaving, again=False), "wait for ever"),
        (partial(leaving, looks=False), "wait for ever"),
        (partial(leaving, in_order=False), "ran twice"),
        (partial(waves, looks=False), "before the wave before it had ended"),
        (partial(waves, ends=RELAXED), "before the wave before it had ended"),
        (partial(waves, look=RELAXED, ends=RELAXED), "before the wave before it had ended"),
        (partial(waves, begins=(0, 0, 1, *WAVES[3:])), "before the wave before it had ended"),
        (partial(sleeping, order=ORDERED), "wait for ever"),
        (partial(sleeping, order=RELAXED), "wait for ever"),
        (partial(sleeping, again=False), "wait for ever"),
        (partial(sleeping, rings=False), "wait for ever"),
        (partial(sleeping, bell_first=False), "wait for ever"),
        (partial(waiting, order=RELAXED), "wait for ever"),
        (partial(waiting, word_first=False), "wait for ever"),
        (partial(waiting, looks=False), "wait for ever"),
    ],
    ids=lambda value: named(value) if isinstance(value, partial) else "",
)
def test_a_weakened_protocol_is_found_out(model: Model, violation: str) -> None:
    found = model()
    assert found.violation is not None and violation in found.violation


def message(write: str, read: str) -> Found:
    sender: list[Instruction] = [Store(at("data"), lambda _: 7, RELAXED), Store(at("flag"), lambda _: 1, write)]
    receiver: list[Instruction] = [
        Await("f", at("flag"), lambda _, v: v == 1, read),
        Load("d", at("data"), RELAXED),
        Check(lambda r: r["d"] == 7, "stale"),
    ]
    return Checker({"data": 0, "flag": 0}, [sender, receiver]).run()


def test_the_checker_finds_stale_reads_only_where_they_are_allowed() -> None:
    assert message(ORDERED, ORDERED).violation is None
    assert message(RELAXED, ORDERED).violation is not None
    assert message(ORDERED, RELAXED).violation is not None
