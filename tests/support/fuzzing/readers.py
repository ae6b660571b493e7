"""Changed inputs for every reader: ``PYTHONPATH=tests python -m support.fuzzing.readers --seconds 60``.

A seed chooses a reader and an input.  What a reader raises beyond its refusals is a failure, as is an input that costs
more than ``MOST_S`` of the processor's time or ``MOST_MEMORY``; a failure is printed with its seed.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import json
import platform
import random
import resource
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, Final

from support.readers import READERS, Reader, chosen

MOST_S: Final = 5.0
"""Of the processor's time, which no load of the machine adds to; the slowest inputs that are found take a fifth."""
MOST_MEMORY: Final = 200 << 20
"""How much the address space of the process may grow while an input is read."""
_MOST_FAILURES: Final = 20
"""After so many of one reader it is left alone."""
_ROUND_S: Final = 60.0
"""After so long the record is written anew, so that little is lost of a run that is ended."""
_WHOLE_MEMORY: Final = resource.getrlimit(resource.RLIMIT_AS)
_LEFT: Final = frozenset({__file__, contextlib.__file__})
"""The files in which nothing is too slow: an alarm that came as the block ends would leave the limits as they are."""
_PAGE: Final = resource.getpagesize()


class TooSlow(BaseException):
    """Nothing that reads can catch it."""


@dataclass
class Tried:
    """The outcomes of the inputs of one reader; ``slowest`` is in seconds of the processor.

    ``mended``: the seeds of earlier failures with which nothing fails any more.
    """

    inputs: int = 0
    accepted: int = 0
    slowest: float = 0.0
    slowest_seed: int = 0
    failures: list[str] = field(default_factory=list)
    mended: list[int] = field(default_factory=list)


@contextlib.contextmanager
def limited(seconds: float = MOST_S, memory: int = MOST_MEMORY) -> Iterator[None]:
    """Ends a block by ``TooSlow`` or ``MemoryError`` once it took so much; of the main thread."""

    def end(number: int, frame: FrameType | None) -> None:
        if frame is None or frame.f_code.co_filename not in _LEFT:
            raise TooSlow(f"more than {seconds} s of the processor")

    size = int(Path("/proc/self/statm").read_text("ascii").split()[0]) * _PAGE
    handler = signal.signal(signal.SIGVTALRM, end)
    resource.setrlimit(resource.RLIMIT_AS, (size + memory, _WHOLE_MEMORY[1]))
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds, 0.1)  # again: a finalizer may swallow the first
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, _WHOLE_MEMORY)  # first, because the others need some
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, handler)


def input_of(reader: Reader, seed: int) -> bytes:
    """Returns the input that a seed gives."""
    return reader.draw(random.Random(seed))


def attempt(reader: Reader, seed: int, tried: Tried, most_s: float = MOST_S) -> None:
    """Reads the input of a seed, and notes what came of it."""
    signal.setitimer(signal.ITIMER_VIRTUAL, 0)  # no limit is left by an earlier input, whatever ended it
    resource.setrlimit(resource.RLIMIT_AS, _WHOLE_MEMORY)
    data = input_of(reader, seed)
    start = time.process_time()
    problem = ""
    try:
        with limited(most_s):
            reader.read(data)
        tried.accepted += 1
    except reader.refusals:
        pass
    except (Exception, TooSlow) as error:
        resource.setrlimit(resource.RLIMIT_AS, _WHOLE_MEMORY)  # without memory, no end of a block may have been reached
        frames = "".join(traceback.format_tb(error.__traceback__)[-3:])
        problem = f"{type(error).__name__}: {str(error)[:600]}\n{frames}"
    taken = time.process_time() - start
    tried.inputs += 1
    if taken > tried.slowest:
        tried.slowest, tried.slowest_seed = round(taken, 3), seed
    if taken > most_s and not problem:
        problem = f"it took {taken:.1f} s of the processor"
    if problem:
        shown = base64.b85encode(data).decode() if len(data) < 300 else f"{len(data)} bytes"
        tried.failures.append(f"{reader.name}, seed {seed} ({shown}): {problem}")


def campaign(
    readers: Sequence[Reader], first: int, count: int | None, seconds: float, most_s: float = MOST_S
) -> dict[str, Tried]:
    """Gives the readers inputs in turn, ``count`` to each or until the time is over, from a first seed."""
    found = {reader.name: Tried() for reader in readers}
    end = time.monotonic() + seconds
    seed = first
    while (count is None or seed < first + count) and time.monotonic() < end:
        for reader in readers:
            tried = found[reader.name]
            if seed % reader.every == 0 and len(tried.failures) < _MOST_FAILURES:
                attempt(reader, seed, tried, most_s)
        seed += 1
    return found


def continued(out: Path | None, found: dict[str, Tried]) -> dict[str, Tried]:
    """Adds what came of earlier inputs, of other seeds, that a record tells of; tries those that failed again."""
    if out is None or not out.is_file():
        return found
    readers = {reader.name: reader for reader in chosen([])}
    for name, values in json.loads(out.read_text("utf-8"))["readers"].items():
        earlier, tried = Tried(**values), found.setdefault(name, Tried())
        tried.inputs += earlier.inputs
        tried.accepted += earlier.accepted
        tried.mended += earlier.mended
        for failure in earlier.failures:
            again, seed = Tried(), int(failure.partition(", seed ")[2].partition(" ")[0])
            attempt(readers[name], seed, again)
            tried.failures += again.failures
            tried.mended += [] if again.failures else [seed]
        if earlier.slowest > tried.slowest:
            tried.slowest, tried.slowest_seed = earlier.slowest, earlier.slowest_seed
    return found


def next_seed(out: Path | None) -> int:
    """Returns the first seed of which a record does not tell, or 0."""
    return int(json.loads(out.read_text("utf-8"))["next_seed"]) if out is not None and out.is_file() else 0


def main(given: Sequence[str] | None = None) -> int:
    """Runs the campaign, prints what fails, and the number of cases at the end."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("readers", nargs="*", choices=[[], *READERS], help="default: all")
    parser.add_argument("--seed", type=int, help="the first one; default: the next one of --out, or 0")
    parser.add_argument("--count", type=int, help="of inputs for each reader")
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--out", type=Path, help="write the record here, or continue the one that is there")
    options = parser.parse_args(given)
    first = next_seed(options.out) if options.seed is None else options.seed
    readers = chosen(options.readers)
    last = float("inf") if options.count is None else first + options.count
    end = time.monotonic() + options.seconds
    found: dict[str, Tried] = {}
    total = Counter[str]()
    while first < last and (left := end - time.monotonic()) > 0:
        seconds = left if options.out is None else min(left, _ROUND_S)
        found = campaign(readers, first, None if options.count is None else int(last) - first, seconds)
        for failure in (each for tried in found.values() for each in tried.failures):
            print(failure, flush=True)  # also one with which nothing fails when it is tried again
        first += max(1, *[found[reader.name].inputs * reader.every for reader in readers])
        found = continued(options.out, found)
        total = Counter({"inputs": 0, "accepted": 0, "failures": 0})
        for tried in found.values():
            total.update(inputs=tried.inputs, accepted=tried.accepted, failures=len(tried.failures))
        if options.out is not None:
            facts: dict[str, Any] = {"python": platform.python_version(), "machine": platform.machine()}
            facts |= {"next_seed": first, "limit_s": MOST_S, "limit_bytes": MOST_MEMORY, **total}
            facts["readers"] = {name: vars(tried) for name, tried in found.items()}
            options.out.write_text(json.dumps(facts, indent=1) + "\n", "utf-8")
    for name, tried in found.items():
        print(
            f"{name}: {tried.inputs} inputs, {tried.accepted} accepted, {len(tried.failures)} failures, the slowest"
            f" {tried.slowest} s (seed {tried.slowest_seed})"
        )
    print(f"{total['inputs']} cases, {total['failures']} failures")
    return int(bool(total["failures"]))


if __name__ == "__main__":
    sys.exit(main())
