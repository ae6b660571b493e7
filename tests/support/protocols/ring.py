"""The protocol of rings (``pool/serving.py``) as a model that can be weakened.

The model has a ring of two slots, one host and two workers.  What the host writes to a slot, and what a worker writes
as a result, are ordinary words; only the words of the protocol are atomic.
"""

from __future__ import annotations

from typing import Final

from support.profiles import SOAK
from support.protocols.memory_model import (
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
    Place,
    Sleep,
    Store,
    Update,
    at,
)

SLOTS: Final = 2


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


def sleeping_beside_another() -> Found:
    """A worker that polls when the entry is published serves it, so that nobody need be woken."""
    other: list[Instruction] = [
        Update("n", at("pollers"), lambda _, v: v + 1),
        Await("h", at("head"), lambda _, v: v > 0),
    ]
    return Checker({"head": 0, "pollers": 0, "bell": 0}, [publisher(SEQ_CST), other]).run()


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
