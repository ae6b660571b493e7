"""Facets for work on device memory: sequences, bound launches, and steps that workers keep running."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from itertools import chain, repeat
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias, TypeVar

from vyre.adapters.forwarding import ForwardsStepLimits
from vyre.app.shadow.checker import Incomparable, check_comparable
from vyre.app.shadow.comparing import Mismatch
from vyre.app.shadow.service import Found, ShadowService
from vyre.domain.binding import plan_bindings
from vyre.domain.errors import UnsupportedFeature
from vyre.ports.persistent import KeptSteps, PersistentSteps, StepsRan
from vyre.ports.requests import FLAG_BYTES, Readback, ResidentSequence, ResidentStep, Resource, Upload
from vyre.ports.resident_buffer import ResidentBuffer

if TYPE_CHECKING:
    from vyre.app.shadow.state import ShadowState
    from vyre.domain.dispatch import DispatchConfig, DispatchTiming
    from vyre.domain.ir.program import Program
    from vyre.ports.backend import Backend
    from vyre.ports.execution import BoundResidentStep, ResidentBinder, ResidentExecutor, ResidentMemory

T = TypeVar("T")
MOST_ISOLATED: Final = 256
"""Steps that are run one by one at most, to find the one whose code is wrong."""
Instead: TypeAlias = "Callable[[Program, DispatchConfig], tuple[Program, DispatchConfig]]"
Contents: TypeAlias = dict[int, bytes]
"""The bytes of allocations, by the id of their handle."""


class Place(NamedTuple):
    """Where a step has its memory: an allocation, and a range of its bytes."""

    root: int
    begin: int
    end: int


class ResidentWork(NamedTuple):
    """A sequence with copies of its host bytes, and its allocations by the id of their handle."""

    sequence: ResidentSequence
    roots: dict[int, ResidentBuffer]

    @classmethod
    def of(cls, sequence: ResidentSequence) -> ResidentWork:
        """Returns the work of a sequence, without what it reads back."""
        prefix, repeated = (tuple(map(_held, steps)) for steps in (sequence.prefix, sequence.repeated))
        flag = sequence.flag
        plain = ResidentSequence(prefix=prefix, repeated=repeated, repeat_count=sequence.repeat_count, flag=flag)
        return cls(plain, roots_of(sequence))

    @property
    def steps(self) -> tuple[ResidentStep, ...]:
        """The steps, each once."""
        return (*self.sequence.prefix, *self.sequence.repeated)

    @property
    def programs(self) -> tuple[Program, ...]:
        """The programs of the steps."""
        return tuple({id(step.program): step.program for step in self.steps}.values())

    def contents(self, memory: ResidentMemory) -> Contents:
        """Returns the bytes of all allocations now."""
        contents = {key: bytearray(root.nbytes) for key, root in self.roots.items()}
        reads = [Readback(root, memoryview(contents[key])) for key, root in self.roots.items() if root.nbytes]
        memory.download(reads)
        return {key: bytes(data) for key, data in contents.items()}


def roots_of(sequence: ResidentSequence) -> dict[int, ResidentBuffer]:
    """Returns the allocations that a sequence uses, by the id of their handle."""
    resources = [each for step in (*sequence.prefix, *sequence.repeated) for each in step.resources]
    buffers = [each for each in (*resources, sequence.flag) if isinstance(each, ResidentBuffer)]
    return {id(buffer.root): buffer.root for buffer in buffers}


def nbytes_of(sequence: ResidentSequence) -> int:
    """Returns the bytes of the allocations of a sequence, and of its host data."""
    resources = [each for step in (*sequence.prefix, *sequence.repeated) for each in step.resources]
    host = sum(each.nbytes for each in resources if not isinstance(each, ResidentBuffer))
    return host + sum(root.nbytes for root in roots_of(sequence).values())


def _held(step: ResidentStep) -> ResidentStep:
    """Returns a step with copies of its host bytes."""
    resources = tuple(each if isinstance(each, ResidentBuffer) else memoryview(bytes(each)) for each in step.resources)
    return replace(step, resources=resources)


class ResidentSamples:
    """Samples work on device memory, and has it compared."""

    def __init__(self, service: ShadowService) -> None:
        self.service: Final = service
        self._memory = service.usual.require_memory()

    def run(self, sequence: ResidentSequence, run: Callable[[], T], number: int) -> tuple[T, ShadowState | None]:
        """Runs work that is due to be sampled; returns what ``run`` does, and the state of the sample."""
        service = self.service
        steps = (*sequence.prefix, *sequence.repeated)
        programs = tuple({id(step.program): step.program for step in steps}.values())
        state = service.sample(number, programs, nbytes_of(sequence)) if programs else None
        work: ResidentWork | None = None
        before: Contents = {}
        if state is not None and state.is_pending:
            with service.copying(state):
                residents = ResidentWork.of(sequence)
                before = residents.contents(self._memory)
                work = residents
        try:
            value = run()
        except BaseException:
            if state is not None:
                service.drop(state, "an error of the dispatch")
            raise
        if state is not None and work is not None:
            with service.copying(state):
                after = work.contents(self._memory)
                names = " + ".join(program.name or "unnamed" for program in programs)
                service.queue(state, partial(self._check, work, before, after), names)
        return value, state

    def _check(self, work: ResidentWork, before: Contents, after: Contents, checker: Backend) -> Found | None:
        for step in work.steps:
            check_comparable(step.program, step.config, checker)
        engine = Engine.of(checker)
        if engine is None:
            raise Incomparable(work.programs[0], f"backend `{checker.id}` has no device memory", always=True)
        try:
            expected = engine.run(work, before, self.service.checked)
        except UnsupportedFeature as error:
            raise Incomparable(work.programs[0], error.message, always=False) from None
        if expected == after:
            return None
        return self._isolated(work, before, engine, checker) or self._whole(work, before, expected, after, checker)

    def _isolated(self, work: ResidentWork, before: Contents, engine: Engine, checker: Backend) -> Found | None:
        """Returns the first step whose code gives other bytes when it is run alone; None if there is none."""
        usual = Engine.of(self.service.usual)
        assert usual is not None
        present = dict(before)
        for step in in_order(work.sequence, present):
            alone = ResidentWork(ResidentSequence(prefix=(step,)), work.roots)
            contents = dict(present)
            right, got = engine.run(alone, contents, self.service.checked), usual.run(alone, contents)
            if right != got:
                return Found(
                    (step.program,),
                    mismatch_of(self.service, step, contents, right, got, checker),
                    partial(self._agrees, alone, contents, right),
                )
            present.update(right)
        return None

    def _whole(
        self, work: ResidentWork, before: Contents, expected: Contents, after: Contents, checker: Backend
    ) -> Found:
        """Returns what is found where no step differs alone: all programs that may have written come in quarantine."""
        step = next(
            (step for step in reversed(work.steps) if _differing(step, expected, after) is not None), work.steps[-1]
        )
        return Found(
            work.programs,
            mismatch_of(self.service, step, before, expected, after, checker),
            partial(self._agrees, work, before, expected),
        )

    def _agrees(self, work: ResidentWork, before: Contents, right: Contents) -> bool:
        usual = Engine.of(self.service.usual)
        assert usual is not None
        return usual.run(work, before, self.service.fallback_of) == right


class Engine(NamedTuple):
    """Device memory, and what runs on it."""

    memory: ResidentMemory
    executor: ResidentExecutor

    @classmethod
    def of(cls, backend: Backend) -> Engine | None:
        """Returns those of a backend; None if it lacks them."""
        if backend.memory is None or backend.resident_executor is None:
            return None
        return cls(backend.memory, backend.resident_executor)

    def run(
        self, work: ResidentWork, before: Contents, instead: Instead = lambda program, config: (program, config)
    ) -> Contents:
        """Returns the bytes of all allocations after work on memory of its own, which held ``before``.

        ``instead`` returns what runs in the place of each program.
        """
        with ExitStack() as stack:
            own = {
                key: stack.enter_context(self.memory.allocate(root.nbytes, label="shadow"))
                for key, root in work.roots.items()
            }
            self.memory.upload([Upload(own[key], memoryview(data)) for key, data in before.items() if data])
            mapped = partial(_mapped, own=own, instead=instead)
            sequence = work.sequence
            self.executor.run(
                replace(
                    sequence,
                    prefix=tuple(map(mapped, sequence.prefix)),
                    repeated=tuple(map(mapped, sequence.repeated)),
                    flag=None if sequence.flag is None else _in(own, sequence.flag),
                )
            )
            return ResidentWork(sequence, own).contents(self.memory)


def _mapped(step: ResidentStep, own: Mapping[int, ResidentBuffer], instead: Instead) -> ResidentStep:
    resources: tuple[Resource, ...] = tuple(
        _in(own, each) if isinstance(each, ResidentBuffer) else each for each in step.resources
    )
    program, config = instead(step.program, step.config)
    return ResidentStep(program, resources, config)


def _in(own: Mapping[int, ResidentBuffer], buffer: ResidentBuffer) -> ResidentBuffer:
    root = own[id(buffer.root)]
    return root if buffer.base is None else root.view(buffer.offset, buffer.nbytes)


def in_order(sequence: ResidentSequence, present: Contents) -> Iterator[ResidentStep]:
    """Yields the steps in the order in which they run, at most ``MOST_ISOLATED``.

    ``present`` holds the bytes of now, in which the flag is cleared before a round, and looked at after it.
    """
    left = MOST_ISOLATED
    flag = None if sequence.flag is None else _place(sequence.flag)
    for steps in chain((sequence.prefix,), repeat(sequence.repeated, sequence.repeat_count)):
        ends = None if steps is sequence.prefix else flag
        if ends is not None:
            data, end = present[ends.root], ends.begin + FLAG_BYTES
            present[ends.root] = data[: ends.begin] + bytes(FLAG_BYTES) + data[end:]
        for step in steps:
            if left == 0:
                return
            left -= 1
            yield step
        if ends is not None and not any(present[ends.root][ends.begin : ends.begin + FLAG_BYTES]):
            return


def _place(buffer: ResidentBuffer) -> Place:
    return Place(id(buffer.root), buffer.offset, buffer.offset + buffer.nbytes)


def _bytes_of(resource: Resource, contents: Contents) -> bytes:
    if not isinstance(resource, ResidentBuffer):
        return bytes(resource)
    place = _place(resource)
    return contents[place.root][place.begin : place.end]


def _differing(step: ResidentStep, expected: Contents, got: Contents) -> str | None:
    """Returns the first buffer that a step writes and that differs."""
    for buffer, resource in zip(step.program.abi_buffers, step.resources, strict=True):
        if buffer.is_writable and _bytes_of(resource, expected) != _bytes_of(resource, got):
            return buffer.name
    return None


def mismatch_of(
    service: ShadowService, step: ResidentStep, before: Contents, expected: Contents, got: Contents, checker: Backend
) -> Mismatch:
    """Returns how a step differs, as a dispatch on host data of its program, which returns whole buffers."""
    program = service.written(step.program)
    bound = list(zip(plan_bindings(step.program).bindings, step.resources, strict=False))
    written = [(each.buffer, resource) for each, resource in bound if each.buffer.is_returned]
    counts = dict(step.config.output_counts or {})
    for each, resource in bound:
        if each.buffer.is_output and each.static_nbytes is None and each.buffer.like is None:
            counts.setdefault(each.buffer.name, len(_bytes_of(resource, expected)) // each.element_size)
    return Mismatch(
        replace(program, buffers=tuple(replace(buffer, output_range=None) for buffer in program.buffers)),
        replace(step.config, output_counts=counts or None),
        {each.buffer.name: _bytes_of(resource, before) for each, resource in bound if each.buffer.takes_input},
        {buffer.name: _bytes_of(resource, expected) for buffer, resource in written},
        {buffer.name: _bytes_of(resource, got) for buffer, resource in written},
        service.usual,
        checker,
    )


# ---------------------------------------------------------------- facets
def with_fallbacks(service: ShadowService, sequence: ResidentSequence) -> ResidentSequence:
    """Returns a sequence in which programs in quarantine run without optimizations."""
    fallback = partial(fallback_step, service)
    prefix, repeated = tuple(map(fallback, sequence.prefix)), tuple(map(fallback, sequence.repeated))
    return replace(sequence, prefix=prefix, repeated=repeated)


def fallback_step(service: ShadowService, step: ResidentStep) -> ResidentStep:
    """Returns a step without optimizations if its program is in quarantine; else the same."""
    if service.quarantine_of(step.program) is None:
        return step
    program, config = service.fallback_of(step.program, step.config)
    return replace(step, program=program, config=config)


class ShadowedResidentExecutor:
    """``ResidentExecutor`` of which sequences are sampled."""

    def __init__(self, inner: ResidentExecutor, samples: ResidentSamples) -> None:
        self._inner, self._samples, self._service = inner, samples, samples.service
        self._replaced: tuple[ResidentSequence, int, ResidentSequence] | None = None
        """The last sequence with programs in quarantine: one object for one sequence, so that it is prepared once."""

    def run(self, sequence: ResidentSequence, /) -> DispatchTiming:
        service = self._service
        number = next(service.numbers)
        if service.quarantined:
            sequence = self._with_fallbacks(sequence)
        if number < service.at:
            return self._inner.run(sequence)
        timing, state = self._samples.run(sequence, partial(self._inner.run, sequence), number)
        return timing if state is None else service.timing(timing, state)

    def _with_fallbacks(self, sequence: ResidentSequence) -> ResidentSequence:
        generation, last = self._service.generation, self._replaced
        if last is None or last[0] is not sequence or last[1] != generation:
            last = self._replaced = sequence, generation, with_fallbacks(self._service, sequence)
        return last[2]


class ShadowedBinder:
    """``ResidentBinder`` of which launches are sampled."""

    def __init__(self, inner: ResidentBinder, samples: ResidentSamples) -> None:
        self._inner, self._samples = inner, samples

    def bind(self, step: ResidentStep, /) -> BoundResidentStep:
        return _ShadowedBound(self._inner, _held(step), self._samples)


class _ShadowedBound:
    """``BoundResidentStep`` that is sampled, and bound again when a program came into quarantine."""

    def __init__(self, binder: ResidentBinder, step: ResidentStep, samples: ResidentSamples) -> None:
        self._binder, self._step, self._samples, self._service = binder, step, samples, samples.service
        self._generation = self._service.generation
        self._bound = binder.bind(fallback_step(self._service, step))

    def __call__(self) -> None:
        service = self._service
        if self._generation != service.generation:
            self._bind_again()
        number = next(service.numbers)
        if number < service.at:
            self._bound()
        else:
            self._samples.run(ResidentSequence(prefix=(self._step,)), self._bound, number)

    def _bind_again(self) -> None:
        self._generation = self._service.generation
        if (step := fallback_step(self._service, self._step)) is not self._step:
            bound_again = self._service.attempt(step.program, partial(self._binder.bind, step))
            if bound_again is not None:
                bound, self._bound = self._bound, bound_again
                bound.close()

    def close(self) -> None:
        self._bound.close()


class ShadowedSteps(ForwardsStepLimits):
    """``PersistentSteps`` of which runs are sampled."""

    def __init__(self, inner: PersistentSteps, samples: ResidentSamples) -> None:
        self._inner, self._samples = inner, samples

    def keep(self, parts: Sequence[Sequence[Sequence[ResidentStep]]], /) -> KeptSteps:
        return _ShadowedKept(self._inner, [[list(map(_held, wave)) for wave in part] for part in parts], self._samples)


class _ShadowedKept:
    """``KeptSteps`` of which runs are sampled, and that are kept anew when a program came into quarantine."""

    def __init__(
        self, workers: PersistentSteps, parts: list[list[list[ResidentStep]]], samples: ResidentSamples
    ) -> None:
        self._workers, self._parts, self._samples, self._service = workers, parts, samples, samples.service
        self._kept = self._keep()

    def _keep(self) -> KeptSteps:
        self._generation = self._service.generation
        fallback = partial(fallback_step, self._service)
        return self._workers.keep([[list(map(fallback, wave)) for wave in part] for part in self._parts])

    def _keep_again(self) -> None:
        self._generation = self._service.generation
        steps = chain.from_iterable(chain.from_iterable(self._parts))
        wrong = next((step.program for step in steps if self._service.quarantine_of(step.program) is not None), None)
        kept_again = None if wrong is None else self._service.attempt(wrong, self._keep)
        if kept_again is not None:
            kept, self._kept = self._kept, kept_again
            kept.close()

    def run(self, part: int, times: int, /) -> StepsRan:
        service = self._service
        if self._generation != service.generation:
            self._keep_again()
        number = next(service.numbers)
        if number < service.at:
            return self._kept.run(part, times)
        sequence = ResidentSequence(repeated=tuple(chain.from_iterable(self._parts[part])), repeat_count=times)
        ran, state = self._samples.run(sequence, partial(self._kept.run, part, times), number)
        return ran if state is None else ran._replace(timing=service.timing(ran.timing, state))

    def counters(self) -> Mapping[str, int]:
        return self._kept.counters()

    def close(self) -> None:
        self._kept.close()
