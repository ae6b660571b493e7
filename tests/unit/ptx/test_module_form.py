"""Emitted modules survive the way through a store, and nothing else comes out of one."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields, replace
from functools import cache
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.programs import generate
from vyre.adapters.cuda.ptx.emit import emit
from vyre.adapters.cuda.ptx.kernel import Assumption, EmittedKernel, EmittedModule, Init, Parameter, ParameterKind
from vyre.adapters.cuda.ptx.module_form import (
    ModuleLayout,
    decode_layout,
    encode_layout,
    from_artifact,
    layout_of,
    to_artifact,
)
from vyre.adapters.cuda.ptx.options import EmitOptions
from vyre.domain.errors import MalformedWire
from vyre.domain.ir.builder import ProgramBuilder
from vyre.domain.ir.types import u32
from vyre.gallery.registry import examples
from vyre.ports.artifact_store import Artifact

KERNEL: Final = EmittedKernel(
    "vy_0123",
    (64, 2, 1),
    (
        Parameter(ParameterKind.POINTER, 0, 8, 8, "x \ud800\n", 3, "u32", Init.INPUT),
        Parameter(ParameterKind.TRAP, 8, 8, 8, init=Init.ZERO, nbytes=32),
        Parameter(ParameterKind.COUNT, 16, 4, 4, "x \ud800\n", 3, "u32"),
        Parameter(ParameterKind.SCALAR, 20, 4, 4, value=0),
        Parameter(ParameterKind.UNIFORM, 32, 12, 16, "u", 4, "f32", Init.INPUT),
    ),
    60,
    128,
    0,
    False,
    (Assumption.NOALIAS,),
    ("tag",),
)
LAYOUT: Final = ModuleLayout("sm_90", "7.8", (KERNEL,))
PTX: Final = ".version 7.8\n.target sm_90\n.address_size 64\n\n.visible .entry vy_0123(\n\t.param .u64 p0\n)\n{\n}\n"
MODULE: Final = EmittedModule(PTX, *LAYOUT)
OTHER: Final[dict[type, dict[str, Any]]] = {
    EmittedModule: {
        "ptx": PTX + "\n",
        "target": "sm_120a",
        "version": "8.8",
        "kernels": (KERNEL, replace(KERNEL, entry="vy_4567")),
    },
    EmittedKernel: {
        "entry": "vy_0124",
        "block": (64, 1, 1),
        "parameters": KERNEL.parameters[:2],
        "parameter_bytes": 48,
        "shared_static": 0,
        "shared_dynamic": 4096,
        "cooperative": True,
        "assumes": (),
        "trap_tags": ("tag", "other"),
    },
    Parameter: {
        "kind": ParameterKind.SCALAR,
        "offset": 48,
        "size": 16,
        "align": 4,
        "name": "y",
        "binding": 2,
        "dtype": "u32",
        "init": Init.ZERO,
        "nbytes": 8,
        "value": 1,
    },
}
"""Another value of every field: a new field belongs here."""
UNIFORM: Final = KERNEL.parameters[-1]


@cache
def emitted() -> tuple[EmittedModule, ...]:
    programs = [example.program() for example in examples().values()]
    programs += [generate(seed).program for seed in range(30)]
    found = [emit(program, EmitOptions(target=target)) for program in programs for target in (75, 120)]
    return (*found, *(emit(program, EmitOptions(native_grid_sync=False)) for program in programs))


def test_everything_emitted_comes_back() -> None:
    assert any(len(module.kernels) > 1 for module in emitted())
    for module in emitted():
        artifact = to_artifact(module, cost_ns=7)
        assert from_artifact(artifact) == module
        assert artifact.code == module.ptx.encode()
        assert artifact.cost_ns == 7


def test_names_may_hold_anything() -> None:
    with ProgramBuilder("p", workgroup=64) as p:
        x = p.inout('a "\n\\ é {} \U0001f642', u32)
        x[p.global_id()] = u32(1)
    module = emit(p.build())
    assert from_artifact(to_artifact(module)) == module
    assert decode_layout(encode_layout(LAYOUT)) == LAYOUT


@pytest.mark.parametrize("cls", OTHER)
def test_every_field_has_another_value_here(cls: type) -> None:
    assert [field.name for field in fields(cls)] == list(OTHER[cls])


def changed() -> list[Any]:
    cases: list[Any] = []
    for name, value in OTHER[EmittedModule].items():
        cases.append(pytest.param(replace(MODULE, **{name: value}), id=f"module.{name}"))
    for name, value in OTHER[EmittedKernel].items():
        cases.append(pytest.param(replace(MODULE, kernels=(replace(KERNEL, **{name: value}),)), id=f"kernel.{name}"))
    for name, value in OTHER[Parameter].items():
        parameters = (*KERNEL.parameters[:-1], replace(UNIFORM, **{name: value}))
        kernel = replace(KERNEL, parameters=parameters)
        cases.append(pytest.param(replace(MODULE, kernels=(kernel,)), id=f"parameter.{name}"))
    return cases


@pytest.mark.parametrize("module", changed())
def test_every_field_is_stored(module: EmittedModule) -> None:
    assert module != MODULE
    found, expected = to_artifact(module), to_artifact(MODULE)
    assert (found.metadata, found.code) != (expected.metadata, expected.code)
    assert decode_layout(found.metadata) == layout_of(module)


# ---------------------------------------------------------------- what is refused
@given(metadata=st.binary(max_size=80), code=st.binary(max_size=80))
def test_any_bytes_give_a_typed_error(metadata: bytes, code: bytes) -> None:
    for artifact in (Artifact(metadata, code), Artifact(encode_layout(LAYOUT), code), Artifact(metadata, PTX.encode())):
        with pytest.raises(MalformedWire, match=r"not an emitted module: .*Fix: rebuild the artifact"):
            from_artifact(artifact)


@given(data=st.data())
def test_damaged_layouts_are_refused_or_are_other_layouts(data: st.DataObject) -> None:
    encoded = bytearray(encode_layout(layout_of(data.draw(st.sampled_from((MODULE, *emitted()[:20]))))))
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(encoded) - 1))
        match data.draw(st.sampled_from(("set", "drop", "insert"))):
            case "set":
                encoded[place] = data.draw(st.integers(0, 255))
            case "drop":
                del encoded[place]
            case _:
                encoded.insert(place, data.draw(st.sampled_from(b'0159-."[]{}:,eEnull')))
    try:
        found = decode_layout(bytes(encoded))
    except MalformedWire:
        return
    assert encode_layout(found) == encoded


json_values: Final = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | st.just("pointer"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


def paths(value: Any, prefix: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [prefix, *(path for key, inner in items for path in paths(inner, (*prefix, key)))]


@given(value=json_values, data=st.data())
def test_values_of_other_types_are_refused(value: Any, data: st.DataObject) -> None:
    tree = json.loads(encode_layout(LAYOUT))
    path = data.draw(st.sampled_from([path for path in paths(tree) if path]))
    place = tree
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    encoded = json.dumps(tree, separators=(",", ":"), sort_keys=True).encode()
    try:
        found = decode_layout(encoded)
    except MalformedWire:
        return
    assert encode_layout(found) == encoded


def test_every_truncation_is_refused() -> None:
    encoded = encode_layout(LAYOUT)
    for end in range(len(encoded)):
        with pytest.raises(MalformedWire):
            decode_layout(encoded[:end])


def kernel(**changes: Any) -> ModuleLayout:
    return LAYOUT._replace(kernels=(replace(KERNEL, **changes),))


def parameter(**changes: Any) -> ModuleLayout:
    return kernel(parameters=(*KERNEL.parameters[:-1], replace(UNIFORM, **changes)))


@pytest.mark.parametrize(
    ("layout", "message"),
    [
        (LAYOUT._replace(target="sm_9"), "'sm_9' is no target"),
        (LAYOUT._replace(version="7"), "'7' is no version of PTX"),
        (LAYOUT._replace(kernels=()), "it has no kernel"),
        (LAYOUT._replace(kernels=(KERNEL, KERNEL)), "or two of a name"),
        (kernel(entry="1st"), "no name of an entry"),
        (kernel(block=(64, 0, 1)), "its block is"),
        (kernel(block=(64, 1)), "not enough values to unpack"),
        (kernel(shared_static=-1), "a size is none"),
        (kernel(shared_dynamic=2**32), "a size is none"),
        (kernel(cooperative=1), "wrong types"),
        (kernel(trap_tags=(1,)), "wrong types"),
        (kernel(trap_tags=()), "it traps without a tag"),
        (kernel(parameter_bytes=43), "its parameters take 44 bytes, not 43"),
        (kernel(parameter_bytes=44.0), "its parameters take 44 bytes"),
        (parameter(offset=16), "its parameters overlap"),
        (parameter(offset=40), "uniform parameter at 40 is none"),
        (parameter(align=3), "uniform parameter at 32 is none"),
        (parameter(align=32), "uniform parameter at 32 is none"),
        (parameter(size=0), "uniform parameter at 32 is none"),
        (parameter(name=None), "uniform parameter at 32 is none"),
        (parameter(dtype=None), "uniform parameter at 32 is none"),
        (parameter(binding=None), "uniform parameter at 32 is none"),
        (parameter(binding=-1), "uniform parameter at 32 is none"),
        (parameter(kind=ParameterKind.COUNT), "count parameter at 32 is none"),
        (parameter(kind=ParameterKind.POINTER), "pointer parameter at 32 is none"),
        (parameter(kind=ParameterKind.BARRIER, size=8), "barrier parameter at 32 is none"),
        (parameter(kind=ParameterKind.SCALAR, binding=None, value=1), "scalar parameter at 32 is none"),
        (parameter(kind=ParameterKind.SCALAR, binding=None, size=4, value=2**32), "scalar parameter at 32 is none"),
    ],
)
def test_layouts_that_make_no_sense_are_refused(layout: ModuleLayout, message: str) -> None:
    with pytest.raises(MalformedWire, match=message):
        decode_layout(encode_layout(layout))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda data: data.replace(b"vyre-module/1", b"vyre-module/2"), "its format is not vyre-module/1"),
        (lambda data: data.replace(b'"entry"', b'"entri"'), "it lacks 'entry'"),
        (lambda data: data.replace(b",", b", "), "not written canonically"),
        (lambda data: data.replace(b'"align":8', b'"align":8,"more":1', 1), "not written canonically"),
        (lambda data: data.replace(b'"shared_static":128', b'"shared_static":128.0'), "a size is none"),
        (lambda data: b"[" * 100_000, "nested more than 64 deep"),
        (lambda data: data.replace(b'"shared_static":128', b'"shared_static":1' + b"0" * 5000), "more than 40 digits"),
        (lambda data: data + b"\xff", "can't decode byte"),
        (lambda data: b"[]", "its format is not"),
    ],
)
def test_documents_that_nobody_wrote_are_refused(damage: Callable[[bytes], bytes], message: str) -> None:
    with pytest.raises(MalformedWire, match=message):
        decode_layout(damage(encode_layout(LAYOUT)))


@pytest.mark.parametrize(
    ("ptx", "message"),
    [
        (PTX.replace("sm_90", "sm_80"), "another target"),
        (PTX.replace("7.8", "8.8"), "of another version"),
        (PTX.replace("vy_0123", "vy_0124"), "other entries"),
        (PTX.replace(".visible .entry", ".entry"), "other entries"),
        (PTX + PTX, "other entries"),
        (PTX + "\0", "no text"),
        (PTX + "// é", "no text"),
    ],
)
def test_ptx_of_another_module_is_refused(ptx: str, message: str) -> None:
    assert from_artifact(Artifact(encode_layout(LAYOUT), PTX.encode())) == MODULE
    with pytest.raises(MalformedWire, match=message):
        from_artifact(Artifact(encode_layout(LAYOUT), ptx.encode()))
