"""Random sequences in every mode against the reference:
``PYTHONPATH=src:tests python -m support.fuzzing.sequences --graphs 10000 --out benchmarks/results/sequences.json``.

A graph has up to twelve steps of at most ``TEMPLATES`` templates, on shared memory of mixed sizes without element
types, with temporary arrays, repeated parts, batches, grids from memory, stated dependencies and steps that may trap.
Expected are the bytes of one launch after the other on the reference; every mode must give them, and the same kind of
error.  A record that exists is continued; its failures are tried again first.
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

import vyre
from support.optimizer.stage_chains import Array, Chains
from vyre import Batch, Indirect, Repeat, Step
from vyre.app.sequences import planner
from vyre.domain.dispatch import DispatchConfig
from vyre.domain.errors import TrapError, UnsupportedFeature, VyreError
from vyre.domain.ir.builder import ProgramBuilder
from vyre.domain.ir.expr import Literal
from vyre.domain.ir.program import Program
from vyre.domain.ir.text_printer import print_program
from vyre.domain.ir.types import ScalarType
from vyre.domain.launch_costs import Measured, Provenance

TEMPLATES: Final = 200
MOST_STEPS: Final = 12
_TRAPS: Final = 4
"""The templates that trap where they find a certain value."""
FUSED: Final = vyre.ExecutionMode.FUSED
Bytes: TypeAlias = npt.NDArray[np.uint8]
Modes: TypeAlias = "dict[str, bool] | None"
MODES: Final[dict[str, tuple[Modes, ...]]] = {
    "cpu": (
        None,
        {"plain": True},
        {"graph": True, "fused": False},
        {"graph": False},
        {"fused": True},
        {"fused": True, "graph": True},
        {"fused": True, "graph": False},
        {"plain": False, "persistent": False},
        {"persistent": True},
        {"persistent": True, "fused": True},
        {"megakernel": True},
    ),
    "reference": (
        None,
        {"plain": True},
        {"fused": False},
        {"fused": True},
        {"fused": True, "graph": False},
        {"megakernel": True},
    ),
    "cuda-machine": (None, {"fused": False}, {"fused": True}, {"graph": True}, {"plain": True}, {"megakernel": True}),
}


# ---------------------------------------------------------------- graphs
@dataclass(frozen=True)
class Template:
    """A program, and the values of its parameters."""

    program: Program
    values: Mapping[str, Literal]
    grid: int


@cache
def templates() -> tuple[Template, ...]:
    """The templates, the same in every process."""
    found: list[Template] = []
    for seed in range(TEMPLATES - _TRAPS):
        chains = Chains(1_000_000 + seed)
        size = chains.random.choice((4, 4, 4, 4, 2, 1))
        arrays = [Array(name, size, 128 * size) for name in "abc"]
        stage = chains._stage(arrays, chains.random.choice((8, 16, 32)))
        found.append(Template(stage.program, stage.values, stage.grid[0]))
    return (*found, *(Template(_trapping(number), {}, 4) for number in range(_TRAPS)))


@cache
def _replacing() -> tuple[int, ...]:
    """Returns the templates that replace all of an array."""
    return tuple(
        number
        for number, template in enumerate(templates())
        if any(buffer.is_output for buffer in template.program.abi_buffers)
    )


def _trapping(number: int) -> Program:
    with ProgramBuilder("trapping", workgroup=16) as p:
        x, y = p.input("x", ScalarType.U8), p.inout("y", ScalarType.U8)
        i = p.let(p.global_id(), "i")
        with p.if_(i < y.length):
            with p.if_(x[i] > (100, 118, 200, 250)[number]):
                p.trap(i, "found")
            y[i] = x[i] + number
    return p.build()


@dataclass(frozen=True)
class Memory:
    """An array of the graph; a temporary one has no first content."""

    nbytes: int
    temporary: bool


@dataclass(frozen=True)
class Call:
    """A step: a template, the memory of its buffers by name, its grid, and the calls stated to be before it."""

    template: int
    memory: Mapping[str, int]
    grid: int
    after: tuple[int, ...] = ()


@dataclass(frozen=True)
class Part:
    """Calls by number that run ``times`` times; None: not repeated."""

    calls: tuple[int, ...]
    times: int | None = None


@dataclass(frozen=True)
class Graph:
    """A sequence: ``first`` runs once, then each round ``parts``; ``runs`` are the rounds of each run."""

    seed: int
    memory: tuple[Memory, ...]
    calls: tuple[Call, ...]
    first: tuple[int, ...]
    parts: tuple[Part, ...]
    runs: tuple[int, ...]

    def order(self, rounds: int) -> Iterator[int]:
        """Yields the calls of a run in order."""
        yield from self.first
        for _ in range(rounds):
            for part in self.parts:
                for _ in range(1 if part.times is None else part.times):
                    yield from part.calls


def graph_of(seed: int, most: int = MOST_STEPS) -> Graph:
    """Returns the graph of a seed."""
    rng = random.Random(seed)
    base = rng.choice((7, 64, 100, 128, 256))
    sizes = (base, base, base, base * 4, base * 2, max(1, base - 5), base + 9, 1)
    memory = [
        Memory(4 * rng.choice(sizes) + (rng.randrange(4) if rng.random() < 0.1 else 0), at > 0 and rng.random() < 0.4)
        for at in range(rng.randint(3, 7))
    ]
    favourites = [rng.randrange(TEMPLATES - _TRAPS) for _ in range(rng.randint(2, 6))]
    favourites += rng.choices(_replacing(), k=rng.randint(1, 4))
    calls: list[Call] = []
    if rng.random() < 0.5:
        _chain(rng, memory, calls, rng.randint(2, 5))
    shared = len(memory) if rng.random() < 0.3 else len(memory) - max(0, len(calls) - 1)
    for number in range(len(calls), rng.randint(max(2, len(calls)), most)):
        template = rng.choice(favourites)
        if rng.random() < 0.04:
            template = TEMPLATES - 1 - rng.randrange(_TRAPS)
        buffers = [buffer for buffer in templates()[template].program.abi_buffers if not buffer.is_push]
        if len(buffers) > shared:
            continue
        chosen = _chain_like(rng, [call.memory for call in calls], shared, len(buffers))
        held = {buffer.name: chosen[at] for at, buffer in enumerate(buffers)}
        usual = templates()[template].grid
        grid = usual if rng.random() < 0.7 else rng.randint(1, 12)
        after = (rng.randrange(number),) if calls and number == len(calls) and rng.random() < 0.1 else ()
        calls.append(Call(template, held, grid, after))
    numbers = list(range(len(calls)))
    cut = rng.randint(0, len(numbers) // 3) if rng.random() < 0.4 else 0
    parts: list[Part] = []
    at = cut
    while at < len(numbers):
        stop = rng.randint(at + 1, len(numbers)) if rng.random() < 0.4 else len(numbers)
        parts.append(Part(tuple(numbers[at:stop]), rng.choice((None, None, None, 0, 1, 2, 3))))
        at = stop
    return Graph(
        seed,
        tuple(memory),
        tuple(calls),
        tuple(numbers[:cut]),
        tuple(parts),
        tuple(rng.choices((0, 1, 1, 2, 3, 17), k=2)),
    )


def _chain(rng: random.Random, memory: list[Memory], calls: list[Call], length: int) -> None:
    """Adds calls from the first array to the second, each of which replaces what the next reads, and the arrays."""
    simple = [number for number in _replacing() if len(_names(number)) == 2]
    source = 0
    for step in range(length):
        template = rng.choice(simple)
        target = 1
        if step + 1 < length:
            target = len(memory)
            memory.append(Memory(memory[0].nbytes, temporary=True))
        x, y = _names(template)
        calls.append(Call(template, {x: source, y: target}, templates()[template].grid))
        source = target


def _names(template: int) -> list[str]:
    """Returns the names of the buffers of a template, outputs last."""
    buffers = [buffer for buffer in templates()[template].program.abi_buffers if not buffer.is_push]
    return [buffer.name for buffer in sorted(buffers, key=lambda buffer: buffer.is_output)]


def _chain_like(rng: random.Random, before: Sequence[Mapping[str, int]], count: int, wanted: int) -> list[int]:
    """Returns different arrays; the first, which is read, often is one that the call before wrote."""
    chosen = rng.sample(range(count), wanted)
    if before and before[-1] and rng.random() < 0.7:
        last = list(before[-1].values())[-1]
        if last >= count:
            return chosen
        if last in chosen:
            chosen.remove(last)
            chosen.insert(0, last)
        else:
            chosen[0] = last
    return chosen


def content(graph: Graph) -> list[Bytes]:
    """Returns the first content of all arrays; few bytes make a program trap, or are parts of a NaN."""
    rng = np.random.default_rng(graph.seed)
    return [rng.integers(0, 120, held.nbytes, dtype=np.uint8) for held in graph.memory]


# ---------------------------------------------------------------- runs
@dataclass
class Ended:
    """What a run left: the bytes of arrays that are not temporary, by number, and the kind of its error."""

    bytes: dict[int, bytes]
    error: str = ""


def _inputs(graph: Graph, call: Call, arrays: Mapping[int, Any]) -> dict[str, Any]:
    template = templates()[call.template]
    values = {name: literal.value for name, literal in template.values.items()}
    return values | {name: arrays[number] for name, number in call.memory.items()}


def expected(session: vyre.Session, graph: Graph) -> list[Ended]:
    """Returns what each run leaves when its launches run one after the other on the reference."""
    found: list[Ended] = []
    with ExitStack() as stack:
        arrays = {number: stack.enter_context(session.resident(data)) for number, data in enumerate(content(graph))}
        bound: dict[int, Any] = {}
        for number, call in enumerate(graph.calls):
            program = templates()[call.template].program
            inputs = _inputs(graph, call, arrays)
            bound[number] = stack.enter_context(session.bind_resident(program, inputs, DispatchConfig(grid=call.grid)))
        for rounds in graph.runs:
            for number, held in enumerate(graph.memory):
                if held.temporary:
                    arrays[number].upload(np.zeros(held.nbytes, np.uint8))
            error = ""
            undefined: set[int] = set()
            try:
                for number in graph.order(rounds):
                    latest = number
                    bound[number]()
            except TrapError as trap:
                error = type(trap).__name__
                undefined = set(graph.calls[latest].memory.values())
            found.append(Ended(_bytes(graph, arrays, undefined), error))
            if error:
                break
    return found


def _bytes(graph: Graph, arrays: Mapping[int, Any], leave_out: set[int]) -> dict[int, bytes]:
    return {
        number: arrays[number].download().tobytes()
        for number, held in enumerate(graph.memory)
        if not held.temporary and number not in leave_out
    }


class Unforced(Exception):
    """The forced mode cannot run this graph, and the error says so."""


def ran(session: vyre.Session, graph: Graph, modes: Modes, counts: Counter[str]) -> list[Ended]:
    """Returns what each run leaves in these modes.  Raises ``Unforced``."""
    found: list[Ended] = []
    with ExitStack() as stack:
        first_content = content(graph)
        arrays: dict[int, Any] = {}
        for number, held in enumerate(graph.memory):
            if held.temporary:
                arrays[number] = session.temporary(ScalarType.U8, held.nbytes)
            else:
                arrays[number] = stack.enter_context(session.resident(first_content[number]))
        steps: dict[int, Step] = {}
        for number, call in enumerate(graph.calls):
            grid = None
            if (graph.seed + number) % 16 == 3 and number % 5:  # what the others find in their configs is in memory
                size = stack.enter_context(session.resident(np.array([call.grid, 1, 1], np.uint32)))
                grid = Indirect(size, call.grid + graph.seed % 3)
            steps[number] = Step(
                templates()[call.template].program,
                _inputs(graph, call, arrays),
                DispatchConfig(grid=call.grid) if grid is None else None,
                grid=grid,
                after=[steps[before] for before in call.after if _stated(graph, before, number)],
            )
        items: list[Step | Batch | Repeat] = []
        inner: list[Step | Batch]
        for part in graph.parts:
            inner = [_item(graph, number, steps[number]) for number in part.calls]
            items += inner if part.times is None else [Repeat(inner, part.times)]
        try:
            sequence = session.sequence(items, first=[steps[number] for number in graph.first], modes=modes)
        except UnsupportedFeature as unsupported:
            if "forced mode" not in str(unsupported):
                raise
            raise Unforced(str(unsupported)) from None
        stack.enter_context(sequence)
        for rounds in graph.runs:
            error = ""
            try:
                run = sequence(rounds)
                counts["kernels"] += run.kernels
                counts["joined groups"] += sum(group.mode is FUSED for group in run.plan.groups)
                counts["bytes not allocated"] += run.plan.unallocated_bytes
            except TrapError as trap:
                error = type(trap).__name__
            except UnsupportedFeature as unsupported:
                if "forced mode" not in str(unsupported):
                    raise
                raise Unforced(str(unsupported)) from None
            found.append(Ended(_bytes(graph, arrays, set()), error))
            if error:
                break
            if modes is None:
                counts["joined by costs"] += any(group.mode is FUSED for group in run.plan.groups)
                counts["probed"] += run.submissions == 2
    return found


def _item(graph: Graph, number: int, step: Step) -> Step | Batch:
    """Returns the step, or a batch of it where no other step refers to it."""
    if number % 5 or step.after or any(number in call.after for call in graph.calls):
        return step
    return Batch(step.program, [step.inputs], step.config)


def _stated(graph: Graph, before: int, number: int) -> bool:
    """Returns whether one call may be stated to be before another: it is listed in the same part or an earlier one."""

    places = {one: at for at, part in enumerate(graph.parts) for one in part.calls} | dict.fromkeys(graph.first, -1)
    return before in places and places[before] <= places.get(number, -2)


@contextmanager
def eager() -> Iterator[None]:
    """Lets the planner join steps of short work too, so that plans change between the runs of a graph."""
    before = planner.JOINING_NS, planner.ASSUMED_BUILD
    planner.JOINING_NS, planner.ASSUMED_BUILD = 0, Measured(0, 0, 0, 0, Provenance.ASSUMED)  # type: ignore[misc]
    try:
        yield
    finally:
        planner.JOINING_NS, planner.ASSUMED_BUILD = before  # type: ignore[misc]


def difference(graph: Graph, want: Sequence[Ended], got: Sequence[Ended]) -> str:
    """Returns what differs, or an empty text."""
    if [one.error for one in want] != [one.error for one in got]:
        return f"errors {[one.error for one in got]} instead of {[one.error for one in want]}"
    for run, (one, other) in enumerate(zip(want, got, strict=True)):
        for number, data in one.bytes.items():
            if other.bytes[number] != data:
                at = next(at for at, (a, b) in enumerate(zip(data, other.bytes[number], strict=True)) if a != b)
                return f"run {run}: array {number} differs from byte {at} on"
    return ""


def check(sessions: Mapping[str, vyre.Session], graph: Graph, counts: Counter[str]) -> str:
    """Returns the first difference of any backend in any mode, or an empty text."""
    want = expected(sessions["oracle"], graph)
    counts["trapped"] += bool(want and want[-1].error)
    for backend, session in sessions.items():
        for modes in MODES.get(backend, ()):
            try:
                with eager() if modes is None else nullcontext():
                    got = ran(session, graph, modes, counts)
            except Unforced:
                counts["modes that cannot run"] += 1
                continue
            except VyreError as error:
                return f"{backend} {modes}: {type(error).__name__}: {error}"
            counts["sequences"] += 1
            counts["compared bytes"] += sum(len(data) for one in want for data in one.bytes.values())
            found = difference(graph, want, got)
            if found:
                return f"{backend} {modes}: {found}"
    return ""


def reduced(sessions: Mapping[str, vyre.Session], graph: Graph) -> Graph:
    """Returns a smaller graph that still differs."""
    changed = True
    while changed:
        changed = False
        for smaller in _smaller(graph):
            if check(sessions, smaller, Counter()):
                graph, changed = smaller, True
                break
    return graph


def _smaller(graph: Graph) -> Iterator[Graph]:
    used = [*graph.first, *(number for part in graph.parts for number in part.calls)]
    for gone in used:
        parts = tuple(replace(part, calls=tuple(n for n in part.calls if n != gone)) for part in graph.parts)
        parts = tuple(part for part in parts if part.calls)
        first = tuple(n for n in graph.first if n != gone)
        if parts or first:
            yield replace(graph, first=first, parts=parts)
    for at, part in enumerate(graph.parts):
        if part.times is not None:
            yield replace(graph, parts=(*graph.parts[:at], replace(part, times=None), *graph.parts[at + 1 :]))
    if len(graph.runs) > 1:
        yield replace(graph, runs=graph.runs[:1])
    for at, held in enumerate(graph.memory):
        if held.temporary:
            kept = replace(held, temporary=False)
            yield replace(graph, memory=(*graph.memory[:at], kept, *graph.memory[at + 1 :]))


# ---------------------------------------------------------------- the campaign
@dataclass
class Campaign:
    """A record: the next seed, the ranges of seeds that were run, counts, and failures by seed."""

    backends: list[str]
    next_seed: int = 0
    ranges: list[list[int]] = field(default_factory=list)
    seconds: float = 0.0
    counts: Counter[str] = field(default_factory=Counter)
    failures: dict[str, str] = field(default_factory=dict)

    def run(self, graphs: int, sessions: Mapping[str, vyre.Session], out: Path | None = None) -> None:
        """Runs so many further graphs."""
        if not self.ranges or self.ranges[-1][1] != self.next_seed:
            self.ranges.append([self.next_seed, self.next_seed])
        for _ in range(graphs):
            began = time.perf_counter()
            seed, self.next_seed = self.next_seed, self.next_seed + 1
            self.ranges[-1][1] = self.next_seed
            found = check(sessions, graph_of(seed), self.counts)
            self.counts["graphs"] += 1
            self.seconds += time.perf_counter() - began
            if found:
                self.failures[str(seed)] = found
                print(f"seed {seed}: {found}", flush=True)
            if out is not None and (found or self.counts["graphs"] % 50 == 0):
                self.write(out)

    def write(self, out: Path) -> None:
        """Writes the record."""
        record = vars(self) | {
            "counts": dict(self.counts),
            "templates": TEMPLATES,
            "most_steps": MOST_STEPS,
            "python": platform.python_version(),
            "seconds": round(self.seconds, 1),
        }
        out.write_text(json.dumps(record, indent=2, sort_keys=True) + "\n", "utf-8")


def read(out: Path, backends: list[str], first: int) -> Campaign:
    """Returns the record of a file, or a new one that begins with seed ``first``."""
    if not out.exists():
        return Campaign(backends, first)
    data = json.loads(out.read_text("utf-8"))
    return Campaign(
        data["backends"],
        data["next_seed"],
        data["ranges"],
        data["seconds"],
        Counter(data["counts"]),
        dict(data["failures"]),
    )


def opened(stack: ExitStack, backends: Sequence[str]) -> dict[str, vyre.Session]:
    """Returns sessions by backend, and one named "oracle" on the reference."""
    sessions = {name: stack.enter_context(vyre.open(name, cache=False)) for name in backends}
    return sessions | {"oracle": stack.enter_context(vyre.open("reference", cache=False))}


def main(arguments: Sequence[str]) -> int:
    """Runs or continues a campaign."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--graphs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0, help="the first seed of a new record")
    parser.add_argument("--backends", default="cpu,reference")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--show", type=int, help="print the reduced graph of a seed that fails")
    given = parser.parse_args(arguments)
    backends = given.backends.split(",")
    with ExitStack() as stack:
        sessions = opened(stack, backends)
        if given.show is not None:
            small = reduced(sessions, graph_of(given.show))
            print(small)
            for number in [*small.first, *(n for part in small.parts for n in part.calls)]:
                print(small.calls[number])
                print(print_program(templates()[small.calls[number].template].program))
            print(check(sessions, small, Counter()))
            return 0
        campaign = Campaign(backends, given.seed) if given.out is None else read(given.out, backends, given.seed)
        for seed in list(campaign.failures):
            found = check(sessions, graph_of(int(seed)), Counter())
            if found:
                campaign.failures[seed] = found
            else:
                del campaign.failures[seed]
        campaign.run(given.graphs, sessions, given.out)
        if given.out is not None:
            campaign.write(given.out)
        print(dict(campaign.counts), campaign.failures, f"{campaign.seconds:.1f} s")
    return bool(campaign.failures)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
