"""A checker of small concurrent programs: every interleaving, under a weak memory model.

A location has a history of messages, numbered in the order in which they were written.  A thread has a *view*: for each
location the oldest message that it may still read.  A relaxed load reads any message from there on, so that it may be
stale; an acquire load also joins the view that a release store left in the message.  A read-modify-write reads the
latest message, and acquires and releases unless it is relaxed.  Sequentially consistent operations also join a view
that all of them share, before and after.  This is the view semantics of C11 without loads that read what is written
later.

A thread is a list of instructions over registers.  A failed ``Check`` or a thread that sleeps for ever is a violation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

Registers = dict[str, int]
Expression = Callable[[Registers], int]
Place = Callable[[Registers], str]
RELAXED: Final = "relaxed"
ORDERED: Final = "acquire and release"
SEQ_CST: Final = "seq_cst"


def at(name: str) -> Place:
    """Returns the place of a word that is one for all."""
    return lambda _: name


class Load(NamedTuple):
    """Reads ``place`` to a register."""

    register: str
    place: Place
    order: str = ORDERED


class Store(NamedTuple):
    """Writes a value to ``place``."""

    place: Place
    value: Expression
    order: str = ORDERED


class Update(NamedTuple):
    """Replaces the value at ``place`` by a function of it where ``expected`` holds; the register gets the old value."""

    register: str
    place: Place
    new: Callable[[Registers, int], int]
    order: str = SEQ_CST


class Let(NamedTuple):
    """Sets a register."""

    register: str
    value: Expression


class Jump(NamedTuple):
    """Goes on at a label where the condition holds."""

    condition: Expression
    label: str


class Label(NamedTuple):
    """A place to jump to."""

    name: str


class Check(NamedTuple):
    """A violation unless the condition holds."""

    condition: Expression
    text: str


class Sleep(NamedTuple):
    """Goes on once the latest value at ``place`` is another than ``value``."""

    place: Place
    value: Expression


class Await(NamedTuple):
    """Goes on once an acquire load of ``place`` may read a value of which ``condition`` holds."""

    register: str
    place: Place
    condition: Callable[[Registers, int], bool]
    order: str = ORDERED


Instruction = Load | Store | Update | Let | Jump | Label | Check | Sleep | Await
View = tuple[tuple[str, int], ...]


class Found(NamedTuple):
    """How many states there are, and the first violation, or None."""

    states: int
    violation: str | None


class _Thread(NamedTuple):
    place: int
    registers: tuple[tuple[str, int], ...]
    view: View


class _State(NamedTuple):
    threads: tuple[_Thread, ...]
    memory: tuple[tuple[str, tuple[tuple[int, View], ...]], ...]
    shared: View


def _join(one: View, other: View) -> View:
    found = dict(one)
    for place, time in other:
        if found.get(place, 0) < time:
            found[place] = time
    return tuple(sorted(found.items()))


class Checker:
    """Runs threads in every order."""

    def __init__(self, initial: Mapping[str, int], threads: Sequence[Sequence[Instruction]]) -> None:
        self._programs = [tuple(thread) for thread in threads]
        self._labels = [
            {each.name: at for at, each in enumerate(thread) if isinstance(each, Label)} for thread in self._programs
        ]
        self._first = _State(
            tuple(_Thread(0, (), ()) for _ in threads),
            tuple(sorted((place, ((value, ()),)) for place, value in initial.items())),
            (),
        )

    def run(self, most: int = 2_000_000) -> Found:
        """Visits every state; raises ``AssertionError`` beyond ``most`` states."""
        seen: set[_State] = set()
        left = [self._first]
        try:
            while left:
                state = left.pop()
                found = [self._settled(state, number) for number in range(len(state.threads))]
                for number, thread in enumerate(found):
                    state = state._replace(threads=(*state.threads[:number], thread, *state.threads[number + 1 :]))
                if state in seen:
                    continue
                seen.add(state)
                assert len(seen) <= most, "too many states"
                following = [each for number in range(len(state.threads)) for each in self._steps(state, number)]
                if not following and any(t.place < len(p) for t, p in zip(state.threads, self._programs, strict=True)):
                    waiting = [t.place for t, p in zip(state.threads, self._programs, strict=True) if t.place < len(p)]
                    raise _Violation(f"threads wait for ever, at {waiting}")
                left += following
        except _Violation as violation:
            return Found(len(seen), str(violation))
        return Found(len(seen), None)

    def _settled(self, state: _State, number: int) -> _Thread:
        """Runs what touches no memory."""
        thread, program = state.threads[number], self._programs[number]
        place, registers = thread.place, dict(thread.registers)
        while place < len(program):
            match program[place]:
                case Let(register, value):
                    registers[register] = value(registers)
                case Jump(condition, label):
                    if condition(registers):
                        place = self._labels[number][label]
                case Label():
                    pass
                case Check(condition, text):
                    if not condition(registers):
                        raise _Violation(f"{text}: {registers}")
                case _:
                    break
            place += 1
        return _Thread(place, tuple(sorted(registers.items())), thread.view)

    def _steps(self, state: _State, number: int) -> list[_State]:
        thread, program = state.threads[number], self._programs[number]
        if thread.place >= len(program):
            return []
        step, registers, memory = program[thread.place], dict(thread.registers), dict(state.memory)
        place = step.place(registers)  # type: ignore[union-attr]
        messages = memory[place]
        order = getattr(step, "order", SEQ_CST)
        view = _join(thread.view, state.shared) if order == SEQ_CST else thread.view
        oldest = dict(view).get(place, 0)
        found: list[_State] = []

        def after(view: View, message: tuple[int, View] | None, read: dict[str, int]) -> None:
            shared = _join(state.shared, view) if order == SEQ_CST else state.shared
            changed = memory | {place: (*messages, message)} if message is not None else memory
            made = _Thread(thread.place + 1, tuple(sorted((registers | read).items())), view)
            threads = (*state.threads[:number], made, *state.threads[number + 1 :])
            found.append(_State(threads, tuple(sorted(changed.items())), shared))

        def reads(register: str, wanted: Callable[[int], bool]) -> None:
            for time in range(oldest, len(messages)):
                value, sent = messages[time]
                if wanted(value):
                    seen = _join(view, ((place, time),))
                    after(seen if order == RELAXED else _join(seen, sent), None, {register: value})

        match step:
            case Load(register=register):
                reads(register, lambda _: True)
            case Await(register=register, condition=condition):
                reads(register, lambda value: condition(registers, value))
            case Store(value=expression):
                time = len(messages)
                written = _join(view, ((place, time),))
                sent = ((place, time),) if order == RELAXED else written
                after(written, (expression(registers), sent), {})
            case Update(register=register, new=new):
                value, received = messages[-1]
                mine = ((place, len(messages)),)
                written = _join(view if order == RELAXED else _join(view, received), mine)
                after(written, (new(registers, value), mine if order == RELAXED else written), {register: value})
            case Sleep(value=expression):
                if messages[-1][0] != expression(registers):
                    after(_join(view, ((place, len(messages) - 1),)), None, {})
        return found


class _Violation(Exception):
    pass
