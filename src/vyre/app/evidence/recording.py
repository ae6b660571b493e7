"""Runs a compiled program on recorded inputs: to record what it comes to, and to run a bundle again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from vyre.app.evidence.writing import Noted, Outcome, write_bundle
from vyre.app.resident_dispatch import Arguments, has_resident
from vyre.domain.arguments import path_of, whole
from vyre.domain.dispatch import DispatchConfig, DispatchTiming, OutputArena
from vyre.domain.errors import InvalidInput
from vyre.domain.evidence.failures import PROGRAM_ERRORS, Failure, failure_of
from vyre.domain.evidence.records import DISPATCH, Evidence
from vyre.domain.ir.buffers import inputs_of, outputs_of

if TYPE_CHECKING:
    from vyre.app.host_arrays import HostOutputs
    from vyre.app.journal import DecisionJournal
    from vyre.app.persistent.tickets import Ticket
    from vyre.app.pipeline import Inputs, Pipeline
    from vyre.app.resident import ResidentArray
    from vyre.domain.ir.program import Program
    from vyre.ports.backend import Backend

MAX_RUNS: Final = 10_000


class Recorder(Protocol):
    """A dispatch with its inputs, which can be run again and again.

    ``inputs`` holds what went in by buffer name, and ``resident`` the buffers in resident memory with their places.
    """

    inputs: Mapping[str, bytes]
    resident: Mapping[str, int]

    def run(self) -> tuple[DispatchTiming, Mapping[str, bytes]]:
        """Runs once on the recorded inputs, and returns the timing and all that is returned, by buffer name."""


class HostRun:
    """A ``Recorder`` of a dispatch on data of the host."""

    def __init__(self, pipeline: Pipeline, inputs: Mapping[str, bytes]) -> None:
        self._pipeline = pipeline
        self._arena = OutputArena()
        self._views = [memoryview(inputs[buffer.name]) for buffer in inputs_of(pipeline.program.abi_buffers)]
        self.inputs: Mapping[str, bytes] = inputs
        self.resident: Mapping[str, int] = {}

    def run(self) -> tuple[DispatchTiming, Mapping[str, bytes]]:
        """Implements ``Recorder.run``."""
        self._pipeline.fill(self._views, self._arena)
        names = [buffer.name for buffer in outputs_of(self._pipeline.program.abi_buffers)]
        return self._pipeline.timings[-1], dict(zip(names, self._arena.to_bytes(), strict=True))


class ResidentRun:
    """A ``Recorder`` of a dispatch that binds resident memory.

    The arrays hold their recorded content before each run, and afterwards what the last run has left in them.
    """

    def __init__(self, pipeline: Pipeline, arguments: Arguments) -> None:
        buffers = pipeline.program.abi_buffers
        self._pipeline, self._arguments = pipeline, arguments
        self._written = [b.name for b in buffers if b.is_writable and b.name in arguments.resident]
        self._is_fresh = True
        self._before = {name: _content(array) for name, array in arguments.resident.items()}
        self.inputs: Mapping[str, bytes] = {**arguments.host, **self._before}
        self.resident: Mapping[str, int] = {name: array.buffer.offset for name, array in arguments.resident.items()}

    def run(self) -> tuple[DispatchTiming, Mapping[str, bytes]]:
        """Implements ``Recorder.run``."""
        arrays = self._arguments.resident
        for name in () if self._is_fresh else self._written:
            arrays[name].upload(self._before[name])
        self._is_fresh = False
        contents = self._pipeline._run_for_bytes(self._arguments)
        returned = outputs_of(self._pipeline.program.abi_buffers)
        contents |= {buffer.name: _content(arrays[buffer.name]) for buffer in returned if buffer.name in arrays}
        return self._pipeline.resident_timings[-1], contents


class JobRun:
    """A ``Recorder`` of a job of a program that is kept running, which ``submit`` submits."""

    def __init__(self, submit: Callable[[Inputs], Ticket], outputs: HostOutputs, inputs: Mapping[str, bytes]) -> None:
        self._submit, self._outputs = submit, outputs
        self.inputs: Mapping[str, bytes] = inputs
        self.resident: Mapping[str, int] = {}

    def run(self) -> tuple[DispatchTiming, Mapping[str, bytes]]:
        """Implements ``Recorder.run``."""
        result, outputs = self._submit(self.inputs).result(), self._outputs
        raw = zip(outputs.names, outputs.raw_types, strict=True)
        return result.timing, {name: result[name].astype(dtype, copy=False).tobytes() for name, dtype in raw}


def recorder_of(pipeline: Pipeline, inputs: Inputs) -> Recorder:
    """Returns the recorder of a dispatch.  Raises what the dispatch raises before it runs."""
    if has_resident(inputs):
        return ResidentRun(pipeline, pipeline._arguments(inputs))
    names = [buffer.name for buffer in inputs_of(pipeline.program.abi_buffers)]
    return HostRun(pipeline, dict(zip(names, map(bytes, pipeline.views(inputs)), strict=True)))


def attempt(recorder: Recorder) -> tuple[DispatchTiming | None, Outcome]:
    """Runs once, and returns what came of it; a run that ends in an error of the program has no timing.

    Raises every other error.
    """
    try:
        return recorder.run()
    except PROGRAM_ERRORS as error:
        failure = failure_of(error)
        assert failure is not None
        return None, failure


def record_run(
    path: Path | str, pipeline: Pipeline, inputs: Inputs, runs: int, journal: DecisionJournal | None
) -> Evidence:
    """Implements ``Session.write_evidence`` for a compiled program."""
    runs = whole("runs", runs, 1, MAX_RUNS, f"give an int from 1 to {MAX_RUNS}.")
    path, recorder = path_of("path", path), recorder_of(pipeline, inputs)
    return recorded(path, pipeline.program, pipeline.config, pipeline.on, recorder, runs, journal)


def recorded(
    path: Path, program: Program, config: DispatchConfig, backend: Backend, recorder: Recorder, runs: int,
    journal: DecisionJournal | None, way: str = DISPATCH,
) -> Evidence:  # fmt: skip
    """Runs a dispatch or a job so many times, and writes what it comes to."""
    timing, first = attempt(recorder)
    timings = [timing]
    for number in range(1, runs):
        timing, outcome = attempt(recorder)
        timings.append(timing)
        if not _are_same(first, outcome):
            raise InvalidInput(
                f"run {number + 1} of `{program.name or 'the program'}` came to something else than the first one",
                fix="record one run, or make the program independent of the order of its lanes.",
            )
    return write_bundle(
        path,
        program,
        recorder.inputs,
        first,
        config=config,
        backend=backend,
        resident=recorder.resident,
        timings=[each for each in timings if each is not None],
        noted=Noted.of(journal),
        way=way,
    )


def _are_same(one: Outcome, other: Outcome) -> bool:
    if isinstance(one, Failure):
        return isinstance(other, Failure) and one.repeats(other)
    return one == other


def _content(array: ResidentArray) -> bytes:
    """Returns the bytes in the memory of an array."""
    return array.view(dtype=np.uint8).download().tobytes()
