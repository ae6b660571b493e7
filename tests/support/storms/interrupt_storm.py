"""An interrupt at every place of an operation, one run after the other, and what must hold afterwards.

An exception of a signal handler may arrive on the main thread wherever CPython looks for signals.  ``Places`` says
which of them are tried: every line, call and return of vyre's own code and of the Python code of the standard library
that it calls (also where a ``with`` block ends, at which CPython itself does not look), or every instruction that
follows a call, a backward jump or the beginning of a function, which is where it does.

After each interrupt ``Invariants`` looks whether the caller got it, and whether anything was lost: locks that stay
held, places of ``max_in_flight``, threads, descriptors, and right results.
"""

from __future__ import annotations

import dis
import gc
import itertools
import os
import sys
import sysconfig
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import Enum
from functools import cache
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import Any, Final

import vyre
from support.limits import LIMIT_S
from support.storms.ownership import doubles, losses, owners
from vyre.ports import ResidentBuffer

PATIENCE_S: Final = float(LIMIT_S)
"""How long something that may take a moment is waited for before it counts as lost, also where nothing else gets on."""
SETTLING_S: Final = 30.0
"""How long a state that is wrong for a moment, while other threads end what they do, may take to be as before."""
_LOCKS: Final = (type(threading.Lock()), type(threading.RLock()))
_OURS: Final = str(Path(vyre.__file__).parent) + os.sep
_STANDARD: Final = sysconfig.get_path("stdlib") + os.sep
_FUTURES: Final = str(Path(_STANDARD, "concurrent", "futures"))
"""Their methods, such as ``result``, are called on vyre's futures."""
_NOT_WATCHED: Final = (
    f"{_STANDARD}site-packages",
    f"{_STANDARD}asyncio",  # loses the wake-up of a task itself where ``call_soon`` is interrupted
    f"{_STANDARD}importlib",
    f"{_STANDARD}linecache",
    f"{_STANDARD}traceback",
    f"{_STANDARD}re{os.sep}",
)


class Interrupt(KeyboardInterrupt):
    """What is raised: no other interrupt is taken for it."""


class Places(Enum):
    """Where interrupts are raised."""

    LINES = "lines"
    """Every line, call and return."""
    SIGNALS = "signals"
    """Every instruction after one at whose end CPython looks for signals."""


@cache
def _is_watched(file: str) -> bool:
    return file.startswith(_OURS) or (file.startswith(_STANDARD) and not file.startswith(_NOT_WATCHED))


@cache
def looks(code: CodeType) -> frozenset[int]:
    """Returns the offsets of the instructions before which CPython may have looked for signals."""
    found, looked = set(), False
    for instruction in dis.get_instructions(code):
        if instruction.opname == "CACHE":
            continue
        if looked:
            found.add(instruction.offset)
        looked = instruction.opname.startswith(("CALL", "RESUME"))
        if instruction.opname.startswith("JUMP_BACKWARD"):  # what is written after it is reached from elsewhere
            found.add(instruction.argval)
    return frozenset(found)


class Tracer:
    """Counts the places of a run, and raises at the one with number ``at``; None: only lists them."""

    def __init__(self, places: Places, at: int | None = None) -> None:
        self._lines = places is Places.LINES
        self._at = at
        self.count = 0
        self.seen: list[tuple[str, int, str]] = []
        """The places of a run without an interrupt: file, line or offset, and event."""
        self.raised: Interrupt | None = None
        self.where = ""
        self._kept = self._trace
        """The same for all frames, and kept: CPython calls it without a reference of its own."""

    @contextmanager
    def tracing(self) -> Iterator[None]:
        """Traces the block."""
        before = sys.gettrace()
        sys.settrace(self._kept)
        try:
            yield
        finally:
            sys.settrace(before)

    def _trace(self, frame: FrameType, event: str, _: Any) -> Any:
        code = frame.f_code
        if event == "call" and not _is_ours_or_called_by_it(frame):
            return None
        if self._lines:
            if event != "exception":
                self._count(frame, event, frame.f_lineno)
        elif event == "call":
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
        elif event == "opcode" and frame.f_lasti in looks(code):
            self._count(frame, event, frame.f_lasti)
        return self._kept

    def _count(self, frame: FrameType, event: str, position: int) -> None:
        if self._at is None:
            self.seen.append((frame.f_code.co_filename, position, event))
        elif self.count == self._at:
            sys.settrace(None)
            self.where = f"{short(frame.f_code.co_filename)}:{frame.f_lineno} {frame.f_code.co_name} ({event})"
            self.raised = Interrupt()
            raise self.raised
        self.count += 1


def _is_ours_or_called_by_it(frame: FrameType) -> bool:
    """Returns whether a frame is of vyre's code, or of the standard library on behalf of it."""
    if frame.f_code.co_name == "<module>":
        return False
    back: FrameType | None = frame
    while back is not None and _is_watched(back.f_code.co_filename):
        if back.f_code.co_filename.startswith((_OURS, _FUTURES)):
            return True
        back = back.f_back
    return False


def short(file: str) -> str:
    """Returns a file's name from its package on."""
    return file.removeprefix(str(Path(_OURS).parent) + os.sep).removeprefix(_STANDARD)


@dataclass(slots=True)
class Bench:
    """A session with what an operation runs on.  ``check`` raises if results are wrong; it is called on any thread."""

    session: vyre.Session
    action: Callable[[], object]
    check: Callable[[], object]
    close: Callable[[], object] = lambda: None

    def shut(self) -> None:
        """Closes everything."""
        self.close()
        self.session.close()


@dataclass(frozen=True, slots=True)
class Operation:
    """What is interrupted.  ``opened`` makes a bench; ``cold``: a new one for each interrupt, else the same for all."""

    name: str
    opened: Callable[[], Bench]
    cold: bool = False


@dataclass(slots=True)
class Storm:
    """The outcome for an operation: the places that were tried, and what went wrong at which."""

    operation: str
    places: int = 0
    interrupts: int = 0
    in_finalizers: int = 0
    failures: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        told = f"{self.operation}: {self.interrupts} interrupts at {self.places} places, {len(self.failures)} failures"
        return "\n".join((told, *(f"    {failure}" for failure in self.failures)))


def storm(
    operation: Operation,
    places: Places = Places.LINES,
    *,
    distinct: bool | None = None,
    part: tuple[int, int] = (0, 1),
    most: int | None = None,
    most_failures: int = 25,
    tell: Callable[[str], object] = lambda failure: None,
) -> Storm:
    """Interrupts an operation at each of its places.

    ``distinct``: only the first and last time that each place is reached; None: for what is cold.  ``part``: of the
    places those whose number modulo the second is the first; ``most``: about so many, evenly.  ``tell`` is called with
    each failure.
    """
    found = Storm(operation.name)
    bench = operation.opened()
    try:
        if not operation.cold:
            for _ in range(3):
                bench.action()
        tracer = Tracer(places)
        with tracer.tracing():
            bench.action()
        numbers = _first_and_last(tracer.seen) if distinct or (distinct is None and operation.cold) else tracer.seen
        chosen = sorted(numbers) if isinstance(numbers, set) else range(len(numbers))
        found.places = len(chosen)
        chosen = chosen if most is None else chosen[len(chosen) // most // 2 :: max(1, len(chosen) // most)]
        bench.check()
        invariants = Invariants(bench)
        before = losses()
        for number in chosen:
            if number % part[1] != part[0]:
                continue
            if operation.cold:
                _shut(bench)
                bench = operation.opened()
                invariants = Invariants(bench, invariants)
            failure = _interrupted(found, bench, invariants, Tracer(places, number))
            if failure is not None:
                found.failures.append(failure)
                tell(failure)
                if len(found.failures) >= most_failures:
                    break
                if not operation.cold:
                    bench = operation.opened()
                    for _ in range(3):
                        bench.action()
                    invariants = Invariants(bench)
        lost = losses() - before
        if lost["rings"] or max(lost.values(), default=0) > found.interrupts:
            found.failures.append(f"lost by {found.interrupts} interrupts: {dict(lost)}")
            tell(found.failures[-1])
    finally:
        _shut(bench)
    return found


def _first_and_last(seen: list[tuple[str, int, str]]) -> set[int]:
    first: dict[tuple[str, int, str], int] = {}
    last: dict[tuple[str, int, str], int] = {}
    for number, place in enumerate(seen):
        first.setdefault(place, number)
        last[place] = number
    return {*first.values(), *last.values()}


def _shut(bench: Bench) -> None:
    done = _within(bench.shut, PATIENCE_S)
    if done is not None:
        raise AssertionError(f"the session does not close: {done}")


def _interrupted(found: Storm, bench: Bench, invariants: Invariants, tracer: Tracer) -> str | None:
    """Runs the operation with one interrupt; returns what is wrong afterwards."""
    caught: BaseException | None = None
    unraisable: list[BaseException | None] = []
    others: list[str] = []

    def told(told: sys.UnraisableHookArgs) -> None:
        if isinstance(told.exc_value, Interrupt):
            unraisable.append(told.exc_value)
        elif not isinstance(told.exc_value, ResourceWarning):
            others.append(f"{told.exc_value!r} in {told.object!r}")

    hook, sys.unraisablehook = sys.unraisablehook, told
    try:
        with tracer.tracing():
            bench.action()
    except BaseException as error:
        caught = error.with_traceback(None)
    finally:
        sys.unraisablehook = hook
    if tracer.raised is None:
        if caught is not None:
            return f"{type(caught).__name__} without an interrupt: {caught}"
        return None
    found.interrupts += 1
    wrong = []
    if caught is not tracer.raised:
        if any(each is tracer.raised for each in unraisable):
            found.in_finalizers += 1
        else:
            wrong.append("the interrupt was swallowed" if caught is None else f"the caller got {caught!r}")
    tracer.raised = caught = None
    unraisable.clear()
    wrong.extend(invariants.broken())
    wrong += [f"unraisable: {each}" for each in others]
    return f"{tracer.where}: {'; '.join(wrong)}" if wrong else None


class Invariants:
    """What must be as before, once an operation was interrupted."""

    def __init__(self, bench: Bench, before: Invariants | None = None) -> None:
        self._bench = bench
        self._held: set[str] = held_locks(bench.session) if before is None else before._held
        self._threads: Counter[str] = _threads() if before is None else before._threads
        self._descriptors: Counter[str] = _descriptors() if before is None else before._descriptors
        self._owners = owners()

    def broken(self) -> list[str]:
        """Returns what does not hold."""
        found = []
        session = self._bench.session
        if held := _settled(lambda: sorted(held_locks(session) - self._held), SETTLING_S):
            found.append(f"held locks: {', '.join(held)}")
        if (wrong := _within(self._bench.check, PATIENCE_S)) is not None:
            found.append(f"afterwards: {wrong}")
            return found
        try:
            self._bench.check()  # on this thread too
        except Exception as error:
            found.append(f"afterwards on the main thread: {type(error).__name__}: {error}")
        if double := _settled(lambda: doubles(self._owners), SETTLING_S):
            found.append(f"two owners: {double}")
        if places := _settled(lambda: session._work.admission.taken, SETTLING_S):
            found.append(f"{places} places of max_in_flight are taken")
        twice = [name for name, count in _threads().items() if count > 1]
        if twice:
            found.append(f"threads that are there twice: {twice}")
        if lost := _settled(lambda: sorted((self._threads - _threads()).elements()), SETTLING_S):
            found.append(f"threads that are gone: {lost}")
        before = self._descriptors
        if more := _settled(lambda: _descriptors() - before, SETTLING_S):
            found.append(f"descriptors more: {dict(more)}")
            self._descriptors += more
        return found


def _settled(look: Callable[[], Any], seconds: float) -> Any:
    """Returns what a look finds: nothing, or what it still finds after so many seconds."""
    end = time.monotonic() + seconds
    while found := look():
        if time.monotonic() > end:
            return found
        time.sleep(0.002)
        if (wrong := _within(gc.collect, PATIENCE_S)) is not None:
            return f"{found}; the collector: {wrong}"
    return None


def _threads() -> Counter[str]:
    """Returns how many threads there are by name, of those that are started once and stay."""
    names = [thread.name for thread in threading.enumerate()]
    return Counter(name for name in names if name.startswith("vyre-cpu-") and name[-1].isdigit())


def _descriptors() -> Counter[str]:
    """Returns what the descriptors of the process are for, without those of the process that compiles in the
    background, which is started at a time of its own.
    """
    found: Counter[str] = Counter()
    for entry in Path("/proc/self/fd").iterdir() if sys.platform == "linux" else ():
        with suppress(OSError):
            found[str(entry.readlink()).split(":")[0]] += 1
    for name in [name for name in found if name.endswith("(deleted)")]:  # where it writes its complaints
        found["pipe"] -= 2 * found.pop(name)
    return found


_NUMBERS: Final = itertools.count()


def _within(work: Callable[[], object], seconds: float) -> str | None:
    """Runs work on another thread; returns what it raised, or where it and vyre's threads are after so many seconds."""
    wrong: list[str] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            wrong.append(f"{type(error).__name__}: {error}")

    thread = threading.Thread(target=run, name=f"check-{next(_NUMBERS)}", daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        places = {each.name: _place(each) for each in threading.enumerate() if each.name.startswith("vyre-")}
        beside = "; ".join(f"{name} in {place}" for name, place in places.items())
        return f"it hangs in {_place(thread)}; beside it {beside or 'nobody'}"
    return wrong[0] if wrong else None


def _place(thread: threading.Thread) -> str:
    """Returns the innermost lines at which a thread is."""
    stack = traceback.extract_stack(sys._current_frames().get(thread.ident or 0))[-6:]
    return " < ".join(f"{short(each.filename)}:{each.lineno}" for each in reversed(stack))


# ---------------------------------------------------------------- locks
_OF_PYTHON: Final = (threading.Condition, threading.Event, threading.Semaphore, threading.Barrier)
_LOOKS_INTO: Final = (dict, list, tuple, set, frozenset)


def held_locks(*roots: object, with_modules: bool = True) -> set[str]:
    """Returns the names of the locks that vyre's objects name, and that another thread could not take.

    The locks are those in attributes of vyre's own objects that can be reached from ``roots`` and, ``with_modules``,
    from the variables of vyre's modules.  What threads wait at until it is released, like the gate of a build, is one
    of them.  If the look does not end, because a finaliser that runs in it does not, that is in the place of a name.
    """
    found: set[str] = set()

    def look() -> None:
        for name, lock in _named_locks(roots, with_modules):
            if lock.acquire(timeout=0.05):
                lock.release()
            else:
                found.add(name)

    wrong = _within(look, PATIENCE_S)
    return found if wrong is None else found | {f"(the look: {wrong})"}


def _named_locks(roots: tuple[object, ...], with_modules: bool) -> Iterator[tuple[str, Any]]:
    modules = [module for name, module in list(sys.modules.items()) if with_modules and name.startswith("vyre.")]
    waiting: list[object] = [*roots]
    seen: set[int] = set()
    for module in modules:
        for name, value in list(vars(module).items()):
            if isinstance(value, _LOCKS):
                yield f"{module.__name__}.{name}", value
            elif _is_ours(value):
                waiting.append(value)
    while waiting:
        owner = waiting.pop()
        if id(owner) in seen:
            continue
        seen.add(id(owner))
        if isinstance(owner, _LOOKS_INTO):
            parts = [each for each in gc.get_referents(owner) if _is_ours(each) or isinstance(each, _LOOKS_INTO)]
            waiting.extend(parts)
            continue
        for name, value in _attributes(owner):
            if isinstance(value, _LOCKS):
                if id(value) not in seen and not (name == "_closing" and isinstance(owner, ResidentBuffer)):
                    seen.add(id(value))  # that of a buffer is never given back: it says who closes
                    yield f"{type(owner).__name__}.{name}", value
            elif isinstance(value, _OF_PYTHON):
                yield f"{type(owner).__name__}.{name}", getattr(value, "_cond", value)
            elif _is_ours(value) or isinstance(value, _LOOKS_INTO):
                waiting.append(value)
            elif callable(value) and not isinstance(value, (type, ModuleType)):
                waiting.extend(each for each in _bound(value) if _is_ours(each))


def _is_ours(value: object) -> bool:
    return not isinstance(value, type) and type(value).__module__.startswith("vyre.")


def _bound(value: Any) -> Iterator[object]:
    """Yields what a function, method or partial object holds."""
    yield getattr(value, "__self__", None)
    yield from getattr(value, "args", ())
    for cell in getattr(value, "__closure__", None) or ():
        with suppress(ValueError):
            yield cell.cell_contents


def _attributes(owner: object) -> Iterator[tuple[str, Any]]:
    yield from list(getattr(owner, "__dict__", {}).items())
    for kind in type(owner).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            try:
                yield (
                    name,
                    object.__getattribute__(owner, f"_{kind.__name__.lstrip('_')}{name}" if _private(name) else name),
                )
            except AttributeError:
                continue


def _private(name: str) -> bool:
    return name.startswith("__") and not name.endswith("__")
