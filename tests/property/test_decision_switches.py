"""Switching any decision on or off changes no byte of any result, whatever else is switched, and can be seen elsewhere.

Fields and arguments are found by reflection: a new one fails here until it is listed, as a switch with values that make
a difference, or as what decides nothing, with the reason.  Listed by hand is one switch more, which is neither: whether
``Session.specialize`` is called at all.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

import pytest

import vyre
from support.profiles import SOAK
from support.reference.switched_runs import Scenario, Seen, Settings, expected, run, scenario
from support.small_programs import case_of, saxpy_program, square_program
from vyre.adapters.cuda.ptx.options import ALL_OFF, ALL_ON, PROFILES, EmitOptions, Switches
from vyre.adapters.cuda.runtime.device import CudaOptions
from vyre.app.prediction import PredictionConfig
from vyre.domain.cache_config import CacheConfig, Eviction
from vyre.domain.dispatch import DispatchConfig, SpeculationMode
from vyre.domain.ir.builder import ProgramBuilder
from vyre.domain.ir.program import Program
from vyre.domain.ir.types import f32, i32, u32
from vyre.domain.launch_costs import ASSUMED, Measured, Provenance
from vyre.policies.launching.grid_sync_mode import GridSyncMode
from vyre.policies.prediction.shape_prediction import LEARNING, PredictionThresholds
from vyre.policies.prediction.trace_jit import TraceJitThresholds

SEEDS: Final = 100
"""Drawn configurations of each switch in a soak, on two programs each; else one of each third switch."""
Build = Callable[[], Program]


# ---------------------------------------------------------------- programs that a decision is about
def guarded() -> Program:
    with ProgramBuilder("guarded", workgroup=64) as p:
        x = p.input("x", u32)
        y = p.output("y", u32, like="x")
        i = p.global_id()
        with p.if_(i < x.length):
            y[i] = x[i] + 1
    return p.build()


def four_at_once() -> Program:
    with ProgramBuilder("four", workgroup=32) as p:
        x = p.input("x", f32, 256)
        y = p.output("y", f32, 256)
        with p.if_(p.global_id() < 64):
            first = p.let(p.global_id() * 4)
            parts = [p.let(x[first + k]) for k in range(4)]
            for k in range(4):
                y[first + k] = parts[3 - k]
    return p.build()


def own_slots() -> Program:
    with ProgramBuilder("slots", workgroup=64) as p:
        y = p.output("y", u32, 256)
        shared = p.workgroup("shared", u32, 64)
        lane = p.local_id()
        shared[lane] = p.global_id()
        p.barrier()
        y[p.global_id()] = shared[63 - lane]
    return p.build()


def sevenths() -> Program:
    with ProgramBuilder("sevenths", workgroup=64) as p:
        y = p.inout("y", u32)
        y[p.global_id()] = y[p.global_id()] / 7
    return p.build()


def by_group() -> Program:
    with ProgramBuilder("groups", workgroup=32) as p:
        y = p.inout("y", u32)
        with p.if_(p.group_id() == 1):
            y[p.global_id()] = p.group_id()
    return p.build()


def tallied() -> Program:
    with ProgramBuilder("tallied", workgroup=32) as p:
        y = p.inout("y", u32)
        y.atomic_add(p.global_id() % 3, u32(1))
    return p.build()


def with_uniforms() -> Program:
    with ProgramBuilder("uniforms", workgroup=32) as p:
        table = p.uniform("table", u32, 4)
        y = p.inout("y", u32)
        y[p.global_id()] = table[p.global_id() % 4]
    return p.build()


def least() -> Program:
    with ProgramBuilder("least", workgroup=32) as p:
        y = p.inout("y", i32)
        y[p.global_id()] = vyre.min_(y[p.global_id()], y[p.global_id()] * 3)
    return p.build()


def in_two_parts() -> Program:
    with ProgramBuilder("parts", workgroup=32) as p:
        x = p.inout("x", u32)
        y = p.output("y", u32, like="x")
        i = p.global_id()
        with p.if_(i < x.length):
            x[i] = x[i] + 1
        p.grid_sync()
        with p.if_(i < x.length):
            y[i] = x[x.length - 1 - i]
    return p.build()


# ---------------------------------------------------------------- switches
class Switch(NamedTuple):
    """``values``: what is usual comes first.  ``seen``: where it shows.  It surely shows for ``example``, beside
    ``others``.
    """

    values: tuple[Any, ...]
    seen: Callable[[Seen], object]
    example: Build = guarded
    others: Settings = {}  # noqa: RUF012  # only read


def texts(seen: Seen) -> object:
    return seen.texts


def calls(*names: str) -> Callable[[Seen], object]:
    return lambda seen: [seen.calls[name] for name in names]


def counted(*names: str) -> Callable[[Seen], object]:
    return lambda seen: [seen.metrics[name] for name in names]


def predicted(seen: Seen) -> object:
    return seen.predicted


def guessed(seen: Seen) -> object:
    return seen.guessed > 0


EAGER: Final = TraceJitThresholds(hot_hits=0, min_confidence_bps=0)
NEVER_HOT: Final = TraceJitThresholds(hot_hits=1 << 31)
NOTHING: Final = Measured(0, 0, 0, 9, Provenance.MEASURED)
FREE: Final = replace(ASSUMED, graph_record=NOTHING, graph_record_node=NOTHING, graph_gap=NOTHING)
DEAR: Final = replace(ASSUMED, graph_record=Measured(1 << 50, 0, 0, 9, Provenance.MEASURED))
RECORDED: Final[Settings] = {"cuda.graph_after": 0}
PREDICTING: Final[Settings] = {"open.predict": True, "prediction.jit": EAGER}
KEPT: Final[Settings] = {"open.cache": "cold"}

SWITCHES: Final[dict[str, Switch]] = {
    "emitter.bounds_checks": Switch((True, False), texts, guarded),
    "emitter.wide_access": Switch((True, False), texts, four_at_once),
    "emitter.shared_zeroing": Switch((True, False), texts, own_slots),
    "emitter.constant_division": Switch((True, False), texts, sevenths),
    "emitter.uniform_branches": Switch((True, False), texts, by_group),
    "emitter.relaxed_atomics": Switch((True, False), texts, tallied),
    "emitter.inline_uniforms": Switch((True, False), texts, with_uniforms),
    "emission.assume": Switch((True, False), texts, four_at_once),
    "emission.pointer_table": Switch((None, True, False), texts),
    "emission.parameter_limit": Switch((4096, 16), texts),
    "emission.assembler": Switch((None, (13, 5)), texts, least),
    "cuda.own_context": Switch((False, True), calls("context_create")),
    "cuda.cached_device_bytes": Switch((256 << 20, 0), calls("mem_alloc_async")),
    "cuda.cached_host_bytes": Switch((128 << 20, 0), calls("host_alloc")),
    "cuda.slots": Switch((128, 1), counted("graph_recordings"), guarded, RECORDED),
    "cuda.grid_sync": Switch((None, *GridSyncMode), texts, in_two_parts),
    "cuda.graph_after": Switch(("costs", None, 0, 2), calls("graph_launch"), guarded, {"cuda.costs": FREE}),
    "cuda.costs": Switch((None, FREE, DEAR), calls("graph_launch")),
    "cuda.graphs": Switch((128, 1), counted("graph_evictions"), guarded, RECORDED),
    "cuda.side_by_side": Switch((True, False), lambda seen: seen.decided["hazard_graph"], guarded, RECORDED),
    "cuda.copy_overlap": Switch((True, False), calls("stream_wait_event"), in_two_parts),
    "open.cache": Switch(("none", "cold", "warm"), counted("emits")),
    "open.pins": Switch((False, True), texts, square_program, {"dispatch.tune": True}),
    "open.predict": Switch((False, True), predicted, guarded, PREDICTING),
    "open.journal": Switch((False, True), lambda seen: seen.journal),
    "cache.max_bytes": Switch((None, 1), lambda seen: seen.stored, guarded, KEPT),
    "cache.max_entries": Switch((None, 1), lambda seen: seen.stored, guarded, KEPT),
    "cache.layers": Switch((False, True), counted("emits"), guarded, KEPT),
    "cache.eviction": Switch(
        tuple(Eviction),
        lambda seen: seen.decided["entries_to_evict"],
        guarded,
        {**KEPT, "cache.max_entries": 1},
    ),
    "prediction.learning": Switch(
        (LEARNING, PredictionThresholds(), replace(LEARNING, prior_guesses=9)), predicted, guarded, PREDICTING
    ),
    "prediction.jit": Switch((TraceJitThresholds(), EAGER, NEVER_HOT), predicted, guarded, PREDICTING),
    "prediction.shapes": Switch((1024, 1), predicted, guarded, PREDICTING),
    "prediction.log": Switch((256, 1), predicted, guarded, PREDICTING),
    "prediction.patience": Switch((1024, 0), predicted, guarded, PREDICTING),
    "dispatch.tune": Switch((False, True), texts, square_program, {"open.pins": True}),
    "session.specialize": Switch((False, True), guessed, saxpy_program),
    "config.profile": Switch((None, *PROFILES), texts),
    "config.speculation": Switch(
        (None, SpeculationMode.AUTO, SpeculationMode.DISABLE), guessed, saxpy_program, {"session.specialize": True}
    ),
    "config.cooperative": Switch((False, True), texts, in_two_parts, {"cuda.grid_sync": GridSyncMode.SPLIT}),
}

WHY_INERT: Final[dict[str, tuple[str, ...]]] = {
    "says what is to be computed": (
        *(f"dispatch.{name}" for name in ("program", "inputs", "config", "spec", "grid", "extent", "output_counts")),
        *(f"config.{name}" for name in ("spec", "grid", "extent", "workgroup", "output_counts")),
        *("config.element_count_override", "config.fixpoint_iterations", "config.label"),
    ),
    "says where results go": ("dispatch.out", "dispatch.outputs"),
    "refuses what is too much, or wrong": (
        *("config.step_budget", "config.race_check", "config.timeout_s", "config.max_output_bytes", "cuda.pool_bytes"),
        *("dispatch.race_check", "open.gates", "open.max_in_flight", "open.resident_budget"),
    ),
    "permits other bytes": ("config.ulp_budget",),
    "adds workgroups that end at once": ("config.pad_grid",),
    "is of other backends": (
        *("config.chunk_workgroups", "config.persistent_thread"),
        *("open.threads", "open.affinity"),
    ),
    "is what the device is": ("emission.target", "cuda.ordinal"),
    "follows from cuda.grid_sync and config.cooperative": ("emission.native_grid_sync",),
    "has switches of its own": ("emission.switches",),
    "prepares programs for other engines: no pass pays on a device yet": (
        *("config.optimize", "open.optimize", "open.optimizer"),
    ),
    "follows from config.optimize": ("emission.passes",),
    "is for kernels of persistent engines": ("emission.mailbox",),
    "says which lines of the source the instructions are of": ("emission.located",),
    "follows from the grid of the launch": ("emission.folded",),
    "is an adapter of this process": ("open.backend", "open.catalog", "open.telemetry", "open.environment"),
    "is of the end, or the loss, of a device": ("cuda.allow_primary_reset", "cuda.close_timeout_s"),
    "shows addresses to others": ("cuda.exports",),
    "is of the driver's assembler, which the machine has not; gpu_runs runs its levels": ("cuda.jit",),
    "checks what has run": ("open.shadow",),
    "says where files are": ("cache.directory",),
    "says what a power failure leaves": ("cache.durability",),
    "says how much is kept to be looked at": ("prediction.decisions",),
}
"""What changes no decision about how something is run."""
INERT: Final = [name for names in WHY_INERT.values() for name in names]


def declared() -> set[str]:
    """Every field and argument that could decide something, and the call that does."""

    def arguments(function: Callable[..., object]) -> list[str]:
        return [name for name in inspect.signature(function).parameters if name != "self"]

    found = {
        "emitter": [field.name for field in fields(Switches)],
        "emission": [field.name for field in fields(EmitOptions)],
        "cuda": [field.name for field in fields(CudaOptions)],
        "open": arguments(vyre.open),
        "cache": [field.name for field in fields(CacheConfig)],
        "prediction": [field.name for field in fields(PredictionConfig)],
        "dispatch": arguments(vyre.Session.dispatch),
        "config": [field.name for field in fields(DispatchConfig)],
        "session": ["specialize"],
    }
    return {f"{group}.{name}" for group, names in found.items() for name in names}


def test_every_field_is_a_switch_or_decides_nothing() -> None:
    assert sorted((*SWITCHES, *INERT)) == sorted(declared())
    for name, switch in SWITCHES.items():
        assert len(switch.values) > 1, name
        assert switch.others.keys() <= SWITCHES.keys(), name


def test_all_switches_of_the_emitter_are_on_or_off_together() -> None:
    for field in fields(Switches):
        assert (getattr(ALL_ON, field.name), getattr(ALL_OFF, field.name)) == (True, False)


# ---------------------------------------------------------------- configurations
USUAL: Final = {name: switch.values[0] for name, switch in SWITCHES.items()}


def drawn(choices: Random) -> dict[str, Any]:
    """A value for every switch, the usual one in every other case."""
    return {
        name: usual if choices.random() < 0.5 else choices.choice(SWITCHES[name].values)
        for name, usual in USUAL.items()
    }


def situation(name: str, seed: int) -> tuple[Scenario, Settings, tuple[Any, ...]]:
    """Programs, settings around a switch, and values that it takes; first those that it is about."""
    switch, choices = SWITCHES[name], Random(f"{name} {seed}")
    if seed:
        other = choices.choice(switch.values[1:])
        return scenario(choices.randrange(1 << 30)), drawn(choices), (switch.values[0], other)
    first = case_of(switch.example())
    return scenario(choices.randrange(1 << 30), first), {**USUAL, **switch.others}, switch.values


@pytest.mark.parametrize("name", SWITCHES)
def test_a_switch_changes_no_byte(name: str, tmp_path: Path) -> None:
    differences = 0
    for seed in range(SEEDS if SOAK else 1 + ([*SWITCHES].index(name) % 3 == 0)):
        programs, settings, values = situation(name, seed)
        wanted = expected(programs)
        found = []
        for number, value in enumerate(values):
            chosen = {**settings, name: value}
            try:
                seen = run(chosen, programs, wanted, tmp_path / f"{seed}-{number}")
            except BaseException as error:
                error.add_note(f"switch {name}, seed {seed}, with {chosen}")
                raise
            found.append(SWITCHES[name].seen(seen))
        differences += any(one != found[0] for one in found[1:])
    assert differences, f"{name} shows nowhere"
