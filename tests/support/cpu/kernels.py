"""Programs as machine code of the CPU emitter, in any variant: compiled many at a time, and run between guard pages.

No facet of backend ``cpu`` takes part: a variant is what the test says, and not what a decision chooses.  Built on it
are ``cpu_agreement`` (small programs against the oracle), ``cpu_matrix`` (filetests) and ``cpu_fuzzing`` (random
programs).  ``cpu_operators`` and ``cpu_accesses`` write functions for single operators and accesses instead of kernels.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from support.cpu.guarded_memory import GuardedMemory
from support.cpu.pool import entries
from support.running import Failure, Outcome, Outputs
from vyre.adapters.cpu.llvm.captures import scratch_for
from vyre.adapters.cpu.llvm.context import ALIGNMENT
from vyre.adapters.cpu.llvm.emit import EmittedCode, EmittedKernel, emit
from vyre.adapters.cpu.llvm.options import EmitOptions
from vyre.adapters.cpu.llvm.program_facts import can_join
from vyre.adapters.cpu.native.compilation import Effort, compile_object
from vyre.adapters.cpu.native.features import CpuFeatures, host
from vyre.adapters.cpu.native.loading import LoadedCode, load
from vyre.adapters.cpu.pool.commands import CommandList, Kernel, Private, PrivateTable
from vyre.adapters.cpu.pool.layout import Outcome as RunOutcome
from vyre.adapters.cpu.pool.worker_pool import WorkerPool
from vyre.adapters.grid_kernels import kernel_plan
from vyre.adapters.kernel_plan import KernelLoop
from vyre.domain.analysis.atomic_uses import AtomicUse, atomic_uses
from vyre.domain.binding import Binding, plan_bindings
from vyre.domain.dispatch import U32_MAX, DispatchConfig
from vyre.domain.errors import BackendError, StepBudgetExceeded, TrapError
from vyre.domain.geometry import LaunchLimits
from vyre.domain.interface import resolve_launch
from vyre.domain.ir.operators import MERGEABLE
from vyre.domain.ir.program import Program
from vyre.domain.launch import Launch
from vyre.domain.names import Dim3
from vyre.domain.specialization import spec_literals
from vyre.domain.validation.known import order_sensitive

NO_BUDGET: Final = 1 << 40
"""The step budget of counting code for a run without one."""
TIMEOUT_S: Final = 60.0
"""How long a run on worker threads may take before it is stopped."""
MOST_THREADS: Final = 8
LIMITS: Final = LaunchLimits("cpu", max_invocations_per_workgroup=U32_MAX)
_ENTRY: Final = ctypes.CFUNCTYPE(None, *[ctypes.c_uint64] * 4)
_VECTOR_BITS: Final = {1: 128, 4: 128, 8: 256, 16: 512, 32: 512}
_NO_LANE: Final = (1 << 64) - 1


def features_for(lanes: int) -> CpuFeatures:
    """Returns the features of this machine that vectors of so many lanes are made for."""
    return host().at_most(_VECTOR_BITS[lanes])


class Variant(NamedTuple):
    """How a program is written and compiled.

    ``narrow`` leaves out the features that wider vectors are made for, and those of AVX-512 in any case.
    ``halves`` writes operators of f16 even for a processor that has none, where LLVM puts others in their place.
    """

    lanes: int = 16
    effort: Effort = Effort.LIGHT
    counting: bool = False
    exclusive: bool = False
    joined: bool = False
    wide: bool = False
    narrow: bool = False
    slow_gathers: bool = False
    halves: bool = False

    @property
    def options(self) -> EmitOptions:
        """Returns the options of the emission."""
        return EmitOptions(
            lanes=self.lanes,
            counting=self.counting,
            exclusive=self.exclusive,
            wide=self.wide,
            joined=self.joined,
            predicated=self.features.is_predicated,
            halves=self.halves or self.features.computes_f16,
            slow_gathers=self.slow_gathers,
        )

    @property
    def features(self) -> CpuFeatures:
        """Returns the features of this machine that the code may use."""
        return features_for(min(self.lanes, 8)) if self.narrow else host()

    @property
    def text(self) -> str:
        """Returns all options, for messages and records."""
        flags = ("counting", "exclusive", "joined", "wide", "narrow", "slow_gathers", "halves")
        return " ".join([f"W{self.lanes}", self.effort.value, *(name for name in flags if getattr(self, name))])


class Way(NamedTuple):
    """How code is run: called once for all workgroups, or on so many threads that take ``grain`` workgroups each."""

    threads: int = 0
    grain: int = 1

    @property
    def text(self) -> str:
        """Returns the way in words."""
        return f"{self.threads} threads, grain {self.grain}" if self.threads else "one call"


DIRECTLY: Final = Way()


class Code(NamedTuple):
    """The machine code of a program: an address for each kernel."""

    kernels: tuple[EmittedKernel, ...]
    addresses: tuple[int, ...]
    variant: Variant
    loaded: LoadedCode


class WrongAccess(Exception):
    """A kernel wrote outside of the buffers that it may write."""


# ---------------------------------------------------------------- what is permitted
def launch_for(program: Program, inputs: Mapping[str, bytes], config: DispatchConfig) -> Launch:
    """Returns the launch of a dispatch."""
    nbytes = tuple(len(inputs[b.name]) for b in program.abi_buffers if b.takes_input)
    return resolve_launch(program, nbytes, config, LIMITS)


def joins(program: Program, launch: Launch) -> bool:
    """Tells whether a vector may hold lanes of several workgroups of a launch."""
    resized = (
        program if launch.workgroup == program.workgroup_size else replace(program, workgroup_size=launch.workgroup)
    )
    return launch.grid[1] == launch.grid[2] == 1 and can_join(resized)


def merged_copies(program: Program) -> tuple[AtomicUse, ...] | None:
    """Returns the buffers of which threads need copies if atomics are plain operations; None if copies do not serve."""
    uses = atomic_uses(program)
    if order_sensitive(program):
        return None
    if any(use.results_used or use.plain or len(use.ops) != 1 or use.ops - MERGEABLE for use in uses):
        return None
    return uses


# ---------------------------------------------------------------- code
def emitted(program: Program, config: DispatchConfig, workgroup: Dim3, variant: Variant) -> EmittedCode:
    """Returns the text of a program for one workgroup size."""
    spec = spec_literals(program, config.spec)
    if workgroup != program.workgroup_size:
        program = replace(program, workgroup_size=workgroup)
    return emit(program, variant.options, spec)


def compiled(codes: Sequence[tuple[EmittedCode, Variant]]) -> list[Code]:
    """Compiles programs together, as one module for each number of lanes, effort and set of features.

    Equal texts are compiled once.
    """
    groups: dict[tuple[int, Effort, CpuFeatures], list[int]] = {}
    for number, (code, variant) in enumerate(codes):
        groups.setdefault((code.lanes, variant.effort, variant.features), []).append(number)
    found: dict[int, Code] = {}
    for (_, effort, features), numbers in groups.items():
        firsts: dict[str, int] = {}
        for number in numbers:
            firsts.setdefault(codes[number][0].text, number)
        text = merged({f"program{number}": one for one, number in firsts.items()})
        loaded = load(compile_object(text, features, effort))
        for number in numbers:
            code = codes[number][0]
            kernels = code.kernels
            names = [k.entry.replace("vyre_kernel", f"program{firsts[code.text]}") for k in kernels]
            found[number] = Code(kernels, tuple(loaded.addresses[n] for n in names), codes[number][1], loaded)
    return [found[number] for number in range(len(codes))]


def merged(texts: Mapping[str, str]) -> str:
    """Returns one module with the kernels of several, which are renamed from ``vyre_kernel`` to the name of each."""
    entities: dict[str, None] = {}
    for name, text in texts.items():
        for entity in _entities(text):
            entities[entity.replace("@vyre_kernel_", f"@{name}_", 1)] = None
    return "\n".join(entities) + "\n"


def _entities(text: str) -> Iterator[str]:
    """Yields the functions, declarations and constants of a module."""
    lines: list[str] = []
    for line in text.splitlines():
        if not lines and (not line.strip() or line.startswith(";")):
            continue
        lines.append(line)
        if not lines[0].startswith("define") or line == "}":
            yield "\n".join(lines)
            lines = []
    assert not lines, lines[0]


# ---------------------------------------------------------------- runs
class Runner:
    """Runs code on memory between guard pages: whatever touches anything else is a fault or ``WrongAccess``."""

    def __init__(self) -> None:
        self._memory: list[GuardedMemory] = []
        self._scratch = GuardedMemory(1)
        self._pool: WorkerPool | None = None
        self._runs = 0

    def run(
        self, code: Code, program: Program, inputs: Mapping[str, bytes], config: DispatchConfig, way: Way = DIRECTLY
    ) -> Outcome:
        """Returns the outcome of a dispatch.  Raises ``WrongAccess``, or ``TimeoutError`` if a run was stopped."""
        launch = launch_for(program, inputs, config)
        bindings = plan_bindings(program).bindings
        self._runs += 1
        datas = [inputs[b.buffer.name] if b.buffer.takes_input else bytes(n) for b, n in _sized(bindings, launch)]
        places = [self._put(number, data) for number, data in enumerate(datas)]
        sx, sy, sz = (groups * size for groups, size in zip(launch.grid, launch.workgroup, strict=True))
        steps = (ctypes.c_uint64 * (sx * sy * sz))() if code.variant.counting else None
        budget = NO_BUDGET if config.step_budget is None else config.step_budget
        words = [*launch.grid, 0, budget, 0 if steps is None else ctypes.addressof(steps)]
        for place, (binding, nbytes) in zip(places, _sized(bindings, launch), strict=True):
            words += [place, nbytes // binding.element_size]
        plan = kernel_plan(program, len(code.kernels))
        if plan is not None:
            words += [self._put(len(places), bytes(4 * plan.words)), plan.words]
        frame = (ctypes.c_uint64 * len(words))(*words)
        if way.threads:
            assert plan is None, "grid loops are run directly"
            noted = self._on_threads(code, program, launch, config, frame, way)
        else:
            steps_of = range(len(code.kernels)) if plan is None else plan.steps
            noted = self._directly(code, launch, config, frame, steps_of, words[-2])
        for number, (place, data) in enumerate(zip(places, datas, strict=True)):
            if set(self._memory[number].around(place, len(data))) - {0xA5}:
                raise WrongAccess(f"bytes beside `{bindings[number].buffer.name}` have changed")
            if not bindings[number].buffer.is_writable and ctypes.string_at(place, len(data)) != data:
                raise WrongAccess(f"`{bindings[number].buffer.name}`, which is read-only, has changed")
        if noted is not None:
            kind, lane, facts = noted
            at = (lane % sx, lane // sx % sy, lane // (sx * sy))
            return Failure(kind, (*facts, at))
        outputs: dict[str, bytes] = {}
        for position, (start, end) in zip(plan_bindings(program).outputs, launch.output_ranges, strict=True):
            outputs[bindings[position].buffer.name] = ctypes.string_at(places[position] + start, end - start)
        return Outputs(outputs)

    def close(self) -> None:
        """Ends the threads."""
        if self._pool is not None:
            self._pool.close()

    def _put(self, number: int, data: bytes) -> int:
        """Puts a buffer next to one of its guard pages, in turn."""
        while len(self._memory) <= number:
            self._memory.append(GuardedMemory(1))
        memory = self._memory[number] = _at_least(self._memory[number], len(data))
        return memory.at_start(data) if (self._runs + number) % 2 else memory.at_end(data)

    def _directly(
        self,
        code: Code,
        launch: Launch,
        config: DispatchConfig,
        frame: ctypes.Array[ctypes.c_uint64],
        steps: Sequence[int | KernelLoop],
        hidden: int,
    ) -> tuple[type[BackendError], int, tuple[object, ...]] | None:
        """Runs the kernels in this order; ``hidden`` is the address of the hidden buffer of grid loops."""
        control = (ctypes.c_uint64 * 16)()
        control[1] = control[3] = _NO_LANE
        frame[3] = ctypes.addressof(control)
        groups = launch.grid[0] * launch.grid[1] * launch.grid[2]
        for _ in range(config.launches):
            for number, alone in _order(steps, hidden):
                kernel, address = code.kernels[number], code.addresses[number]
                wanted = scratch_for(kernel.scratch_bytes, kernel.captures, launch.nbytes)
                scratch = self._scratch = _at_least(self._scratch, wanted)
                nbytes = -(-wanted // ALIGNMENT) * ALIGNMENT
                place = scratch.at_end(b"\xab" * nbytes)
                _ENTRY(address)(ctypes.addressof(frame), 0, 1 if alone else groups, place)
                if set(scratch.around(place, nbytes)) - {0xA5}:
                    raise WrongAccess("bytes beside the scratch memory have changed")
                trap, over = control[1], control[3]
                if trap < over:
                    at, tag = control[2] & U32_MAX, control[2] >> 32
                    return TrapError, trap, (kernel.trap_tags[tag], at)
                if over != _NO_LANE:
                    return StepBudgetExceeded, over, (config.step_budget,)
        return None

    def _on_threads(
        self,
        code: Code,
        program: Program,
        launch: Launch,
        config: DispatchConfig,
        frame: ctypes.Array[ctypes.c_uint64],
        way: Way,
    ) -> tuple[type[BackendError], int, tuple[object, ...]] | None:
        if self._pool is None:
            self._pool = WorkerPool(entries(), size=MOST_THREADS, cpus=2)
        groups = launch.grid[0] * launch.grid[1] * launch.grid[2]
        table = None
        if way.threads > 1 and code.variant.exclusive:
            table = _copies(program, launch, len(frame))
        commands = [
            Kernel(
                address,
                ctypes.addressof(frame),
                groups,
                way.grain,
                way.threads,
                scratch_for(kernel.scratch_bytes, kernel.captures, launch.nbytes),
                table,
            )
            for kernel, address in zip(code.kernels, code.addresses, strict=True)
        ]
        job = self._pool.job(CommandList(commands * config.launches))
        job.set_timeout(TIMEOUT_S)
        outcome = self._pool.run(job)
        if outcome is RunOutcome.STOPPED:
            raise TimeoutError(f"the run was stopped after {TIMEOUT_S} s")
        trap, over = job.trap, job.budget_lane
        if trap is not None and (over is None or trap.lane < over):
            kernel = code.kernels[job.last % len(code.kernels)]
            return TrapError, trap.lane, (kernel.trap_tags[trap.tag], trap.address)
        if over is not None:
            return StepBudgetExceeded, over, (config.step_budget,)
        assert outcome is RunOutcome.COMPLETED, outcome
        return None


def _order(steps: Sequence[int | KernelLoop], hidden: int) -> Iterator[tuple[int, bool]]:
    """Yields the number of each kernel that runs, and whether its first workgroup suffices.

    A loop goes on while its word of the buffer at address ``hidden`` is set.
    """
    for step in steps:
        if isinstance(step, KernelLoop):
            word = ctypes.c_uint32.from_address(hidden + 4 * step.word)
            yield step.enter, True
            while word.value:
                yield from _order(step.body, hidden)
                yield step.advance, True
        else:
            yield step, False


def _at_least(memory: GuardedMemory, nbytes: int) -> GuardedMemory:
    return memory if memory.room >= nbytes else GuardedMemory(nbytes)


def _sized(bindings: Iterable[Binding], launch: Launch) -> list[tuple[Binding, int]]:
    return list(zip(bindings, launch.nbytes, strict=True))


def _copies(program: Program, launch: Launch, words: int) -> PrivateTable | None:
    """Copies of all buffers with atomics, for threads of exclusive code."""
    uses = merged_copies(program)
    assert uses is not None
    bindings = plan_bindings(program).bindings
    slots = {binding.buffer.name: slot for slot, binding in enumerate(bindings)}
    made = [
        Private(slots[use.buffer], launch.nbytes[slots[use.buffer]], use.element.text, next(iter(use.ops)).name.lower())
        for use in uses
        if launch.nbytes[slots[use.buffer]]
    ]
    return PrivateTable(words, made) if made else None
