"""Evidence of sequences, fixed points, work queues and persistent jobs: written as a whole, run again everywhere."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Final

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import vyre
from support.evidence import INPUTS, scale, stepped, trapping, words, write_work
from support.speculations import BAD, Bound, Case, bound
from vyre import Batch, In, InOut, Out, Repeat, Step, bool_, like, u32
from vyre.adapters.evidence_files import decode, encode, read_bundle
from vyre.app.evidence.bundle import checked, read_evidence
from vyre.app.evidence.replaying import replay_on
from vyre.app.evidence.writing import work_digest
from vyre.app.session import Session
from vyre.domain.dispatch import DispatchTiming, SpeculationMode
from vyre.domain.errors import InvalidInput, MalformedBundle
from vyre.domain.evidence.differences import OutputDifference
from vyre.domain.evidence.failures import Failure, QueueFull
from vyre.domain.evidence.records import FixedPointCall, MemoryPart, SequenceCall, SpeculationCall
from vyre.ports.backend import Backend, BackendCatalog, BackendServices
from vyre.ports.requests import ResidentSequence, Upload
from vyre.testing.execution import find_backend

BACKENDS: Final = ("reference", "reference-scalar", "cpu", "cuda-machine")


@pytest.fixture(scope="module")
def sessions() -> Iterator[dict[str, Session]]:
    opened = {name: vyre.open(name, journal=vyre.DecisionJournal()) for name in BACKENDS}
    yield opened
    for session in opened.values():
        session.close()


@pytest.fixture(params=("reference", "cpu", "cuda-machine"))
def session(sessions: dict[str, Session], request: pytest.FixtureRequest) -> Session:
    return sessions[request.param]


def repeats(sessions: dict[str, Session], path: Path) -> None:
    """Asserts that every backend comes to what is recorded."""
    bundle = read_evidence(path)
    for name, each in sessions.items():
        again = replay_on(each, bundle)
        assert (again.ok, again.as_recorded, again.backend) == (True, True, name), again


@pytest.mark.parametrize(
    ("backend", "modes"),
    [("reference", None), ("cpu", {"fused": True}), ("cuda-machine", {"plain": True}), ("reference-scalar", None)],
)
def test_a_sequence_is_recorded_and_gives_its_bytes_again(
    sessions: dict[str, Session], tmp_path: Path, backend: str, modes: dict[str, bool] | None
) -> None:
    """Parts of one allocation, a temporary array that has to be cleared, host data, a batch and a repeated part."""
    path, data, session = tmp_path / "e.zip", np.arange(40, dtype=np.uint32), sessions[backend]
    with session.resident(data, label="all") as memory, session.resident(np.zeros(6, np.uint32)) as other:
        between = session.temporary(u32, 4)
        x, y = memory[3:7], memory[20:24]
        add = Step(scale(), {"a": 1, "x": x, "y": between})
        steps: list[Any] = [add, Repeat([Step(scale(), {"a": 2, "x": between, "y": y}, after=[add])], 2)]
        steps += [Batch(scale(), [{"a": 1, "x": INPUTS["x"], "y": other[1:6]}])]
        graph = session.sequence(steps, first=[Step(scale(), {"a": 5, "x": y, "y": x})], modes=modes)
        evidence = graph.write_evidence(path, 2)
        graph(0)
        found, left = memory.download(), other.download()
    work = evidence.work
    assert work is not None and isinstance(work.call, SequenceCall) and work.call.rounds == 2
    assert work.call.modes["fused"] is (modes == {"fused": True})
    assert [(each.before and each.before.name, each.place, each.nbytes) for each in work.memory] == [
        ("memory 0 (all)", 12, 84), (None, 0, 16), ("memory 2", 4, 20), ("host", None, 32),
    ]  # fmt: skip
    assert [(len(part.steps), part.times) for part in (*work.first, *work.parts)] == [(1, 1), (1, 1), (1, 2), (1, 1)]
    assert dict(work.parts[0].steps[0].bound) == {
        "a": MemoryPart(3, 4, 4), "x": MemoryPart(0, 0, 16), "y": MemoryPart(1, 0, 16)
    }  # fmt: skip
    bundle = read_evidence(path)
    assert bundle.evidence == evidence and bundle.title == "sequence of scale" and bundle.decisions
    assert work.memory[0].before is not None and bundle.bytes_of(work.memory[0].before) == data[3:24].tobytes()
    got = bundle.outcome(work.got)
    assert isinstance(got, dict)
    x_now = 5 * data[20:24] + data[3:7]
    assert_array_equal(np.frombuffer(got["memory 0 (all)"], np.uint32)[:4], x_now)
    # the temporary array holds x after the first round, 2 x after the second
    assert_array_equal(np.frombuffer(got["memory 0 (all)"], np.uint32)[17:], data[20:24] + 4 * x_now + 4 * 2 * x_now)
    assert left.tolist() == [0, 2, 4, 6, 8, 10] and found[3] != data[3]
    repeats(sessions, path)


def test_a_grid_in_memory_is_recorded_after_one_that_was_too_large(
    sessions: dict[str, Session], session: Session, tmp_path: Path
) -> None:
    path = tmp_path / "e.zip"
    with session.resident(INPUTS["y"]) as y, session.resident(np.array([9, 1, 1], np.uint32)) as counts:
        step = Step(scale(), {"a": 3, "x": INPUTS["x"], "y": y}, grid=vyre.Indirect(counts, 2))
        graph = session.sequence([step])
        evidence = graph.write_evidence(path)
        assert evidence.work is not None and evidence.work.got.error is not None
        assert "steps[0] (`scale`) found 9 x 1 x 1 workgroups" in str(read_evidence(path).outcome(evidence.work.got))
        repeats(sessions, path)
        counts.upload(np.array([1, 1, 1], np.uint32))
        graph.write_evidence(path)
        assert y.download()[:20].view(np.uint32).tolist() == [13, 26, 39, 52, 50]
    repeats(sessions, path)


def test_a_fixed_point_with_too_many_workgroups_is_recorded(
    sessions: dict[str, Session], session: Session, tmp_path: Path
) -> None:
    path, (increased, taken_over) = tmp_path / "e.zip", stepped()
    with (
        session.resident(np.zeros(4, np.uint32)) as x,
        session.resident(4) as flag,
        session.resident(np.array([2, 1, 1], np.uint32)) as counts,
    ):
        changed, y = flag.view(dtype=u32), session.temporary(u32, 4)
        steps = [
            Step(increased, {"x": x, "y": y}),
            Step(taken_over, {"y": y, "x": x, "changed": changed}, grid=vyre.Indirect(counts, 1)),
        ]
        evidence = session.fixpoint(steps, changed=changed, limit=9).write_evidence(path)
    assert evidence.work is not None and evidence.work.got.error is not None and not evidence.work.counters
    assert "steps[1] (`taken_over`) found 2 x 1 x 1" in str(read_evidence(path).outcome(evidence.work.got))
    repeats(sessions, path)


def close(held: Bound) -> None:
    held.run.close()
    for array in held[1:]:
        array.close()


@pytest.mark.parametrize(("mode", "way"), [(SpeculationMode.FORCE, "every"), (SpeculationMode.DISABLE, "passed")])
def test_a_speculation_is_recorded_with_its_way_and_its_tiles(
    sessions: dict[str, Session], session: Session, tmp_path: Path, mode: SpeculationMode, way: str
) -> None:
    path, case = tmp_path / "e.zip", Case(tiles=12, width=4)
    x, y = case.x(), np.full((12, 4), 100, np.uint32)
    after, passed, committed = case.expected(x, y)
    held = bound(session, case, x, y, mode)
    evidence = held.run.write_evidence(path)
    assert_array_equal(held.y.download(), after)
    close(held)
    work = evidence.work
    assert work is not None and isinstance(work.call, SpeculationCall) and work.call.way == way
    assert (work.counters["passed"], work.counters["committed"]) == (passed.sum(), committed.sum())
    assert str(read_evidence(path).title).startswith("speculation of ")
    repeats(sessions, path)


def test_a_speculation_that_fails_is_recorded(sessions: dict[str, Session], session: Session, tmp_path: Path) -> None:
    path, case = tmp_path / "e.zip", Case(tiles=12, width=4, trap="commit")
    x, y = case.x(), np.full((12, 4), 100, np.uint32)
    x[0, :2] = 6, BAD  # of a tile that is committed
    held = bound(session, case, x, y, SpeculationMode.DISABLE)
    evidence = held.run.write_evidence(path)
    assert evidence.work is not None and evidence.work.got.error is not None
    assert "trap `commit`" in str(read_evidence(path).outcome(evidence.work.got))
    assert_array_equal(held.y.download(), y)
    close(held)
    repeats(sessions, path)


def test_the_mode_of_resident_workers_is_recorded(sessions: dict[str, Session], tmp_path: Path) -> None:
    session, path = sessions["cpu"], tmp_path / "e.zip"
    with session.resident(INPUTS["y"]) as y:
        step = Step(scale(), {"a": 3, "x": INPUTS["x"], "y": y})
        with session.sequence([step], modes={"persistent": True}) as graph:
            evidence = graph.write_evidence(path, 3)
    assert evidence.work is not None and isinstance(evidence.work.call, SequenceCall)
    assert evidence.work.call.modes == {"persistent": True, "graph": False, "fused": False}
    repeats(sessions, path)


def test_a_sequence_that_traps_records_the_trap(sessions: dict[str, Session], session: Session, tmp_path: Path) -> None:
    path = tmp_path / "e.zip"
    with session.resident(words(1, 2, 7)) as x, session.resident(12) as y:
        steps = [Step(scale(), {"a": 1, "x": x, "y": y}), Step(trapping(), {"x": y, "y": x})]
        evidence = session.sequence(steps).write_evidence(path)
    assert evidence.work is not None and evidence.work.got.error is not None and not evidence.work.got.slots
    assert "too large" in str(read_evidence(path).outcome(evidence.work.got))
    repeats(sessions, path)


def test_a_fixed_point_is_recorded_with_its_rounds(
    sessions: dict[str, Session], session: Session, tmp_path: Path
) -> None:
    path = tmp_path / "e.zip"
    evidence = write_work(path, str(session.backend))
    assert evidence.work is not None and isinstance(evidence.work.call, FixedPointCall)
    assert evidence.work.counters == {"iterations": 2, "converged": 1}
    repeats(sessions, path)
    increased, taken_over = stepped(limit=100)
    with session.resident(np.zeros(4, np.uint32)) as x, session.resident(4) as flag:
        changed = flag.view(dtype=u32)
        steps = [
            Step(increased, {"x": x, "y": (y := session.temporary(u32, 4))}),
            Step(taken_over, {"y": y, "x": x, "changed": changed}),
        ]
        loop = session.fixpoint(steps, changed=changed, limit=3, executor="polled")
        evidence = loop.write_evidence(path)
        assert x.download().tolist() == [3] * 4
    assert evidence.work is not None and isinstance(evidence.work.call, FixedPointCall)
    assert evidence.work.counters == {"iterations": 3, "converged": 0} and evidence.work.call.executor == "polled"
    repeats(sessions, path)


@vyre.kernel(workgroup=4)
def halve(hits: InOut[u32], items: In[u32], pushed: InOut[u32], count: InOut[u32]) -> None:
    lane = vyre.global_id()
    if lane < len(items):
        item = items[lane]
        hits.atomic_add(item, 1)
        if item > 0:
            pushed[count.atomic_add(0, 1)] = item // 2


@vyre.kernel(workgroup=4)
def fan(hits: InOut[u32], items: In[u32], pushed: InOut[u32], count: InOut[u32]) -> None:
    lane = vyre.global_id()
    if lane < len(items):
        item = items[lane]
        hits.atomic_add(item, 1)
        if item > 0:
            for _ in range(3):
                pushed[count.atomic_add(0, 1)] = item - 1


@pytest.mark.parametrize("discipline", ["phased", "ring"])
def test_a_work_queue_is_recorded_with_its_items(
    sessions: dict[str, Session], session: Session, tmp_path: Path, discipline: Any
) -> None:
    path = tmp_path / "e.zip"
    names: dict[str, Any] = {"items": "items", "pushed": "pushed", "count": "count"}
    with (
        session.resident(np.zeros(16, np.uint32), label="hits") as hits,
        session.work_queue(halve, {"hits": hits}, **names, capacity=8, discipline=discipline) as queue,
    ):
        evidence = queue.write_evidence(path, np.array([12, 9, 3], np.uint32))
        assert hits.download().tolist() == [3, 3, 1, 2, 1, 0, 1, 0, 0, 1, 0, 0, 1, 0, 0, 0]
        with pytest.raises(InvalidInput, match="items are int64"):
            queue.write_evidence(tmp_path / "other.zip", np.array([12]))
    assert [each.name for each in tmp_path.iterdir()] == ["e.zip"]
    assert evidence.work is not None and evidence.work.counters == {"processed": 13, "pushed": 13}
    held = [each.before and each.before.name for each in evidence.work.memory]
    assert held == ["memory 0 (hits)", "host"], "none of the queue's own"
    repeats(sessions, path)


@pytest.mark.parametrize("discipline", ["phased", "ring"])
def test_a_work_queue_without_room_is_recorded(
    sessions: dict[str, Session], session: Session, tmp_path: Path, discipline: Any
) -> None:
    path = tmp_path / "e.zip"
    names: dict[str, Any] = {"items": "items", "pushed": "pushed", "count": "count"}
    with (
        session.resident(np.zeros(16, np.uint32)) as hits,
        session.work_queue(fan, {"hits": hits}, **names, capacity=4, total_items=99, discipline=discipline) as queue,
    ):
        evidence = queue.write_evidence(path, np.array([3, 3], np.uint32))
    assert evidence.work is not None and evidence.work.got.error is not None and not evidence.work.counters
    outcome = read_evidence(path).outcome(evidence.work.got)
    assert isinstance(outcome, Failure) and outcome.cause == QueueFull(4)
    repeats(sessions, path)


@vyre.kernel
def compared(k: u32, x: In[u32], y: Annotated[Out[bool_], like("x")]) -> None:
    i = vyre.global_id()
    if i < len(x):
        y[i] = x[i] >= k


@pytest.mark.parametrize("backend", ["cpu", "cuda-machine"])
def test_a_persistent_job_is_recorded(sessions: dict[str, Session], tmp_path: Path, backend: str) -> None:
    """One of a kernel, whose truth values are words in memory, and one of a program that traps."""
    path, session = tmp_path / "e.zip", sessions[backend]
    with session.persistent(compared, {"k": 0, "x": np.zeros(3, np.uint32)}) as jobs:
        evidence = jobs.write_evidence(path, {"k": 2, "x": np.array([1, 2, 3], np.uint32)})
    bundle = read_evidence(path)
    assert evidence.run is not None and bundle.way == evidence.run.way == "persistent" and len(bundle.decisions)
    assert bundle.outcome(bundle.run.got) == {"y": words(0, 1, 1)}
    repeats(sessions, path)
    with session.persistent(trapping()) as jobs:
        evidence = jobs.write_evidence(path, {"x": words(1, 9), "y": words(0, 0)})
    assert evidence.run is not None and evidence.run.got.error is not None
    repeats(sessions, path)


class LosesUpdates:
    """``ResidentExecutor`` that leaves 0 in the second element of what the last step writes first."""

    def __init__(self, backend: Backend) -> None:
        self._inner, self._memory = backend.require_resident_executor(), backend.require_memory()

    def run(self, sequence: ResidentSequence, /) -> DispatchTiming:
        timing, step = self._inner.run(sequence), sequence.repeated[-1]
        pairs = zip(step.program.abi_buffers, step.resources, strict=True)
        held: Any = next(resource for buffer, resource in pairs if buffer.is_writable)
        self._memory.upload([Upload(held, memoryview(bytes(4)), 4)])
        return timing


def test_wrong_memory_and_other_counts_are_told(tmp_path: Path) -> None:
    path = tmp_path / "e.zip"
    write_work(path)

    def wrong(services: BackendServices) -> Backend:
        backend = find_backend("reference").factory(services)
        return replace(backend, resident_executor=LosesUpdates(backend), resident_binder=None)

    catalog = BackendCatalog((replace(find_backend("reference"), factory=wrong),))
    with vyre.open("reference", catalog=catalog) as session:
        found = replay_on(session, read_evidence(path))
    (difference,) = found.differences
    assert isinstance(difference, OutputDifference) and (difference.buffer, difference.element) == ("memory 0 (x)", 1)
    assert not found.ok and found.end is None
    evidence = read_bundle(path).evidence
    assert evidence.work is not None
    counted = replace(evidence.work, counters={"iterations": 7, "converged": 1})
    forged = replace(evidence, work=replace(counted, digest=work_digest(counted)))
    bundle = checked(decode(encode(forged, read_bundle(path).files)), "e.zip")
    with vyre.open("reference") as session:
        end = replay_on(session, bundle).end
    assert end is not None and end.expected == "converged=1, iterations=7" and str(end).startswith("the run ends in ")


def test_bundles_of_another_kind_say_so(tmp_path: Path) -> None:
    path = tmp_path / "e.zip"
    write_work(path)
    bundle = read_evidence(path)
    with pytest.raises(MalformedBundle, match="holds no run of one program"):
        _ = bundle.run
    text = path.read_bytes()
    assert b'"work":' in text and b'"way":' not in text, "what is usual is not written"
