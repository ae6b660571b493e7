"""Cases of ``PipelineCompiler`` and its pipelines: the same bytes as ``execute``, for all lengths, from all threads."""

from __future__ import annotations

from functools import partial
from typing import Any, Final, NamedTuple

from vyre.domain.dispatch import DispatchConfig, OutputArena
from vyre.domain.errors import InvalidConfig, InvalidInput, TrapError, UnsupportedFeature, VyreError
from vyre.domain.specialization import SpecMap
from vyre.ports.execution import CacheOutcome
from vyre.testing.backend_contract.bench import (
    ADD,
    SCALE,
    TRAP,
    Bench,
    Storage,
    at_once,
    equal,
    holds,
    parsed,
    program_of,
    refusal,
    u32s,
    view,
    words,
)
from vyre.testing.backend_contract.case import Group

COMPILER: Final = Group("compiler", "compiler")
_REDUCE: Final = """
    workgroup_size 32, 1, 1
    buffer x @0 read u32[runtime]
    buffer y @1 read_write u32[1] output
    buffer sh @- workgroup u32[32]
    body {
      sh[lid.x] = x[gid.x]
      barrier(seq_cst)
      if lid.x == 0u { let sum = 0u for k in 0u..32u { sum := sum + sh[k] } let old = atomic_add(y, 0u, sum) }
    }
    """
_SYNC: Final = """
    workgroup_size 4, 1, 1
    buffer x @0 read_write u32[runtime]
    buffer y @1 write u32[runtime] like x
    body { x[gid.x] = x[gid.x] + 1u barrier(grid_sync) y[gid.x] = x[len(x) - 1u - gid.x] }
    """


class _Work(NamedTuple):
    kernel: str
    inputs: tuple[bytes, ...]
    config: dict[str, Any] = {}  # noqa: RUF012  # only read


_WORK: Final = {
    "map": _Work(SCALE, (words(*range(50)),)),
    "map_specialized": _Work(SCALE, (words(*range(50)),), {"spec": SpecMap({"factor": 7})}),
    "map_of_another_workgroup": _Work(SCALE, (words(*range(50)),), {"workgroup": (16, 1, 1)}),
    "map_of_a_given_grid": _Work(SCALE, (words(*range(50)),), {"grid": (2, 1, 1)}),
    "map_of_an_extent": _Work(SCALE, (words(*range(50)),), {"extent": (17,)}),
    "reduction": _Work(_REDUCE, (words(*range(100)),)),
    "update": _Work(ADD, (words(5), words(1, 2, 3))),
    "update_repeated": _Work(ADD, (words(5), words(1, 2, 3)), {"fixpoint_iterations": 4}),
    "grid_barrier": _Work(_SYNC, (words(*range(20)),)),
    "empty": _Work(SCALE, (b"",)),
}


@COMPILER.table(_WORK)
def a_pipeline_equals_execute(bench: Bench, work: _Work) -> None:
    """A compiled dispatch returns the bytes of ``execute`` under the same config."""
    pipeline = bench.compile(work.kernel, **work.config)
    equal(bench.dispatch(pipeline, *work.inputs), bench.run(work.kernel, *work.inputs, **work.config))


@COMPILER.table(_WORK)
def a_pipeline_runs_again_and_again(bench: Bench, work: _Work) -> None:
    """Every dispatch of a pipeline depends on its inputs alone."""
    pipeline = bench.compile(work.kernel, **work.config)
    answers = []
    for _ in range(4):
        storage = Storage()
        pipeline.dispatch(tuple(map(view, work.inputs)), storage)
        equal(len(storage.begun), 1, "the calls of begin()")
        answers.append(storage.outputs)
    equal(answers, [answers[0]] * 4, "the answers of four dispatches")


@COMPILER.table({"growing": (0, 1, 8, 9, 100), "shrinking": (100, 9, 8, 1, 0), "in_turn": (5, 50, 5, 50, 5)})
def input_lengths_may_differ(bench: Bench, sizes: tuple[int, ...]) -> None:
    """One pipeline serves inputs of any length."""
    pipeline = bench.compile(SCALE)
    for size in sizes:
        (outputs,) = bench.dispatch(pipeline, words(*range(size)))
        equal(u32s(outputs), [k * 3 + k // 8 for k in range(size)], f"{size} elements")


@COMPILER.case()
def many_lengths(bench: Bench) -> None:
    """A pipeline serves more lengths than any cache of launches holds."""
    pipeline = bench.compile(SCALE)
    arena = OutputArena()
    for size in range(0, 160, 2):
        pipeline.dispatch((view(words(*range(size))),), arena)
        equal(u32s(arena[0]), [k * 3 + k // 8 for k in range(size)], f"{size} elements")


@COMPILER.table(
    {"none": ((), InvalidInput), "two": ((words(1), words(1)), InvalidInput), "half": ((b"12",), InvalidInput)}
)
def a_pipeline_checks_its_inputs(bench: Bench, row: tuple[tuple[bytes, ...], type[VyreError]]) -> None:
    """Arity and lengths are checked on every dispatch; a failure leaves no outputs, and the pipeline usable."""
    inputs, expected = row
    pipeline = bench.compile(SCALE)
    storage = Storage()
    refusal(expected, lambda: pipeline.dispatch(tuple(map(view, inputs)), storage))
    equal(storage.outputs, (), "the outputs of a refused dispatch")
    pipeline.dispatch((view(words(2)),), storage)
    equal(u32s(storage.outputs[0]), [6])


@COMPILER.case("supports_trap_propagation")
def a_pipeline_survives_a_trap(bench: Bench) -> None:
    """After a trap the same pipeline works as before."""
    pipeline = bench.compile(TRAP)
    for _ in range(2):
        storage = Storage()
        error = refusal(TrapError, lambda: pipeline.dispatch((view(words(1, 9, 9)),), storage))  # noqa: B023
        equal((error.address, storage.outputs, storage.clears > 0 or not storage.begun), (1, (), True))
        pipeline.dispatch((view(words(1, 2)),), storage)
        equal(storage.outputs, (words(2, 3),))


@COMPILER.case()
def a_pipeline_enforces_its_config(bench: Bench) -> None:
    """Bounds of the config are checked when lengths are known."""
    pipeline = bench.compile(SCALE, max_output_bytes=12)
    bench.dispatch(pipeline, words(1, 2, 3))
    refusal(InvalidConfig, lambda: bench.dispatch(pipeline, words(1, 2, 3, 4)))


@COMPILER.case()
def the_config_of_a_pipeline_is_its_own(bench: Bench) -> None:
    """Pipelines of one program under different configs are distinct."""
    pipelines = [bench.compile(SCALE, spec=SpecMap({"factor": k})) for k in (2, 5, 2, 9)]
    for factor, pipeline in ((2, pipelines[0]), (9, pipelines[3]), (2, pipelines[2]), (5, pipelines[1])):
        equal(bench.dispatch(pipeline, words(10)), (words(10 * factor),))


@COMPILER.case()
def pipelines_of_different_programs_do_not_mix(bench: Bench) -> None:
    """Programs that differ in one literal have distinct pipelines."""
    text = "workgroup_size 1, 1, 1 buffer y @0 write u32[1] body {{ y[0u] = {}u }}"
    pipelines = [bench.compile(text.format(k)) for k in range(12)]
    for k, pipeline in enumerate(pipelines):
        equal(bench.dispatch(pipeline), (words(k),))


@COMPILER.case()
def names_are_interface(bench: Bench) -> None:
    """Programs that differ only in names of buffers are distinguished wherever names are visible."""
    text = "workgroup_size 1, 1, 1 buffer {0} @0 write u32[runtime] body {{ {0}[gid.x] = len({0}) }}"
    for name, count in (("first", 2), ("second", 3), ("first", 1)):
        pipeline = bench.compile(text.format(name), output_counts={name: count})
        equal(bench.dispatch(pipeline), (words(*[count] * count),))
    refusal(InvalidConfig, lambda: bench.run(text.format("second"), output_counts={"first": 1}))
    sized = "workgroup_size 1, 1, 1 buffer {0} @0 read_write u32[2] body {{ {0}[gid.x] = 1u }}"
    for name in ("first", "second"):
        pipeline = bench.compile(sized.format(name))
        error = refusal(InvalidInput, partial(bench.dispatch, pipeline, words(1)))
        holds(f"`{name}`" in error.message, f"`{name}` is not named: {error}")


# ---------------------------------------------------------------- ids and the cache
@COMPILER.case()
def an_id_is_stable(bench: Bench) -> None:
    """The same program under the same config has the same id, also when it is parsed anew; it names the backend."""
    twin = program_of(parsed(SCALE)).from_text(SCALE)
    first, second = bench.compile(SCALE).id, bench.compile(twin).id
    equal(second, first, "the id of the same program")
    holds(bool(first) and str(bench.backend.id) in first, f"the id {first!r} does not name the backend")


@COMPILER.case()
def ids_tell_programs_apart(bench: Bench) -> None:
    """Different programs have different ids."""
    ids = {bench.compile(kernel).id for kernel in (SCALE, _REDUCE, ADD, _SYNC, TRAP)}
    equal(len(ids), 5, "the number of ids of five programs")


@COMPILER.case()
def counters_only_grow(bench: Bench) -> None:
    """Hits and misses are counted; compiling the same again is a hit where the outcome is known."""
    kernel = "workgroup_size 1, 1, 1 buffer y @0 write u32[1] body { y[0u] = 40961u }"
    before = bench.compiler.cache_counters()
    first = bench.compiler.compile(parsed(kernel), DispatchConfig())
    between = bench.compiler.cache_counters()
    second = bench.compiler.compile(parsed(kernel), DispatchConfig())
    after = bench.compiler.cache_counters()
    for older, newer in ((before, between), (between, after)):
        holds(newer.hits >= older.hits and newer.misses >= older.misses, f"counters fall from {older} to {newer}")
    if CacheOutcome.UNKNOWN in (first.cache, second.cache):
        return
    equal((first.cache, second.cache), (CacheOutcome.MISS, CacheOutcome.HIT), "the outcomes of compiling twice")
    holds(between.misses > before.misses and after.hits > between.hits, f"{before}, {between}, {after} do not count")


_FORGOTTEN: Final = "workgroup_size 4, 1, 1 buffer x @0 read_write u32[4] body { x[gid.x] = x[gid.x] + 40964u }"


@COMPILER.table({"by_its_digest": False, "with_all_others": True})
def a_forgotten_program_is_compiled_again(bench: Bench, everything: bool) -> None:
    """A forgotten program is compiled anew on its next use, under every config; pipelines that are held keep
    working.
    """
    program, compiler = parsed(_FORGOTTEN), bench.compiler
    configs = (DispatchConfig(), DispatchConfig(workgroup=(2, 1, 1)))
    results = [compiler.compile(program, config) for config in configs]
    forgotten = compiler.forget(None if everything else frozenset({program.digest}))
    before = compiler.cache_counters().misses
    again = [compiler.compile(program, config) for config in configs]
    if all(result.cache is not CacheOutcome.UNKNOWN for result in (*results, *again)):
        holds(forgotten >= len(configs), f"{forgotten} pipelines were forgotten, {len(configs)} were there")
        equal(compiler.cache_counters().misses - before, len(configs), "the misses after forgetting")
    for result in (*results, *again):
        equal(bench.dispatch(result.pipeline, words(1, 2, 3, 4)), (words(40965, 40966, 40967, 40968),))


@COMPILER.case()
def other_programs_are_not_forgotten(bench: Bench) -> None:
    """Forgetting a program does not affect the others."""
    program, compiler = parsed(_FORGOTTEN), bench.compiler
    first = compiler.compile(program, DispatchConfig())
    equal(compiler.forget(frozenset({bytes(32)})), 0, "what was forgotten of a program that is not known")
    equal(compiler.forget(frozenset()), 0, "what was forgotten of no program")
    second = compiler.compile(program, DispatchConfig())
    if CacheOutcome.UNKNOWN not in (first.cache, second.cache):
        equal(second.cache, CacheOutcome.HIT)


@COMPILER.case()
def a_refused_config_is_not_cached(bench: Bench) -> None:
    """A config that is refused once is refused again, at compile time or at the first dispatch."""
    for _ in range(2):
        refusal(
            UnsupportedFeature,
            lambda: bench.dispatch(bench.compile(ADD, profile="no such profile"), words(1), words(1)),
        )


@COMPILER.case()
def a_label_does_not_make_a_pipeline(bench: Bench) -> None:
    """Labels are for traces: dispatches that differ in them share a pipeline."""
    kernel = "workgroup_size 1, 1, 1 buffer y @0 write u32[1] body { y[0u] = 40962u }"
    first = bench.compiler.compile(parsed(kernel), DispatchConfig(label="one"))
    second = bench.compiler.compile(parsed(kernel), DispatchConfig(label="two"))
    if CacheOutcome.UNKNOWN not in (first.cache, second.cache):
        equal(second.cache, CacheOutcome.HIT)


@COMPILER.case()
def a_pipeline_outlives_its_result(bench: Bench) -> None:
    """Compiling many others does not disturb a pipeline that is held."""
    pipeline = bench.compile(ADD)
    text = "workgroup_size 1, 1, 1 buffer y @0 write u32[1] body {{ y[0u] = {}u }}"
    for k in range(100, 130):
        bench.compile(text.format(k))
    equal(bench.dispatch(pipeline, words(4), words(1, 2)), (words(5, 6),))


# ---------------------------------------------------------------- threads
@COMPILER.table({"one_length": (64,), "several_lengths": (1, 30, 64, 65, 200)})
def one_pipeline_serves_many_threads(bench: Bench, sizes: tuple[int, ...]) -> None:
    """Concurrent dispatches of one pipeline are independent."""
    pipeline = bench.compile(ADD)

    def work(number: int) -> None:
        storage = OutputArena()
        for round_ in range(6):
            size = sizes[(number + round_) % len(sizes)]
            pipeline.dispatch((view(words(number)), view(words(*range(size)))), storage)
            equal(u32s(storage[0]), [k + number for k in range(size)], f"thread {number}, round {round_}")

    at_once(8, work)


@COMPILER.case()
def threads_may_compile_the_same_program(bench: Bench) -> None:
    """Compiling one program from many threads at once returns working pipelines with one id."""
    kernel = "workgroup_size 4, 1, 1 buffer x @0 read_write u32[4] body { x[gid.x] = x[gid.x] * 40963u }"
    ids: list[str] = []

    def work(number: int) -> None:
        pipeline = bench.compile(kernel)
        equal(bench.dispatch(pipeline, words(1, 2, 3, 4)), (words(*[40963 * k for k in (1, 2, 3, 4)]),))
        ids.append(pipeline.id)

    at_once(8, work)
    equal(len(set(ids)), 1, "the number of ids")
