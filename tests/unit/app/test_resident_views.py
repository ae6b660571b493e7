"""Parts of resident memory: what they show, what they refuse, and random ones against slices of NumPy."""

from __future__ import annotations

import gc
import random
import weakref
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pytest

import vyre
from vyre import ProgramBuilder, ScalarType, Step, u32
from vyre.app.resident import ResidentArray
from vyre.app.sequences.description import describe
from vyre.app.sequences.steps import parts_of
from vyre.domain.errors import InvalidConfig, InvalidInput, InvalidResource, UnsupportedFeature
from vyre.domain.names import BackendId
from vyre.ports.resident_buffer import ResidentBuffer

Array: TypeAlias = npt.NDArray[Any]
BACKENDS: Final = ["reference", "reference-scalar", "cpu", "cuda-machine"]
X: Final = np.arange(24, dtype=np.float32)


@pytest.fixture(params=BACKENDS)
def session(request: pytest.FixtureRequest) -> Iterator[vyre.Session]:
    with vyre.open(request.param, cache=False) as opened:
        yield opened


# ---------------------------------------------------------------- what a part shows
def test_an_array_that_is_dropped_is_gone_at_once() -> None:
    with vyre.open("reference") as session:
        gc.disable()
        try:
            array = session.resident(np.zeros(4, np.uint32))
            known = weakref.ref(array)
            array.close()
            del array
            assert known() is None
        finally:
            gc.enable()


def test_a_part_is_the_memory_itself(session: vyre.Session) -> None:
    with session.resident(X, label="table") as r:
        part = r.view(5, 7)
        assert (part.shape, part.dtype.str, part.nbytes, part.whole) == ((7,), "<f4", 28, r)
        np.testing.assert_array_equal(part.download(), X[5:12])
        part.upload(np.full(7, 9, np.float32))
        want = X.copy()
        want[5:12] = 9
        np.testing.assert_array_equal(r.download(), want)
        r.upload(X)
        np.testing.assert_array_equal(part.download(), X[5:12])
        assert "table" in repr(part) and "from byte 20" in repr(part)


def test_slices_are_those_of_a_list(session: vyre.Session) -> None:
    rows = X.reshape(6, 4)
    with session.resident(X) as flat, session.resident(rows) as r:
        for start in (None, -30, -5, 0, 3, 23, 24, 40):
            for stop in (None, -25, -1, 0, 3, 24, 99):
                found, want = flat[start:stop], X[start:stop]
                assert found.shape == want.shape
                np.testing.assert_array_equal(found.download(), want)
                np.testing.assert_array_equal(r[start:stop].download(), rows[start:stop])
        np.testing.assert_array_equal(flat[4:20][2:5][1:].download(), X[4:20][2:5][1:])


def test_a_part_has_the_type_that_is_asked_for(session: vyre.Session) -> None:
    data = np.arange(64, dtype=np.uint8)
    with session.resident(data) as raw:
        for kind in ("<u2", "<i4", "<u8", "<f2", "<f4", "<f8", "i1"):
            dtype = np.dtype(kind)
            np.testing.assert_array_equal(
                raw.view(1, 3, dtype).download().view(np.uint8), data[dtype.itemsize : 4 * dtype.itemsize]
            )
        assert raw.view(0, None, vyre.f64).shape == (8,)
        assert raw.view(1, None, vyre.f64).shape == (7,)
        assert raw[8:].view(5, None, np.int64).shape == (2,)
        assert raw.view(16, None, vyre.u32).shape == (0,)
        truths = raw.view(0, 4, vyre.bool_)
        assert (truths.dtype.str, truths.nbytes, truths.download().tolist()) == ("|b1", 16, [True] * 4)
        assert raw.view(0, 4, vyre.bool8).download().tolist() == [False, True, True, True]


def test_a_range_is_read_alone(session: vyre.Session) -> None:
    with session.resident(X.reshape(6, 4)) as r:
        np.testing.assert_array_equal(r.download(offset=8, nbytes=12), X[2:5])
        np.testing.assert_array_equal(r.download(offset=84), X[21:])
        np.testing.assert_array_equal(r.download(nbytes=4), X[:1])
        assert r.download(offset=96).shape == (0,)
        for offset, nbytes in ((2, 4), (0, 6), (0, 97), (-4, 4), (96, 4)):
            with pytest.raises(InvalidInput, match="Fix:"):
                r.download(offset=offset, nbytes=nbytes)


# ---------------------------------------------------------------- what is refused
def test_what_is_no_part_is_refused(session: vyre.Session) -> None:
    with session.resident(X) as r, session.resident(np.array(2.5)) as single:
        odd = r.view(1, 8, vyre.u8)
        refused: tuple[tuple[Callable[[], object], type[Exception]], ...] = (
            (lambda: r.view(20, 5), InvalidInput),
            (lambda: r.view(-1, 1), InvalidInput),
            (lambda: r.view(0, -1), InvalidInput),
            (lambda: r.view(25), InvalidInput),
            (lambda: r.view(1.0), InvalidInput),  # type: ignore[arg-type]
            (lambda: r.view(0, "1"), InvalidInput),  # type: ignore[arg-type]
            (lambda: r.view(2**70), InvalidInput),
            (lambda: r.view(0, 1, "f4"), InvalidConfig),  # type: ignore[arg-type]
            (lambda: r.view(0, 1, np.complex64), InvalidConfig),
            (lambda: r.view(0, 1, np.dtype(">f4")), InvalidConfig),
            (lambda: odd.view(0, 1, vyre.f32), InvalidInput),
            (lambda: odd.view(1, 1, vyre.u32), InvalidInput),
            (lambda: r[3], InvalidInput),  # type: ignore[index]
            (lambda: r[::2], InvalidInput),
            (lambda: r["a":], InvalidInput),
            (lambda: single[0:1], InvalidInput),
        )
        for use, error in refused:
            with pytest.raises(error, match=r"Fix:"):
                use()
        with pytest.raises(TypeError, match="not iterable"):
            iter(r)  # type: ignore[call-overload]
        np.testing.assert_array_equal(odd.view(3, 4, vyre.u8).view(0, 1, vyre.f32).download(), X[1:2])


def test_a_part_is_closed_with_its_array_but_not_the_other_way_round(session: vyre.Session) -> None:
    r = session.resident(X)
    one, other = r[:4], r[2:][2:]
    one.close()
    assert (one.closed, other.closed, r.closed) == (True, False, False)
    uses: tuple[Callable[[], object], ...] = (one.download, lambda: one[1:])
    for use in uses:
        with pytest.raises(InvalidResource, match="Fix:"):
            use()
    np.testing.assert_array_equal(other.download(), X[4:])
    r.close()
    assert other.closed
    uses = (other.download, lambda: other.upload(X[:1]), lambda: other[1:], lambda: r[1:])
    for use in uses:
        with pytest.raises(InvalidResource, match="Fix:"):
            use()
    with pytest.raises(InvalidResource, match=r"`x` is bound to.*Fix:"):
        session.dispatch(added(u32), {"x": other, "y": X}, extent=(1,))


def test_a_part_keeps_its_array_and_warns_of_nothing() -> None:
    with vyre.open("reference") as session:
        part = session.resident(X)[4:8]
        whole = weakref.ref(part.whole)
        gc.collect()
        assert whole() is not None
        np.testing.assert_array_equal(part.download(), X[4:8])
        part.whole.close()
        del part
        gc.collect()  # a ResourceWarning would be an error
        assert whole() is None


def test_a_part_of_another_session_or_of_a_temporary_array(session: vyre.Session) -> None:
    with vyre.open("reference") as other, other.resident(X) as r, pytest.raises(InvalidResource, match="another sess"):
        session.dispatch(added(ScalarType.F32), {"x": r[:4], "y": X})
    between = session.temporary(u32, 8)
    uses: tuple[Callable[[], object], ...] = (lambda: between[2:], lambda: between.view(1, 2))
    for use in uses:
        with pytest.raises(InvalidResource, match=r"part of <Temporary.*Fix:"):
            use()


def ways(session: vyre.Session, inputs: dict[str, Any]) -> tuple[Callable[[], object], ...]:
    """Returns the ways in which a launch takes resident memory."""
    program = added(u32)
    return (
        lambda: session.dispatch(program, inputs),
        lambda: session.bind_resident(program, inputs),
        lambda: session.sequence([Step(program, inputs)]),
    )


def test_a_raw_part_between_two_elements_is_refused_by_every_way(session: vyre.Session) -> None:
    with session.resident(np.zeros(64, np.uint8)) as raw, session.resident(np.zeros(8, np.uint32)) as y:
        inputs: dict[str, Any] = {"x": raw[1:33], "y": y}
        for use in ways(session, inputs):
            with pytest.raises(InvalidInput, match=r"`x` holds u32.*between two elements.*Fix:"):
                use()
        session.dispatch(added(u32), {"x": raw[4:36], "y": y})


def test_parts_that_overlap_and_are_written_are_refused_by_every_way(session: vyre.Session) -> None:
    with session.resident(np.arange(16, dtype=np.uint32)) as r:
        for x, y in ((r, r[:4]), (r[:5], r[4:]), (r[4:8], r), (r[2:9], r[3:4]), (r[1:2], r.view(1, 1))):
            inputs: dict[str, Any] = {"x": x, "y": y}
            for use in ways(session, inputs):
                with pytest.raises(InvalidResource, match=r"`. ?and `.*same memory.*Fix:|`.` and `.`.*Fix:"):
                    use()
        session.dispatch(added(u32), {"x": r[:4], "y": r[4:]})
        assert r.download().tolist()[:8] == [0, 1, 2, 3, 4, 6, 8, 10]


def test_parts_that_overlap_are_read_together(session: vyre.Session) -> None:
    with ProgramBuilder("both", workgroup=8) as p:
        a, b = p.input("a", u32), p.input("b", u32)
        y = p.output("y", u32, like=a)
        i = p.global_id()
        with p.if_(i < a.length):
            y[i] = a[i] + b[i]
    data = np.arange(16, dtype=np.uint32)
    with session.resident(data) as r:
        found = session.dispatch(p.build(), {"a": r[2:10], "b": r[5:13]})["y"]
        np.testing.assert_array_equal(found, data[2:10] + data[5:13])


def test_a_backend_without_views_says_so() -> None:
    class Handle(ResidentBuffer):
        __slots__ = ()

        def _release(self) -> None: ...

    with (
        Handle(backend_id=BackendId("elsewhere"), nbytes=8, epoch=0) as whole,
        pytest.raises(UnsupportedFeature, match="views of resident buffers"),
    ):
        whole.view(0, 4)


def test_a_part_is_exported_as_the_memory_itself() -> None:
    with vyre.open("cpu", cache=False) as session, session.resident(X.reshape(6, 4)) as r:
        seen = np.from_dlpack(r[2:4])
        np.testing.assert_array_equal(seen, X.reshape(6, 4)[2:4])
        seen[...] = 7
        np.testing.assert_array_equal(r[2:4].download(), np.full((2, 4), 7, np.float32))


def test_a_part_holds_the_flag_of_a_fixed_point(session: vyre.Session) -> None:
    """``y`` counts down to 0; the flag is an element in the middle of the memory that holds ``y`` too."""
    with ProgramBuilder("down", workgroup=8) as p:
        y, seen = p.inout("y", u32), p.inout("flag", u32)
        i = p.global_id()
        with p.if_(i < y.length), p.if_(y[i] > 0):
            y[i] = y[i] - 1
            seen[0] = u32(1)
    start = np.arange(12, dtype=np.uint32)
    with session.resident(start) as r:
        flag, low, high = r[6:7], r[:6], r[7:]
        steps = [Step(p.build(), {"y": low, "flag": flag}), Step(p.build(), {"y": high, "flag": flag})]
        result = session.fixpoint(steps, changed=flag, limit=100)()
        assert (result.iterations, result.converged) == (12, True)
        assert r.download().tolist() == [0] * 12


# ---------------------------------------------------------------- random parts against NumPy
@cache
def added(kind: ScalarType) -> vyre.Program:
    """``y = y + x`` as far as both go."""
    with ProgramBuilder(f"added_{kind.text}", workgroup=32) as p:
        x, y = p.input("x", kind), p.inout("y", kind)
        i = p.global_id()
        with p.if_((i < x.length) & (i < y.length)):
            y[i] = y[i] + x[i]
    return p.build()


@cache
def tripled(kind: ScalarType) -> vyre.Program:
    """``y = 3 * x``, and zeros after that."""
    with ProgramBuilder(f"tripled_{kind.text}", workgroup=32) as p:
        x, y = p.input("x", kind), p.output("y", kind)
        i = p.global_id()
        with p.if_((i < x.length) & (i < y.length)):
            y[i] = x[i] + x[i] + x[i]
    return p.build()


@cache
def summed(kind: ScalarType) -> vyre.Program:
    """The first element of ``y`` takes the sum of ``x``."""
    with ProgramBuilder(f"summed_{kind.text}", workgroup=32) as p:
        x, y = p.input("x", kind), p.inout("y", kind)
        i = p.global_id()
        with p.if_(i < x.length):
            y.atomic_add(0, x[i])
    return p.build()


KINDS: Final = tuple(ScalarType[name] for name in ("U8", "U16", "I8", "I16", "U32", "I32", "U64", "I64"))


class Part(NamedTuple):
    """Elements of one of several allocations: as resident memory, and as a slice of bytes."""

    memory: int
    start: int
    array: ResidentArray
    model: Array

    def overlaps(self, other: Part) -> bool:
        ends = self.start + self.model.nbytes, other.start + other.model.nbytes
        shared = min(ends) - max(self.start, other.start)
        return self.memory == other.memory and self.model.size > 0 and other.model.size > 0 and shared > 0


class World:
    """Some resident memory with a model of it, and random launches on parts of it."""

    def __init__(self, session: vyre.Session, seed: int, *, cells: bool = False) -> None:
        """``cells``: all parts are equal or separate."""
        self.cells = cells
        self.random = random.Random(seed)
        self.session = session
        rng = np.random.default_rng(seed)
        self.models = [rng.integers(0, 256, self.random.randrange(1, 700), np.uint8) for _ in range(2)]
        self.held = [session.resident(model) for model in self.models]
        self.refused = 0

    def part(self, kind: ScalarType) -> Part:
        """Returns a random part of this type, by one or two steps."""
        number, size = self.random.randrange(2), kind.size
        held, model = self.held[number], self.models[number]
        if self.cells:
            nbytes = min(64, held.nbytes // 64 * 8 * 2)
            begin = nbytes * self.random.randrange(4) if nbytes else 0
            array = held.view(begin // size, nbytes // size, kind)
            return Part(number, begin, array, model[begin : begin + nbytes].view(array.dtype))
        start, cut = 0, held
        if self.random.random() < 0.5:
            start = self.random.randrange(held.nbytes + 1)
            cut = held[start : self.random.randrange(start, held.nbytes + 1)]
        first = -(-start // size) * size  # the first whole element
        if first > start + cut.nbytes:
            return self.part(kind)
        elements = (start + cut.nbytes - first) // size
        offset = self.random.randrange(elements + 1)
        count = self.random.randrange(elements - offset + 1)
        begin = first + offset * size
        found = cut[first - start :].view(offset, count, kind)
        return Part(number, begin, found, model[begin : begin + count * size].view(found.dtype))

    def launch(self) -> tuple[vyre.Program, dict[str, Any], Part, Part]:
        """Returns a random launch."""
        kind = self.random.choice(KINDS)
        make = self.random.choice((added, tripled, summed) if kind in (u32, ScalarType.I32) else (added, tripled))
        x, y = self.part(kind), self.part(kind)
        return make(kind), {"x": x.array, "y": y.array}, x, y

    def steps(self, most: int) -> list[tuple[Step, Part, Part]]:
        """Returns launches whose memory does not overlap where one of it is written; shows that others are refused."""
        found: list[tuple[Step, Part, Part]] = []
        while len(found) < most:
            program, inputs, x, y = self.launch()
            extent = (max(1, x.model.size, y.model.size),)
            if x.overlaps(y):
                with pytest.raises(InvalidResource, match="same memory"):
                    self.session.sequence([Step(program, inputs, extent=extent)])
                self.refused += 1
            else:
                found.append((Step(program, inputs, extent=extent), x, y))
        return found

    def check(self) -> None:
        """Compares all memory with its model."""
        for held, model in zip(self.held, self.models, strict=True):
            np.testing.assert_array_equal(held.download(), model)

    def close(self) -> None:
        for held in self.held:
            held.close()


def model(step: Step, x: Array, y: Array) -> None:
    """Does on arrays what the launch does."""
    assert isinstance(step.program, vyre.Program)
    assert step.program.name is not None
    n = min(x.size, y.size)
    if step.program.name.startswith("added"):
        y[:n] += x[:n]
    elif step.program.name.startswith("tripled"):
        values = x[:n] * x.dtype.type(3)
        y[...] = 0
        y[:n] = values
    elif y.size:
        y[:1] += x.sum(dtype=x.dtype)


@pytest.fixture(params=["reference", "cpu", "cuda-machine"])
def fast(request: pytest.FixtureRequest) -> Iterator[vyre.Session]:
    with vyre.open(request.param, cache=False) as opened:
        yield opened


@pytest.mark.parametrize("seed", range(4))
def test_random_parts_one_launch_after_the_other(fast: vyre.Session, seed: int) -> None:
    """Through ``dispatch`` and through bound launches, in turn."""
    world = World(fast, seed)
    for number, (step, x, y) in enumerate(world.steps(16)):
        if number % 2:
            fast.dispatch(step.program, step.inputs, extent=step.extent)
        else:
            with fast.bind_resident(step.program, step.inputs, extent=step.extent) as launch:
                launch()
        model(step, x.model, y.model)
        world.check()
    world.close()


def test_random_parts_that_overlap_are_refused(fast: vyre.Session) -> None:
    world = World(fast, 5)
    world.steps(40)
    assert world.refused > 3
    world.check()
    world.close()


@pytest.mark.parametrize(
    "modes", [None, {"plain": True}, {"graph": True, "fused": False}, {"fused": True}, {"persistent": True}]
)
@pytest.mark.parametrize("seed", range(10, 13))
def test_random_parts_in_sequences(fast: vyre.Session, seed: int, modes: dict[str, bool] | None) -> None:
    """Steps on parts that overlap with those of other steps run in an order that keeps the bytes, in every mode."""
    world = World(fast, seed, cells=seed % 2 == 1)
    steps = world.steps(10)
    try:
        with fast.sequence([step for step, _, _ in steps], modes=modes) as sequence:
            sequence(2)
    except UnsupportedFeature as error:
        expected = "no two steps" in str(error) if modes == {"fused": True} else fast.backend != "cpu"
        assert expected, error
        assert not world.cells or modes != {"fused": True}
        return world.close()
    for _ in range(2):
        for step, x, y in steps:
            model(step, x.model, y.model)
    world.check()
    return world.close()


@pytest.mark.parametrize("executor", [None, "polled"])
@pytest.mark.parametrize("seed", range(20, 22))
def test_random_parts_in_fixed_points(fast: vyre.Session, seed: int, executor: str | None) -> None:
    world = World(fast, seed)
    steps = [each for each in world.steps(30) if each[1].memory == each[2].memory == 0][:4]
    with ProgramBuilder("again", workgroup=1) as p:
        left, flag = p.inout("left", u32), p.inout("flag", u32)
        with p.if_(p.global_id() == 0), p.if_(left[0] > 0):
            left[0] = left[0] - 1
            flag[0] = u32(1)
    with fast.resident(np.array([9, 3, 9, 7], np.uint32)) as words:
        count = Step(p.build(), {"left": words[1:2], "flag": words[2:3]})
        result = fast.fixpoint(
            [*(step for step, _, _ in steps), count], changed=words[2:3], limit=9, executor=executor
        )()
        assert (result.iterations, words.download().tolist()) == (4, [9, 0, 0, 7])
    for _ in range(4):
        for step, x, y in steps:
            model(step, x.model, y.model)
    world.check()
    world.close()


# ---------------------------------------------------------------- what joining makes of parts
def test_steps_on_equal_or_separate_parts_are_joined_and_others_stay_apart() -> None:
    data = np.arange(64, dtype=np.uint32)
    with vyre.open("cpu", cache=False) as session, session.resident(data) as r, session.resident(data) as y:
        low, same, high = r[:32], r.view(0, 32), r[32:]
        joined = [Step(added(u32), {"x": low, "y": y[:32]}), Step(added(u32), {"x": y[:32], "y": same})]
        with session.sequence(joined, modes={"fused": True}) as sequence:
            assert len(sequence.plan().groups) == 1
            sequence()
        want = data.copy()
        want[:32] = 3 * data[:32]
        np.testing.assert_array_equal(r.download(), want)
        apart = [*joined, Step(added(u32), {"x": high, "y": y[32:48]}), Step(added(u32), {"x": y[33:48], "y": high})]
        with session.sequence(apart, modes={"fused": True}) as sequence:
            groups = sequence.plan().groups
            assert [len(group.steps) for group in groups] == [2, 1, 1]
            assert "overlaps" in groups[1].why and "overlaps" in groups[2].why


def test_the_order_of_steps_is_that_of_their_bytes() -> None:
    with vyre.open("reference") as session, session.resident(np.zeros(64, np.uint32)) as r:
        pairs = [(r[:8], r[8:16]), (r[32:40], r[40:48]), (r[12:20], r[48:56]), (r[20:24], r[36:44]), (r[:4], r[56:])]
        steps = [Step(added(u32), {"x": x, "y": y}) for x, y in pairs]
        work = describe(session._lease, session._bound_work, [], parts_of("steps", steps))
        assert work.parts[0].order.predecessors == ((), (), (0,), (1,), ())
