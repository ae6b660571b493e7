"""Speculation: a confirmer whose work on tiles that did not pass a prefilter is thrown away, and a commit that is
undone where it fails.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import numpy as np

from vyre.adapters.forks import process_lock, refuse_within
from vyre.app.resident import ResidentArray, make_resident
from vyre.app.resident_dispatch import BoundWork, host_arrays_of
from vyre.app.sequences.description import bound_step, zeroing
from vyre.app.sequences.sequence import StepSequence, WorkServices
from vyre.app.sequences.steps import Listed, Step
from vyre.app.sequences.temporary import TemporaryBuffer
from vyre.app.shorthand import Indirect
from vyre.domain.arguments import expect
from vyre.domain.binding import Binding, plan_bindings
from vyre.domain.dispatch import DispatchConfig, DispatchTiming, SpeculationMode, without_mode
from vyre.domain.errors import InvalidInput, VyreError
from vyre.domain.geometry import LaunchLimits
from vyre.domain.interface import resolve_launch
from vyre.domain.ir.types import ScalarType
from vyre.domain.tiles import COUNTS, copying, judging, may_fail, of_tiles
from vyre.domain.unique import Closing
from vyre.policies.arith import PPM
from vyre.policies.journal import decide
from vyre.policies.prediction.confirming import ConfirmWay, WayInputs, WayTimes, choose_way
from vyre.ports.interrupts import sealed, whole
from vyre.ports.requests import ResidentStep
from vyre.ports.resident_buffer import ResidentBuffer

if TYPE_CHECKING:
    from pathlib import Path

    from vyre.app.lease import BackendLease
    from vyre.domain.evidence.records import Evidence

_FLAG: Final = ScalarType.U32.size
_Uses: TypeAlias = list[tuple[Binding, ResidentBuffer]]


class SpeculationResult(NamedTuple):
    """The result of a speculation, in numbers of tiles.

    ``passed``: those that passed the prefilter.  ``confirmed``: those that the confirmer confirmed, which where it runs
    on every tile may be some that did not pass.  ``committed``: those that did both.  ``way``: the tiles that it ran
    on, and ``why``.  ``timing`` is that of prefilter and confirmer.
    """

    tiles: int
    passed: int
    confirmed: int
    committed: int
    way: ConfirmWay
    why: str
    timing: DispatchTiming

    @property
    def rolled_back(self) -> int:
        """The tiles on which the confirmer worked for nothing."""
        return (self.tiles if self.way is ConfirmWay.EVERY else self.passed) - self.committed


class Speculation(Closing):
    """A prefilter, a confirmer and a commit with all their memory bound: call it to run them, from any thread.

    Calls run one after the other.  Its memory is freed by ``close``, at the end of a ``with`` block, or with the
    session.
    """

    def __init__(
        self, services: WorkServices, steps: tuple[Step, Step, Step], passed: ResidentArray, confirmed: ResidentArray
    ) -> None:
        lease = self._lease = services.lease
        lease.check_open()
        lease.backend.require_resident_executor()
        self._sink, self._lock, self._times = services.decisions, process_lock(), WayTimes()
        tiles = self._tiles = _tiles_of(passed, confirmed)
        self._journal, self._flags, self._way = services.journal, (passed.buffer, confirmed.buffer), ConfirmWay.EVERY
        works: list[BoundWork] = []
        for role, step in zip(("prefilter", "confirm", "commit"), steps, strict=True):
            expect(role, step, Step, "a Step", InvalidInput)
            _need(not step.after, f"{role} is to run after other steps", "leave `after` out: the order is given.")
            tiled = step if role == "prefilter" else _over_tiles(step, tiles)
            works.append(bound_step(lease, Listed(role, tiled), services.bind))
        self._reads = host_arrays_of(work.step for work in works)
        self._works: Final = works
        parts = _parts(works, tiles, passed.buffer, confirmed.buffer)
        config = works[1].step.config
        self._mode = None if steps[1].config is None else steps[1].config.speculation
        self._may_fail = may_fail(works[1].step.program) or config.race_check or config.step_budget is not None
        _need(
            not self._may_fail or self._mode is not SpeculationMode.FORCE,
            "the confirmer is forced to run on tiles that did not pass, and could fail there",
            "leave the way to the session, or have it say no in `confirmed` instead of a trap.",
        )
        self._arrays: list[ResidentArray] = []
        self._counts = self._array(len(COUNTS) * _FLAG)
        temporary = {id(used): used for work in works for _, used in _uses(work) if isinstance(used, TemporaryBuffer)}
        own = {key: self._array(used.nbytes).buffer for key, used in temporary.items()}
        before, confirm, commit = (work.with_memory(own) for work in works)
        judge = {"passed": passed, "confirmed": confirmed, "counts": self._counts}
        pairs = [(used, self._array(used.nbytes).buffer) for _, used in _uses(commit, writes=True)]
        cleared = [passed.buffer, confirmed.buffer, self._counts.buffer, *own.values()]
        first = [*(zeroing(lease, buffer)[1] for buffer in cleared), before]
        last = [services.bind(Step(judging(), judge, extent=tiles)), *(_copy(lease, *pair) for pair in pairs)]
        self._ways: Final = {
            way: _sequence(services, [*first, _tiled(confirm, parts[0], flags), *last])
            for way, flags in ((ConfirmWay.EVERY, None), (ConfirmWay.PASSED, passed.buffer))
        }
        self._commit = _sequence(services, [_tiled(commit, parts[1], confirmed.buffer)])
        self._undo = _sequence(services, [_copy(lease, saved, used) for used, saved in pairs])

    def __call__(self) -> SpeculationResult:
        """Runs the prefilter and the confirmer, waits, and commits the tiles that passed and were confirmed.

        Raises what a dispatch raises.  After an error the arrays that the commit writes are as before the call, also
        where the commit itself has failed; only where the device is lost they are lost with it, and the error says so.
        An exception of a signal handler comes before the commit begins, or after it has ended.
        """
        self._lease.check_open()
        refuse_within(self._lock, repr(self))
        with self._lock, sealed:
            verdict = decide(self._sink, choose_way, WayInputs(self._mode, self._may_fail, self._times))
            self._way = verdict.way
            timing = self._ways[verdict.way]().timing
            passed, confirmed, committed = map(int, self._counts.download().view(np.uint32))
            ns = timing.wall_ns if timing.device_ns is None else timing.device_ns
            self._times = self._times.after(verdict.way, ns, passed * PPM // self._tiles)
            if committed:
                self._committed()
        return SpeculationResult(self._tiles, passed, confirmed, committed, verdict.way, str(verdict.why), timing)

    def write_evidence(self, path: Path | str) -> Evidence:
        """Runs as a call does, and writes a file by which others can run it again and compare; returns its manifest.

        The file holds the way that the confirmer took, and the numbers of tiles; else as
        ``StepSequence.write_evidence``.
        """
        from vyre.app.evidence.work_recording import LAUNCHED, BoundParts, record_work
        from vyre.domain.evidence.records import SpeculationCall

        passed, confirmed = self._flags
        parts: BoundParts = [([], 1), ([(work.step, (), LAUNCHED) for work in self._works], 1)]
        return record_work(
            path, self._lease, self._journal, parts, self,
            lambda recording, _: SpeculationCall(recording.part(passed), recording.part(confirmed), self._way.value),
        )  # fmt: skip

    def close(self) -> None:
        """Frees the memory; calling it afterwards raises ``InvalidResource``.  Idempotent."""
        with self._lock, sealed:
            for resource in (*self._ways.values(), self._commit, self._undo, *self._arrays):
                resource.close()

    def __repr__(self) -> str:
        return f"<Speculation on {self._tiles} tile(s){self._reads}>"

    def _array(self, nbytes: int) -> ResidentArray:
        array = make_resident(self._lease.backend.require_memory(), nbytes, "speculation")
        array.buffer.quiet()
        self._lease.adopt(array)
        self._arrays.append(array)
        return array

    @whole
    def _committed(self) -> None:
        """Runs the commit; where it fails, gives its arrays their content back.  An interrupt comes after that."""
        try:
            self._commit()
        except BaseException as error:
            try:
                self._undo()
            except VyreError as other:
                error.add_note(f"what the commit wrote could not be undone: {other.message}")
            else:
                error.add_note("what the commit wrote is undone: its arrays are as before the call")
            raise


def _need(holds: bool, what: str, fix: str) -> None:
    if not holds:
        raise InvalidInput(what, fix=fix)


def _parts(
    works: Sequence[BoundWork], tiles: int, passed: ResidentBuffer, confirmed: ResidentBuffer
) -> tuple[dict[str, int], dict[str, int]]:
    """Returns the elements of the part of a tile, by buffer of the confirmer and of the commit.

    Raises ``InvalidInput`` where the three launches do not fit together.
    """
    before, confirm, commit = works
    earlier, results = _uses(before, writes=True), _uses(confirm, writes=True)
    for role, flags, uses in (("prefilter", passed, earlier), ("confirmer", confirmed, results)):
        name = "passed" if flags is passed else "confirmed"
        is_bound = any(_is_same(used, flags) for _, used in uses)
        _need(is_bound, f"the {role} does not write `{name}`", "bind it to a buffer that it writes.")
    for binding, used in results:
        _need(
            isinstance(used, TemporaryBuffer) or _is_same(used, confirmed),
            f"`{binding.buffer.name}` is written by the confirmer, and lasts longer than the run",
            "bind session.temporary(...) to it, and have the commit copy what is to stay.",
        )
    for binding, used in _uses(commit, writes=True):
        name = f"`{binding.buffer.name}`"
        _need(
            not isinstance(used, TemporaryBuffer) and not any(_overlap(used, other) for _, other in earlier + results),
            f"{name} is written by the commit, and temporary or written before it",
            "bind a resident array to it that neither prefilter nor confirmer writes.",
        )
        _need(
            binding.input_index is not None,
            f"{name} is an output of the commit, which a launch sets to zero for all tiles",
            "declare it as a buffer that is read and written.",
        )
    _need(
        commit.step.config.timeout_s is None,
        "the commit has a timeout, after which a device may go on writing",
        "give timeout_s to prefilter and confirmer, before which nothing is committed.",
    )
    for role, work in (("confirmer", confirm), ("commit", commit)):
        _need(
            work.launch.grid[0] == tiles,
            f"the {role} is launched with {work.launch.grid[0]} workgroups along x for {tiles} tiles",
            "leave the grid out, or give it one workgroup along x for each tile.",
        )
    read = [(b, used) for b, used in _uses(commit) if any(_overlap(used, other) for _, other in results)]
    for binding, used in results + read:
        _need(
            used.nbytes % (tiles * binding.element_size) == 0,
            f"`{binding.buffer.name}` is bound to {used.nbytes} bytes, which make no whole parts for {tiles} tiles",
            f"bind {tiles} times as many elements as a tile has.",
        )
    of_confirm, of_commit = (
        {b.buffer.name: used.nbytes // tiles // b.element_size for b, used in uses} for uses in (results, read)
    )
    return of_confirm, of_commit


def _tiles_of(passed: object, confirmed: object) -> int:
    """Returns the number of tiles.  Raises ``InvalidInput`` for anything but two resident arrays of u32 of one size."""
    flags: list[ResidentBuffer] = []
    for name, array in (("passed", passed), ("confirmed", confirmed)):
        expect(name, array, ResidentArray, "a resident array", InvalidInput)
        assert isinstance(array, ResidentArray)
        fits = not array.is_temporary and array.dtype == np.uint32 and array.nbytes > 0
        _need(fits, f"{name} is {array!r}", "make it with session.resident(numpy.zeros(tiles, numpy.uint32)).")
        flags.append(array.buffer)
    _need(
        flags[0].nbytes == flags[1].nbytes and not _overlap(*flags),
        f"passed is {passed!r}, and confirmed {confirmed!r}",
        "give two arrays with one element for each tile.",
    )
    return flags[0].nbytes // _FLAG


def _over_tiles(step: Step, tiles: int) -> Step:
    """Returns the step with one workgroup for each tile, unless it says how many, and without a mode of its own."""
    counted = isinstance(step.grid, Indirect)
    _need(not counted, "a grid of tiles is found in memory", "leave it out: there is one workgroup for each tile.")
    config = step.config and without_mode(step.config, "speculation")
    has_geometry = step.grid or step.extent or (config is not None and (config.grid or config.extent))
    return replace(step, config=config, grid=step.grid if has_geometry else (tiles, 1, 1))


def _uses(work: BoundWork, *, writes: bool = False) -> _Uses:
    """Returns the resident memory of a launch by binding; ``writes``: only what it writes."""
    pairs = zip(plan_bindings(work.step.program).bindings, work.step.resources, strict=True)
    return [(b, used) for b, used in pairs if isinstance(used, ResidentBuffer) and (b.buffer.is_writable or not writes)]


def _is_same(one: ResidentBuffer, other: ResidentBuffer) -> bool:
    return one.root is other.root and (one.offset, one.nbytes) == (other.offset, other.nbytes)


def _overlap(one: ResidentBuffer, other: ResidentBuffer) -> bool:
    ends = one.offset + one.nbytes, other.offset + other.nbytes
    return one.root is other.root and one.offset < ends[1] and other.offset < ends[0]


def _tiled(work: BoundWork, parts: dict[str, int], flags: ResidentBuffer | None) -> BoundWork:
    """Returns the launch on tiles; ``flags``: only on those whose flag is not 0."""
    step, launch = work.step, work.launch
    program, resources = of_tiles(step.program, parts, guarded=flags is not None), step.resources
    if flags is not None:
        resources = (*resources, flags)
        counts, nbytes = (*launch.counts, flags.nbytes // _FLAG), (*launch.nbytes, flags.nbytes)
        launch = launch._replace(counts=counts, nbytes=nbytes)
    config, sized = (replace(each, grid=launch.grid, extent=None) for each in (step.config, work.sized))
    return BoundWork(ResidentStep(program, resources, config), launch, sized)


def _copy(lease: BackendLease, source: ResidentBuffer, target: ResidentBuffer) -> BoundWork:
    kind = ScalarType.U8 if (source.nbytes | source.offset | target.offset) % _FLAG else ScalarType.U32
    program, config = copying(kind), DispatchConfig(extent=source.nbytes // kind.size)
    launch = resolve_launch(program, (source.nbytes, target.nbytes), config, LaunchLimits(str(lease.backend.id)))
    return BoundWork(ResidentStep(program, (source, target), config), launch, config)


def _sequence(services: WorkServices, works: Sequence[BoundWork]) -> StepSequence:
    """Returns a sequence of launches whose memory is bound already."""
    steps = [Step(work.step.program) for work in works]
    bound = {id(step): work for step, work in zip(steps, works, strict=True)}
    return StepSequence(services._replace(bind=lambda step: bound[id(step)]), steps)
