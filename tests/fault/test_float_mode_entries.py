"""What is public gives in every floating-point mode of its caller what it gives in the default mode.

Each public function and method either is marked as running in the default mode, or one of the questions below asks it
in the other modes.
"""

from __future__ import annotations

import asyncio
import enum
import inspect
import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import is_dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from threading import Event, current_thread, main_thread
from types import GenericAlias, SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np
import pytest

import vyre
from support.limits import LIMIT_S
from support.llvm import BACKENDS, NEEDS_LLVM
from support.reference.float_modes import MODES, SETTABLE, TO_ZERO, UNMASKED, UP, control, float_mode
from vectors.seeds.fusion_pressure import FusionPressureInputs, fusion_pressures
from vectors.seeds.topology import FrontierSample
from vyre import In, InOut, Session, Step, f32, u32
from vyre.adapters.cpu.runtime.counters import Counters
from vyre.adapters.cpu.runtime.kernels import KernelCache
from vyre.adapters.lanes.narrowing import half_bits
from vyre.app.asynchrony.threads import SubmitThreads
from vyre.app.background import BackgroundCompiler
from vyre.ir import Access, EventBuilder, Literal, ScalarType
from vyre.policies.decision_records import Known, from_lines, replay, to_lines
from vyre.policies.journal import Decision, decide
from vyre.ports import NullTelemetry

if TYPE_CHECKING:
    from vyre.adapters.cpu.runtime.code import CodeMaker

pytestmark = pytest.mark.skipif(not SETTABLE, reason="the modes of this platform's floats are not known")

LITERALS: Final = ("1.0e-40f", "0.1f", "3.3f64", "7.0e-310f64", "1.4e-45f", "16777217.0f", "0.3f64")
TEXT: Final = (
    "workgroup_size 1, 1, 1\nbuffer y @0 read_write f32[1]\nbuffer z @1 read_write f64[1]\nbody {\n"
    + "".join(f"  {'z' if text.endswith('f64') else 'y'}[0u] = {text}\n" for text in LITERALS)
    + "  y[0u] = 0.1f * 0.3f / 7.0f + 1.0e-38f * 0.3f\n}\n"
)
PROGRAM: Final = vyre.Program.from_text(TEXT)
JSON: Final = PROGRAM.to_json()
NUMBERS: Final[tuple[Any, ...]] = (
    0.1,
    1e-40,
    3e-45,
    16777217.0,
    -0.3,
    np.float32(1e-40),
    np.float16(6e-8),
    np.float64(0.7),
)
X: Final = (np.arange(1, 65, dtype=np.float32) * np.float32(0.37)) ** 1.5
X[::7] *= np.float32(1e-40)
LIST: Final = X.tolist()


def blur(a: f32, x: In[f32], y: InOut[f32], z: InOut[u32]) -> None:
    i = vyre.global_id()
    if i < len(x):
        y[i] = a * x[i] / 3.0 + 0.1 * y[i] + 1e-41 + vyre.sin(x[i])
        z[i] = u32(x[i] * 1.7)


BLUR: Final = vyre.kernel(blur).program


def inputs(a: Any = 0.1) -> dict[str, Any]:
    return {"a": a, "x": X, "y": X[::-1].copy(), "z": np.zeros(X.size, np.uint32)}


# ---------------------------------------------------------------- without a session
def built() -> object:
    with vyre.ProgramBuilder("built", workgroup=1) as p:
        y, v = p.inout("y", f32), p.var(f32(0.1))
        for at, number in enumerate(NUMBERS):
            v += vyre.fma(v, number, f32(1e-40)) * vyre.sin(f32(number))
            y[at] = v * number + p.let(f32(number))
        s = p.spec("s", 0.1)
        y[0] = s / 3
    return p.build().digest


def collected() -> object:
    b = EventBuilder("collected", workgroup=1)
    b.buffer("y", ScalarType.F32, Access.READ_WRITE)
    for number in NUMBERS:
        b.store("y", Literal.of(ScalarType.U32, 0), Literal.of(ScalarType.F32, number))
    return b.build().to_wire(), [Literal.of(ScalarType.F64, number).value for number in NUMBERS]


def numbers() -> object:
    found = vyre.SpecMap({f"n{at}": vyre.SpecValue.f32(number) for at, number in enumerate(NUMBERS)})
    return found.canonical_bytes(), vyre.DispatchConfig(spec=found).spec == found


def kernel() -> object:
    made = vyre.kernel(blur)
    return made.program.digest, made.specialize().to_text(), made[4].program.digest


def inlined() -> object:
    tenth = vyre.function(_tenth)

    def calling(y: InOut[f32]) -> None:
        y[0] = tenth(y[0])

    return vyre.kernel(calling).program.digest


def _tenth(v: f32) -> f32:
    return v * 0.1 + 1e-41


SAMPLES: Final = [FrontierSample(number, 0.3, 7) for number in (3.7, 0.1, 12.9)]


def decided() -> object:
    return decide(None, fusion_pressures, FusionPressureInputs(tuple(SAMPLES), 1.3, n_steps=7, dt=0.3))


class _Kept:
    """A sink that has the last decision."""

    keeps = True

    def note(self, decision: Decision) -> None:
        self.last = decision


def recorded() -> str:
    """A journal of the decision."""
    kept = _Kept()
    decide(kept, fusion_pressures, FusionPressureInputs(tuple(SAMPLES), 1.3, n_steps=7, dt=0.3))
    return to_lines([kept.last], lambda _: "1")


JOURNAL: Final = recorded()


def replayed() -> object:
    (record,) = from_lines(JOURNAL)
    return replay(record, lambda _: Known(fusion_pressures, "1")).reproduced


PURE: Final[dict[str, Callable[[], object]]] = {
    "from_text": lambda: vyre.Program.from_text(TEXT).digest,
    "from_json": lambda: vyre.Program.from_json(JSON).to_wire(),
    "from_wire": lambda: vyre.Program.from_wire(PROGRAM.to_wire()).to_text(),
    "to_json": PROGRAM.to_json,
    "digest": lambda: vyre.Program(PROGRAM.buffers, PROGRAM.workgroup_size, PROGRAM.body).digest,
    "builder": built,
    "event builder": collected,
    "constants": numbers,
    "kernel": kernel,
    "function": inlined,
    "validate": lambda: str(vyre.validate(vyre.Program.from_text(TEXT))),
    "optimize": lambda: vyre.optimize(vyre.Program.from_text(TEXT)).program.to_text(),
    "emit ptx": lambda: vyre.emit(vyre.Program.from_text(TEXT), target="sm_80").text,
    "decision": decided,
    "replay": replayed,
}


@cache
def usual(name: str) -> object:
    """What a question is answered in the default mode."""
    return PURE[name]()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", PURE)
def test_answers_without_a_session(name: str, mode: str) -> None:
    expected = usual(name)
    with float_mode(mode) as ours:
        found = PURE[name]()
        assert control() == ours
    assert found == expected


# ---------------------------------------------------------------- with a session
def taken(*results: Any) -> list[bytes]:
    return [np.asarray(result[name]).tobytes() for result in results for name in ("y", "z")]


def called(session: Session) -> object:
    made, found = vyre.kernel(blur), []
    for number in (*NUMBERS, 0.7, 3e-45):
        y, z = X[::-1].copy(), np.zeros(X.size, np.uint32)
        made(number, X, y, z)
        made.over(64)(number, X, y, z)
        found += [y.tobytes(), z.tobytes()]
    return found


def dispatched(session: Session) -> object:
    lists: dict[str, Any] = {"a": 1e-40, "x": [*LIST[1:], 1e-46], "y": LIST[::-1], "z": [0] * len(LIST)}
    several = session.dispatch_many(BLUR, [inputs(0.1), inputs(3e-45)])
    return taken(
        session.dispatch(BLUR, inputs()), session.dispatch(BLUR, lists), session.bind(BLUR, inputs())(), *several
    )


def specialized(session: Session) -> object:
    pipeline = session.specialize(BLUR, ["a"])
    return taken(*[pipeline(inputs(0.3)) for _ in range(4)])


def resident(session: Session) -> object:
    found = []
    for run in ("launch", "sequence"):
        with session.resident(inputs()["y"]) as y, session.resident(inputs()["z"]) as z:
            memory: dict[str, Any] = {"a": 0.3, "x": X, "y": y, "z": z}
            if run == "launch":
                session.bind_resident(BLUR, memory)()
            else:
                session.sequence([Step(BLUR, memory)])(2)
            found += taken({"y": y.download(), "z": z.download()})
    return found


def submitted(session: Session) -> object:
    async def awaited() -> vyre.Result:
        return await session.dispatch_async(BLUR, inputs())

    called_back: list[int] = []
    future = session.submit(BLUR, inputs())
    future.add_done_callback(lambda _: called_back.append(control()))
    return taken(future.result(LIMIT_S), asyncio.run(asyncio.wait_for(awaited(), LIMIT_S)))


def persistent(session: Session) -> object:
    if session.backend != "cpu":
        return taken(session.dispatch(BLUR, inputs(0.3)), session.dispatch(BLUR, inputs(1e-40)))
    with session.persistent(BLUR, inputs()) as jobs:
        return taken(*[jobs.submit(inputs(number)).result(LIMIT_S) for number in (0.3, 1e-40)])


def asked(session: Session) -> object:
    with session.queries(BLUR, {"a": 0.3, "x": X}) as queries:
        found = queries({"y": np.stack([X, X[::-1]]), "z": np.zeros((2, X.size), np.uint32)})
        return [np.asarray(row).tobytes() for name in ("y", "z") for row in found[name]]


def folded(session: Session) -> object:
    outputs: dict[str, Any] = {"y": np.zeros(1, np.float32), "z": np.zeros(1)}
    return taken(session.dispatch(vyre.Program.from_text(TEXT), outputs, grid=1))


def checked(session: Session) -> object:
    return taken(session.dispatch(BLUR, inputs(), race_check=session.backend.startswith("reference")))


ON_SESSIONS: Final[tuple[Callable[[Session], object], ...]] = (
    called, dispatched, specialized, resident, submitted, persistent, asked, folded, checked,
)  # fmt: skip


def answers(backend: str, mode: str | None) -> dict[str, object]:
    """What a new session answers, which is opened, and compiles, in a mode."""
    with ExitStack() as held:
        ours = held.enter_context(float_mode(mode)) if mode is not None else control()
        found: dict[str, object] = {}
        with vyre.open(backend, cache=False) as session:
            for ask in ON_SESSIONS:
                found[ask.__name__] = ask(session)
                assert control() == ours, ask.__name__
        return found


@cache
def usual_answers() -> dict[str, object]:
    return answers("reference", None)


@pytest.mark.parametrize("mode", [UP, f"{TO_ZERO}, flush", UNMASKED])
@pytest.mark.parametrize("backend", [*BACKENDS, "reference-scalar"])
def test_answers_of_sessions(backend: str, mode: str) -> None:
    expected = usual_answers()
    assert answers(backend, mode) == expected


# ---------------------------------------------------------------- what is kept
@pytest.mark.parametrize("backend", [pytest.param("cpu", marks=NEEDS_LLVM), "cuda-machine"])
def test_stored_code_is_that_of_the_default_mode(backend: str, tmp_path: Path) -> None:
    outputs: dict[str, Any] = {"y": np.zeros(1, np.float32), "z": np.zeros(1)}
    program = vyre.Program.from_text(TEXT)
    with vyre.open("reference") as session:
        expected = taken(session.dispatch(program, outputs, grid=1))
    found = []
    for mode in (UP, None):
        held = ExitStack()
        with held:
            if mode is not None:
                held.enter_context(float_mode(mode))
            with vyre.open(backend, cache=tmp_path) as session:
                cache = session.compile(program, grid=1).cache.value
                found.append((cache, taken(session.dispatch(program, outputs, grid=1))))
    assert found == [("miss", expected), ("hit", expected)]


@pytest.mark.parametrize("mode", [UP, f"{TO_ZERO}, flush"])
def test_bundles_and_evidence_are_those_of_the_default_mode(mode: str, tmp_path: Path) -> None:
    digests, found = [], []
    for name in ("usual", mode):
        path = tmp_path / name
        path.mkdir()
        with ExitStack() as held:
            if name == mode:
                held.enter_context(float_mode(mode))
            digests.append(vyre.build_bundle(vyre.kernel(blur), path / "blur.vyrz").digest)
            with vyre.open("cuda-machine", cache=False) as session:
                (blurred,) = vyre.load_bundle(path / "blur.vyrz").values()
                found.append(taken(session.dispatch(blurred, inputs(3e-45))))
            with vyre.open("reference", journal=vyre.DecisionJournal()) as session:
                session.write_evidence(path / "run.zip", BLUR, inputs(0.7))
            assert vyre.replay_evidence(tmp_path / "usual" / "run.zip").ok
            assert all(again.reproduced for again in vyre.replay_file(path / "run.zip"))
    assert vyre.replay_evidence(tmp_path / mode / "run.zip").ok
    assert digests[0] == digests[1] and found[0] == found[1]


CONSTANTS: Final = """
import sys
sys.path.insert(0, sys.argv[1])
from contextlib import nullcontext
from support.reference.float_modes import float_mode
with float_mode(sys.argv[2]) if sys.argv[2:] else nullcontext():
    import vyre.container, vyre.egraph, vyre.policies, vyre.testing
    vyre.container.Container, vyre.egraph.EGraph
    vyre.testing.load_catalog().get("reference").make()
    halving = vyre.policies.successive_halving.HalvingThresholds()
    error = vyre.policies.paired_race.RaceThresholds().error
import numpy
from vyre.adapters.lanes.narrowing import half_bits
from vyre.domain.float_mode import FACTORS, PROBE, PRODUCT
assert PROBE * FACTORS == PRODUCT
print(half_bits(numpy.array([0.1, 1e-7, 65519.0], numpy.float32)).tolist(), halving, error)
"""


@pytest.mark.parametrize("mode", [UP, TO_ZERO])
def test_modules_that_are_compiled_in_a_mode_have_the_usual_constants(mode: str, tmp_path: Path) -> None:
    """Python reads the numbers of a module in the mode of its first import, and keeps what it has read."""
    tests = str(Path(__file__).parents[1])
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    told = [
        subprocess.run(
            [sys.executable, "-X", f"pycache_prefix={tmp_path}", "-c", CONSTANTS, tests, *arguments],
            capture_output=True, text=True, check=True, timeout=LIMIT_S, env=environment,
        ).stdout
        for arguments in ([mode], [])
    ]  # fmt: skip
    policies = import_module("vyre.policies")
    usual_error = policies.paired_race.RaceThresholds().error
    halves = half_bits(np.array([0.1, 1e-7, 65519.0], np.float32)).tolist()
    assert told == [f"{halves} {policies.successive_halving.HalvingThresholds()} {usual_error}\n"] * 2


# ---------------------------------------------------------------- threads
def started_by_background(call: Callable[[], object]) -> None:
    compiler = BackgroundCompiler(NullTelemetry())
    assert compiler.wish("key", call)
    assert compiler.join(LIMIT_S)


def started_by_submitting(call: Callable[[], object]) -> None:
    threads = SubmitThreads()
    threads.submit(call).result(LIMIT_S)
    threads.end()


def started_to_recompile(call: Callable[[], object]) -> None:
    done = Event()
    cache = KernelCache(cast("CodeMaker", SimpleNamespace(decisions=None)), Counters(), recompile=True)

    def work() -> None:
        call()
        done.set()

    cache.compile_later(work)
    assert done.wait(LIMIT_S)


def started_for_callbacks(call: Callable[[], object]) -> None:
    with vyre.open("cpu", cache=False) as session:
        slow = vyre.Program.from_text(SLOW)
        future = session.submit(slow, {"y": np.ones(1, np.float32)}, grid=1)
        done = Event()

        def called_back(_: object) -> None:
            if current_thread() is not main_thread():  # which calls it where the dispatch has ended already
                call()
            done.set()

        future.add_done_callback(called_back)
        assert done.wait(LIMIT_S)


SLOW: Final = (
    "workgroup_size 1, 1, 1\nbuffer y @0 read_write f32[1]\nbody {\n"
    "  for i in 0u..3000000u {\n    y[0u] = y[0u] * 0.999f + 0.1f\n  }\n}\n"
)


@pytest.mark.parametrize(
    "start",
    [
        started_by_background,
        started_by_submitting,
        started_to_recompile,
        pytest.param(started_for_callbacks, marks=NEEDS_LLVM),
    ],
)
def test_threads_that_are_started_in_a_mode_run_in_the_default_one(start: Callable[..., None]) -> None:
    usual_mode, found = control(), []
    with float_mode(UP):
        start(lambda: found.append(control()))
    assert found in ([usual_mode], [] if start is started_for_callbacks else [usual_mode])


# ---------------------------------------------------------------- NumPy's errors
@pytest.mark.parametrize("backend", ["reference", "reference-scalar", "cuda-machine"])
def test_errors_that_the_caller_has_numpy_raise_change_nothing(backend: str) -> None:
    expected = usual_answers()
    with np.errstate(all="raise"), warnings.catch_warnings():
        warnings.simplefilter("error")
        assert answers(backend, None) == expected


# ---------------------------------------------------------------- nothing is left out
FACES: Final = (
    "vyre",
    "vyre.ir",
    "vyre.container",
    "vyre.egraph",
    "vyre.evidence",
    "vyre.gates",
    "vyre.graphs",
    "vyre.lowering",
    "vyre.testing",
)
"""The modules of the public names; of ``vyre.ports`` others implement the classes, ``vyre.policies`` has modules."""
ASKED: Final = {
    "from_text": "Program",
    "builder": "ProgramBuilder Value Variable BufferHandle View2d View3d SwitchArms DrainProgram drain_program",
    "event builder": "EventBuilder",
    "constants": "SpecMap",
    "kernel": "Kernel Launcher kernel",
    "function": "function",
    "emit ptx": "PipelineExecutor ScopedNames expanded grid_control plan_grid_sync plan_programs required_ops "
    "resolve_launch spec_literals transcendental with_constants",
    "dispatched": "Session Pipeline Result OutputArena",
    "specialized": "SpecializedPipeline",
    "resident": "ResidentArray BoundResidentLaunch BoundDownload StepSequence Temporary",
    "persistent": "PersistentJobs Ticket JobBatch BatchTicket",
    "asked": "Queries QueryResults ResidentCache",
    "test_bundles_and_evidence_are_those_of_the_default_mode": "LoadedBundle load_bundle read_evidence replay_evidence "
    "replay_file DecisionJournal",
}
"""The public names that a question or a test above uses, by that."""
MODULES: Final = {"vyre.domain.ir.functions": "builder", "vyre.domain.frontend.intrinsics": "kernel"}
"""The question for all functions of a module."""
WITHOUT_FLOATS: Final = """
    AotTargetId OpId ShadowState WorkQueue CallLog Container MemoryArtifactStore RecordingTelemetry ClosedEGraph EGraph
    FactSession FrontierAnalysis fact_graph aot_emitters write_c cuda_catalog dialect_registry like check_alignment
    check_overlap plan_bindings refuse_unsupported assemble_catalog load_catalog cuda_machine failing hooked recording
    function_backend registration_of binary_result unary_result bitcast_is_legal cast_is_legal narrow_is_legal
    wrap_cast_is_legal bodies children if_chain operands unique_expressions view_index walk walk_statements exports
    import_upstream lowered at_most_bytes changes_at_most no_order_dependent_results no_traps only_dialects
    RecentEvents StructlogTelemetry Speculation FixedPoint FailNth native_lines native_op
    DialectRegistry Migrations operators_at ProgramSource Scope Origin ParameterBlock MachineDriver
"""
"""The public names that compute with whole numbers, or hand on to what is asked above."""


def is_marked(member: Any) -> bool:
    function = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
    return getattr(function, "__in_default_mode__", False)


def needs_question(thing: Any) -> bool:
    """Whether a public name is called, is no record of values, and isn't marked."""
    if not callable(thing) or isinstance(thing, enum.Enum | GenericAlias):
        return False
    if not str(getattr(thing, "__module__", "")).startswith("vyre"):
        return False
    if not isinstance(thing, type):
        return not is_marked(thing)
    if (
        issubclass(thing, enum.Enum | BaseException | tuple)
        or is_dataclass(thing)
        or getattr(thing, "_is_protocol", False)
    ):
        return False
    members = {name: member for base in reversed(thing.__mro__[:-1]) for name, member in vars(base).items()}
    called_ones = (inspect.isfunction, lambda member: isinstance(member, property | classmethod | staticmethod))
    return not all(
        is_marked(member)
        for name, member in members.items()
        if not name.startswith("_") and any(is_called(member) for is_called in called_ones)
    )


@pytest.mark.parametrize("face", FACES)
def test_each_public_name_is_marked_or_asked(face: str) -> None:
    module = import_module(face)
    left = {
        name: thing
        for name in dir(module)
        if not name.startswith("_") and needs_question(thing := getattr(module, name))
    }
    asked_for = {name for names in ASKED.values() for name in names.split()} | {*WITHOUT_FLOATS.split()}
    assert {name for name, thing in left.items() if name not in asked_for and thing.__module__ not in MODULES} == set()


def test_the_questions_exist_and_public_names_are_marked() -> None:
    questions = {*PURE, *(ask.__name__ for ask in ON_SESSIONS), *globals()}
    assert {*ASKED, *MODULES.values()} <= questions
    functions: tuple[object, ...] = (vyre.open, vyre.optimize, vyre.validate, vyre.emit, vyre.build_bundle)
    methods: tuple[object, ...] = (
        Session.submit,
        Session.sequence,
        Session.explain,
        Session.tune,
        Session.write_journal,
    )
    assert all(map(is_marked, (*functions, *methods)))
