"""Specialization values and keys.  The hashes themselves are pinned by the golden vectors."""

from __future__ import annotations

import pickle
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vectors.seeds.specialization_keys import (
    UNTAGGED,
    SpecCacheKey,
    dtype_tag,
    map_hash,
    pipeline_f64,
    value_hash,
    versioned_specialization_artifact_key,
    vsa_specialization_key,
)
from vyre.domain.errors import InvalidConfig
from vyre.domain.ir.builder import ProgramBuilder
from vyre.domain.ir.program import Program
from vyre.domain.ir.types import (
    RESERVED_TAGS,
    DataType,
    ReservedType,
    ScalarType,
    f32,
    f64,
    i32,
    u32,
)
from vyre.domain.specialization import (
    SpecKind,
    SpecMap,
    SpecValue,
    resolve_spec,
    spec_constants,
    spec_literals,
    written_spec,
)

DATA_TYPES: list[DataType] = [*ScalarType, *(ReservedType(name) for name in RESERVED_TAGS)]
values = st.one_of(
    st.integers(0, 2**32 - 1).map(SpecValue.u32),
    st.integers(-(2**31), 2**31 - 1).map(SpecValue.i32),
    st.floats(width=32).map(SpecValue.f32),
    st.booleans().map(SpecValue.bool_),
    st.sampled_from(DATA_TYPES).map(SpecValue.dtype),
)
entries = st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=6), values, max_size=5)


def test_every_data_type_has_its_own_tag_but_for_the_recorded_gap() -> None:
    tags = {t.text: dtype_tag(t) for t in DATA_TYPES}
    assert tags.pop("quantized") == UNTAGGED
    assert len(set(tags.values())) == len(tags)
    assert UNTAGGED not in tags.values()


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (SpecValue.u32(7), 7 << 8),
        (SpecValue.i32(-1), 1 | 0xFFFF_FFFF << 8),
        (SpecValue.f32(1.0), 2 | 0x3F80_0000 << 8),
        (SpecValue.bool_(True), 3 | 1 << 8),
        (SpecValue.dtype(f32), 4 | 0x0B << 8),
    ],
)
def test_hash_of_a_value(value: SpecValue, expected: int) -> None:
    assert value_hash(value) == expected


def test_pipeline_f64() -> None:
    assert pipeline_f64(SpecValue.i32(-(2**31))) == -(2.0**31)
    assert pipeline_f64(SpecValue.u32(2**32 - 1)) == 2.0**32 - 1
    assert pipeline_f64(SpecValue.f32(0.1)) == struct.unpack("<f", struct.pack("<f", 0.1))[0]
    assert pipeline_f64(SpecValue.bool_(True)) == 1.0
    assert pipeline_f64(SpecValue.dtype(f64)) == f64.tag


def test_floats_are_equal_by_bits() -> None:
    nan = SpecValue.f32(float("nan"))
    assert nan == SpecValue.f32(float("nan"))
    assert SpecValue.f32(0.0) != SpecValue.f32(-0.0)


@pytest.mark.parametrize(
    "make", [lambda: SpecValue.u32(-1), lambda: SpecValue.i32(2**31), lambda: SpecValue.u32(2**32)]
)
def test_numbers_out_of_range_are_refused(make: object) -> None:
    assert callable(make)
    with pytest.raises(InvalidConfig, match="Fix:"):
        make()


def test_only_four_scalars_can_be_constants() -> None:
    with pytest.raises(InvalidConfig, match="u64"):
        SpecValue.scalar(ScalarType.U64, 1)


@given(entries)
def test_order_of_insertion_does_not_matter(found: dict[str, SpecValue]) -> None:
    forward, backward = SpecMap(found), SpecMap(list(reversed(found.items())))
    assert forward == backward
    assert hash(forward) == hash(backward)
    assert list(forward) == sorted(found)
    assert map_hash(forward) == map_hash(backward)
    assert forward.canonical_bytes() == backward.canonical_bytes()


@given(entries, entries)
def test_canonical_bytes_are_injective(a: dict[str, SpecValue], b: dict[str, SpecValue]) -> None:
    assert (SpecMap(a).canonical_bytes() == SpecMap(b).canonical_bytes()) == (SpecMap(a) == SpecMap(b))


def test_canonical_bytes_tell_apart_what_the_interchange_hash_does_not() -> None:
    a, b = SpecMap({"A": 0, "B": 7}), SpecMap({"A" + "\0" * 8 + "B": 7})
    assert map_hash(a) == map_hash(b)
    assert a.canonical_bytes() != b.canonical_bytes()
    narrow = SpecValue.dtype(ReservedType("vec", (u32, 2)))
    wide = SpecValue.dtype(ReservedType("vec", (f32, 4)))
    assert value_hash(narrow) == value_hash(wide)
    assert narrow.canonical_bytes() != wide.canonical_bytes()


def test_type_arguments_are_framed() -> None:
    nested = [
        ReservedType("tensor_shaped", (u32, (1, 2))),
        ReservedType("tensor_shaped", (u32, (12,))),
        ReservedType("tensor_shaped", (u32, 1, 2)),
        ReservedType("opaque", ("1", 2)),
        ReservedType("opaque", (1, "2")),
        ReservedType("vec", (ReservedType("vec", (u32, 2)), 3)),
    ]
    assert len({SpecValue.dtype(t).canonical_bytes() for t in nested}) == len(nested)


def test_a_map_is_replaced_never_changed() -> None:
    before = SpecMap({"tile": 8})
    after = before.with_value("tile", SpecValue.i32(8))
    assert before["tile"] == SpecValue.u32(8)
    assert after["tile"] == SpecValue.i32(8)
    assert pickle.loads(pickle.dumps(after)) == after


def test_plain_values_follow_the_builder() -> None:
    found = SpecMap([("n", 1), ("x", 1.0), ("on", True), ("t", f32)])
    assert [found[k].kind for k in ("n", "x", "on", "t")] == [
        SpecKind.U32,
        SpecKind.F32,
        SpecKind.BOOL,
        SpecKind.DTYPE,
    ]


def test_cache_key_and_its_autotune_key() -> None:
    specs = SpecMap({"k": 1})
    key = SpecCacheKey.build(0xDEAD, 0xBEEF, (64, 2, 3), specs)
    assert key.spec_hash == map_hash(specs)
    assert key.autotune_key() == struct.pack("<QQ", map_hash(specs) ^ 64 ^ 2 << 16 ^ 3 << 32, 0xDEAD ^ 0xBEEF)
    assert key != SpecCacheKey.build(0xDEAD, 0xBEEF, (64, 2, 3), SpecMap({"k": 2}))


def test_vsa_key_keeps_program_and_constants_apart() -> None:
    fingerprint = bytes(range(32))
    a, b = vsa_specialization_key(fingerprint, 0x11), vsa_specialization_key(fingerprint, 0x22)
    assert a >> 64 == b >> 64 == int.from_bytes(fingerprint[:8], "little")
    assert (a & (2**64 - 1), b & (2**64 - 1)) == (0x11, 0x22)
    for fingerprint_, spec_hash in ((b"short", 1), (fingerprint, 2**64)):
        with pytest.raises(InvalidConfig):
            vsa_specialization_key(fingerprint_, spec_hash)


def test_artifact_key_frames_its_fields() -> None:
    assert versioned_specialization_artifact_key(1, "ab", "cd") != versioned_specialization_artifact_key(1, "abc", "d")
    with pytest.raises(InvalidConfig):
        versioned_specialization_artifact_key(2**32, "", "")


def _program() -> Program:
    with ProgramBuilder("p", workgroup=1) as p:
        y = p.output("y", i32, 1)
        n = p.spec("n", i32(4))
        with p.if_(p.spec("on", False)):
            y[0] = n
    return p.build()


def test_a_program_gives_its_constants_their_types() -> None:
    program = _program()
    assert {name: literal.dtype for name, literal in spec_constants(program).items()} == {
        "n": i32,
        "on": ScalarType.BOOL,
    }
    assert resolve_spec(program, {"n": -3}) == SpecMap({"n": SpecValue.i32(-3)})
    literals = spec_literals(program, {"on": True})
    assert (literals["n"].bits, literals["on"].bits) == (4, 1)


@pytest.mark.parametrize("given_", [{"m": 1}, {"n": 1.5}, {"n": SpecValue.u32(1)}, {"n": f32}, {"on": 1}, {"n": 2**31}])
def test_constants_that_do_not_fit_the_program(given_: dict[str, SpecValue | int | float | ScalarType]) -> None:
    with pytest.raises(InvalidConfig, match="Fix:"):
        resolve_spec(_program(), given_)


@given(entries)
def test_canonical_bytes_are_written_for_people_by_name(found: dict[str, SpecValue]) -> None:
    spec = SpecMap(found)
    written = written_spec(spec.canonical_bytes())
    assert list(written) == sorted(found)
    for name, value in found.items():
        kind, _, bits = written[name].partition(" ")
        assert kind == value.kind.name.lower()
        assert value.data_type is not None or int(bits, 16) == value.bits


@given(st.binary(max_size=60), entries, st.data())
def test_bytes_that_are_no_spec_are_refused(noise: bytes, found: dict[str, SpecValue], data: st.DataObject) -> None:
    canonical = SpecMap(found).canonical_bytes()
    cut = canonical[: data.draw(st.integers(0, len(canonical) - 1))]
    for wrong in (canonical + b"x", cut, noise):
        try:
            written_spec(wrong)
        except ValueError:
            continue
        assert wrong not in (canonical + b"x", cut)


def test_a_name_may_hold_any_character() -> None:
    assert written_spec(SpecMap({"\ud800": 1}).canonical_bytes()) == {"\ud800": "u32 0x1"}
    assert map_hash(SpecMap({"\ud800": 1})) != map_hash(SpecMap({"\ud801": 1}))
