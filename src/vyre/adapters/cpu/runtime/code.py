"""From a program to an object of machine code: read from the artifact store, or emitted, compiled and stored.

An entry of the store begins with the code of light effort, or of the quick one, by which long texts are compiled;
that of full effort takes its place.  Without a compiler, code that another version of it has made serves as well:
all versions give the same bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from vyre.adapters.cpu.aot.choice import choose, refusals
from vyre.adapters.cpu.ids import CPU
from vyre.adapters.cpu.native.compilation import Effort
from vyre.adapters.cpu.runtime.artifact_keys import object_keys, of_another_compiler
from vyre.adapters.cpu.runtime.counters import Counters
from vyre.adapters.cpu.runtime.stored_form import CodeLayout, KernelLayout, decode_layout, encode_layout
from vyre.adapters.cpu.runtime.tools import Tools
from vyre.adapters.host.stored_code import KeyMakers, StoredCode, layout_in
from vyre.adapters.kernel_source import KernelSource, Steps
from vyre.adapters.optimizing import prepared
from vyre.domain.artifact_key import ArtifactKey
from vyre.domain.errors import BackendUnavailable, MalformedWire, UnusableBundle
from vyre.policies.journal import DecisionSink, decide
from vyre.ports.artifact_store import Artifact, ArtifactStore
from vyre.ports.backend import BackendServices

if TYPE_CHECKING:
    from vyre.adapters.cpu.llvm.emit import EmittedCode
    from vyre.adapters.cpu.llvm.options import EmitOptions


class Code(NamedTuple):
    """An object and its layout.

    ``compile_ns`` is the time that compiling took, None for stored code.
    """

    image: bytes
    layout: CodeLayout
    compile_ns: int | None = None


class CodeMaker(StoredCode):
    """Makes the code of one backend.  Its methods may be called from any thread."""

    def __init__(self, tools: Tools, services: BackendServices, counters: Counters) -> None:
        super().__init__(CPU, services)
        self.tools: Final = tools
        self._counters = counters
        self._keys: KeyMakers[EmitOptions] = KeyMakers()

    @property
    def can_compile(self) -> bool:
        """Returns whether a compiler is installed."""
        return self.tools.version() is not None

    def code(self, source: KernelSource, options: EmitOptions, steps: Steps) -> Code:
        """Returns the code of a loaded bundle, the best stored code of ``source``, or that of light or quick effort,
        compiled now.

        Raises ``MalformedBundle``, and the errors of the emitter and of the compiler; no failure of the store is an
        error.
        """
        bundled = choose(source, options, self.tools.features)
        if bundled is not None:
            self._counters.stored_loads += 1
            return Code(bundled.artifact.code, layout_in(bundled, decode_layout))
        store = self._store if self._opened else self._open()
        if store is None:
            steps.missed = ""
            return self._made(source, options, steps)
        with steps.step("read"):
            stored = self._stored(store, self._key(source, options))
        if stored is not None:
            self._counters.stored_loads += 1
            return stored
        return self.anew(source, options, steps)

    def anew(self, source: KernelSource, options: EmitOptions, steps: Steps) -> Code:
        """Returns the code of light or quick effort, compiled now, and stores it."""
        store = self._open()
        if store is not None:
            steps.explain(self._services, store, self._key(source, options))
        code = self._made(source, options, steps)
        if store is not None:
            with steps.step("store"):
                self._put(store, self._key(source, options), code)
        return code

    def full(self, source: KernelSource, options: EmitOptions) -> Code:
        """Returns the code of full effort, compiled in another process, and stores it."""
        steps = Steps(self._counters.now_ns)
        emitted = self._emitted(source, options, steps)
        with steps.step("compile"):
            image = self.tools.compile_apart(emitted.text, self.tools.features, Effort.FULL)
        code = Code(image, layout_of(emitted, Effort.FULL), steps.spent_ns("compile"))
        self._counters.full_compiles += 1
        self._counters.full_compile_ns += steps.spent_ns("compile")
        store = self._open()
        if store is not None:
            self._put(store, self._key(source, options), code)
        return code

    # ---- details
    def _made(self, source: KernelSource, options: EmitOptions, steps: Steps) -> Code:
        emitted = self._emitted(source, options, steps)
        effort = first_choice(emitted.text, self.decisions)
        with steps.step("compile"):
            try:
                image = self.tools.compile(emitted.text, self.tools.features, effort)
            except BackendUnavailable as error:
                refused = refusals(source, options, self.tools.features)
                if refused:
                    raise UnusableBundle(device=f"`cpu` ({self.tools.features.text})", refused=refused) from error
                name = source.program.name or "unnamed"
                error.add_note(f"`{name}` is not among the kernels that are stored, which run without the compiler.")
                raise
        self._counters.compiles += 1
        self._counters.compile_ns += steps.spent_ns("compile")
        return Code(image, layout_of(emitted, effort), steps.spent_ns("compile"))

    def _emitted(self, source: KernelSource, options: EmitOptions, steps: Steps) -> EmittedCode:
        program = prepared(source, options.passes, steps, self._services.device_passes, counting=options.counting)
        with steps.step("emit"):
            emitted = self.tools.emit(program, options, source.literals, self.decisions)
        self._counters.emits += 1
        self._counters.emit_ns += steps.spent_ns("emit")
        return emitted

    def _key(self, source: KernelSource, options: EmitOptions) -> ArtifactKey:
        return self._keys.key(
            source, options, lambda: object_keys(self.tools.features, options, self.tools.version() or "")
        )

    def _stored(self, store: ArtifactStore, key: ArtifactKey) -> Code | None:
        artifact = store.get(key)
        if artifact is None and not self.can_compile:
            artifact = of_another_compiler(store, key)
        if artifact is None:
            return None
        try:
            return Code(artifact.code, decode_layout(artifact.metadata))
        except MalformedWire as error:  # the file is whole, but its content is no object
            self._warn("vyre.compile.unusable", problem=error.message)
            return None

    def _put(self, store: ArtifactStore, key: ArtifactKey, code: Code) -> None:
        store.put(key, Artifact(encode_layout(code.layout), code.image, max(0, code.compile_ns or 0)))


def first_choice(text: str, sink: DecisionSink | None) -> Effort:
    """Returns the effort for the first code of an emitted text; ``sink`` receives the decision."""
    from vyre.adapters.cpu.decisions.effort_choice import QuickEffort, TextInputs, first_effort

    inputs = TextInputs(blocks=text.count(":\n"), lines=text.count("\n"))
    verdict = decide(sink, first_effort, inputs)
    return Effort.QUICK if isinstance(verdict, QuickEffort) else Effort.LIGHT


def layout_of(emitted: EmittedCode, effort: Effort) -> CodeLayout:
    """Returns what a launcher must know of emitted code that this effort compiles."""
    kernels = tuple(KernelLayout(*kernel) for kernel in emitted.kernels)
    return CodeLayout(emitted.lanes, effort, kernels)
