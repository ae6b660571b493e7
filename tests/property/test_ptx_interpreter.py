"""A second engine for PTX agrees with the emulated device and the reference, whatever the order of lanes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from zlib import crc32

import pytest

from support.profiles import SOAK
from support.ptx_interpreter.backend import interpreter
from support.ptx_interpreter.campaign import Comparable, compare_case, compare_example, matrix
from support.ptx_interpreter.engine import SCHEDULES, Schedule
from vyre import ProgramBuilder, u32
from vyre.domain.errors import TrapError
from vyre.gallery.registry import MODULES
from vyre.testing.execution import execute, open_backend


def schedules_of(case: Comparable) -> Sequence[Schedule]:
    """All of them where lanes share memory or values, else one of them, by the name; the campaign has all of all."""
    shares = case.name.endswith("common") or case.name.startswith("subgroup")
    place = crc32(case.name.encode()) % len(SCHEDULES)
    return SCHEDULES if shares else SCHEDULES[place : place + 1]


@pytest.mark.parametrize(
    "case", [pytest.param(case, id=case.name) for case in matrix() if SOAK or not case.name.endswith(" of literals")]
)
def test_every_case_of_the_matrix_agrees(case: Comparable) -> None:
    """With the reference, with which ``test_operator_matrix`` compares the emulated device.

    Operations on literals alone are instructions that other cases have, too; a soak and the campaign run them.
    """
    for schedule in schedules_of(case):
        assert compare_case(case, schedule, rivals=("reference",)).complaint == ""


@pytest.mark.parametrize("module", MODULES)
def test_every_kernel_of_the_gallery_agrees(module: str) -> None:
    """In the canonical order and in another one, which its name draws; the campaign has all of them."""
    for schedule in (SCHEDULES[0], SCHEDULES[1 + crc32(module.encode()) % 2]):
        assert compare_example(module, schedule).complaint == ""


FLIPS = [
    ("add u32 u32", "add.u32", "sub.u32"),
    ("sub f32 f32", "sub.rn.f32", "add.rn.f32"),
    ("div i64 i64", "div.s64", "rem.s64"),
    ("shr i32 u32", "shr.s32", "shr.u32"),
    ("rotate_left u32 u32", "shf.l.wrap", "shf.r.wrap"),
    ("mul_high i64 i64", "mul.hi.s64", "mul.hi.u64"),
    ("min f64 f64", "min.f64", "max.f64"),
    ("lt f32 f32", "setp.lt.f32", "setp.le.f32"),
    ("lt f32 f32", "setp.lt.f32", "setp.ltu.f32"),
    ("round f32", "cvt.rzi.f32.f32", "cvt.rni.f32.f32"),
    ("round_even f32", "cvt.rni", "cvt.rzi"),
    ("multiply and add f32", "fma.rn.f32 %f2, %f0, %f1, %f1", "fma.rn.f32 %f2, %f0, %f1, %f0"),
    ("conversions of f32", "cvt.rzi.s32.f32", "cvt.rzi.u32.f32"),
    ("load i16", "ld.global.s16", "ld.global.u16"),
    ("div bf16 loaded", "cvt.rn.bf16x2.f32 %r7, %f2, 0f00000000", "cvt.rn.bf16x2.f32 %r7, 0f00000000, %f2"),
    ("add bf16 loaded", "add.rn.bf16", "sub.rn.bf16"),
    ("clz u64", "clz.b64", "popc.b64"),
    ("min i32 workgroup common", "red.relaxed.cta.shared.min.s32", "red.relaxed.cta.shared.min.u32"),
    ("exchange u32 storage own", "exch.b32", "add.u32"),
    ("subgroup shuffle u32 of 64", "31, 0xFFFFFFFF", "15, 0xFFFFFFFF"),
    ("subgroup add i64 of 64", "shfl.sync.bfly", "shfl.sync.idx"),
]


@pytest.mark.parametrize(("name", "old", "new"), FLIPS)
def test_a_changed_instruction_is_noticed(name: str, old: str, new: str) -> None:
    case = next(case for case in matrix() if case.name == name)
    wanted = execute(open_backend("reference"), case.program, case.inputs)
    seen: list[str] = []

    def edited(text: str) -> str:
        seen.append(text)
        return text.replace(old, new)

    found = execute(interpreter(edit=edited), case.program, case.inputs)
    assert old in seen[0] and found != wanted


def test_a_comparison_names_every_engine_that_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = partial(interpreter, edit=lambda text: text.replace("add.u32", "sub.u32").replace("%f1, %f2;", "%f1, %f1;"))
    monkeypatch.setattr("support.ptx_interpreter.campaign.interpreter", wrong)
    case = next(case for case in matrix() if case.name == "add u32 u32")
    assert compare_case(case, SCHEDULES[0]).complaint == "reference gives other bytes; cuda-machine gives other bytes"
    complaint = compare_example("basics.p01_saxpy", SCHEDULES[0]).complaint
    assert "elements differ" in complaint and complaint.count("gives another") == 2


@pytest.mark.parametrize("schedule", [pytest.param(schedule, id=schedule.name) for schedule in SCHEDULES])
def test_of_several_lanes_that_trap_the_first_is_told(schedule: Schedule) -> None:
    with ProgramBuilder("trapping", workgroup=64) as p:
        out = p.output("out", u32, count=256)
        lane = p.global_id()
        with p.if_(lane % 50 == 49):
            p.trap(lane * 2, "every fiftieth")
        out[lane] = lane
    with pytest.raises(TrapError) as caught:
        execute(interpreter(schedule), p.build(), {})
    assert (caught.value.tag, caught.value.address, caught.value.global_id) == ("every fiftieth", 98, (49, 0, 0))
