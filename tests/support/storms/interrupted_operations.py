"""The public operations that storms interrupt, on one backend: ``operations("cpu")``.

Each is warm, on a session that has run it before, or cold, on a session that is new, with workers and code to be made.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from tempfile import mkdtemp
from threading import Thread
from typing import Annotated, Any, Final

import numpy as np

import vyre
from support.storms.interrupt_storm import PATIENCE_S, Bench, Operation
from vyre import HostStep, In, InOut, Out, Step, like, u32
from vyre.adapters.disk import inventory
from vyre.adapters.disk.artifact_store import retention_of
from vyre.adapters.disk.entry_directory import EntryDirectory
from vyre.adapters.disk.file_operations import REAL_FILES
from vyre.adapters.disk.ledger import Totals
from vyre.adapters.disk.space import Space
from vyre.app.sequences.steps import Item
from vyre.domain.cache_config import Eviction

LANES: Final = 512
_ROUNDS: Final = 4


@vyre.kernel(workgroup=64)
def add(x: InOut[u32]) -> None:
    """Adds one."""
    i = vyre.global_id()
    if i < len(x):
        x[i] = x[i] + 1


@vyre.kernel(workgroup=64)
def shared(x: In[u32], y: Annotated[Out[u32], like("x")]) -> None:
    """Sums what workgroup memory holds: two threads with one scratch would be seen."""
    t = vyre.workgroup_array(u32, 64)
    i, j = vyre.global_id(), vyre.local_id()
    for r in range(_ROUNDS):
        t[j] = x[i] + r
        vyre.barrier()
        y[i] = y[i] + t[(j + r) % 64]
        vyre.barrier()


@vyre.kernel(workgroup=64)
def halve(x: InOut[u32], changed: InOut[u32]) -> None:
    """Halves until all are zero."""
    i = vyre.global_id()
    if i < len(x) and x[i] > 0:
        x[i] = x[i] // 2
        changed[0] = 1


@vyre.kernel(workgroup=64)
def sums(table: In[u32], start: In[u32], y: Annotated[Out[u32], like("start")]) -> None:
    """Adds what all queries share."""
    i = vyre.global_id()
    if i < len(start):
        y[i] = start[i] + table[i]


def shared_result(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Returns what ``shared`` computes."""
    rows = x.reshape(-1, 64)
    return sum((np.roll(rows, -r, 1) + np.uint32(r) for r in range(_ROUNDS)), np.zeros_like(rows)).reshape(-1)


X: Final = np.arange(LANES, dtype=np.uint32)
WANT: Final = (X + 1).tobytes()
WANT_SHARED: Final = shared_result(X).tobytes()
CONCURRENT: Final = 4
OTHERS: Final = [(X + number, shared_result(X + number).tobytes()) for number in range(CONCURRENT)]
"""Inputs that differ, so that two dispatches which share memory are seen, and what ``shared`` makes of them."""


def _is(found: Any, want: bytes) -> None:
    if np.asarray(found).tobytes() != want:
        raise AssertionError("wrong bytes")


def works(session: vyre.Session) -> None:
    """Raises unless dispatches of the session, one by one and several at once, return the right bytes."""
    _is(session.dispatch(add, [X])["x"], WANT)
    futures = [session.submit(shared, {"x": other}) for other, _ in OTHERS]
    jobs = [session.submit(add, [X + number]) for number in range(CONCURRENT)]
    for future, (_, want) in zip(futures, OTHERS, strict=True):
        _is(future.result(PATIENCE_S)["y"], want)
    for number, future in enumerate(jobs, 1):
        _is(future.result(PATIENCE_S)["x"], (X + number).tobytes())


Action = Callable[[vyre.Session], Callable[[], object]]
"""Prepares an operation on a session, and returns what is interrupted."""


def _called(session: vyre.Session) -> Callable[[], object]:
    x = X.copy()

    def call() -> None:
        with session:  # never left by an interrupt of the call alone: it would be closed
            add(x)

    return call


def _dispatch(session: vyre.Session) -> Callable[[], object]:
    return lambda: _is(session.dispatch(add, [X])["x"], WANT)


def _compile(session: vyre.Session) -> Callable[[], object]:
    return lambda: session.prepare(add)


def _bind(session: vyre.Session) -> Callable[[], object]:
    return lambda: session.bind(shared, {"x": X})()


def _launch(session: vyre.Session) -> Callable[[], object]:
    return session.bind(shared, {"x": X})


def _resident(session: vyre.Session) -> Callable[[], object]:
    def use() -> None:
        with session.resident(X) as array:
            array.upload(X)
            session.dispatch(add, [array])
            _is(array.download(), WANT)

    return use


def _bind_resident(session: vyre.Session) -> Callable[[], object]:
    def use() -> None:
        with session.resident(X) as array:
            session.bind_resident(add, [array])()
            _is(array.download(), WANT)

    return use


def _resident_launch(session: vyre.Session) -> Callable[[], object]:
    return session.bind_resident(add, [session.resident(X)])


def _submit(session: vyre.Session) -> Callable[[], object]:
    return lambda: _is(session.submit(shared, {"x": X}).result(PATIENCE_S)["y"], WANT_SHARED)


def _submit_resident(session: vyre.Session) -> Callable[[], object]:
    array = session.resident(X)
    return lambda: session.submit(add, [array]).result(PATIENCE_S)


def _callbacks(session: vyre.Session) -> Callable[[], object]:
    def use() -> None:
        told: SimpleQueue[object] = SimpleQueue()  # written in C: it is not what is tried
        session.submit(shared, {"x": X}).add_done_callback(told.put)
        told.get(timeout=PATIENCE_S)

    return use


def _many(session: vyre.Session) -> Callable[[], object]:
    def run() -> None:
        for each in session.dispatch_many(add, [[X]] * 5):
            _is(each["x"], WANT)

    return run


def _async(session: vyre.Session) -> Callable[[], object]:
    async def several() -> None:
        tasks = [asyncio.ensure_future(session.dispatch_async(shared, {"x": X})) for _ in range(3)]
        for task in tasks:
            _is((await task)["y"], WANT_SHARED)

    return lambda: asyncio.run(several())


def _sequence(session: vyre.Session) -> Callable[[], object]:
    array, other = session.resident(X), session.resident(X)
    sequence = session.sequence([Step(add, {"x": array}), Step(add, {"x": other}), Step(add, {"x": array})])
    return lambda: sequence()


def _host_step(session: vyre.Session) -> Callable[[], object]:
    array = session.resident(X)
    between = session.temporary(array.dtype, X.size)
    steps: list[Item] = [
        Step(add, {"x": array}),
        HostStep(lambda *_: None, [array], [between]),
        Step(add, {"x": between}),
    ]
    sequence = session.sequence(steps)
    return lambda: sequence()


def _new_sequence(session: vyre.Session) -> Callable[[], object]:
    array = session.resident(X)

    def run() -> None:
        with session.sequence([Step(add, {"x": array}), Step(add, {"x": array})]) as sequence:
            sequence(2)

    return run


def _fixpoint(session: vyre.Session) -> Callable[[], object]:
    array, changed = session.resident(X), session.resident(np.zeros(1, np.uint32))

    def run() -> None:
        array.upload(X)
        session.fixpoint([Step(halve, {"x": array, "changed": changed})], changed=changed, limit=20)()

    return run


def _queries(session: vyre.Session) -> Callable[[], object]:
    table, starts = session.resident(X), np.stack([X, X])

    def run() -> None:
        with session.queries(sums, {"table": table}) as queries:
            _is(queries({"start": starts})["y"][1], (X + X).tobytes())

    return run


def _jobs(session: vyre.Session) -> Callable[[], object]:
    def run() -> None:
        with session.persistent(add) as jobs:
            tickets = [jobs.submit([X]) for _ in range(3)]
            for ticket in tickets:
                _is(ticket.result(PATIENCE_S)["x"], WANT)

    return run


class _Engine:
    """A persistent engine that stays open, and is opened again only when an interrupt closed it.

    ``check`` has several of its jobs under way at once, each with inputs of its own.
    """

    def __init__(self, session: vyre.Session) -> None:
        self._session = session
        self._jobs = session.persistent(add)

    def __call__(self) -> None:
        if self._jobs.closed:
            self._jobs = self._session.persistent(add)
        ticket = self._jobs.submit([X])
        _is(ticket.result(PATIENCE_S)["x"], WANT)
        batch = self._jobs.submit_many([np.stack([X, X])])
        _is(batch.result(PATIENCE_S)["x"][1], WANT)
        last = self._jobs.try_submit([X])
        if last is None:
            raise AssertionError("the queue is full")
        del last, batch  # one of which may be under way still

    def check(self) -> None:
        """Raises unless jobs that are under way together have results of their own."""
        if self._jobs.closed:
            return
        jobs = self._jobs
        tickets = [jobs.submit([X + number]) for number in range(2 * CONCURRENT)]
        batches = [jobs.submit_many([np.stack([X + number, X])]) for number in range(CONCURRENT)]
        for number, ticket in enumerate(tickets, 1):
            _is(ticket.result(PATIENCE_S)["x"], (X + number).tobytes())
        for number, batch in enumerate(batches, 1):
            _is(batch.result(PATIENCE_S)["x"], np.stack([X + number, X + 1]).tobytes())


def _jobs_with_callback(session: vyre.Session) -> Callable[[], object]:
    def run() -> None:
        told: SimpleQueue[object] = SimpleQueue()
        with session.persistent(add) as jobs:
            jobs.submit([X]).add_done_callback(told.put)
            told.get(timeout=PATIENCE_S)

    return run


def _close_jobs(session: vyre.Session) -> Callable[[], object]:
    def run() -> None:
        jobs = session.persistent(add)
        jobs.submit([X]).add_done_callback(lambda _: None)
        jobs.submit_many([np.stack([X, X])])
        jobs.close()

    return run


def _contended(session: vyre.Session) -> Callable[[], object]:
    """Dispatches while another thread dispatches in the same session, whose results must be right, too."""
    ended = _Beside(session)

    def run() -> None:
        ended.check()
        _is(session.dispatch(shared, {"x": X})["y"], WANT_SHARED)
        _is(session.submit(shared, {"x": X}).result(PATIENCE_S)["y"], WANT_SHARED)

    return run


class _Beside:
    """A thread that dispatches until its session is closed."""

    def __init__(self, session: vyre.Session) -> None:
        self._wrong: list[BaseException] = []
        Thread(target=self._run, args=(session,), name="beside", daemon=True).start()

    def check(self) -> None:
        """Raises what the thread has met."""
        if self._wrong:
            raise AssertionError("the other thread failed") from self._wrong[0]

    def _run(self, session: vyre.Session) -> None:
        try:
            while True:
                _is(session.dispatch(shared, {"x": X})["y"], WANT_SHARED)
                time.sleep(0.0002)
        except BaseException as error:
            if not session.closed:
                self._wrong.append(error)


def _write_bundle(session: vyre.Session) -> Callable[[], object]:
    path = Path(mkdtemp(prefix="vyre-storm-"), "add.vyrz")
    digest = vyre.build_bundle(add, path, targets=["cuda"]).digest

    def run() -> None:
        if vyre.build_bundle(add, path, targets=["cuda"]).digest != digest:
            raise AssertionError("another bundle")
        if [each.name for each in path.parent.iterdir()] != [path.name]:
            raise AssertionError(f"files are left: {sorted(path.parent.iterdir())}")

    return run


def _bundle(session: vyre.Session) -> Callable[[], object]:
    path = Path(mkdtemp(prefix="vyre-storm-"), "add.vyrz")
    vyre.build_bundle(add, path, targets=["cuda"])

    def run() -> None:
        (program,) = vyre.load_bundle(path).values()
        _is(session.dispatch(program, [X])["x"], WANT)

    return run


def _prune(session: vyre.Session) -> Callable[[], object]:
    """Stores three programs and prunes the cache to one: afterwards every entry that is left is whole."""
    directory = Path(mkdtemp(prefix="vyre-storm-"))
    with vyre.open(session.backend, cache=directory) as other:
        for kernel in (add, shared, halve):
            other.prepare(kernel)
    content = {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}
    opened = EntryDirectory(REAL_FILES, str(directory))
    space = Space(opened, REAL_FILES, Totals(1, 1 << 30), retention_of(Eviction.HEAT))

    def run() -> None:
        for path, stored in content.items():
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(stored)
        damaged = [each for each in inventory.verify(opened, repair=False) if each.problem is not None]
        space.evict_to_fit()
        if damaged or len(list(opened.scan())) > 1:
            raise AssertionError(f"damaged: {damaged}; left: {list(opened.scan())}")

    return run


def _open(session: vyre.Session) -> Callable[[], object]:
    backend = session.backend

    def run() -> None:
        with vyre.open(backend, cache=False) as other:
            other.dispatch(add, [X])

    return run


WARM: Final[dict[str, Action]] = {
    "dispatch": _dispatch,
    "prepare": _compile,
    "bind": _bind,
    "bound launch": _launch,
    "resident array": _resident,
    "bind_resident": _bind_resident,
    "bound resident launch": _resident_launch,
    "submit": _submit,
    "submit on resident memory": _submit_resident,
    "done callback": _callbacks,
    "dispatch_many": _many,
    "dispatch_async": _async,
    "sequence": _sequence,
    "sequence with a host step": _host_step,
    "new sequence": _new_sequence,
    "fixed point": _fixpoint,
    "queries": _queries,
    "dispatch beside another thread": _contended,
    "open and close": _open,
}
FILES: Final[dict[str, dict[str, Action]]] = {
    "reference": {"write bundle": _write_bundle},
    "cpu": {"prune cache": _prune},
    "cuda-machine": {"bundle": _bundle},
}
ENGINES: Final[dict[str, Action]] = {
    "close jobs": _close_jobs,
    "persistent": _jobs,
    "open persistent engine": _Engine,
    "persistent callback": _jobs_with_callback,
}
COLD: Final = ("dispatch", "submit", "dispatch_many", "dispatch_async", "resident array", "sequence", "queries")


def renew_workers() -> None:
    """Has the next session of the CPU start workers of its own, with the code of those that there are."""
    from vyre.adapters.cpu.pool.worker_pool import _SHARED, WorkerPool

    for key, pool in list(_SHARED.items()):
        pool.close()
        _SHARED[key] = WorkerPool(pool.entries, size=pool.size, cpus=pool.cpus, affinity=pool.affinity)


def operations(backend: str, **options: Any) -> list[Operation]:
    """Returns the operations of a backend; ``options`` are those of ``vyre.open``."""
    actions = WARM | FILES.get(backend, {})
    if backend != "reference":
        actions |= ENGINES
    found = [Operation(name, _warm(backend, action, options)) for name, action in actions.items()]
    found += [Operation(f"cold {name}", _cold(backend, actions[name], options), cold=True) for name in COLD]
    if backend != "reference":
        found.append(Operation("cold persistent", _cold(backend, _jobs, options), cold=True))
        found.append(Operation("stored code", _stored(backend, options), cold=True))
    return found


def _warm(backend: str, action: Action, options: dict[str, Any]) -> Callable[[], Bench]:
    def opened() -> Bench:
        session = vyre.open(backend, cache=False, **options)
        works(session)
        interrupted = action(session)
        more = getattr(interrupted, "check", lambda: None)

        def check() -> None:
            works(session)
            more()

        return Bench(session, interrupted, check)

    return opened


def _cold(backend: str, action: Action, options: dict[str, Any]) -> Callable[[], Bench]:
    def opened() -> Bench:
        if backend == "cpu":
            renew_workers()
        session = vyre.open(backend, cache=False, **options)
        return Bench(session, lambda: action(session)(), lambda: works(session))

    return opened


def _stored(backend: str, options: dict[str, Any]) -> Callable[[], Bench]:
    def opened() -> Bench:
        session = vyre.open(backend, cache=Path(mkdtemp(prefix="vyre-storm-")), **options)
        return Bench(session, _dispatch(session), lambda: works(session))

    return opened


def main() -> int:
    """Storms operations of one backend, and prints the counts."""
    import argparse
    import faulthandler
    import random
    import signal
    import time

    from support.storms.interrupt_storm import Places, storm

    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("backend")
    parser.add_argument("names", nargs="*", help="of operations; default: all")
    parser.add_argument("--places", choices=[each.value for each in Places], default=Places.LINES.value)
    parser.add_argument("--each", type=int, default=1, help="try one of so many places")
    parser.add_argument("--all", action="store_true", help="cold operations at every place, not the distinct ones")
    parser.add_argument("--seconds", type=float, help="go on so long, with places of every kind, drawn anew each time")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    if options.seconds is not None:  # before ``storm_soak`` ends it, who could not tell where it hangs
        faulthandler.dump_traceback_later(options.seconds + 2.5 * PATIENCE_S, exit=True)
    failures, chance, began = 0, random.Random(options.seed), time.monotonic()
    chosen = [each for each in operations(options.backend) if not options.names or each.name in options.names]
    while True:
        for operation in chosen if options.seconds is None else chance.sample(chosen, len(chosen)):
            if options.seconds is not None and time.monotonic() - began > options.seconds:
                return int(failures > 0)
            found = storm(
                operation,
                Places(options.places) if options.seconds is None else chance.choice(list(Places)),
                distinct=False if options.all else None,
                part=(0 if options.seconds is None else chance.randrange(options.each), options.each),
                tell=partial(print, flush=True),
            )
            failures += len(found.failures)
            print(found, flush=True)
        if options.seconds is None:
            return int(failures > 0)


if __name__ == "__main__":
    raise SystemExit(main())
