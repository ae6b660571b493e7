"""Calls mean the bodies of their definitions, for every way of running a program."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import vyre
from support.called_programs import DEFINITIONS, PROGRAMS
from support.fuzzing.form_corpus import lit, program, store
from vyre.app.emission import emission_keys
from vyre.app.sequences.steps import Step
from vyre.app.session import Session
from vyre.domain.dialects.expansion import expanded
from vyre.domain.dispatch import DispatchConfig
from vyre.domain.errors import BuildError
from vyre.domain.ir.builder import ProgramBuilder
from vyre.domain.ir.definitions import Definition, Parameter, Version
from vyre.domain.ir.event_builder import EventBuilder
from vyre.domain.ir.expr import Atomic, Binary, Call, Literal, Var, walk
from vyre.domain.ir.node_facts import node_facts
from vyre.domain.ir.operators import BinaryOp
from vyre.domain.ir.program import Access, Program
from vyre.domain.ir.stmt import Assign, If, Let, Loop
from vyre.domain.ir.types import ScalarType, u32
from vyre.domain.op_ids import ALL_OPS, required_ops
from vyre.domain.program_report import InvalidProgram

A = np.random.default_rng(7).integers(0, 1 << 32, 128, np.uint32)
HITS = np.array([5, 9], np.uint32)
INPUTS: dict[str, npt.NDArray[np.uint32]] = {"a": A}
COUNTS = {"hits": 2}
CONFIG = DispatchConfig(extent=A.size, output_counts=COUNTS)


def outputs(session: Session, run: Program) -> dict[str, bytes]:
    result = session.dispatch(run, INPUTS, extent=A.size, output_counts=COUNTS)
    return {name: bytes(result[name]) for name in ("hits", "out")}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("backend", ["reference", "reference-scalar", "cpu"])
def test_calls_give_the_bytes_of_their_bodies(backend: str, name: str) -> None:
    called, plain = PROGRAMS[name]
    with vyre.open(backend) as session:
        assert outputs(session, called) == outputs(session, plain)
        assert outputs(session, called)["out"] != bytes(A.nbytes)


@pytest.mark.parametrize("name", PROGRAMS)
def test_expanded_programs_are_valid_and_expand_to_themselves(name: str) -> None:
    called, _ = PROGRAMS[name]
    assert vyre.validate(called).ok
    found = expanded(called)
    assert found is expanded(called) is expanded(found)
    assert found.definitions == () and Call not in node_facts(found).types
    assert vyre.validate(found).ok
    assert found.digest != called.digest
    assert required_ops(called) == required_ops(found) <= ALL_OPS
    assert (found.buffers, found.workgroup_size) == (called.buffers, called.workgroup_size)


def test_a_program_without_calls_is_the_same_object() -> None:
    _, plain = PROGRAMS["loop"]
    assert expanded(plain) is plain
    assert expanded(replace(plain, definitions=PROGRAMS["loop"].called.definitions)).body is plain.body


def test_an_operand_keeps_its_place_before_effects_of_a_later_argument() -> None:
    """The atomic on the left of a call whose argument is an atomic runs first."""
    first, second, *_ = expanded(PROGRAMS["atomics"].called).body[1:]
    assert isinstance(first, Let) and isinstance(second, Let)
    assert type(first.value) is Binary and type(second.value) is Atomic
    assert Atomic in map(type, walk(first.value)) and second.value.value == lit(2)


def test_unchanged_links_of_a_chain_stay_the_same() -> None:
    chain = If(Literal(ScalarType.BOOL, 1), (), (If(Literal(ScalarType.BOOL, 0), (store(lit(1)),)),))
    made = replace(program(chain, store(Call("acme.one", ()))), definitions=(_definition("acme.one", lit(1)),))
    assert expanded(made).body[0] is chain


def test_a_step_that_an_argument_makes_zero_runs_no_round() -> None:
    """As a literal it would break a rule that the program as written keeps."""
    rounds = _definition(
        "acme.rounds",
        Var("n"),
        Let("n", lit(0)),
        Loop("k", lit(0), lit(5), Var("by"), (_add_one("n"),)),
        parameters=("by",),
    )
    made = replace(program(store(Call("acme.rounds", (lit(0),)))), definitions=(rounds,))
    assert vyre.validate(made).ok
    with vyre.open("reference") as session:
        assert bytes(session.dispatch(made, {"y": np.array([7], np.uint32)}, grid=1)["y"]) == bytes(4)


def _add_one(name: str) -> Assign:
    return Assign(name, Binary(BinaryOp.ADD, Var(name), lit(1)))


def _definition(name: str, result: Any, *body: Any, parameters: tuple[str, ...] = ()) -> Definition:
    return Definition(name, Version(1), tuple(Parameter(each, u32) for each in parameters), u32, body, result)


# Ways of running.


def _bound(session: Session, run: Program) -> bytes:
    launch = session.bind(run, INPUTS, extent=A.size, output_counts=COUNTS)
    launch()
    return bytes(launch()["out"])


def _resident(session: Session, run: Program, times: Callable[[Session, Step], object]) -> bytes:
    with (
        session.resident(A) as a,
        session.resident(np.zeros(2, np.uint32)) as hits,
        session.resident(np.zeros_like(A)) as out,
    ):
        times(session, Step(run, {"a": a, "hits": hits, "out": out}, DispatchConfig(extent=A.size)))
        return out.download().tobytes()


def _bound_resident(session: Session, run: Program) -> bytes:
    return _resident(session, run, lambda s, step: s.bind_resident(step.program, step.inputs, step.config)())


def _sequence(session: Session, run: Program) -> bytes:
    return _resident(session, run, lambda s, step: s.sequence([step, step])())


def _megakernel(session: Session, run: Program) -> bytes:
    return _resident(session, run, lambda s, step: s.sequence([step, step], modes={"megakernel": True})())


def _submitted(session: Session, run: Program) -> bytes:
    return bytes(session.submit(run, INPUTS, CONFIG).result()["out"])


def _race_checked(session: Session, run: Program) -> bytes:
    return bytes(session.dispatch(run, INPUTS, extent=A.size, output_counts=COUNTS, race_check=True)["out"])


def _tuned(session: Session, run: Program) -> bytes:
    return bytes(session.dispatch(run, INPUTS, session.tuned(run, INPUTS, CONFIG).config)["out"])


def _persistent(session: Session, run: Program) -> bytes:
    with session.persistent(run, INPUTS, CONFIG) as jobs:
        return bytes(jobs.submit(INPUTS).result()["out"])


WAYS: dict[str, Callable[[Session, Program], bytes]] = {
    "bound": _bound,
    "bound resident": _bound_resident,
    "megakernel": _megakernel,
    "sequence": _sequence,
    "submitted": _submitted,
    "race checked": _race_checked,
    "tuned": _tuned,
    "persistent": _persistent,
}


@pytest.mark.parametrize("way", WAYS)
def test_every_way_of_running_expands(way: str) -> None:
    called, plain = PROGRAMS["else if"]
    with vyre.open("reference" if way == "race checked" else "cpu") as session:
        assert WAYS[way](session, called) == WAYS[way](session, plain) != bytes(A.nbytes)


def test_emission_and_bundles_take_calls(tmp_path: Path) -> None:
    called, _ = PROGRAMS["loop"]
    assert vyre.emit(called, target="sm_80").text == vyre.emit(expanded(called), target="sm_80").text
    assert emission_keys(called, target="sm_80") == emission_keys(expanded(called), target="sm_80")


def test_explain_and_invalidate_take_calls() -> None:
    called, _ = PROGRAMS["loop"]
    with vyre.open("cpu") as session:
        session.dispatch(called, INPUTS, extent=A.size, output_counts=COUNTS)
        assert str(session.explain(called, CONFIG, inputs=INPUTS))
        assert session.invalidate(called).forgotten >= 1


# Builders.


def test_the_builder_calls_definitions() -> None:
    mix = PROGRAMS["let"].called.definitions[0]
    with ProgramBuilder(workgroup=64) as p:
        a, _, out = p.input("a", u32), p.inout("hits", u32, 2), p.output("out", u32, like="a")
        i = p.global_id()
        out[i] = p.call(mix, a[i], i) + p.call("acme.mix", 1, 2)
    made = p.build()
    assert made.definitions == (mix,)
    assert pickle.loads(pickle.dumps(made)) == made == Program.from_text(made.to_text())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda p, mix: p.call(mix, 1), "`acme.mix` takes 2 arguments, got 1"),
        (lambda p, mix: p.call(mix, 1, vyre.f32(1.0)), "must be u32"),
        (lambda p, mix: p.call(3, 1), "is no definition"),
        (lambda p, mix: p.define(mix, replace(mix, version=Version(2))), "another definition"),
    ],
)
def test_misuse_of_calls_is_refused(call: Callable[[ProgramBuilder, Definition], object], message: str) -> None:
    mix = PROGRAMS["let"].called.definitions[0]
    with ProgramBuilder(workgroup=64) as p, pytest.raises(BuildError, match=message):
        call(p, mix)


def test_the_event_builder_takes_definitions() -> None:
    mix = PROGRAMS["let"].called.definitions[0]
    events = EventBuilder(workgroup=64)
    events.buffer("y", u32, Access.READ_WRITE)
    assert events.define(mix) is mix
    events.store("y", lit(0), Call("acme.mix", (lit(1), lit(2))))
    assert events.build().definitions == (mix,)


# Versions.


@pytest.mark.parametrize("text", ["", "1", "1.2", "1.2.3.4", "01.0.0", "1.0.-1", "1.0.4294967296", "1.0.x", " 1.0.0"])
def test_other_texts_are_no_versions(text: str) -> None:
    with pytest.raises(ValueError, match="no version"):
        Version.of(text)


def test_versions_compare_as_numbers() -> None:
    assert Version.of("10.0.0") > Version.of("9.0.0") > Version.of("9.0.0".replace("9", "8")) >= Version(8)
    assert str(Version(10, 0, 3)) == "10.0.3"


def test_an_invalid_program_with_definitions_is_refused_before_it_is_expanded() -> None:
    wrong = replace(program(store(Call("acme.one", (lit(1),)))), definitions=(_definition("acme.one", lit(1)),))
    with vyre.open("reference") as session, pytest.raises(InvalidProgram, match="V224"):
        session.dispatch(wrong, {"y": np.zeros(1, np.uint32)}, grid=1)


QUERY = """workgroup_size 64, 1, 1
buffer a @0 read u32[runtime]
param k @1 u32
buffer out @2 read_write u32[runtime] like a output
"""


def test_queries_expand() -> None:
    run = Program.from_text(f"{QUERY}{DEFINITIONS}body {{ out[gid.x] = acme.hash(a[gid.x], k) }}")
    rounds = np.array([1, 2, 3], np.uint32)
    with vyre.open("cpu") as session:
        single = [bytes(session.dispatch(run, {"a": A, "k": int(k)}, extent=A.size)["out"]) for k in rounds]
        with session.queries(run, {"a": A}, extent=A.size) as queries:
            found = queries({"k": rounds})["out"]
    assert [np.asarray(each).tobytes() for each in found] == single
    assert single[0] != single[1]
