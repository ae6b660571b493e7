"""Execution of operations on the bytes of the device: copies, fills, kernels, whole graphs."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, assert_never

from vyre.adapters.cuda.codes import DIAGNOSED, Result
from vyre.adapters.cuda.machine.execution import KernelReport, KernelRun, Progress
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
from vyre.adapters.cuda.machine.options import RunOptions
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
}
"""The driver's code for a fault.  Any other fault is a failed launch: hardware hangs there, or continues with garbage.

A race has the code of a diagnosis and does not lose the device.
"""


MOST_ROUNDS: Final = 1 << 20
"""Rounds of a loop of a graph after which it is taken for endless."""
_SET: Final = (1).to_bytes(4, "little")
_CLEAR: Final = bytes(4)


class Worker:
    """Performs operations.

    ``faults`` collects the faults of kernels, and ``lane_instructions`` sums their work.  ``report`` receives a text
    about nodes of one graph that conflict.
    """

    def __init__(
        self, memory: DeviceMemory, speed: Speed, options: RunOptions, seed: int, report: Callable[[str], None]
    ) -> None:
        self._memory = memory
        self._speed = speed
        self._options = options
        self._random = random.Random(seed)
        self._report = report
        self.faults: list[KernelFault] = []
        self.lane_instructions: int = 0

    def launch(self, work: LaunchWork) -> Action:
        """Returns the action of a launch; while the host shares memory with kernels, each call of it runs a slice."""
        if not self._memory.shared:
            return lambda _: self._launch(work)
        running: list[KernelRun] = []

        def advance(_: int) -> Outcome | Pause:
            if not running:
                running.append(self._run_of(work))
            run = running[0]
            try:
                progress = run.advance()
            except KernelFault as fault:
                raise self._status(work, fault) from None
            if progress is Progress.ENDED:
                return self._ended(run.report())
            return Pause(progress is Progress.IDLE, lambda: self._status(work, run.endless()), run.pass_time)

        return advance

    def perform(self, work: Work) -> Outcome:
        """Performs an operation and returns its outcome.  Raises ``Status`` if the device faults."""
        try:
            match work:
                case CopyWork():
                    return self._copy(work)
                case FillWork(target, value, nbytes):
                    self._memory.fill(target, value, nbytes)
                    return Outcome(self._speed.copy(nbytes, over_link=False), (self.access(target, nbytes, True),))
                case LaunchWork():
                    return self._launch(work)
                case RecordWork():
                    return NOTHING
                case WhileWork():
                    return self._repeat(work)
                case _:
                    assert_never(work)
        except MemoryFault as fault:
            raise Status(CODE_OF_FAULT.get(fault.kind, Result.LAUNCH_FAILED), str(fault)) from None

    def perform_graph(self, nodes: Sequence[Node], records: dict[int, Completion], start_ns: int) -> Outcome:
        """Performs every node once.  ``records`` maps a node to the completion of its event record."""
        for work in work_within(nodes):
            if isinstance(work, WhileWork):
                self._memory.write(work.condition, _SET)
        return self._perform_nodes(nodes, records, start_ns)

    def _repeat(self, work: WhileWork) -> Outcome:
        """Performs the nodes of a loop as long as its condition is set."""
        nodes = list(work.body.nodes.values())
        rounds = duration = 0
        accesses: dict[Access, None] = {}
        while self._memory.read(work.condition, len(_SET)) != _CLEAR:
            if rounds == MOST_ROUNDS:
                raise Status(Result.LAUNCH_TIMEOUT, f"a loop of a graph did not end within {rounds} rounds")
            outcome = self._perform_nodes(nodes, {}, 0)
            rounds += 1
            duration += outcome.duration_ns
            accesses.update(dict.fromkeys(outcome.accesses))
        return Outcome(duration, tuple(accesses))

    def _perform_nodes(self, nodes: Sequence[Node], records: dict[int, Completion], start_ns: int) -> Outcome:
        hazards = Hazards(nodes, self._report)
        ends: dict[int, int] = {}
        accesses: list[Access] = []
        for node in run_order(nodes, self._random):
            outcome = self.perform(node.work)
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

    def _launch(self, work: LaunchWork) -> Outcome:
        try:
            return self._ended(self._run_of(work).finish())
        except KernelFault as fault:
            raise self._status(work, fault) from None

    def _run_of(self, work: LaunchWork) -> KernelRun:
        options = replace(
            self._options,
            resident_blocks=work.resident_blocks,
            check_races=self._options.check_races or work.shape.race_check,
        )
        return KernelRun(work.kernel.entry, work.shape, work.parameters, self._memory, options)

    def _status(self, work: LaunchWork, fault: KernelFault) -> Status:
        self.faults.append(fault)
        code = CODE_OF_FAULT.get(fault.kind, Result.LAUNCH_FAILED)
        return Status(code, str(fault), fault.finding(work.parameters, self._memory.read))

    def _ended(self, report: KernelReport) -> Outcome:
        self.lane_instructions += report.lane_instructions
        return Outcome(self._speed.kernel(report.lane_instructions), report.accesses)
