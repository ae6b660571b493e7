"""From a program to an object of machine code: read from the artifact store, or emitted, compiled and stored.

An entry of the store begins with the code of the light pipeline, or of the quick one, by which long texts are compiled;
that of the full pipeline takes its place.  Without a compiler, code that another version of it has made serves as well:
all versions give the same bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from vyre.adapters.cpu.decisions.pipeline_choice import QuickPipeline, TextInputs, first_pipeline
from vyre.adapters.cpu.ids import CPU
from vyre.adapters.cpu.native.compilation import Pipeline
from vyre.adapters.cpu.runtime.artifact_keys import ObjectKeys, of_another_compiler
from vyre.adapters.cpu.runtime.counters import Counters
from vyre.adapters.cpu.runtime.stored_form import CodeLayout, KernelLayout, decode_layout, encode_layout
from vyre.adapters.cpu.runtime.tools import Tools
from vyre.adapters.kernel_source import KernelSource, Steps
from vyre.adapters.optimizing import prepared
from vyre.domain.artifact_key import ArtifactKey
from vyre.domain.errors import MalformedWire
from vyre.policies.caching.cache_outcome import explain_miss
from vyre.policies.journal import DecisionSink, decide
from vyre.ports.artifact_store import Artifact, ArtifactStore
from vyre.ports.backend import BackendServices

if TYPE_CHECKING:
    from vyre.adapters.cpu.llvm.emit import EmittedCode
    from vyre.adapters.cpu.llvm.options import EmitOptions

MAKERS: Final = 64
"""The number of ways of compiling whose key makers are kept."""


class Code(NamedTuple):
    """An object and its layout.

    ``compile_ns`` is the time that compiling took, None for stored code.
    """

    image: bytes
    layout: CodeLayout
    compile_ns: int | None = None


class CodeMaker:
    """Makes the code of one backend.  Its methods may be called from any thread."""

    def __init__(self, tools: Tools, services: BackendServices, counters: Counters) -> None:
        self.tools: Final = tools
        self.decisions: Final = services.decisions
        """The sink of decisions about the code."""
        self._services = services
        self._counters = counters
        self._store: ArtifactStore | None = None
        self._opened = False
        self._keys: dict[EmitOptions, ObjectKeys] = {}

    @property
    def can_compile(self) -> bool:
        """Returns whether a compiler is installed."""
        return self.tools.version() is not None

    @property
    def optimizes(self) -> bool:
        """Returns whether the session allows the optimizer."""
        return self._services.optimize

    def code(self, source: KernelSource, options: EmitOptions, steps: Steps) -> Code:
        """Returns the best stored code of ``source``, or that of the light or quick pipeline, compiled now.

        Raises the errors of the emitter and of the compiler; no failure of the store is an error.
        """
        store = self._store if self._opened else self._open()
        if store is None:
            steps.missed = ""
            return self._made(source, options, steps)
        with steps.step("read"):
            found = self._stored(store, self._key(source, options))
        if found is not None:
            self._counters.stored_loads += 1
            return found
        return self.anew(source, options, steps)

    def anew(self, source: KernelSource, options: EmitOptions, steps: Steps) -> Code:
        """Returns the code of the light or quick pipeline, compiled now, and stores it."""
        store = self._open()
        if store is not None:
            self._explain(store, self._key(source, options), steps)
        made = self._made(source, options, steps)
        if store is not None:
            with steps.step("store"):
                self._put(store, self._key(source, options), made)
        return made

    def full(self, source: KernelSource, options: EmitOptions) -> Code:
        """Returns the code of the full pipeline, compiled in another process, and stores it."""
        steps = Steps(self._counters.now_ns)
        emitted = self._emitted(source, options, steps)
        with steps.step("compile"):
            image = self.tools.compile_apart(emitted.text, self.tools.features, Pipeline.FULL)
        made = Code(image, layout_of(emitted, Pipeline.FULL), steps.spent_ns("compile"))
        self._counters.full_compiles += 1
        self._counters.full_compile_ns += steps.spent_ns("compile")
        store = self._open()
        if store is not None:
            self._put(store, self._key(source, options), made)
        return made

    # ---- details
    def _made(self, source: KernelSource, options: EmitOptions, steps: Steps) -> Code:
        emitted = self._emitted(source, options, steps)
        pipeline = first_choice(emitted.text, self.decisions)
        with steps.step("compile"):
            image = self.tools.compile(emitted.text, self.tools.features, pipeline)
        self._counters.compiles += 1
        self._counters.compile_ns += steps.spent_ns("compile")
        return Code(image, layout_of(emitted, pipeline), steps.spent_ns("compile"))

    def _emitted(self, source: KernelSource, options: EmitOptions, steps: Steps) -> EmittedCode:
        program = prepared(source, options.passes, steps, self._services.device_passes)
        with steps.step("emit"):
            emitted = self.tools.emit(program, options, source.literals, self.decisions)
        self._counters.emits += 1
        self._counters.emit_ns += steps.spent_ns("emit")
        return emitted

    def _open(self) -> ArtifactStore | None:
        """Opens the store at first use: a session that compiles nothing opens no directory."""
        if not self._opened:
            self._store = self._services.artifacts()
            self._opened = True
        return self._store

    def _key(self, source: KernelSource, options: EmitOptions) -> ArtifactKey:
        made = self._keys.get(options)
        if made is None:
            if len(self._keys) >= MAKERS:
                self._keys.clear()
            made = self._keys[options] = ObjectKeys(self.tools.features, options, self.tools.version() or "")
        return made.key(source)

    def _stored(self, store: ArtifactStore, key: ArtifactKey) -> Code | None:
        found = store.get(key)
        if found is None and not self.can_compile:
            found = of_another_compiler(store, key)
        if found is None:
            return None
        try:
            return Code(found.code, decode_layout(found.metadata))
        except MalformedWire as error:  # the file is whole, but its content is no object
            self._warn("vyre.compile.unusable", problem=error.message)
            return None

    def _put(self, store: ArtifactStore, key: ArtifactKey, made: Code) -> None:
        store.put(key, Artifact(encode_layout(made.layout), made.image, max(0, made.compile_ns or 0)))

    def _explain(self, store: ArtifactStore, key: ArtifactKey, steps: Steps) -> None:
        miss = decide(self._services.decisions, explain_miss, key, store.neighbours(key))
        if steps.missed is None:
            steps.missed = str(miss.why)
        fields = ",".join(miss.fields)
        self._services.telemetry.count("vyre.compile.miss", kind=key.kind.value, cause=miss.cause.value, fields=fields)

    def _warn(self, name: str, **fields: object) -> None:
        self._services.telemetry.event(name, level="warning", backend=CPU, **fields)


def first_choice(text: str, sink: DecisionSink | None) -> Pipeline:
    """Returns the pipeline for the first code of an emitted text; ``sink`` receives the decision."""
    inputs = TextInputs(blocks=text.count(":\n"), lines=text.count("\n"))
    verdict = decide(sink, first_pipeline, inputs)
    return Pipeline.QUICK if isinstance(verdict, QuickPipeline) else Pipeline.LIGHT


def layout_of(emitted: EmittedCode, pipeline: Pipeline) -> CodeLayout:
    """Returns what a launcher must know of emitted code that this pipeline compiles."""
    kernels = tuple(KernelLayout(*kernel) for kernel in emitted.kernels)
    return CodeLayout(emitted.lanes, pipeline, kernels)
