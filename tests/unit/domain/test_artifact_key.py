"""Keys of artifacts: every field counts, every key has one encoding, and every encoding one key."""

from __future__ import annotations

import pickle
from dataclasses import fields, replace
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vyre.domain.artifact_key import DOMAIN, FIELDS, ArtifactKey, ArtifactKind, Facts, KeyFamily, facts
from vyre.domain.errors import MalformedWire

any_text: Final = st.text(st.characters(), max_size=4)  # with lone surrogates, which names may hold
any_bytes: Final = st.binary(max_size=6)
any_facts: Final[st.SearchStrategy[Facts]] = st.dictionaries(any_text, any_text, max_size=3).map(facts)
VALUES: Final[dict[str, st.SearchStrategy[Any]]] = {
    "kind": st.sampled_from(ArtifactKind),
    "target": any_text,
    "device": any_facts,
    "driver": any_text,
    "tool": any_text,
    "emitter": any_bytes,
    "policy": any_facts,
    "program": any_bytes,
    "interface": st.lists(any_text, max_size=3).map(tuple),
    "workgroup": st.tuples(*[st.integers(0, 2**32 - 1)] * 3),
    "spec": any_bytes,
}
"""A new field of the key belongs here, or the tests below fail."""
KEY: Final = ArtifactKey(
    kind=ArtifactKind.PTX,
    target="sm_90",
    driver="13000",
    emitter=b"e" * 32,
    policy=facts({"b": "2", "a": "1"}),
    program=b"p" * 32,
    interface=("0 x", "1 y"),
    workgroup=(64, 1, 1),
    spec=b"\0" * 8,
)
keys: Final = st.fixed_dictionaries(VALUES).map(lambda values: ArtifactKey(**values))


def test_every_field_is_encoded_and_tested() -> None:
    declared = tuple(f.name for f in fields(ArtifactKey) if f.init)
    assert declared == FIELDS
    assert tuple(VALUES) == declared


def test_nothing_but_what_is_encoded_decides_equality() -> None:
    assert tuple(f.name for f in fields(ArtifactKey) if f.compare) == FIELDS


@given(key=keys)
def test_decoding_inverts_encoding(key: ArtifactKey) -> None:
    found = ArtifactKey.decode(key.encode())
    assert found == key
    assert found.digest == key.digest


@given(data=st.data(), name=st.sampled_from(FIELDS))
def test_every_field_changes_the_digest(data: st.DataObject, name: str) -> None:
    key = data.draw(keys)
    value = data.draw(VALUES[name].filter(lambda value: value != getattr(key, name)))
    other = replace(key, **{name: value})
    assert other.digest != key.digest
    assert other.encode() != key.encode()
    assert key.differences(other) == (name,)


@given(one=keys, other=keys)
def test_no_two_keys_share_an_encoding(one: ArtifactKey, other: ArtifactKey) -> None:
    assert (one == other) is (one.encode() == other.encode()) is (not one.differences(other))


def test_texts_that_join_to_the_same_differ() -> None:
    pairs: list[dict[str, Any]] = [
        {"interface": ("ab", "c")},
        {"interface": ("a", "bc")},
        {"interface": ("abc",)},
        {"policy": (("ab", "c"),)},
        {"policy": (("a", "bc"),)},
        {"device": (("a", "bc"),), "policy": ()},
        {"target": "x", "driver": "y"},
        {"target": "xy", "driver": ""},
        {"target": "", "driver": "xy"},
    ]
    assert len({replace(KEY, **changes).digest for changes in pairs}) == len(pairs)


@given(data=st.binary(max_size=200))
def test_any_bytes_give_a_key_or_a_typed_error(data: bytes) -> None:
    for candidate in (data, DOMAIN + data):
        with pytest.raises(MalformedWire, match="Fix: "):
            ArtifactKey.decode(candidate)


@given(key=keys, data=st.data())
def test_damaged_encodings_are_refused_or_are_other_keys(key: ArtifactKey, data: st.DataObject) -> None:
    encoded = bytearray(key.encode())
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(encoded) - 1))
        match data.draw(st.sampled_from(("flip", "drop", "insert"))):
            case "flip":
                encoded[place] ^= data.draw(st.integers(1, 255))
            case "drop":
                del encoded[place]
            case _:
                encoded.insert(place, data.draw(st.integers(0, 255)))
    try:
        found = ArtifactKey.decode(bytes(encoded))
    except MalformedWire:
        return
    assert found.encode() == encoded


def test_every_truncation_and_every_extension_is_refused() -> None:
    encoded = KEY.encode()
    for end in range(len(encoded)):
        with pytest.raises(MalformedWire):
            ArtifactKey.decode(encoded[:end])
    for more in (b"\0", b"\0" * 8, encoded):
        with pytest.raises(MalformedWire):
            ArtifactKey.decode(encoded + more)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda data: b"vyre.artifact.v0\0" + data[len(DOMAIN) :], "another version"),
        (lambda data: data.replace(b"driver", b"drover"), "`driver` is missing"),
        (lambda data: data[:-1], "ends early"),
        (lambda data: data.replace(b"ptx", b"elf"), "'elf' is not a valid ArtifactKind"),
        (lambda data: data + b"\0" * 8, "not canonical"),
        (lambda data: data.replace(b"sm_90", b"sm_9\xff"), "'utf-8' codec"),
    ],
)
def test_errors_say_what_is_wrong(damage: Any, message: str) -> None:
    with pytest.raises(MalformedWire, match=message):
        ArtifactKey.decode(damage(KEY.encode()))


def test_an_odd_number_of_facts_is_refused() -> None:
    framed = (3).to_bytes(8, "little") + b"one"
    policy = KEY.encode().partition(b"policy")[2]
    length = int.from_bytes(policy[:8], "little")
    damaged = KEY.encode().replace(policy[: 8 + length], len(framed).to_bytes(8, "little") + framed)
    with pytest.raises(MalformedWire, match="a fact has no value"):
        ArtifactKey.decode(damaged)


def test_decoding_is_linear_in_what_it_reads() -> None:
    many = replace(KEY, interface=("",) * 200_000)
    assert ArtifactKey.decode(many.encode()) == many  # a quadratic decoder would take minutes


@given(common=keys, own=keys)
def test_a_family_gives_the_keys_that_replace_gives(common: ArtifactKey, own: ArtifactKey) -> None:
    made = KeyFamily(common).key(own.program, own.interface, own.workgroup, own.spec)
    expected = replace(common, program=own.program, interface=own.interface, workgroup=own.workgroup, spec=own.spec)
    assert made == expected
    assert made.encode() == expected.encode()
    assert made.digest == expected.digest


def test_the_digest_is_pinned() -> None:
    """It names files that outlive this version of the code: a change of it needs a new domain."""
    assert KEY.digest.hex() == "1813c6f639d88d51417fd74708d6ad8ff884111fac7f29ba89de295f35da1871"


def test_keys_are_values() -> None:
    copy = replace(KEY)
    assert copy == KEY
    assert hash(copy) == hash(KEY)
    assert pickle.loads(pickle.dumps(KEY)).digest == KEY.digest
    assert "_encoded" not in repr(KEY)


def test_facts_do_not_depend_on_the_order_in_which_they_are_given() -> None:
    assert facts({"b": "2", "a": "1"}) == facts({"a": "1", "b": "2"}) == (("a", "1"), ("b", "2"))
