"""A long run of persistent engines:
``PYTHONPATH=src:tests python -m support.storms.persistent_soak --out benchmarks/results/persistent-soak.json``.

Jobs: one engine with a small ring gets jobs alone and in batches, and results are collected in random order; every
result is compared, so that no job is lost, done twice or confused with another.  Stops: engines with jobs that never
end are closed at random moments.  Interrupts: a process gets SIGINT at random moments while it submits and waits.
Crashes: processes are killed at random moments, and the next one uses the same store.  The emulated device: jobs and
stops as on the CPU, and losses: devices that fail at random moments while jobs are under way.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

import vyre
from support.limits import LIMIT_S
from vyre.adapters.cuda.machine.fault_plan import NO_FAULTS, Fault, FaultPlan
from vyre.domain.dispatch import DispatchConfig, OutputArena
from vyre.domain.errors import DeviceLost, DispatchFailed, VyreError
from vyre.testing import cuda_machine
from vyre.testing.backend_contract.persistent import EngineJobs

CPU: Final = "cpu"
MACHINE: Final = "cuda-machine"
CAPACITY: Final = {CPU: 64, MACHINE: 32}
"""Submissions that may be under way at once, few enough that the queue is gone round a thousand times."""
HELD: Final = 300
"""Tickets that are held at once, more than the ring has slots."""
_BATCH: Final = 200


def programs() -> tuple[vyre.Program, vyre.Program]:
    """Returns a program that mixes two words, and one that ends only for odd words."""
    with vyre.ProgramBuilder("mix", workgroup=4) as p:
        x = p.inout("x", vyre.u32)
        i = p.global_id()
        x[i] = x[i] * 2654435761 + i
    with vyre.ProgramBuilder("perhaps", workgroup=4) as q:
        x = q.inout("x", vyre.u32)
        i = q.global_id()
        with q.if_((x[0] & 1) == 0), q.for_(0, 0xFFFF_FFFF), q.for_(0, 0xFFFF_FFFF) as k:
            x[i] = x[i] * 3 + k
        x[i] = x[i] + 1
    return p.build(), q.build()


def mixed(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Returns what the first program computes."""
    return values * np.uint32(2654435761) + np.arange(4, dtype=np.uint32)


def opened(backend: str) -> vyre.Session:
    """Opens a session."""
    return vyre.open(backend, threads=2) if backend == CPU else vyre.open(backend)


def run_jobs(count: int, seed: int, backend: str = CPU) -> dict[str, int]:
    """Runs so many jobs through one engine; returns its counters."""
    chance, made = random.Random(seed), 0
    held: list[tuple[vyre.Ticket, np.ndarray[Any, Any]]] = []
    memory = 0
    with (
        opened(backend) as session,
        session.persistent(programs()[0], capacity=CAPACITY[backend], backpressure=True) as jobs,
    ):
        while made < count:
            if not memory and made > count // 10:  # everything was used by then
                memory = used_memory()
            if chance.random() < 0.02:
                rows = min(chance.randrange(1, _BATCH), count - made)
                column = np.arange(made, made + 4 * rows, dtype=np.uint32).reshape(rows, 4)
                found = jobs.submit_many([column]).result(LIMIT_S)["x"]
                assert (found == mixed(column)).all()
                made += rows
                continue
            values = np.arange(made, made + 4, dtype=np.uint32)
            held.append((jobs.submit([values]), values))
            made += 1
            while len(held) > HELD or (held and chance.random() < 0.4):
                place = chance.randrange(len(held))
                held[place], held[-1] = held[-1], held[place]
                ticket, given = held.pop()
                if chance.random() < 0.05:
                    continue  # it is dropped
                assert (ticket.result(LIMIT_S)["x"] == mixed(given)).all()
        for ticket, given in held:
            assert (ticket.result(LIMIT_S)["x"] == mixed(given)).all()
        jobs.flush()
        counts = jobs.counters()
    grown = max(0, used_memory() - memory)
    assert counts["jobs"] == count and (counts["launches"] == 1 or backend != CPU), counts
    return counts | {"wraps": counts["submissions"] // CAPACITY[backend], "grown_bytes": grown}


def run_stops(count: int, seed: int, backend: str = CPU) -> dict[str, int]:
    """Closes engines at random moments, some with jobs that never end; every ticket has a result or is stopped."""
    chance, program = random.Random(seed), programs()[1]
    ended = stopped = longest_ns = 0
    with opened(backend) as session:
        for _ in range(count):
            jobs = session.persistent(program, capacity=16)
            endless = chance.random() < 0.7
            given: list[tuple[vyre.Ticket, int]] = []
            for _ in range(chance.randrange(1, 40)):
                value = 2 * chance.randrange(1000) + int(not endless or chance.random() < 0.8)
                ticket = jobs.try_submit([np.full(4, value, np.uint32)])
                if ticket is not None:
                    given.append((ticket, value))
            time.sleep(chance.choice((0, 0, 1e-5, 1e-3)))
            for _ in range(chance.choice((0, 5, 50)) if backend == MACHINE else 0):  # it gets on when it is asked
                given[-1][0].done()
            began = time.perf_counter_ns()
            jobs.close()
            longest_ns = max(longest_ns, time.perf_counter_ns() - began)
            for ticket, value in given:
                error = ticket.exception(LIMIT_S)
                if error is None:
                    assert value & 1
                    assert ticket.result()["x"].tolist() == [value + 1] * 4
                    ended += 1
                else:
                    assert isinstance(error, DispatchFailed), error
                    stopped += 1
        assert session.dispatch(program, [np.ones(4, np.uint32)])["x"].tolist() == [2] * 4
    return {"engines": count, "ended": ended, "stopped": stopped, "longest_close_us": longest_ns // 1000}


def run_losses(count: int, seed: int) -> dict[str, int]:
    """Loses emulated devices at random moments; every job has its result or the device's error, and nothing leaks."""
    chance, program = random.Random(seed), programs()[0]
    right = lost = 0
    for number in range(count):
        machine = cuda_machine(seed=number)
        backend = machine.backend
        assert backend.persistent is not None and backend.lifecycle is not None
        engine = EngineJobs(backend.persistent.open(program, DispatchConfig(), (16,), 16))
        machine.driver.inject(FaultPlan(calls=(Fault(code=700, nth=chance.randrange(1, 120)),)))
        given: list[tuple[int, np.ndarray[Any, Any]]] = []
        for value in range(40):
            values = np.full(4, value, np.uint32)
            try:
                ticket = engine.submit([memoryview(values.tobytes())])
            except DeviceLost:
                break
            if ticket is None:
                engine.wait_room(LIMIT_S)
            else:
                given.append((ticket, values))
        for ticket, values in given:
            arena = OutputArena()
            try:
                engine.wait(ticket, arena, timeout=LIMIT_S)
            except DeviceLost:
                lost += 1
            else:
                assert (np.frombuffer(arena[0], np.uint32) == mixed(values)).all()
                right += 1
        with suppress(DeviceLost):  # it is lost while memory is freed
            engine.close()
        machine.driver.inject(NO_FAULTS)
        if backend.lifecycle.device_lost():
            backend.lifecycle.recover()
        backend.lifecycle.close()
        assert not any(machine.driver.live().values()) and not machine.driver.violations, number
    return {"devices": count, "right": right, "lost": lost}


def run_interrupts(count: int, seed: int) -> dict[str, int]:
    """Takes that many SIGINTs while jobs are submitted and awaited; what is not interrupted is right.

    CPython prints and drops what a signal handler raises in a finaliser: those are counted as ``dropped``.
    """
    chance, program = random.Random(seed), programs()[0]
    interrupts = right = dropped = 0
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with vyre.open("cpu", threads=2) as session:
        jobs = session.persistent(program, [np.zeros(4, np.uint32)], capacity=CAPACITY[CPU], backpressure=True)
        while interrupts < count:
            sender = subprocess.Popen(
                [sys.executable, "-S", "-c", _SENDER, str(os.getpid()), str(chance.random() / 50), "5"]
            )
            until = time.monotonic() + _LONG_AFTER_S
            try:
                while time.monotonic() < until:
                    values = np.arange(right, right + 4, dtype=np.uint32)
                    tickets = [jobs.submit([values]) for _ in range(5)]
                    for ticket in tickets:
                        assert (ticket.result(LIMIT_S)["x"] == mixed(values)).all()
                        right += 1
                dropped += 1
            except KeyboardInterrupt:
                interrupts += 1
            finally:
                _wait_through(sender)
        values = np.arange(4, dtype=np.uint32)
        assert (jobs.submit([values]).result(LIMIT_S)["x"] == mixed(values)).all()
        jobs.close()
    return {"interrupts": interrupts, "right": right, "dropped": dropped}


_LONG_AFTER_S: Final = 20
"""After so long without an interrupt, it was dropped."""
_SENDER: Final = """
import os, signal, sys, time
pid, pause, times = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
signal.signal(signal.SIGINT, signal.SIG_IGN)
time.sleep(0.02 + pause)
os.kill(pid, signal.SIGINT)
"""


def _wait_through(sender: subprocess.Popen[bytes]) -> None:
    while True:
        try:
            sender.wait(LIMIT_S)
            return
        except KeyboardInterrupt:
            continue


_CRASHED: Final = """
import os, sys
sys.path[:0] = sys.argv[1:3]
from support.storms.persistent_soak import busy
busy()
"""


def busy() -> None:
    """Submits and awaits jobs for ever, after saying that it does."""
    with vyre.open("cpu", threads=2) as session, session.persistent(programs()[0], capacity=4) as jobs:
        jobs.submit([np.zeros(4, np.uint32)]).result(LIMIT_S)
        print("ready", flush=True)
        while True:
            for _ in range(3):
                jobs.try_submit([np.zeros(4, np.uint32)])
            jobs.submit_many([np.zeros((9, 4), np.uint32)]).result(LIMIT_S)
            jobs.flush()


def run_crashes(count: int, seed: int) -> dict[str, int]:
    """Kills processes at random moments; a new one works on with the same store."""
    chance, found = random.Random(seed), 0
    shared = Path("/dev/shm")
    before = set(shared.iterdir()) if shared.is_dir() else set()
    here = Path(__file__).resolve().parents[2]
    for _ in range(count):
        child = subprocess.Popen(
            [sys.executable, "-c", _CRASHED, str(here), str(Path(vyre.__file__).parents[1])], stdout=subprocess.PIPE
        )
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        time.sleep(chance.random() / 50)
        child.send_signal(chance.choice((signal.SIGKILL, signal.SIGTERM, signal.SIGABRT)))
        found += child.wait(LIMIT_S) < 0
        child.stdout.close()
    assert found == count
    assert not (set(shared.iterdir()) if shared.is_dir() else set()) - before
    run_jobs(100, seed)
    return {"processes": found}


def used_memory() -> int:
    """Returns the resident memory of this process in bytes; 0 where the system does not tell."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def run_all(options: argparse.Namespace) -> dict[str, Any]:
    """Runs the wanted parts and returns what was counted."""
    seed, losses = options.seed, options.losses
    parts: dict[str, partial[dict[str, int]]] = {
        "jobs": partial(run_jobs, options.jobs, seed),
        "stops": partial(run_stops, options.stops, seed),
        "interrupts": partial(run_interrupts, options.interrupts, seed),
        "crashes": partial(run_crashes, options.crashes, seed),
        "machine_jobs": partial(run_jobs, options.machine_jobs, seed, MACHINE),
        "machine_stops": partial(run_stops, losses, seed, MACHINE),
        "machine_losses": partial(run_losses, losses, seed),
    }
    found: dict[str, Any] = {}
    for name in options.only or parts:
        began = time.monotonic()
        try:
            found[name] = parts[name]() | {"seconds": round(time.monotonic() - began, 1)}
        except (AssertionError, VyreError, TimeoutError) as error:
            found[name] = {"failure": repr(error)}
        print(name, found[name], flush=True)
    return found


def main() -> int:
    """Runs the soak and writes the record; 1 if something was wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument("--stops", type=int, default=2_000)
    parser.add_argument("--interrupts", type=int, default=200)
    parser.add_argument("--crashes", type=int, default=30)
    parser.add_argument("--machine-jobs", type=int, default=100_000, help="jobs on the emulated device")
    parser.add_argument("--losses", type=int, default=200, help="emulated devices that are lost, and engines stopped")
    parser.add_argument("--only", nargs="*", help="parts to run; the record keeps the others")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    found = run_all(options)
    record = {"python": platform.python_version(), "machine": platform.machine(), "seed": options.seed} | found
    if options.only and options.out is not None and options.out.exists():
        record = json.loads(options.out.read_text("utf-8")) | found
    if options.out is not None:
        options.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return int(any("failure" in part for part in found.values()))


if __name__ == "__main__":
    sys.exit(main())
