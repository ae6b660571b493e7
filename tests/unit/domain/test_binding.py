"""What each buffer of a program is to the caller, and where its bytes go."""

from __future__ import annotations

import pytest

from support.kernels import kernel
from vyre.domain.binding import BindingRole, plan_bindings, role_of
from vyre.domain.ir.buffers import inputs_of, outputs_of
from vyre.domain.ir.program import Access, Buffer, BufferHints, MemoryKind, Program
from vyre.domain.ir.types import ReservedType, ScalarType, bool_, f32, u8, u16, u32, u64
from vyre.domain.program_report import InvalidProgram

R, RW, W, U, WG = Access.READ_ONLY, Access.READ_WRITE, Access.WRITE_ONLY, Access.UNIFORM, Access.WORKGROUP


def _program(*buffers: Buffer) -> Program:
    return kernel(buffers=buffers)


def _aligned(hint: int, element: ScalarType = u32) -> Buffer:
    return Buffer.make("b", 0, R, element, hints=BufferHints(preferred_alignment=hint))


@pytest.mark.parametrize(
    ("buffer", "role", "takes_input", "is_returned"),
    [
        (Buffer.make("b", 0, R, u32), BindingRole.INPUT, True, False),
        (Buffer.make("b", 0, RW, u32), BindingRole.INPUT_OUTPUT, True, True),
        (Buffer.make("b", 0, RW, u32, is_output=True), BindingRole.OUTPUT, False, True),
        (Buffer.make("b", 0, W, u32), BindingRole.OUTPUT, False, True),
        (Buffer.make("b", 0, U, u32), BindingRole.UNIFORM, True, False),
        (Buffer.make("b", 0, U, u32, 1, kind=MemoryKind.PUSH), BindingRole.PUSH, True, False),
        (Buffer.make("b", 0, RW, u32, kind=MemoryKind.PERSISTENT), BindingRole.PERSISTENT, True, True),
    ],
)
def test_roles(buffer: Buffer, role: BindingRole, takes_input: bool, is_returned: bool) -> None:
    assert role_of(buffer) is role
    (binding,) = plan_bindings(_program(buffer)).bindings
    assert binding.role is role
    assert (binding.input_index == 0) is takes_input
    assert (binding.output_index == 0) is is_returned


def test_inputs_and_outputs_are_told_in_the_order_given() -> None:
    workgroup, private = Buffer.make("g", 5, WG, u32, 8), Buffer.make("p", 6, Access.PRIVATE, u32, 8)
    both, result, given = Buffer.make("b", 2, RW, u32), Buffer.make("w", 1, W, u32), Buffer.make("r", 0, R, u32)
    buffers = (workgroup, both, result, private, given)
    assert inputs_of(buffers) == (both, given)
    assert outputs_of(buffers) == (both, result)
    plan = plan_bindings(program := _program(*buffers))
    assert inputs_of(program.abi_buffers) == tuple(plan.bindings[place].buffer for place in plan.inputs)
    assert outputs_of(program.abi_buffers) == tuple(plan.bindings[place].buffer for place in plan.outputs)


@pytest.mark.parametrize(
    "buffer", [Buffer.make("b", 0, WG, u32, 8), Buffer.make("b", 0, RW, u32, 8, kind=MemoryKind.SHARED)]
)
def test_workgroup_memory_is_shared(buffer: Buffer) -> None:
    assert role_of(buffer) is BindingRole.SHARED


def test_private_memory_has_no_binding() -> None:
    scratch = Buffer.make("scratch", 0, Access.PRIVATE, u32, 8)
    assert role_of(scratch) is BindingRole.PRIVATE
    plan = plan_bindings(_program(Buffer.make("out", 1, W, f32, 4), scratch))
    assert [b.buffer.name for b in plan.bindings] == ["out"]
    assert plan.shared == ()


def test_everything_positional_follows_the_binding_number() -> None:
    program = _program(
        Buffer.make("out", 9, W, f32, 4),
        Buffer.make("scratch", 0, WG, u64, 16),
        Buffer.make("state", 8, RW, u32),
        Buffer.make("table", 1, R, u8, 3),
        Buffer.make("first", 0, U, bool_),
    )
    plan = plan_bindings(program)
    assert [b.buffer.name for b in plan.bindings] == ["first", "table", "state", "out"]
    assert [plan.bindings[i].buffer.name for i in plan.inputs] == ["first", "table", "state"]
    assert [plan.bindings[i].buffer.name for i in plan.outputs] == ["state", "out"]
    assert [b.input_index for b in plan.bindings] == [0, 1, 2, None]
    assert [b.output_index for b in plan.bindings] == [None, None, 0, 1]
    assert [b.element_size for b in plan.bindings] == [4, 1, 4, 4]
    assert [b.static_nbytes for b in plan.bindings] == [None, 3, None, 16]
    assert [b.name for b in plan.shared] == ["scratch"]


def test_the_layout_depends_on_numbers_roles_and_elements_but_not_on_counts() -> None:
    small = plan_bindings(_program(Buffer.make("x", 0, R, u32, 4), Buffer.make("y", 1, W, u32, 4)))
    large = plan_bindings(_program(Buffer.make("y", 1, W, u32), Buffer.make("x", 0, R, u32)))
    wider = plan_bindings(_program(Buffer.make("x", 0, R, u64, 4), Buffer.make("y", 1, W, u32, 4)))
    assert small.layout == large.layout
    assert small.layout != wider.layout


@pytest.mark.parametrize(
    ("buffer", "alignment"),
    [
        (_aligned(0, u16), 2),
        (_aligned(0, u64), 8),
        (_aligned(4, u64), 8),
        (_aligned(1), 4),
        (_aligned(256), 256),
    ],
)
def test_alignment_is_the_larger_of_hint_and_element(buffer: Buffer, alignment: int) -> None:
    assert plan_bindings(_program(buffer)).bindings[0].alignment == alignment


@pytest.mark.parametrize("hint", [3, 48, 255])
def test_an_alignment_that_is_no_power_of_two_is_refused(hint: int) -> None:
    with pytest.raises(InvalidProgram, match=rf"`b`.*{hint} bytes.*power of two"):
        plan_bindings(_program(_aligned(hint)))


def test_a_reserved_element_type_is_refused() -> None:
    with pytest.raises(InvalidProgram, match=r"`b` has elements of tensor"):
        plan_bindings(_program(Buffer.make("b", 0, R, ReservedType("tensor"))))


def test_the_plan_is_made_once() -> None:
    program = _program(Buffer.make("x", 0, R, u32))
    assert plan_bindings(program) is plan_bindings(program)
