"""The runtime's functions around the machine and the C library: floating-point mode, clock, sleep, locks, scratch.

On Linux threads sleep on a futex, elsewhere in steps of some microseconds.
"""

from __future__ import annotations

from typing import ClassVar, Final, NamedTuple

from vyre.adapters.cpu.pool.layout import *
from vyre.adapters.cpu.pool.words import *


class Target(NamedTuple):
    """The machine that the runtime is written for.

    ``arch`` is ``x86_64`` or ``aarch64``, ``system`` is ``linux`` or ``darwin``.
    """

    arch: str
    system: str


TARGET: Final = Target("x86_64", "linux")
"""Stands for the machine that the program is translated for."""
_DEFAULT_MXCSR: Final = 0x1F80
"""Round to nearest even, subnormals kept, every exception masked."""
FUTEX_NUMBER: Final = {"x86_64": 202, "aarch64": 98}
_WAIT_PRIVATE: Final = 128
_WAKE_PRIVATE: Final = 129
MONOTONIC: Final = {"linux": 1, "darwin": 6}
_NAP_US: Final = 50
LOOKS: Final = 32
"""Looks at a word between two looks at the clock."""
_SECOND: Final = 1_000_000_000
_PAGE: Final = 4096
ENDLESS: Final = -1
ALL: Final = 0x7FFF_FFFF
"""As many threads as sleep."""


class Time(Record):
    """A ``timespec`` of the C library."""

    BYTES: ClassVar[int] = 16
    seconds: Field[i64] = at(0)
    ns: Field[i64] = at(8)


class Place(Record):
    """Where a function of the C library or of the machine stores its result."""

    BYTES: ClassVar[int] = 8
    memory: Field[Memory] = at(0)
    mxcsr: Field[u32] = at(0)
    fpcr: Field[u64] = at(0)


def clock_gettime(clock: i32, time: Time) -> i32: ...
def sched_yield() -> i32: ...
def posix_memalign(place: Place, alignment: u64, nbytes: u64) -> i32: ...
def free(memory: Memory) -> None: ...
def memmove(to: Memory, source: Memory, nbytes: u64) -> Memory: ...
def memset(to: Memory, byte: i32, nbytes: u64) -> Memory: ...
def write(fd: i32, source: Memory, nbytes: u64) -> i64: ...
def syscall(number: i64, *arguments: object) -> i64: ...
def usleep(microseconds: i32) -> i32: ...
def llvm_cttz_i64(bits: u64, undefined: bool) -> u64: ...
def llvm_x86_sse_stmxcsr(place: Place) -> None: ...
def llvm_x86_sse_ldmxcsr(place: Place) -> None: ...
def llvm_x86_sse2_pause() -> None: ...
def llvm_aarch64_get_fpcr() -> u64: ...
def llvm_aarch64_set_fpcr(mode: u64) -> None: ...
def llvm_aarch64_hint(number: i32) -> None: ...


@inline
def lowest_bit(bits: u64) -> u64:
    """Returns the position of the lowest bit that is set; there is one."""
    return llvm_cttz_i64(bits, True)


@inline
def rounded_up(value: u64, multiple: u64) -> u64:
    """Returns the next multiple of a power of two."""
    return value + (multiple - 1) & ~(multiple - 1)


# ---------------------------------------------------------------- the machine
@inline
def default_mode(before: Place) -> None:
    """Sets the default floating-point mode, and keeps the one before."""
    if TARGET.arch == "x86_64":
        llvm_x86_sse_stmxcsr(before)
        default = Place()
        default.mxcsr = _DEFAULT_MXCSR
        llvm_x86_sse_ldmxcsr(default)
    else:
        before.fpcr = llvm_aarch64_get_fpcr()
        llvm_aarch64_set_fpcr(0)


@inline
def restore_mode(before: Place) -> None:
    """Sets the floating-point mode that ``default_mode`` kept."""
    if TARGET.arch == "x86_64":
        llvm_x86_sse_ldmxcsr(before)
    else:
        llvm_aarch64_set_fpcr(before.fpcr)


@inline
def pause() -> None:
    """Tells the core that this thread waits for another."""
    if TARGET.arch == "x86_64":
        llvm_x86_sse2_pause()
    else:
        llvm_aarch64_hint(1)


def now() -> i64:
    """Returns the time of the monotonic clock in nanoseconds."""
    time = Time()
    clock_gettime(MONOTONIC[TARGET.system], time)
    return time.seconds * _SECOND + time.ns


# ---------------------------------------------------------------- sleep and locks
def sleep_on(word: Shared[u32], expected: u32, timeout: i64) -> None:
    """Sleeps while a word is as expected, at most so many nanoseconds (below 0: without a limit)."""
    endless = timeout < 0
    if TARGET.system == "linux":
        limit = Time()
        limit.seconds = cast(i64, cast(u64, timeout) // _SECOND)
        limit.ns = cast(i64, cast(u64, timeout) % _SECOND)
        until = NULL if endless else limit
        syscall(FUTEX_NUMBER[TARGET.arch], address(word), _WAIT_PRIVATE, cast(u64, expected), until, NULL, 0)
    else:
        passed: i64 = 0
        while load(word, ACQUIRE) == expected and (endless or passed < timeout):
            usleep(_NAP_US)
            passed += 1000 * _NAP_US


def wake(word: Shared[u32], count: i32) -> None:
    """Wakes at most so many threads that sleep on a word."""
    if TARGET.system == "linux":
        syscall(FUTEX_NUMBER[TARGET.arch], address(word), _WAKE_PRIVATE, cast(u64, count), NULL, NULL, 0)


def lock(mutex: Shared[u32]) -> None:
    """Locks a mutex: 0 free, 1 taken, 2 taken and perhaps waited for."""
    if not compare_exchange(mutex, 0, 1):
        while exchange(mutex, 2) != 0:
            sleep_on(mutex, 2, ENDLESS)


def unlock(mutex: Shared[u32]) -> None:
    """Unlocks a mutex."""
    if exchange(mutex, 0) == 2:
        wake(mutex, 1)


# ---------------------------------------------------------------- spinning
def spin(pool: Pool, word: Shared[u32], old: u32, uncounted: i32) -> bool:
    """Returns whether a word has changed while this thread spun for it.

    No thread spins while more threads are awake in the pool than there are CPUs; this one is awake there in addition to
    those that are counted if ``uncounted`` is 1.
    """
    if load(word, ACQUIRE) != old:
        return True
    limit = pool.spin
    if limit == 0:
        return False
    cpus, start = pool.cpus - uncounted, now()
    while load(pool.busy, RELAXED) <= cpus:
        looks: u64 = LOOKS
        while looks != 0:
            pause()
            if load(word, ACQUIRE) != old:
                return True
            looks -= 1
        if now() - start > limit:
            break
    return False


@inline
def may_spin(habit: Habit) -> bool:
    """Returns whether to spin in this wait.  ``remember`` is told afterwards whether it helped.

    A thread that spins in vain loses that time, and may keep the thread that it waits for from its own CPU.  After each
    such time twice as many waits go to sleep at once, up to ``MOST_SKIPPED``; after one in which it helped none does.
    Threads that share a habit may lose a change to it.
    """
    left = load(habit.left, RELAXED)
    if left != 0:
        store(habit.left, left - 1, RELAXED)
    return left == 0


@inline
def remember(habit: Habit, helped: bool) -> None:
    """Takes note of whether spinning helped."""
    longer = load(habit.length, RELAXED) * 2 | 1
    length = 0 if helped else longer & MOST_SKIPPED
    store(habit.length, length, RELAXED)
    store(habit.left, length, RELAXED)


# ---------------------------------------------------------------- memory
def pool_allocate(nbytes: u64) -> Memory:
    """Returns new memory that begins a line and is zero, or null."""
    place = Place()
    if posix_memalign(place, LINE, nbytes) != 0:
        return NULL
    memset(place.memory, 0, nbytes)
    return place.memory


def pool_release(memory: Memory) -> None:
    """Frees memory."""
    free(memory)


def scratch_of(context: Context, wanted: u64) -> Memory:
    """Returns scratch of a context with at least so many bytes, or null where there is no memory for it."""
    size = rounded_up(max(wanted, _PAGE), _PAGE)
    if wanted <= context.size and context.scratch:
        return context.scratch
    free_scratch(context)
    place = Place()
    if posix_memalign(place, LINE, size) != 0:
        return NULL
    context.scratch = place.memory
    context.size = size
    return place.memory


def free_scratch(context: Context) -> None:
    """Frees the scratch of a context."""
    free(context.scratch)
    context.scratch = NULL
    context.size = 0


@inline
def reset_failure(job: Job) -> None:
    """Forgets the trap and the exceeded step budget that the record of a job holds."""
    store(job.trap_lane, ~0, RELAXED)
    store(job.trap_address_and_tag, 0, RELAXED)
    store(job.budget_lane, ~0, RELAXED)
