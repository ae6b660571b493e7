"""Prediction of what a session runs next, and its preparation in the background.

A shape is a program under a config with inputs of certain lengths.  A prediction can only name a shape seen before, so
as long as every such shape stays prepared, prediction is of no use: then a dispatch adds one entry to a bounded log and
does nothing else.  Once a known shape had to be prepared again, because a bounded table evicted it or the device was
reopened, the predictor learns from the log, and every dispatch requests a prediction, until for ``patience`` dispatches
no known shape was missed and no shape prepared ahead was used.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY
from functools import partial
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple, TypeAlias

from vyre.adapters.forks import is_held_here, process_lock
from vyre.app.host_arrays import Shapes
from vyre.app.pipeline import OutArrays, Pipeline
from vyre.app.shape_predictor import ShapePredictor
from vyre.domain.errors import VyreError
from vyre.policies.journal import DecisionSink, decide
from vyre.policies.prediction.shape_prediction import LEARNING, Prediction, PredictionThresholds
from vyre.policies.prediction.trace_jit import (
    DEFAULT_THRESHOLDS,
    Speculate,
    TraceJitInputs,
    TraceJitThresholds,
    TraceJitVerdict,
    decide_trace_jit_speculation,
)
from vyre.policies.record import U32_MAX, IntRange, record
from vyre.ports.execution import Phases, PreparablePipeline
from vyre.ports.interrupts import sealed

if TYPE_CHECKING:
    from vyre.adapters.telemetry.guarded import GuardedTelemetry
    from vyre.app.asynchrony.futures import Submitted
    from vyre.app.background import BackgroundCompiler
    from vyre.app.lease import BackendLease
    from vyre.app.preparing import PreparedPipelines, Wanted
    from vyre.app.result import Result
    from vyre.domain.dispatch import DispatchConfig, OutputArena
    from vyre.domain.ir.program import Program
    from vyre.ports.requests import HostBytes, OutputStorage

Bound: TypeAlias = Annotated[int, IntRange(1, U32_MAX)]
_LEARNED_AT_ONCE: Final = 8
"""Maximum of log entries that one dispatch learns from, so that a long log delays no dispatch for long."""


@record
class PredictionConfig:
    """Settings of prediction.

    ``learning``, ``jit``: thresholds of the two policies.  ``patience``: number of dispatches without any use after
    which predicting stops.  ``shapes``: maximum of remembered shapes.  ``log``: maximum of logged dispatches to learn
    from. ``decisions``: number of last decisions that a report shows.
    """

    _: KW_ONLY
    learning: PredictionThresholds = LEARNING
    jit: TraceJitThresholds = DEFAULT_THRESHOLDS
    shapes: Bound = 1024
    log: Bound = 256
    patience: Annotated[int, IntRange(0, U32_MAX)] = 1024
    decisions: Annotated[int, IntRange(0, U32_MAX)] = 32


class PredictionDecision(NamedTuple):
    """The decision whether a predicted shape that was not ready is prepared ahead.  ``shape``: its description."""

    shape: str
    prediction: Prediction[str]
    verdict: TraceJitVerdict

    @property
    def prepares(self) -> bool:
        """Whether the shape is prepared in the background."""
        return isinstance(self.verdict, Speculate)

    def __str__(self) -> str:
        return f"{self.shape}: {'prepare' if self.prepares else 'wait'}: {self.verdict.why} ({self.prediction.why})"


class PredictionReport(NamedTuple):
    """Counts of what prediction did in a session so far.

    ``asking``: whether dispatches request predictions now.  ``shapes``: number of remembered shapes.  ``asked``:
    predictions that the next dispatch could check; of these ``right`` and ``wrong``.  ``missed``: known shapes or
    programs that a dispatch had to prepare again.  ``ahead``: shapes prepared in the background; of these a dispatch
    ``used`` some. ``failed``: predicted shapes that could not be prepared.  ``dropped``: background work of the session
    that newer requests or its end displaced.
    """

    enabled: bool
    asking: bool = False
    shapes: int = 0
    asked: int = 0
    right: int = 0
    wrong: int = 0
    missed: int = 0
    ahead: int = 0
    used: int = 0
    failed: int = 0
    dropped: int = 0
    decisions: tuple[PredictionDecision, ...] = ()

    def __str__(self) -> str:
        if not self.enabled:
            return "prediction is off"
        lines = [
            f"{self.shapes} shape(s) known, {self.missed} missed; {self.right} of {self.asked} guesses came true; "
            f"{self.ahead} prepared ahead, {self.used} of them used, {self.failed} failed, {self.dropped} dropped"
        ]
        return "\n".join([*lines, *(f"  {decision}" for decision in self.decisions)])


Kind: TypeAlias = "Callable[[BackendLease, Program, DispatchConfig, Phases], Pipeline]"
Prepare: TypeAlias = "Callable[[Program, DispatchConfig, Kind], Pipeline]"
OFF: Final = PredictionReport(enabled=False)


class Kernel:
    """A program under a config.  ``compile_ns``: time of its last compilation in nanoseconds, 0 if there was none."""

    __slots__ = ("compile_ns", "hits", "shapes", "wanted")

    def __init__(self, wanted: Wanted) -> None:
        self.wanted: Wanted = wanted
        self.shapes: dict[tuple[int, ...], Shape] = {}
        self.compile_ns: int = 0
        self.hits: int = 0


class Shape:
    """A kernel with inputs of certain lengths.

    ``prepare_ns``: nanoseconds that a dispatch last took to prepare it.  ``ahead``: whether it was prepared in the
    background and not used since.  ``hopeless``: whether its preparation failed.
    """

    __slots__ = ("ahead", "hopeless", "kernel", "nbytes", "prepare_ns")

    def __init__(self, kernel: Kernel, nbytes: tuple[int, ...]) -> None:
        self.kernel: Kernel = kernel
        self.nbytes: tuple[int, ...] = nbytes
        self.prepare_ns: int = 0
        self.ahead: bool = False
        self.hopeless: bool = False

    def __str__(self) -> str:
        title = self.kernel.wanted.program.name or "unnamed"
        return f"{title}, inputs of {', '.join(map(str, self.nbytes)) or 'no'} bytes"


class ObservedPipeline(Pipeline):
    """A pipeline that reports its runs to an observer; its results are those of a ``Pipeline``.

    ``anew``: whether a dispatch waited for its compilation although the program had been compiled before.
    """

    __slots__ = ("_kernel", "_observer", "_preparable", "anew")

    def __init__(
        self, observer: ShapeObserver, kernel: Kernel, lease: BackendLease, program: Program, config: DispatchConfig,
        before: Phases,
    ) -> None:  # fmt: skip
        super().__init__(lease, program, config, before)
        self._observer = observer
        self._kernel = kernel
        self.anew: bool = False
        self._preparable = self._compiled if isinstance(self._compiled, PreparablePipeline) else None

    def run(
        self,
        views: tuple[HostBytes, ...],
        out: OutArrays | None,
        outputs: OutputArena | None,
        shapes: Shapes | None = None,
    ) -> Result:
        """Reports the run to the observer, then runs as ``Pipeline.run``."""
        if self._lease.closed:
            self._lease.check_open()
        self._observer.saw(self, self._kernel, tuple([view.nbytes for view in views]))
        return super().run(views, out, outputs, shapes)

    def fill(self, views: Sequence[HostBytes], storage: OutputStorage) -> None:
        """Reports the run to the observer, then runs as ``Pipeline.fill``."""
        if self._lease.closed:
            self._lease.check_open()
        self._observer.saw(self, self._kernel, tuple([view.nbytes for view in views]))
        super().fill(views, storage)

    def _submit(self, views: tuple[HostBytes, ...], future: Submitted[Result], shapes: Shapes | None = None) -> bool:
        """Reports the run to the observer, then submits as ``Pipeline.submit``."""
        if self._lease.backend.async_executor is not None:  # else ``run`` follows
            self._observer.saw(self, self._kernel, tuple([view.nbytes for view in views]))
        return super()._submit(views, future, shapes)

    def is_prepared(self, nbytes: tuple[int, ...]) -> bool:
        """Returns whether everything that a dispatch of such inputs needs exists already."""
        return self._preparable is None or self._preparable.is_prepared(nbytes)

    def prepare(self, nbytes: tuple[int, ...]) -> None:
        """Makes what a dispatch of such inputs needs; raises what the dispatch would raise."""
        if self._preparable is not None:
            self._preparable.prepare(nbytes)


class ShapeObserver:
    """Observes every dispatch of a session; every method may be called from any thread.

    ``pipelines``: those of the session.  ``prepare``: compiles a program under a config to a pipeline of a kind.
    """

    def __init__(
        self,
        config: PredictionConfig,
        telemetry: GuardedTelemetry,
        background: BackgroundCompiler,
        pipelines: PreparedPipelines,
        prepare: Prepare,
        sink: DecisionSink | None = None,
    ) -> None:
        self._config, self._telemetry, self._pipelines, self._prepare = config, telemetry, pipelines, prepare
        self._background, self._sink, self._now_ns = background, sink, telemetry.now_ns
        self._predictor: ShapePredictor[Shape] = ShapePredictor(config.learning)
        self._kernels: OrderedDict[tuple[object, ...], Kernel] = OrderedDict()
        self._shapes: deque[Shape] = deque()
        self._log: deque[Shape] = deque(maxlen=config.log)
        self._decisions: deque[PredictionDecision] = deque(maxlen=config.decisions)
        self._expected: Shape | None = None
        self._attention = 0
        self._asked = self._right = self._missed = self._ahead = self._used = self._failed = 0
        self._lock = process_lock()
        self._learning = process_lock()

    # ---- from the session
    def compile(self, wanted: Wanted, *, ahead: bool = False) -> Pipeline:
        """Returns the requested pipeline, as an observed one.  ``ahead``: whether it is prepared in the background."""
        kernel = self._kernel(wanted)
        again, started = kernel.compile_ns > 0, self._now_ns()
        pipeline = self._prepare(wanted.program, wanted.merged, partial(ObservedPipeline, self, kernel))
        kernel.compile_ns = max(1, self._now_ns() - started)
        assert isinstance(pipeline, ObservedPipeline)  # the kind that was requested
        pipeline.anew = again and not ahead
        return pipeline

    def saw(self, pipeline: ObservedPipeline, kernel: Kernel, nbytes: tuple[int, ...]) -> None:
        """Records that a dispatch of ``kernel`` on inputs of these lengths is about to run.  Never raises."""
        shape = kernel.shapes.get(nbytes)
        if shape is None or pipeline.anew or not pipeline.is_prepared(nbytes):
            shape = self._unready(pipeline, kernel, nbytes)
        elif shape.ahead:
            shape.ahead = False
            self._used += 1
            self._attention = self._config.patience
        self._log.append(shape)
        if self._attention > 0:
            self._attention -= 1
            self._learn()

    def report(self) -> PredictionReport:
        """Returns the counts so far, and the last decisions."""
        with self._lock, sealed:
            return PredictionReport(
                enabled=True,
                asking=self._attention > 0,
                shapes=len(self._shapes),
                asked=self._asked,
                right=self._right,
                wrong=self._asked - self._right,
                missed=self._missed,
                ahead=self._ahead,
                used=self._used,
                failed=self._failed,
                dropped=self._background.counts().dropped,
                decisions=tuple(self._decisions),
            )

    # ---- details
    def _kernel(self, wanted: Wanted) -> Kernel:
        with self._lock, sealed:
            kernel = self._kernels.get(wanted.key)
            if kernel is None:
                kernel = self._kernels[wanted.key] = Kernel(wanted)
                if len(self._kernels) > self._config.shapes:
                    self._kernels.popitem(last=False)
            return kernel

    def _add(self, kernel: Kernel, nbytes: tuple[int, ...]) -> Shape:
        with self._lock, sealed:
            shape = kernel.shapes.get(nbytes)
            if shape is None:
                shape = kernel.shapes[nbytes] = Shape(kernel, nbytes)
                self._shapes.append(shape)
                if len(self._shapes) > self._config.shapes:
                    oldest = self._shapes.popleft()
                    oldest.kernel.shapes.pop(oldest.nbytes, None)
            return shape

    def _unready(self, pipeline: ObservedPipeline, kernel: Kernel, nbytes: tuple[int, ...]) -> Shape:
        """Prepares the shape as the dispatch would, to measure what that costs."""
        shape = kernel.shapes.get(nbytes)
        if shape is not None or pipeline.anew:
            self._missed += 1
            self._attention = self._config.patience
            pipeline.anew = False
        shape = shape or self._add(kernel, nbytes)
        self._background.forget(shape)
        started = self._now_ns()
        try:
            pipeline.prepare(nbytes)
            shape.prepare_ns = self._now_ns() - started
        except VyreError:
            pass  # the dispatch raises it
        return shape

    def _learn(self) -> None:
        """Learns from the log and requests a prediction, unless this thread is doing so."""
        if is_held_here(self._learning):
            return
        with self._learning, sealed:
            log = self._log
            for _ in range(min(len(log), _LEARNED_AT_ONCE)):
                self._record(log.popleft())
            if not log:
                self._ask()

    def _record(self, shape: Shape) -> None:
        shape.kernel.hits = min(shape.kernel.hits + 1, U32_MAX)
        expected, self._expected = self._expected, None
        if expected is not None:
            self._asked += 1
            self._right += expected is shape
        self._predictor.record(shape)

    def _ask(self) -> None:
        prediction = self._predictor.predict()
        if prediction is None:
            return
        shape = self._expected = prediction.shape
        if shape.hopeless or self._is_ready(shape):
            return
        verdict = self._decide(shape, prediction.confidence_bps)
        told = Prediction(str(shape), prediction.confidence_bps, prediction.why)
        self._decisions.append(PredictionDecision(told.shape, told, verdict))
        if isinstance(verdict, Speculate):
            self._background.wish(shape, lambda: self._prepare_ahead(shape))

    def _is_ready(self, shape: Shape) -> bool:
        pipeline = self._pipelines.held(shape.kernel.wanted.key)
        return isinstance(pipeline, ObservedPipeline) and pipeline.is_prepared(shape.nbytes)

    def _decide(self, shape: Shape, confidence_bps: int) -> TraceJitVerdict:
        """Decides whether to prepare: work of an idle background thread costs nothing, that of a busy one what it
        delays others.
        """
        missing = self._pipelines.held(shape.kernel.wanted.key) is None
        miss_ns = shape.prepare_ns + (shape.kernel.compile_ns if missing else 0)
        cost_ns = miss_ns * self._background.load_bps // 10_000
        inputs = TraceJitInputs(shape.kernel.hits, min(confidence_bps, 10_000), cost_ns, miss_ns)
        return decide(self._sink, decide_trace_jit_speculation, inputs, self._config.jit)

    def _prepare_ahead(self, shape: Shape) -> None:
        """Runs on the background thread; does nothing if a dispatch was faster."""
        if self._is_ready(shape):
            return
        try:
            pipeline = self._pipelines.get_ahead(shape.kernel.wanted, partial(self.compile, ahead=True))
            assert isinstance(pipeline, ObservedPipeline)  # ``compile`` makes no other
            pipeline.prepare(shape.nbytes)
        except BaseException:
            shape.hopeless = True
            self._failed += 1
            raise
        shape.ahead = True
        self._ahead += 1
        self._telemetry.count("vyre.prediction.ahead")
