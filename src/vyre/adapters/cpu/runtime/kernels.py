"""Programs as loaded kernels: their code is made or found in a store, loaded, and cached by identity.

A module begins with the code that was there first, stored or made with light effort, or with quick effort if its
text is long.  When its launches have taken long enough for full effort to pay, a thread has another process
compile the same text; the next launch uses the result.  All codes give the same bytes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple

from vyre.adapters.caching.memory_cache import Built, MemoryBudget, MemoryCache
from vyre.adapters.cpu.decisions.effort_choice import EffortInputs, FullEffort, compiler_effort
from vyre.adapters.cpu.llvm.options import EmitOptions
from vyre.adapters.cpu.native.compilation import Effort
from vyre.adapters.cpu.native.stack_frames import MOST_FRAME, frame_bytes
from vyre.adapters.cpu.runtime.code import Code, CodeMaker
from vyre.adapters.cpu.runtime.counters import Counters
from vyre.adapters.cpu.runtime.stored_form import KernelLayout
from vyre.adapters.cpu.runtime.tools import MachineCode
from vyre.adapters.forks import process_lock
from vyre.adapters.kernel_source import KernelSource, Steps
from vyre.adapters.pipelines import Compilation
from vyre.domain.errors import BackendError, KernelCompileFailed, UnsupportedFeature
from vyre.domain.float_mode import in_default_mode
from vyre.domain.identity import program_digest
from vyre.domain.ir.node_facts import node_facts
from vyre.domain.names import Dim3
from vyre.policies.journal import DecisionSink, decide
from vyre.ports.interrupts import sealed, undisturbed

MODULES: Final = 2048
LEAST_SPENT_NS: Final = 1_000_000
"""The processor time of a kernel's launches, in nanoseconds, below which no compilation pays.

The decision about it takes a tenth of that, and is not taken a second time before.
"""


class LoadedKernels(NamedTuple):
    """Code in memory: for each kernel its layout and the address of its function.  ``code`` keeps the memory."""

    code: MachineCode
    kernels: tuple[KernelLayout, ...]
    functions: tuple[int, ...]
    lanes: int
    effort: Effort


class KernelModule:
    """The kernels of a program in one variant; ``loaded`` is replaced when better code is there.

    ``nodes`` is the size of the program, ``options`` are those of the variant.  A launch keeps a reference to the code
    that it runs.
    """

    def __init__(
        self,
        cache: KernelCache,
        source: KernelSource,
        options: EmitOptions,
        loaded: LoadedKernels,
        light_ns: int | None,
    ) -> None:
        self._cache = cache
        self._source = source
        self._light_ns = light_ns
        self.loaded: LoadedKernels = loaded
        self.program: Final = source.program
        self.nodes: Final = node_facts(source.program).nodes
        self.options: Final = options
        self.launches: int = 0
        self.spent_ns: int = 0
        self._due = 2 if cache.recompiles and loaded.effort is not Effort.FULL else 0
        self._pending = False
        self._decided: EffortInputs | None = None

    def explain_effort(self, sink: DecisionSink | None) -> None:
        """Reports the decision about the effort that made the present code, or makes the next, to ``sink``."""
        stored = self.loaded.effort is Effort.FULL
        decide(sink, compiler_effort, replace(self._decided or self._inputs(), stored=stored))

    def took(self, ns: int, runs: int = 1) -> None:
        """Records the processor time of so many runs of the module, and compiles it again when that pays."""
        self.launches += runs
        self.spent_ns += ns
        if self._due and self.launches >= self._due and (self._decided is None or self.spent_ns >= LEAST_SPENT_NS):
            self._decide()

    def _decide(self) -> None:
        self._due = 2 * self.launches
        cache = self._cache
        if self._pending or not cache.recompiles:
            return
        self._decided = self._inputs()
        verdict = decide(cache.maker.decisions, compiler_effort, self._decided)
        if isinstance(verdict, FullEffort):
            self._pending, self._due = True, 0
            cache.compile_later(self._recompile)

    def _inputs(self) -> EffortInputs:
        return EffortInputs(
            launches=self.launches,
            spent_ns=self.spent_ns,
            nodes=self.nodes,
            light_ns=self._light_ns,
            compiler=self._cache.maker.can_compile,
            quick=self.loaded.effort is Effort.QUICK,
        )

    def _recompile(self) -> None:
        counters = self._cache.counters
        try:
            self.loaded = self._cache.load(self._cache.maker.full(self._source, self.options))
        except BackendError:  # the present code goes on serving
            counters.full_compile_failures += 1
            return
        counters.swaps += 1


class Key(NamedTuple):
    """The identity of a module: the program's digest, the workgroup that it is launched with, options and constants.

    It is hashed without a call of Python.
    """

    program: bytes
    workgroup: Dim3
    options: EmitOptions
    constants: bytes

    def __str__(self) -> str:
        return f"kernels of program {self.program.hex()}, {self.workgroup}, {self.options.lanes} lanes"


class KernelCache:
    """Loaded modules by identity.  ``recompile`` says whether hot ones are compiled again."""

    def __init__(self, maker: CodeMaker, counters: Counters, *, recompile: bool, limit: int = MODULES) -> None:
        self.maker: Final = maker
        self.counters: Final = counters
        self.recompiles: bool = recompile
        self._modules: MemoryCache[Key, KernelModule] = MemoryCache(
            MemoryBudget(entries=limit), now_ns=counters.now_ns, sink=maker.decisions
        )
        self._queue: list[Callable[[], None]] = []
        self._thread: threading.Thread | None = None
        self._lock = process_lock()

    def get(
        self, source: KernelSource, options: EmitOptions, told: Callable[[Compilation], object] | None = None
    ) -> KernelModule:
        """Returns the module of ``source``.

        ``told`` is called with the compilation if the module was made for this call.  Raises ``KernelCompileFailed``
        with the compiler's log, ``BackendUnavailable`` without a compiler, and the errors of the emitter.
        """
        key = Key(program_digest(source.program), source.sized.workgroup_size, options, source.constants)
        module = self._modules.get(key)
        if module is not None:
            self.counters.kernel_cache_hits += 1
            return module
        self.counters.kernel_cache_misses += 1
        return self._modules.get_or_build(key, partial(self._build, source, options, told))

    def load(self, code: Code) -> LoadedKernels:
        """Returns an object as loaded kernels.

        Raises ``KernelCompileFailed`` if it is unusable, and ``UnsupportedFeature`` if it takes too much of the stack.
        """
        image = self.maker.tools.load(code.image)
        try:
            functions = tuple([image.addresses[kernel.entry] for kernel in code.layout.kernels])
        except KeyError as error:
            raise KernelCompileFailed(backend="cpu", compiler_log=f"the object has no function {error}") from None
        largest = max(map(frame_bytes, functions), default=0)
        if largest > MOST_FRAME:
            raise UnsupportedFeature(
                feature=f"a program whose lanes keep {largest} bytes at once, of {MOST_FRAME}",
                backend="cpu",
                fix="divide the program into several, or run it on `reference`.",
            )
        return LoadedKernels(image, code.layout.kernels, functions, code.layout.lanes, code.layout.effort)

    def discard(self, programs: Collection[bytes] | None) -> None:
        """Removes the modules of these programs, or all for None; they are made anew when they are next needed."""
        self._modules.discard_where(lambda key: programs is None or key.program in programs)

    @in_default_mode
    def compile_later(self, work: Callable[[], None]) -> None:
        """Calls ``work`` in a background thread, after all work that was passed before."""
        undisturbed(self._later, work)

    def _later(self, work: Callable[[], None]) -> None:
        with self._lock, sealed:
            self._queue.append(work)
            if self._thread is not None:
                return
            self._thread = threading.Thread(target=self._work, name="vyre-cpu-compile", daemon=True)
            try:
                self._thread.start()
            except RuntimeError:  # no more threads, or the interpreter exits: the light code goes on serving
                self._thread = None
                self._queue.clear()

    def close(self) -> None:
        """Forgets all work for the background."""
        with self._lock, sealed:
            self.recompiles = False
            self._queue.clear()

    def __len__(self) -> int:
        return len(self._modules)

    # ---- details
    def _work(self) -> None:
        while True:
            with self._lock, sealed:
                if not self._queue:
                    self._thread = None
                    return
                work = self._queue.pop(0)
            work()

    def _build(
        self, source: KernelSource, options: EmitOptions, told: Callable[[Compilation], object] | None
    ) -> Built[KernelModule]:
        steps = Steps(self.counters.now_ns)
        code = self.maker.code(source, options, steps)
        try:
            with steps.step("load"):
                loaded = self.load(code)
        except KernelCompileFailed:
            if code.compile_ns is not None:
                raise
            code = self.maker.anew(source, options, steps)  # what was stored is whole, but does not fit this machine
            with steps.step("load"):
                loaded = self.load(code)
        if told is not None:
            told(steps.done())
        return Built(KernelModule(self, source, options, loaded, code.compile_ns), len(code.image))
