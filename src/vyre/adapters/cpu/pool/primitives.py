"""Functions of the runtime around the machine and the C library: floating-point mode, pause, clock, sleep, locks.

On Linux threads sleep on a futex, elsewhere in steps of some microseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from vyre.adapters.cpu.pool import layout as at
from vyre.adapters.cpu.pool.building import I1, I32, I64, NULL, PTR, VOID, Body, Value, constant
from vyre.domain.errors import UnsupportedFeature

_DEFAULT_MXCSR: Final = 0x1F80
"""Round to nearest even, subnormals kept, every exception masked."""
_FUTEX_NUMBER: Final = {"x86_64": 202, "aarch64": 98}
_WAIT_PRIVATE: Final = 128
_WAKE_PRIVATE: Final = 129
_MONOTONIC: Final = {"linux": 1, "darwin": 6}
_NAP_US: Final = 50
_LOOKS: Final = 32
"""Looks at a word between two looks at the clock."""


class Target(NamedTuple):
    """The machine that the runtime is written for.

    ``arch`` is ``x86_64`` or ``aarch64``, ``system`` is ``linux`` or ``darwin``.
    """

    arch: str
    system: str


def checked(target: Target) -> Target:
    """Returns ``target``.  Raises ``UnsupportedFeature`` for a machine that the runtime is not written for."""
    if target.arch not in _FUTEX_NUMBER or target.system not in _MONOTONIC:
        raise UnsupportedFeature(
            feature=f"native code on {target.arch} {target.system}",
            backend="cpu",
            fix="use x86_64 or aarch64 with Linux or macOS, or the backend `reference`.",
        )
    return target


class Text:
    """The functions and declarations of the runtime as they are written."""

    def __init__(self, target: Target) -> None:
        self.target: Final = target
        self.x86: Final = target.arch == "x86_64"
        self.futex: Final = target.system == "linux"
        self._functions: list[Body] = []

    def function(self, result: str, name: str, *parameters: tuple[str, str], exported: bool = False) -> Body:
        """Begins a function, and returns its body."""
        made = Body(result, name, parameters, exported=exported)
        self._functions.append(made)
        return made

    def text(self) -> str:
        """Returns the module."""
        return "\n\n".join(("\n".join(self._declarations()), *(body.text() for body in self._functions))) + "\n"

    def _declarations(self) -> list[str]:
        found = [
            "declare i64 @llvm.cttz.i64(i64, i1)",
            "declare i32 @clock_gettime(i32, ptr)",
            "declare i32 @sched_yield()",
            "declare i32 @posix_memalign(ptr, i64, i64)",
            "declare void @free(ptr)",
            "declare ptr @memmove(ptr, ptr, i64)",
            "declare ptr @memset(ptr, i32, i64)",
            "declare i64 @write(i32, ptr, i64)",
        ]
        found.append("declare i64 @syscall(i64, ...)" if self.futex else "declare i32 @usleep(i32)")
        if self.x86:
            found += [
                "declare void @llvm.x86.sse.stmxcsr(ptr)",
                "declare void @llvm.x86.sse.ldmxcsr(ptr)",
                "declare void @llvm.x86.sse2.pause()",
            ]
        else:
            found += [
                "declare i64 @llvm.aarch64.get.fpcr()",
                "declare void @llvm.aarch64.set.fpcr(i64)",
                "declare void @llvm.aarch64.hint(i32)",
            ]
        return found

    # ------------------------------------------------------------ the machine
    def default_mode(self, f: Body) -> Value:
        """Sets the default floating-point mode, and returns what ``restore_mode`` needs."""
        if not self.x86:
            saved = f.call(I64, "llvm.aarch64.get.fpcr")
            f.call(VOID, "llvm.aarch64.set.fpcr", constant(I64, 0))
            return saved
        saved, default = f.space(I32), f.space(I32)
        f.call(VOID, "llvm.x86.sse.stmxcsr", saved)
        f.store(I32, _DEFAULT_MXCSR, default)
        f.call(VOID, "llvm.x86.sse.ldmxcsr", default)
        return saved

    def restore_mode(self, f: Body, saved: Value) -> None:
        """Sets the floating-point mode that ``default_mode`` found."""
        f.call(VOID, "llvm.x86.sse.ldmxcsr" if self.x86 else "llvm.aarch64.set.fpcr", saved)

    def pause(self, f: Body) -> None:
        """Tells the core that this thread waits for another."""
        if self.x86:
            f.call(VOID, "llvm.x86.sse2.pause")
        else:
            f.call(VOID, "llvm.aarch64.hint", constant(I32, 1))


def write_primitives(m: Text) -> None:
    """Writes the functions of this module."""
    _write_clock(m)
    _write_sleep(m)
    _write_mutex(m)
    _write_spin(m)
    _write_memory(m)


def now(f: Body) -> Value:
    """Calls the function that returns the time of the monotonic clock in nanoseconds."""
    return f.call(I64, "vyre_now")


def reset_failure(f: Body, job: Value) -> None:
    """Forgets the trap and the exceeded step budget that the record of a job holds."""
    f.poke(I64, -1, job, at.JOB_TRAP_LANE)
    f.poke(I64, 0, job, at.JOB_TRAP_ADDRESS)  # and the tag
    f.poke(I64, -1, job, at.JOB_BUDGET_LANE)


def lock(f: Body, mutex: Value) -> None:
    """Locks the mutex at an address."""
    f.call(VOID, "vyre_lock", mutex)


def unlock(f: Body, mutex: Value) -> None:
    """Unlocks the mutex at an address."""
    f.call(VOID, "vyre_unlock", mutex)


def sleep_on(f: Body, word: Value, expected: Value, timeout_ns: Value) -> None:
    """Sleeps while the i32 at ``word`` is as expected, at most that long (below 0: without a limit)."""
    f.call(VOID, "vyre_sleep", word, expected, timeout_ns)


def wake(f: Body, word: Value, count: Value) -> None:
    """Wakes at most ``count`` threads that sleep on a word."""
    f.call(VOID, "vyre_wake", word, count)


def spin(f: Body, pool: Value, word: Value, old: Value, *, counted: bool = True) -> Value:
    """Returns whether the i32 at ``word`` changed from ``old`` while this thread spun for it.

    ``counted`` says whether the thread is among those that are awake in the pool.
    """
    return f.call(I1, "vyre_spin", pool, word, old, constant(I32, 0 if counted else 1))


@contextmanager
def by_habit(f: Body, habit: Value, helped: Callable[[], Value]) -> Iterator[None]:
    """Encloses code that spins, which runs only if spinning has helped in the last waits of the same habit.

    A thread that spins in vain loses that time, and may keep the thread that it waits for from its own CPU.  After each
    such time twice as many waits go to sleep at once, up to ``MOST_SKIPPED``; after a time in which it ``helped`` none
    does.  Threads that share a habit may lose a change to it.
    """
    left = f.peek(I32, habit, at.HABIT_LEFT)
    resting = f.compare("ne", left, 0)
    with f.when(resting):
        f.poke(I32, f.sub(left, 1), habit, at.HABIT_LEFT)
    with f.unless(resting):
        yield
        longer = f.either(f.mul(f.peek(I32, habit, at.HABIT_LENGTH), 2), 1)
        length = f.choose(helped(), constant(I32, 0), f.both(longer, at.MOST_SKIPPED))
        f.poke(I32, length, habit, at.HABIT_LENGTH)
        f.poke(I32, length, habit, at.HABIT_LEFT)


def _write_clock(m: Text) -> None:
    f = m.function(I64, "vyre_now")
    place = f.space("[2 x i64]")
    f.call(I32, "clock_gettime", constant(I32, _MONOTONIC[m.target.system]), place)
    f.ret(f.add(f.mul(f.load(I64, place), 1_000_000_000), f.load(I64, place, 8)))


def _write_sleep(m: Text) -> None:
    f = m.function(VOID, "vyre_sleep", (PTR, "word"), (I32, "expected"), (I64, "timeout"))
    word, expected, timeout = f.parameters
    endless = f.compare("slt", timeout, 0)
    if m.futex:
        limit = f.space("[2 x i64]")
        f.store(I64, f.binary("udiv", timeout, 1_000_000_000), limit)
        f.store(I64, f.binary("urem", timeout, 1_000_000_000), limit, 8)
        number, operation = constant(I64, _FUTEX_NUMBER[m.target.arch]), constant(I64, _WAIT_PRIVATE)
        value, given = f.convert("zext", expected, I64), f.choose(endless, NULL, limit)
        f.call_variadic(I64, "syscall", (I64,), number, word, operation, value, given, NULL, constant(I64, 0))
        f.ret()
    else:
        passed = f.variable(I64, 0)
        with f.loop() as waiting:
            waiting.leave_if(f.compare("ne", f.peek(I32, word, order="acquire"), expected))
            late = f.compare("sge", passed.get(), timeout)
            waiting.leave_if(f.both(late, f.negate(endless)))
            f.call(I32, "usleep", constant(I32, _NAP_US))
            passed.set(f.add(passed.get(), 1000 * _NAP_US))
        f.ret()
    f = m.function(VOID, "vyre_wake", (PTR, "word"), (I32, "count"))
    if m.futex:
        word, count = f.parameters
        number, operation = constant(I64, _FUTEX_NUMBER[m.target.arch]), constant(I64, _WAKE_PRIVATE)
        many, zero = f.convert("zext", count, I64), constant(I64, 0)
        f.call_variadic(I64, "syscall", (I64,), number, word, operation, many, NULL, NULL, zero)
    f.ret()


def _write_mutex(m: Text) -> None:
    """Writes a mutex, which is an i32: 0 free, 1 taken, 2 taken and perhaps waited for."""
    f = m.function(VOID, "vyre_lock", (PTR, "mutex"))
    (mutex,) = f.parameters
    _, taken = f.exchange(I32, 0, 1, mutex)
    with f.unless(taken), f.loop() as trying:
        trying.leave_if(f.compare("eq", f.update("xchg", I32, 2, mutex), 0))
        sleep_on(f, mutex, constant(I32, 2), constant(I64, -1))
    f.ret()
    f = m.function(VOID, "vyre_unlock", (PTR, "mutex"))
    (mutex,) = f.parameters
    with f.when(f.compare("eq", f.update("xchg", I32, 0, mutex), 2)):
        wake(f, mutex, constant(I32, 1))
    f.ret()


def _write_spin(m: Text) -> None:
    """Writes spinning: no thread spins while more threads are awake in the pool than there are CPUs."""
    f = m.function(I1, "vyre_spin", (PTR, "pool"), (PTR, "word"), (I32, "old"), (I32, "uncounted"))
    pool, word, old, uncounted = f.parameters
    with f.when(f.compare("ne", f.peek(I32, word, order="acquire"), old)):
        f.ret(1, I1)
    limit = f.load(I64, pool, at.POOL_SPIN)
    with f.when(f.compare("eq", limit, 0)):
        f.ret(0, I1)
    cpus, start, looks = f.sub(f.load(I32, pool, at.POOL_CPUS), uncounted), now(f), f.variable(I64)
    with f.loop() as spinning:
        spinning.leave_if(f.compare("sgt", f.peek(I32, pool, at.POOL_BUSY), cpus))
        looks.set(_LOOKS)
        with f.loop() as looking:
            looking.leave_if(f.compare("eq", looks.get(), 0))
            m.pause(f)
            with f.when(f.compare("ne", f.peek(I32, word, order="acquire"), old)):
                f.ret(1, I1)
            looks.set(f.sub(looks.get(), 1))
        spinning.leave_if(f.compare("sgt", f.sub(now(f), start), limit))
    f.ret(0, I1)


def _write_memory(m: Text) -> None:
    f = m.function(PTR, "vyre_pool_allocate", (I64, "nbytes"), exported=True)
    (nbytes,) = f.parameters
    place = f.space(PTR)
    failed = f.call(I32, "posix_memalign", place, constant(I64, at.LINE), nbytes)
    with f.unless(f.compare("eq", failed, 0)):
        f.ret(NULL)
    made = f.load(PTR, place)
    f.call(PTR, "memset", made, constant(I32, 0), nbytes)
    f.ret(made)

    f = m.function(VOID, "vyre_pool_release", (PTR, "memory"), exported=True)
    f.call(VOID, "free", f.parameters[0])
    f.ret()

    # Returns scratch of a context with at least so many bytes, or null where there is no memory for it.
    f = m.function(PTR, "vyre_scratch", (PTR, "context"), (I64, "wanted"))
    context, wanted = f.parameters
    size = f.up_to(f.most(wanted, 4096), 4096)
    with f.when(f.compare("ule", wanted, f.load(I64, context, at.CONTEXT_SIZE))):
        found = f.load(PTR, context, at.CONTEXT_SCRATCH)
        with f.unless(f.compare("eq", found, NULL)):
            f.ret(found)
    f.call(VOID, "vyre_free_scratch", context)
    place = f.space(PTR)
    failed = f.call(I32, "posix_memalign", place, constant(I64, at.LINE), size)
    with f.unless(f.compare("eq", failed, 0)):
        f.ret(NULL)
    f.store(PTR, f.load(PTR, place), context, at.CONTEXT_SCRATCH)
    f.store(I64, size, context, at.CONTEXT_SIZE)
    f.ret(f.load(PTR, place))

    f = m.function(VOID, "vyre_free_scratch", (PTR, "context"))
    (context,) = f.parameters
    f.call(VOID, "free", f.load(PTR, context, at.CONTEXT_SCRATCH))
    f.store(PTR, NULL, context, at.CONTEXT_SCRATCH)
    f.store(I64, 0, context, at.CONTEXT_SIZE)
    f.ret()
