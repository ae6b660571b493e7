"""Execution of operations on the bytes of the device: copies, fills, kernels, whole graphs."""

from __future__ import annotations

import random
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from typing import Final, TypeAlias, assert_never

from vyre.adapters.cuda.codes import DIAGNOSED, Result
from vyre.adapters.cuda.machine.execution import KernelRun
from vyre.adapters.cuda.machine.faults import FaultKind, KernelFault, MemoryFault
from vyre.adapters.cuda.machine.graphs import (
    CopyWork,
    Direction,
    FillWork,
    Hazards,
    LaunchWork,
    Node,
    RecordWork,
    WhileWork,
    Work,
    run_order,
    work_within,
)
from vyre.adapters.cuda.machine.host_memory import read_host, write_host
from vyre.adapters.cuda.machine.memory import DeviceMemory
from vyre.adapters.cuda.machine.options import KernelReport, Progress, RunOptions
from vyre.adapters.cuda.machine.ordering import Access
from vyre.adapters.cuda.machine.presets import Speed
from vyre.adapters.cuda.machine.status import Status
from vyre.adapters.cuda.machine.streams import NOTHING, Action, Completion, Outcome, Pause

CODE_OF_FAULT: Final[dict[FaultKind, int]] = {
    FaultKind.ILLEGAL_ADDRESS: Result.ILLEGAL_ADDRESS,
    FaultKind.USE_AFTER_FREE: Result.ILLEGAL_ADDRESS,
    FaultKind.MISALIGNED: Result.MISALIGNED_ADDRESS,
    FaultKind.DEADLOCK: Result.LAUNCH_TIMEOUT,
    FaultKind.STEP_LIMIT: Result.LAUNCH_TIMEOUT,
    FaultKind.RACE: DIAGNOSED,
    FaultKind.GIVEN_UP: DIAGNOSED,
}
"""The driver's code for a fault.  Any other fault is a failed launch: hardware hangs there, or continues with garbage.

A race has the code of a diagnosis and does not lose the device; nor does a kernel that nobody waits for any more.
"""


MOST_ROUNDS: Final = 1 << 20
"""Rounds of a loop of a graph after which it is taken for endless."""
_SET: Final = (1).to_bytes(4, "little")
_CLEAR: Final = bytes(4)
_Parts: TypeAlias = Generator[Pause, None, Outcome]
"""Work that pauses while others run."""


class Worker:
    """Performs operations.

    ``faults`` collects the faults of kernels, and ``lane_instructions`` sums their work.  ``report`` receives a text
    about nodes of one graph that conflict.  ``given_up`` tells a kernel that runs whether its caller waits no longer.
    """

    def __init__(
        self,
        memory: DeviceMemory,
        speed: Speed,
        options: RunOptions,
        seed: int,
        report: Callable[[str], None],
        given_up: Callable[[], bool],
    ) -> None:
        self._memory = memory
        self._speed = speed
        self._options = options
        self._random = random.Random(seed)
        self._report = report
        self._given_up = given_up
        self.faults: list[KernelFault] = []
        self.lane_instructions: int = 0

    def action(self, work: Work) -> Action:
        """Returns the action of an operation, of which each call runs a part.

        A part of a kernel ends after a slice while the host shares memory with kernels, else after one that took long.
        """
        return _in_parts(lambda _: self._perform(work))

    def graph(self, nodes: Sequence[Node], records: dict[int, Completion]) -> Action:
        """Returns the action that performs every node once; each call runs a part.

        ``records`` maps a node to the completion of its event record.
        """

        def begin(start_ns: int) -> _Parts:
            for work in work_within(nodes):
                if isinstance(work, WhileWork):
                    self._memory.write(work.condition, _SET)
            return self._perform_nodes(nodes, records, start_ns)

        return _in_parts(begin)

    def _perform(self, work: Work) -> _Parts:
        """Performs an operation and returns its outcome.  Raises ``Status`` if the device faults."""
        try:
            match work:
                case CopyWork():
                    return self._copy(work)
                case FillWork(target, value, nbytes):
                    self._memory.fill(target, value, nbytes)
                    return Outcome(self._speed.copy(nbytes, over_link=False), (self.access(target, nbytes, True),))
                case LaunchWork():
                    return (yield from self._launch(work))
                case RecordWork():
                    return NOTHING
                case WhileWork():
                    return (yield from self._repeat(work))
                case _:
                    assert_never(work)
        except MemoryFault as fault:
            raise Status(CODE_OF_FAULT.get(fault.kind, Result.LAUNCH_FAILED), str(fault)) from None

    def _repeat(self, work: WhileWork) -> _Parts:
        """Performs the nodes of a loop as long as its condition is set."""
        nodes = list(work.body.nodes.values())
        rounds = duration = 0
        accesses: dict[Access, None] = {}
        while self._memory.read(work.condition, len(_SET)) != _CLEAR:
            if rounds == MOST_ROUNDS:
                raise Status(Result.LAUNCH_TIMEOUT, f"a loop of a graph did not end within {rounds} rounds")
            outcome = yield from self._perform_nodes(nodes, {}, 0)
            rounds += 1
            duration += outcome.duration_ns
            accesses.update(dict.fromkeys(outcome.accesses))
        return Outcome(duration, tuple(accesses))

    def _perform_nodes(self, nodes: Sequence[Node], records: dict[int, Completion], start_ns: int) -> _Parts:
        hazards = Hazards(nodes, self._report)
        ends: dict[int, int] = {}
        accesses: list[Access] = []
        for node in run_order(nodes, self._random):
            outcome = yield from self._perform(node.work)
            hazards.check(node, outcome.accesses)
            accesses.extend(outcome.accesses)
            begin = max((ends[before] for before in node.after), default=start_ns)
            ends[node.handle] = begin + outcome.duration_ns
            if node.handle in records:
                records[node.handle].end_ns = ends[node.handle]
                records[node.handle].done = True
        return Outcome(max(ends.values(), default=start_ns) - start_ns, tuple(accesses))

    def access(self, address: int, nbytes: int, writes: bool) -> Access:
        """Returns the access to a range, with the base of its allocation."""
        extent = self._memory.extent_of(address)
        return Access(address if extent is None else extent[0], address, address + nbytes, writes)

    def _copy(self, work: CopyWork) -> Outcome:
        memory, nbytes = self._memory, work.nbytes
        match work.direction:
            case Direction.TO_DEVICE:
                memory.write(work.target, read_host(work.source, nbytes) if work.data is None else work.data)
                accesses: tuple[Access, ...] = (self.access(work.target, nbytes, True),)
            case Direction.TO_HOST:
                write_host(work.target, memory.read(work.source, nbytes))
                accesses = (self.access(work.source, nbytes, False),)
            case Direction.ON_DEVICE:
                memory.copy(work.target, work.source, nbytes)
                accesses = (self.access(work.source, nbytes, False), self.access(work.target, nbytes, True))
        over_link = work.direction is not Direction.ON_DEVICE
        return Outcome(self._speed.copy(nbytes, over_link=over_link), accesses)

    def _launch(self, work: LaunchWork) -> _Parts:
        run = self._run_of(work)
        while True:
            try:
                cuts, progress = run.cuts, run.advance()
                while progress is Progress.MADE and run.cuts == cuts and not self._memory.shared:
                    progress = run.advance()
            except KernelFault as fault:
                raise self._status(work, fault) from None
            if progress is Progress.ENDED:
                return self._ended(run.report())
            yield Pause(progress is Progress.IDLE, lambda: self._status(work, run.endless()), run.pass_time)

    def _run_of(self, work: LaunchWork) -> KernelRun:
        options = replace(
            self._options,
            resident_blocks=work.resident_blocks,
            check_races=self._options.check_races or work.shape.race_check,
        )
        return KernelRun(work.kernel.entry, work.shape, work.parameters, self._memory, options, self._given_up)

    def _status(self, work: LaunchWork, fault: KernelFault) -> Status:
        self.faults.append(fault)
        code = CODE_OF_FAULT.get(fault.kind, Result.LAUNCH_FAILED)
        finding = None if fault.kind is FaultKind.GIVEN_UP else fault.finding(work.parameters, self._memory.read)
        return Status(code, str(fault), finding)

    def _ended(self, report: KernelReport) -> Outcome:
        self.lane_instructions += report.lane_instructions
        return Outcome(self._speed.kernel(report.lane_instructions), report.accesses)


def _in_parts(begin: Callable[[int], _Parts]) -> Action:
    """Returns the action of an operation that pauses; ``begin`` gets its virtual start in ns."""
    running: list[_Parts] = []

    def advance(start_ns: int) -> Outcome | Pause:
        if not running:
            running.append(begin(start_ns))
        try:
            return next(running[0])
        except StopIteration as end:
            outcome: Outcome = end.value
            return outcome

    return advance
