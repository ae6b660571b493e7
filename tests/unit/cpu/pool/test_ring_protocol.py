"""The protocol of rings (``pool/serving.py``) as a model: right in every interleaving, and wrong once it is weakened.

The model has a ring of two slots, one host and two workers.  What the host writes to a slot, and what a worker writes
as a result, are ordinary words; only the words of the protocol are atomic.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest

from support.memory_model import (
    ORDERED,
    RELAXED,
    SEQ_CST,
    Await,
    Check,
    Checker,
    Found,
    Instruction,
    Jump,
    Label,
    Let,
    Load,
    Registers,
    Sleep,
    Store,
    Update,
)
from support.profiles import SOAK

SLOTS: Final = 2
Place = Callable[[Registers], str]


def at(name: str) -> Place:
    return lambda _: name


def slot(name: str, register: str) -> Place:
    return lambda r: f"{name}{r[register] % SLOTS}"


# ---------------------------------------------------------------- entries, claims and ends
def host(entries: int, *, head: str, completed: str, reuse: bool, by_number: bool) -> list[Instruction]:
    """Submits entries and reads every result; a slot is written again when its entry has ended."""
    thread: list[Instruction] = []
    for number in range(entries):
        thread.append(Let("e", lambda _, number=number: number))  # type: ignore[misc]
        if number >= SLOTS and reuse:
            wanted = number - SLOTS + 1 if by_number else 1
            thread.append(
                Await("c", slot("completed", "e"), lambda _, v, wanted=wanted: v >= wanted, completed)  # type: ignore[misc]
            )
            thread.append(Load("y", slot("result", "e"), RELAXED))
            thread.append(Check(lambda r: r["y"] == 100 + r["e"] - SLOTS, "the host read another result"))
        thread.append(Store(slot("payload", "e"), lambda r: r["e"] + 10, RELAXED))
        thread.append(Store(at("head"), lambda r: r["e"] + 1, head))
    for number in range(max(0, entries - SLOTS), entries):
        thread.append(Let("e", lambda _, number=number: number))  # type: ignore[misc]
        wanted = number + 1 if by_number else 1
        thread.append(Await("c", slot("completed", "e"), lambda _, v, wanted=wanted: v >= wanted, completed))  # type: ignore[misc]
        thread.append(Load("y", slot("result", "e"), RELAXED))
        thread.append(Check(lambda r: r["y"] == 100 + r["e"], "the host read another result"))
    return thread


def worker(entries: int, *, head: str, completed: str, claims: bool) -> list[Instruction]:
    """Claims and runs entries until all were claimed."""
    return [
        Label("next"),
        Load("p", at("cursor")),
        Jump(lambda r: r["p"] == entries, "end"),
        Await("h", at("head"), lambda r, v: v > r["p"], head),
        Update("old", at("cursor"), lambda r, v: r["p"] + 1 if v == r["p"] or not claims else v),
        Jump(lambda r: r["old"] != r["p"] and claims, "next"),
        Load("x", slot("payload", "p"), RELAXED),
        Check(lambda r: r["x"] == r["p"] + 10, "a worker read another payload"),
        Update("runs", lambda r: f"runs{r['p']}", lambda _, v: v + 1),
        Check(lambda r: r["runs"] == 0, "an entry ran twice"),
        Store(slot("result", "p"), lambda r: 100 + r["p"], RELAXED),
        Store(slot("completed", "p"), lambda r: r["p"] + 1, completed),
        Jump(lambda _: 1, "next"),
        Label("end"),
    ]


def ring(
    entries: int = 3,
    workers: int = 2,
    *,
    publish: str = ORDERED,
    look: str = ORDERED,
    complete: str = ORDERED,
    collect: str = ORDERED,
    claims: bool = True,
    reuse: bool = True,
    by_number: bool = True,
) -> Found:
    initial = {"head": 0, "cursor": 0} | {f"runs{number}": 0 for number in range(entries)}
    initial |= {f"{name}{place}": 0 for name in ("payload", "result", "completed") for place in range(SLOTS)}
    threads = [host(entries, head=publish, completed=collect, reuse=reuse, by_number=by_number)]
    threads += [worker(entries, head=look, completed=complete, claims=claims) for _ in range(workers)]
    return Checker(initial, threads).run()


@pytest.mark.parametrize(("entries", "workers"), [(3, 1), (5, 1), (2, 2), *([(3, 2)] if SOAK else [])])
def test_no_job_is_lost_or_done_twice_in_any_interleaving(entries: int, workers: int) -> None:
    found = ring(entries, workers)
    assert found.violation is None
    assert found.states > 50


@pytest.mark.parametrize(
    ("weakened", "violation"),
    [
        ({"publish": RELAXED}, "a worker read another payload"),
        ({"look": RELAXED}, "a worker read another payload"),
        ({"complete": RELAXED}, "the host read another result"),
        ({"collect": RELAXED}, "the host read another result"),
        ({"claims": False}, "an entry ran twice"),
        ({"reuse": False, "workers": 1}, "another"),
        ({"by_number": False, "entries": 5, "workers": 1}, "another"),
    ],
    ids=lambda value: " ".join(map(str, value)) if isinstance(value, dict) else "",
)
def test_a_weakened_protocol_is_found_out(weakened: dict[str, Any], violation: str) -> None:
    found = ring(**weakened)
    assert found.violation is not None and violation in found.violation


# ---------------------------------------------------------------- waves of steps
WAVES: Final = (0, 0, 2, 3, 3) if SOAK else (0, 0, 2, 3)
"""For each row of an entry of steps the row with which its wave begins."""


def step_worker(*, looks: bool, look: str, ends: str, begins: tuple[int, ...]) -> list[Instruction]:
    """Claims rows in order, none before all rows of the waves before have ended, and reads what those wrote."""
    rows = len(begins)
    thread: list[Instruction] = [
        Label("next"),
        Load("c", at("cursor")),
        Jump(lambda r: r["c"] == rows, "end"),
    ]
    if looks:
        thread.append(Await("d", at("done"), lambda r, v: v >= begins[r["c"]], look))
    thread += [
        Update("old", at("cursor"), lambda r, v: v + 1 if v == r["c"] else v),
        Jump(lambda r: r["old"] != r["c"], "next"),
    ]
    for row in range(rows):
        thread += [Jump(lambda r, row=row: r["c"] != row, f"not {row}")]  # type: ignore[misc]
        for earlier in range(WAVES[row]):
            thread += [
                Load("seen", at(f"written{earlier}"), RELAXED),
                Check(lambda r: r["seen"] == 1, "a step began before the wave before it had ended"),
            ]
        thread += [Store(at(f"written{row}"), lambda _: 1, RELAXED), Label(f"not {row}")]
    thread += [Update("ended", at("done"), lambda _, v: v + 1, ends), Jump(lambda _: 1, "next"), Label("end")]
    return thread


def waves(
    workers: int = 2,
    *,
    looks: bool = True,
    look: str = ORDERED,
    ends: str = SEQ_CST,
    begins: tuple[int, ...] = WAVES,
) -> Found:
    initial = {"cursor": 0, "done": 0} | {f"written{row}": 0 for row in range(len(WAVES))}
    threads = [step_worker(looks=looks, look=look, ends=ends, begins=begins) for _ in range(workers)]
    return Checker(initial, threads).run()


@pytest.mark.parametrize("workers", [1, 2])
def test_no_step_begins_before_the_wave_before_it_has_ended(workers: int) -> None:
    """The count of ended rows tells it, although rows of one wave end in any order."""
    found = waves(workers)
    assert found.violation is None
    assert found.states > 20


@pytest.mark.parametrize(
    "weakened",
    [{"looks": False}, {"ends": RELAXED}, {"look": RELAXED, "ends": RELAXED}, {"begins": (0, 0, 1, *WAVES[3:])}],
    ids=str,
)
def test_weakened_waves_are_found_out(weakened: dict[str, Any]) -> None:
    found = waves(**weakened)
    assert found.violation is not None and "a step began before the wave before it had ended" in found.violation


# ---------------------------------------------------------------- sleeping
def publisher(order: str, *, rings: bool = True) -> list[Instruction]:
    """Publishes an entry, and rings the bell unless a worker polls."""
    return [
        Store(at("head"), lambda _: 1, order),
        Load("p", at("pollers"), order),
        Jump(lambda r: r["p"] > 0 or not rings, "end"),
        Update("b", at("bell"), lambda _, v: v + 1),
        Label("end"),
    ]


def loaded(register: str, name: str, order: str) -> list[Instruction]:
    """Leaves where the word is not 0."""
    return [Load(register, at(name), order), Jump(lambda r: r[register], "end")]


def poller(order: str, *, again: bool = True, bell_first: bool = True) -> list[Instruction]:
    """Polls, stops to poll, looks once more and sleeps; leaves when it has seen the entry."""
    read_bell: Instruction = Load("b", at("bell"), SEQ_CST)
    return [
        Update("n", at("pollers"), lambda _, v: v + 1, order),
        Load("h", at("head"), ORDERED),
        Jump(lambda r: r["h"], "end"),
        Update("n", at("pollers"), lambda _, v: v - 1, order),
        Label("look"),
        *([read_bell] if bell_first else []),
        *(loaded("h", "head", order) if again else []),
        *([] if bell_first else [read_bell]),
        Sleep(at("bell"), lambda r: r["b"]),
        Jump(lambda _: 1, "look") if again else Label("over"),
        Label("end"),
    ]


def sleeping(order: str = SEQ_CST, *, rings: bool = True, **broken: bool) -> Found:
    threads = [publisher(order, rings=rings), poller(order, **broken)]
    return Checker({"head": 0, "pollers": 0, "bell": 0}, threads).run()


@pytest.mark.parametrize("pollers", [1, 2])
def test_no_worker_sleeps_while_an_entry_waits(pollers: int) -> None:
    found = sleeping() if pollers == 1 else sleeping_beside_another()
    assert found.violation is None and found.states > 10


def sleeping_beside_another() -> Found:
    """A worker that polls when the entry is published serves it, so that nobody need be woken."""
    other: list[Instruction] = [
        Update("n", at("pollers"), lambda _, v: v + 1),
        Await("h", at("head"), lambda _, v: v > 0),
    ]
    return Checker({"head": 0, "pollers": 0, "bell": 0}, [publisher(SEQ_CST), other]).run()


@pytest.mark.parametrize(
    "broken",
    [{"order": ORDERED}, {"order": RELAXED}, {"again": False}, {"rings": False}, {"bell_first": False}],
    ids=str,
)
def test_a_lost_wake_up_is_found_out(broken: dict[str, Any]) -> None:
    found = sleeping(**broken)
    assert found.violation is not None and "wait for ever" in found.violation


def ender(order: str, *, word_first: bool) -> list[Instruction]:
    """Ends a job, and wakes whoever sleeps for it."""
    end: list[Instruction] = [Store(at("completed"), lambda _: 1, order)]
    look: list[Instruction] = [Load("w", at("waiters"), order)]
    return [
        *(end + look if word_first else look + end),
        Jump(lambda r: r["w"] == 0, "end"),
        Update("b", at("bell"), lambda _, v: v + 1),
        Label("end"),
    ]


def waiter(order: str, *, looks: bool) -> list[Instruction]:
    """Waits for the end of a job."""
    return [
        Update("n", at("waiters"), lambda _, v: v + 1, order),
        Load("b", at("bell"), SEQ_CST),
        *(loaded("c", "completed", order) if looks else []),
        Sleep(at("bell"), lambda r: r["b"]),
        Label("end"),
    ]


def waiting(order: str = SEQ_CST, *, word_first: bool = True, looks: bool = True) -> Found:
    threads = [ender(order, word_first=word_first), waiter(order, looks=looks), waiter(order, looks=looks)]
    return Checker({"completed": 0, "waiters": 0, "bell": 0}, threads).run()


def test_no_caller_sleeps_for_a_job_that_has_ended() -> None:
    found = waiting()
    assert found.violation is None and found.states > 50


@pytest.mark.parametrize("broken", [{"order": RELAXED}, {"word_first": False}, {"looks": False}], ids=str)
def test_a_caller_that_is_not_woken_is_found_out(broken: dict[str, Any]) -> None:
    found = waiting(**broken)
    assert found.violation is not None and "wait for ever" in found.violation


def test_the_checker_finds_stale_reads_only_where_they_are_allowed() -> None:
    def message(write: str, read: str) -> Found:
        sender: list[Instruction] = [
            Store(at("data"), lambda _: 7, RELAXED),
            Store(at("flag"), lambda _: 1, write),
        ]
        receiver: list[Instruction] = [
            Await("f", at("flag"), lambda _, v: v == 1, read),
            Load("d", at("data"), RELAXED),
            Check(is_seven, "stale"),
        ]
        return Checker({"data": 0, "flag": 0}, [sender, receiver]).run()

    assert message(ORDERED, ORDERED).violation is None
    assert message(RELAXED, ORDERED).violation is not None
    assert message(ORDERED, RELAXED).violation is not None


def is_seven(registers: Registers) -> int:
    return registers["d"] == 7
