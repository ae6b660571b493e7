"""Cases of ``DispatchConfig``: every field is honoured or refused, never ignored."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Final

from vyre.domain.dispatch import DispatchConfig, PersistentThreadMode, SpeculationMode
from vyre.domain.errors import (
    DataRaceError,
    DispatchTimeout,
    InvalidConfig,
    StepBudgetExceeded,
    UnsupportedFeature,
    VyreError,
)
from vyre.domain.ir.types import ScalarType
from vyre.domain.specialization import SpecMap, SpecValue
from vyre.ports.backend import BackendRole
from vyre.testing.backend_contract.bench import INCREMENT, Bench, Skipped, check_error, equal, holds, words
from vyre.testing.backend_contract.case import Group
from vyre.testing.backend_contract.programs import add_programs

CONFIG: Final = Group("config")
add_programs(CONFIG)
_LOOP: Final = """
    workgroup_size 4, 1, 1
    buffer n @0 read u32[runtime]
    buffer y @1 write u32[runtime] like n
    body { for k in 0u..n[gid.x] { y[gid.x] = y[gid.x] + 1u } }
    """


def _refused(bench: Bench, call: Callable[[], object]) -> bool:
    """Returns whether ``call`` is refused as unsupported, by a well-formed error that names the backend."""
    try:
        call()
    except UnsupportedFeature as error:
        check_error(error)
        equal(error.backend, str(bench.backend.id), "the backend that the error names")
        holds(bool(error.feature), "the error names no feature")
        return True
    return False


# ---------------------------------------------------------------- fields that must be honoured or refused
@CONFIG.table({"exceeded_by_two": 1, "exceeded_by_one": 2, "exhausted": 3})
def step_budget(bench: Bench, budget: int) -> None:
    """A lane that takes more back-edges than allowed fails the dispatch; the error names the lowest such lane."""
    rounds = (1, 3, 4, 3)
    if _refused(bench, lambda: bench.run(_LOOP, words(1), step_budget=0)):
        return
    over = [lane for lane, n in enumerate(rounds) if n - 1 > budget]  # the last round takes no back-edge
    if over:
        error = bench.refuses(StepBudgetExceeded, _LOOP, words(*rounds), step_budget=budget)
        equal((error.budget, error.global_id), (budget, (over[0], 0, 0)))
    else:
        equal(bench.words(_LOOP, words(*rounds), step_budget=budget), list(rounds))


@CONFIG.case()
def race_check(bench: Bench) -> None:
    """A data race is reported, or the check is refused."""
    racy = "workgroup_size 4, 1, 1 buffer y @0 write u32[1] body { y[0u] = gid.x }"
    if _refused(bench, lambda: bench.run(INCREMENT, words(1, 2), race_check=True)):
        return
    equal(bench.words(INCREMENT, words(1, 2), race_check=True), [2, 3])
    error = bench.refuses(DataRaceError, racy, grid=(2, 1, 1), race_check=True)
    equal({race.buffer for race in error.races}, {"y"}, "the buffers with races")


@CONFIG.table({"1": 1, "3": 3, "1000": 1000})
def chunk_workgroups(bench: Bench, chunk: int) -> None:
    """The number of workgroups run at once changes no answer."""
    values = list(range(50))
    if _refused(bench, lambda: bench.run(INCREMENT, words(*values), chunk_workgroups=chunk)):
        return
    equal(bench.words(INCREMENT, words(*values), chunk_workgroups=chunk), [v + 1 for v in values])


_MODES: Final[Mapping[str, type[SpeculationMode | PersistentThreadMode]]] = {
    "speculation": SpeculationMode,
    "persistent_thread": PersistentThreadMode,
}


@CONFIG.table({field: field for field in _MODES})
def modes(bench: Bench, field: str) -> None:
    """AUTO and DISABLE are accepted everywhere; FORCE is for sessions, and a dispatch by itself refuses it."""
    mode = _MODES[field]
    for value in (mode.AUTO, mode.DISABLE):
        equal(bench.words(INCREMENT, words(1, 2), **{field: value}), [2, 3], value.value)
    bench.refuses(UnsupportedFeature, INCREMENT, words(1, 2), **{field: mode.FORCE})


@CONFIG.case()
def cooperative(bench: Bench) -> None:
    """A cooperative launch changes no answer, or is refused."""
    if not _refused(bench, lambda: bench.run(INCREMENT, words(1, 2), cooperative=True)):
        equal(bench.words(INCREMENT, words(1, 2, 3), cooperative=True), [2, 3, 4])


@CONFIG.case()
def an_unknown_profile_is_refused(bench: Bench) -> None:
    """A code generation profile that does not exist is unsupported."""
    bench.refuses(UnsupportedFeature, INCREMENT, words(1), profile="no such profile")


@CONFIG.table({"0": 0, "1": 1, "255": 255})
def ulp_budget(bench: Bench, budget: int) -> None:
    """A budget of ulps bounds the error of every result."""
    kernel = """
    workgroup_size 4, 1, 1
    buffer x @0 read f32[4]
    buffer y @1 write f32[4]
    body { y[gid.x] = exp(x[gid.x]) }
    """
    exact = (0x3F80_0000, 0x402D_F854, 0x3EBC_5AB2, 0x7F80_0000)
    inputs = words(0, 0x3F80_0000, 0xBF80_0000, 0x7F80_0000)
    results = bench.words(kernel, inputs, ulp_budget=budget)
    holds(all(abs(a - b) <= budget for a, b in zip(results, exact, strict=True)), f"{results} is too far from {exact}")


@CONFIG.case()
def label(bench: Bench) -> None:
    """A label changes nothing."""
    for text in ("first", "", "ünïcode \0 and \n"):
        equal(bench.words(INCREMENT, words(5), label=text), [6])


_LONG_WINDED: Final = """
    workgroup_size 32, 1, 1
    buffer x @0 read u32[64]
    buffer y @1 write u32[64]
    body {
      let i = cast<i32>(gid.x)
      let j = cast<u32>(i + 1i)
      let unused = x[j] * 3u
      let twice = x[cast<u32>(i)] + x[cast<u32>(i)]
      y[cast<u32>(i)] = twice + x[j] * 1u + (7u - 7u)
    }
    """


@CONFIG.case()
def optimize(bench: Bench) -> None:
    """The optimizer changes no byte, whether it is wanted or not, and however often a program runs."""
    x = words(*range(64))
    expected = [2 * k + (k + 1 if k < 63 else 0) for k in range(64)]
    for wanted in (True, False):
        for _ in range(20):
            equal(bench.words(_LONG_WINDED, x, optimize=wanted, grid=2), expected, f"optimize={wanted}")


# ---------------------------------------------------------------- timeouts
_SLOW: Final = """
    workgroup_size 1, 1, 1
    buffer n @0 read u32[1]
    buffer y @1 write u32[1]
    body { let a = 1u for k in 0u..n[0u] { a := (a * 1664525u + 1013904223u) ^ (a >> 7u) } y[0u] = a }
    """


@CONFIG.case()
def a_timeout_that_does_not_pass(bench: Bench) -> None:
    """A sufficient timeout changes nothing."""
    equal(bench.words(INCREMENT, words(1, 2), timeout_s=3600.0), [2, 3])


@CONFIG.case()
def a_timeout_that_passes(bench: Bench) -> None:
    """A dispatch that exceeds its timeout raises ``DispatchTimeout``; the backend keeps working."""
    if bench.subject.registration.role is BackendRole.EMULATION:
        raise Skipped(f"`{bench.backend.id}` emulates a kernel within one call, during which no deadline can pass")
    with bench.elsewhere() as other:
        other.run(_SLOW, words(1))
        other.refuses(DispatchTimeout, _SLOW, words(1 << 27), timeout_s=0.05)
        equal(other.words(INCREMENT, words(1)), [2])


# ---------------------------------------------------------------- specialization
_SPEC: Final = """
    workgroup_size 1, 1, 1
    buffer y @0 write u32[4]
    body {
      y[0u] = spec(count, 5u)
      y[1u] = bitcast<u32>(spec(bias, -3i))
      y[2u] = bitcast<u32>(spec(scale, 1.5f))
      y[3u] = select(spec(flag, false), 1u, 0u)
    }
    """


@CONFIG.case("supports_specialization_constants")
def specializations_do_not_mix(bench: Bench) -> None:
    """Alternating values of one constant give alternating answers."""
    for value in (1, 2, 1, 3, 2):
        equal(bench.words(_SPEC, grid=(1, 1, 1), spec=SpecMap({"count": value}))[0], value)
    equal(bench.words(_SPEC, grid=(1, 1, 1))[0], 5, "the default")
    equal(bench.words(_SPEC, grid=(1, 1, 1), spec=SpecMap())[0], 5, "the default of an empty map")


@CONFIG.table(
    {
        "unknown_name": {"cuont": SpecValue.u32(1)},
        "wrong_type": {"count": SpecValue.i32(1)},
        "a_data_type": {"count": SpecValue.dtype(ScalarType.U32)},
    },
    "supports_specialization_constants",
)
def a_wrong_specialization_is_refused(bench: Bench, values: dict[str, SpecValue]) -> None:
    """Unknown names and wrong types are errors that name the constant."""
    error = bench.refuses(InvalidConfig, _SPEC, spec=SpecMap(values))
    holds(next(iter(values)) in error.message, f"the constant is not named: {error}")


# ---------------------------------------------------------------- completeness
_ELSEWHERE: Final = frozenset(
    {"grid", "extent", "workgroup", "pad_grid", "element_count_override", "output_counts", "max_output_bytes"}
)
"""Fields that the cases of geometry and outputs cover."""
_HERE: Final = frozenset(
    {
        "spec",
        "step_budget",
        "race_check",
        "chunk_workgroups",
        "profile",
        "ulp_budget",
        "timeout_s",
        "label",
        "fixpoint_iterations",
        "speculation",
        "persistent_thread",
        "cooperative",
        "optimize",
    }
)


@CONFIG.case()
def every_field_has_a_case(bench: Bench) -> None:
    """Every field of the config has a case in this suite."""
    equal(frozenset(f.name for f in fields(DispatchConfig)), _ELSEWHERE | _HERE, "the fields of DispatchConfig")


@CONFIG.case()
def a_refused_config_does_not_stick(bench: Bench) -> None:
    """A program runs normally after one of its configs was refused."""
    for bad in ({"profile": "no such profile"}, {"max_output_bytes": 0}, {"output_counts": {"q": 1}}):
        try:
            bench.run(INCREMENT, words(1), **bad)
        except VyreError:
            pass
        else:
            holds(False, f"{bad} is ignored")
        equal(bench.words(INCREMENT, words(1)), [2])
