"""The protocol of mailboxes (``ptx/mailbox.py``, ``runtime/engine.py``) as a model that can be weakened.

The model has a ring of two places, one host and two blocks of a kernel.  What the host writes to an entry, and what a
block writes as a result, are ordinary words; a claim is relaxed, because what it claims was published before.
"""

from __future__ import annotations

from typing import Final

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
    Store,
    Update,
    at,
)

PLACES: Final = 2


def place(name: str) -> Place:
    return lambda r: f"{name}{r['e'] % PLACES}"


def row_of(name: str, row: int) -> Place:
    return lambda r: f"{name}{r['e'] % PLACES}_{row}"


def own_row(name: str) -> Place:
    return lambda r: f"{name}{r['e'] % PLACES}_{r['row']}"


# ---------------------------------------------------------------- entries, claims and ends
def collected(number: int, rows: int, *, ends: str, by_row: bool) -> list[Instruction]:
    """Waits for the jobs of an entry, and reads their results."""
    thread: list[Instruction] = [Let("e", lambda _: number)]
    if not by_row:
        thread.append(Await("v", place("end"), lambda _, v: v >= number + 1, ends))
    for row in range(rows):
        if by_row:
            thread.append(Await("v", row_of("state", row), lambda _, v: v == 1, ends))
        thread.append(Load("y", row_of("result", row), RELAXED))
        thread.append(Check(lambda r, row=row: r["y"] == 100 + 10 * r["e"] + row, "the host read another result"))  # type: ignore[misc]
    return thread


def host(entries: int, rows: int, *, publish: str, ends: str, by_row: bool, waits: bool) -> list[Instruction]:
    """Publishes entries and reads every result; a place is written again when its entry has ended."""
    thread: list[Instruction] = []
    for number in range(entries):
        if number >= PLACES:
            thread += collected(number - PLACES, rows, ends=ends, by_row=by_row) if waits else []
        thread.append(Let("e", lambda _, number=number: number))  # type: ignore[misc]
        if by_row and number >= PLACES and waits:
            thread.append(Await("v", place("end"), lambda r, v: v >= r["e"] - PLACES + 1, ends))
        thread += [Store(row_of("state", row), lambda _: 0, RELAXED) for row in range(rows)]
        thread.append(Store(place("payload"), lambda r: r["e"] + 10, RELAXED))
        thread.append(Store(at("tail"), lambda r: r["e"] + 1, publish))
    for number in range(max(0, entries - PLACES), entries):
        thread += collected(number, rows, ends=ends, by_row=by_row)
    return thread


def block(entries: int, rows: int, *, look: str, state: str, count: str, end: str, claims: bool) -> list[Instruction]:
    """Claims and runs jobs until all were claimed; a claim is an entry times the rows, plus a row."""
    return [
        Label("next"),
        Load("c", at("claim"), RELAXED),
        Let("e", lambda r: r["c"] // rows),
        Let("row", lambda r: r["c"] % rows),
        Jump(lambda r: r["e"] == entries, "over"),
        Await("t", at("tail"), lambda r, v: v > r["e"], look),
        Load("x", place("payload"), RELAXED),
        Update("old", at("claim"), lambda r, v: r["c"] + 1 if v == r["c"] or not claims else v, RELAXED),
        Jump(lambda r: r["old"] != r["c"] and claims, "next"),
        Check(lambda r: r["x"] == r["e"] + 10, "a block read another payload"),
        Update("runs", lambda r: f"runs{r['c']}", lambda _, v: v + 1),
        Check(lambda r: r["runs"] == 0, "a job ran twice"),
        Store(own_row("result"), lambda r: 100 + 10 * r["e"] + r["row"], RELAXED),
        Store(own_row("state"), lambda _: 1, state),
        Update("n", place("ended"), lambda _, v: (v + 1) % rows, count),
        Jump(lambda r: r["n"] != rows - 1, "next"),
        Store(place("end"), lambda r: r["e"] + 1, end),
        Jump(lambda _: 1, "next"),
        Label("over"),
    ]


def mailbox(
    entries: int = 3,
    blocks: int = 1,
    rows: int = 1,
    *,
    publish: str = ORDERED,
    look: str = ORDERED,
    state: str = ORDERED,
    count: str = ORDERED,
    end: str = ORDERED,
    ends: str = ORDERED,
    claims: bool = True,
    by_row: bool = True,
    waits: bool = True,
) -> Found:
    initial = {"tail": 0, "claim": 0} | {f"runs{number}": 0 for number in range(entries * rows)}
    initial |= {f"{name}{each}": 0 for name in ("payload", "ended", "end") for each in range(PLACES)}
    initial |= {f"{n}{each}_{row}": 0 for n in ("state", "result") for each in range(PLACES) for row in range(rows)}
    threads = [host(entries, rows, publish=publish, ends=ends, by_row=by_row, waits=waits)]
    threads += [
        block(entries, rows, look=look, state=state, count=count, end=end, claims=claims) for _ in range(blocks)
    ]
    return Checker(initial, threads).run()


# ---------------------------------------------------------------- leaving
def publisher(order: str, *, looks: bool) -> list[Instruction]:
    """Publishes a job, launches the kernel again if it has left, and waits for the job.

    A launch that is not needed any more is told so, for the model to end.
    """
    return [
        Store(at("tail"), lambda _: 1, order),
        Load("left", at("left"), order),
        Jump(lambda r: r["left"] == 0 or not looks, "wait"),
        Store(at("launched"), lambda _: 1, ORDERED),
        Label("wait"),
        Await("d", at("done"), lambda _, v: v == 1),
        Store(at("launched"), lambda _: 2, ORDERED),
    ]


def first_launch(order: str, *, again: bool) -> list[Instruction]:
    """Finds nothing to do, says that it leaves, and looks once more."""
    return [
        Load("t", at("tail")),
        Jump(lambda r: r["t"], "run"),
        Store(at("left"), lambda _: 1, order),
        *([Load("t", at("tail"), order)] if again else []),
        Jump(lambda r: r["t"] == 0, "gone"),
        Store(at("left"), lambda _: 0, RELAXED),
        Label("run"),
        Update("c", at("claim"), lambda _, v: v + 1, RELAXED),
        Check(lambda r: r["c"] == 0, "a job ran twice"),
        Store(at("done"), lambda _: 1, ORDERED),
        Label("gone"),
        Store(at("gone"), lambda _: 1, ORDERED),
    ]


def second_launch(*, in_order: bool) -> list[Instruction]:
    """Begins when the first one has left, and does what is not claimed."""
    return [
        Await("l", at("launched"), lambda _, v: v > 0),
        *([Await("g", at("gone"), lambda _, v: v == 1)] if in_order else []),
        Load("c", at("claim"), RELAXED),
        Load("t", at("tail")),
        Jump(lambda r: r["c"] >= r["t"], "over"),
        Update("c", at("claim"), lambda _, v: v + 1, RELAXED),
        Check(lambda r: r["c"] == 0, "a job ran twice"),
        Store(at("done"), lambda _: 1, ORDERED),
        Label("over"),
    ]


def leaving(order: str = SEQ_CST, *, again: bool = True, looks: bool = True, in_order: bool = True) -> Found:
    words = dict.fromkeys(("tail", "left", "launched", "done", "gone", "claim"), 0)
    threads = [publisher(order, looks=looks), first_launch(order, again=again), second_launch(in_order=in_order)]
    return Checker(words, threads).run()
