"""Bundles that are damaged, cut, crafted or not there: always a typed error, never code that runs."""

from __future__ import annotations

import json
import os
import stat
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from blake3 import blake3
from hypothesis import given
from hypothesis import strategies as st

import vyre
from support.bundles import Manifest, crafted, decode, read_bundle, saxpy_bundle, small_bundle
from support.profiles import examples
from vyre.adapters.bundles.container import DIGEST_BYTES, MAGIC, MAX_BYTES, MAX_MANIFEST_BYTES, seal, unseal
from vyre.adapters.bundles.files import write_bundle
from vyre.adapters.bundles.manifest import encode
from vyre.domain.errors import MalformedBundle, UnexpectedDigest, UnreadableFile, VyreError


def sealed(body: bytes) -> bytes:
    """Any bytes with a digest that matches."""
    return body + blake3(body).digest()


@pytest.mark.parametrize("bit", range(8))
def test_every_flipped_bit_is_noticed(bit: int) -> None:
    data = bytearray(encode(small_bundle()))
    for at in range(len(data)):
        data[at] ^= 1 << bit
        with pytest.raises(MalformedBundle):
            decode(bytes(data))
        data[at] ^= 1 << bit
    assert decode(bytes(data)).bundle == small_bundle()


def test_every_truncation_is_noticed() -> None:
    data = encode(small_bundle())
    for length in range(len(data)):
        with pytest.raises(MalformedBundle):
            decode(data[:length])


def test_anything_behind_the_end_or_in_front_is_noticed() -> None:
    data = encode(small_bundle())
    for other in (data + b"\0", b"\0" + data, data + data, b"PK\x03\x04" + data, data[:-DIGEST_BYTES] + data):
        with pytest.raises(MalformedBundle):
            decode(other)


def test_a_truncation_that_is_sealed_again_is_noticed() -> None:
    body = encode(small_bundle())[:-DIGEST_BYTES]
    for length in range(0, len(body), 7):
        with pytest.raises(MalformedBundle):
            decode(sealed(body[:length]))


def a_length(length: int) -> bytes:
    body = bytearray(encode(small_bundle())[:-DIGEST_BYTES])
    body[12:16] = length.to_bytes(4, "little")
    return sealed(bytes(body))


def with_manifest(text: bytes) -> bytes:
    return seal(text, [])


OUTER: Final[dict[str, Callable[[], bytes]]] = {
    "empty": lambda: b"",
    "the magic alone": lambda: MAGIC,
    "a header that claims 4 GiB": lambda: a_length(0xFFFF_FFFF),
    "a manifest that takes the members in": lambda: a_length(len(encode(small_bundle())) - 16 - DIGEST_BYTES),
    "a manifest of no bytes": lambda: a_length(0),
    "another version": lambda: sealed(MAGIC + (2).to_bytes(4, "little") + encode(small_bundle())[12:-DIGEST_BYTES]),
    "no JSON": lambda: with_manifest(b"\xff\xfe"),
    "a JSON list": lambda: with_manifest(b"[]"),
    "a JSON number": lambda: with_manifest(b"1"),
    "a number of many digits": lambda: with_manifest(b"1" * 100_000),
    "a deep list": lambda: with_manifest(b"[" * 200_000),
    "a deep object": lambda: with_manifest(b'{"a":' * 200_000),
    "NaN": lambda: with_manifest(b'{"format":NaN}'),
    "one key twice": lambda: with_manifest(b'{"format":"vyre-bundle/1",' + unseal(encode(small_bundle())).manifest[1:]),
    "spaces": lambda: with_manifest(json.dumps(json.loads(unseal(encode(small_bundle())).manifest)).encode()),
}


@pytest.mark.parametrize("name", OUTER)
def test_a_crafted_file_is_refused(name: str) -> None:
    with pytest.raises(MalformedBundle) as raised:
        decode(OUTER[name]())
    assert raised.value.fix


def buffer(**values: Any) -> Callable[[Manifest], object]:
    return lambda m: m["buffers"][2].update(values)


def build(**values: Any) -> Callable[[Manifest], object]:
    return lambda m: m["builds"][0].update(values)


def member(**values: Any) -> Callable[[Manifest], object]:
    return lambda m: m["builds"][0]["members"][0].update(values)


def kernel(**values: Any) -> Callable[[Manifest], object]:
    return lambda m: m["builds"][0]["kernels"][0].update(values)


def parameter(of: str, /, **values: Any) -> Callable[[Manifest], object]:
    def change(m: Manifest) -> None:
        params = m["builds"][0]["kernels"][0]["params"]
        next(p for p in params if p["kind"] == of).update(values)

    return change


def swap_members(m: Manifest) -> None:
    first, second = (b["members"][0] for b in m["builds"])
    first["blake3"], second["blake3"] = second["blake3"], first["blake3"]


INNER: Final[dict[str, Callable[[Manifest], object]]] = {
    "another format": lambda m: m.update(format="vyre-bundle/2"),
    "an unknown key": lambda m: m.update(more=1),
    "a missing key": lambda m: m.pop("buffers"),
    "no program": lambda m: m.update(program=None),
    "a short digest of the program": lambda m: m["program"].update(digest="00"),
    "a digest in capitals": lambda m: m["program"].update(digest="AB" * 32),
    "a name that is a number": lambda m: m["program"].update(name=3),
    "a workgroup of two axes": lambda m: m.update(workgroup=[32, 1]),
    "an empty workgroup": lambda m: m.update(workgroup=[0, 1, 1]),
    "a workgroup of text": lambda m: m.update(workgroup=["32", 1, 1]),
    "driven_by_input = 0": lambda m: m.update(driven_by_input=0),
    "ids along a fourth axis": lambda m: m["reach"].update(axes=[3]),
    "ids that reach no buffer": lambda m: m["reach"].update(x=[["none", 0, 1, 1, 0, False]]),
    "ids that reach rows": lambda m: m["reach"].update(x=[["y", 1, 1, 1, 0, False]]),
    "ids that take no index": lambda m: m["reach"].update(x=[["y", 0, 1, 0, 0, False]]),
    "ids that reach less than nothing": lambda m: m["reach"].update(x=[["y", 0, 1, 1, -1, False]]),
    "ids of a number of workgroups": lambda m: m["reach"].update(x=[["y", 0, 1, 1, 0, 2]]),
    "ids of another form": lambda m: m["reach"].update(x=[["y"]]),
    "a constant of no type": lambda m: m.update(spec=[["n", "u24", 1]]),
    "a constant of negative bits": lambda m: m.update(spec=[["n", "u32", -1]]),
    "no buffers": lambda m: m.update(buffers=[]),
    "buffers out of order": lambda m: m["buffers"].reverse(),
    "a buffer twice": lambda m: m["buffers"].append(m["buffers"][2]),
    "a negative binding": buffer(binding=-1),
    "a fractional binding": buffer(binding=2.0),
    "a binding beyond 32 bits": buffer(binding=2**32),
    "a true binding": lambda m: m["buffers"][1].update(binding=True),
    "an unknown access": buffer(access="EXECUTE"),
    "a workgroup buffer": buffer(access="WORKGROUP"),
    "a private buffer": buffer(access="PRIVATE"),
    "an unknown element": buffer(element="f8"),
    "another element": buffer(element="u32"),
    "a model that is not there": buffer(like="z"),
    "a range that ends before it starts": buffer(output_range=[8, 4]),
    "a range of three": buffer(output_range=[0, 4, 8]),
    "an alignment of three": buffer(alignment=3),
    "no builds": lambda m: m.update(builds=[]),
    "a target twice": lambda m: m["builds"][1].update(target="sm_75"),
    "no target": build(target="../../etc/passwd"),
    "a target of no number": build(target="sm_"),
    "needs that are not those of the kernels": lambda m: m["builds"][0]["needs"].update(shared=1),
    "no kernels": build(kernels=[]),
    "no members": build(members=[]),
    "a member twice": lambda m: m["builds"][0]["members"].append(m["builds"][0]["members"][0]),
    "members that are swapped": swap_members,
    "an unknown kind": member(kind="exe"),
    "a member longer than the file": member(bytes=1 << 40),
    "a member of no bytes": member(bytes=0),
    "a negative member": member(bytes=-1),
    "a shorter member": lambda m: m["builds"][0]["members"][0].update(bytes=m["builds"][0]["members"][0]["bytes"] - 1),
    "a version of text": member(version="9.0"),
    "a negative version": member(version=[-1, 0]),
    "an entry that is no name": kernel(entry="a b"),
    "another block": kernel(block=[32, 1, 1]),
    "a cooperative number": kernel(cooperative=1),
    "an unknown assumption": kernel(assumes=["lucky"]),
    "tags of numbers": kernel(trap_tags=[1]),
    "few bytes of parameters": kernel(param_bytes=8),
    "negative shared memory": kernel(shared_static=-1),
    "an unknown parameter": parameter("count", kind="secret"),
    "a pointer of 4 bytes": parameter("pointer", size=4),
    "a pointer to no buffer": parameter("pointer", binding=9),
    "a pointer to another name": parameter("pointer", name="z"),
    "a pointer that overlaps": parameter("pointer", offset=100),
    "a scalar of a buffer": parameter("scalar", binding=1, name="x"),
    "a scalar too long": parameter("scalar", size=8),
    "a trap that is a count": parameter("count", kind="trap"),
    "a table that is a count": parameter("count", kind="table"),
    "an unknown start": parameter("pointer", init="random"),
}


@pytest.mark.parametrize("name", INNER)
def test_a_crafted_manifest_is_refused(name: str) -> None:
    with pytest.raises(MalformedBundle):
        decode(crafted(INNER[name]))


def test_the_untouched_manifest_is_taken() -> None:
    assert decode(crafted(lambda m: None)).bundle == saxpy_bundle()


JSON_VALUES: Final = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place of a JSON value, as its container and the key in it."""
    keys = list(value) if isinstance(value, dict) else list(range(len(value))) if isinstance(value, list) else []
    for key in keys:
        yield value, key
        yield from places(value[key])


@examples(300)
@given(st.data())
def test_any_value_anywhere_is_refused_or_means_something_else(data: st.DataObject) -> None:
    def change(m: Manifest) -> None:
        found = list(places(m))
        container, key = found[data.draw(st.integers(0, len(found) - 1))]
        container[key] = data.draw(JSON_VALUES)

    try:
        crafted_file = crafted(change)
    except UnicodeEncodeError:  # a lone surrogate, which no file can hold
        return
    try:
        loaded = decode(crafted_file)
    except MalformedBundle:
        return
    assert encode(loaded.bundle) == crafted_file  # what is taken is understood to the last byte


# ---------------------------------------------------------------- files
def test_a_file_that_claims_too_much_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "huge.vyrz"
    with path.open("wb") as file:
        file.write(MAGIC)
        file.truncate(MAX_BYTES * 64)
    tracemalloc.start()
    try:
        with pytest.raises(MalformedBundle, match="more than"):
            read_bundle(path)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_the_largest_manifest_takes_bounded_memory(tmp_path: Path) -> None:
    """Empty lists are what JSON makes most of."""
    text = b"[" + b"[]," * (MAX_MANIFEST_BYTES // 3 - 2) + b"[]]"
    data = with_manifest(text[:MAX_MANIFEST_BYTES])
    tracemalloc.start()
    try:
        with pytest.raises(MalformedBundle):
            decode(data)
        assert tracemalloc.get_traced_memory()[1] < 64 * MAX_MANIFEST_BYTES
    finally:
        tracemalloc.stop()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_pipe_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.vyrz")
    with pytest.raises(UnreadableFile, match="no regular file"):
        read_bundle(tmp_path / "pipe.vyrz")


def test_a_directory_and_nothing_are_refused(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing.vyrz"):
        with pytest.raises(UnreadableFile):
            read_bundle(path)


def test_only_the_expected_file_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "a.vyrz"
    digest = write_bundle(path, small_bundle()).hex()
    for spelled in (digest, digest.upper(), f" {digest}\n"):
        assert read_bundle(path, spelled).digest.hex() == digest
    write_bundle(path, saxpy_bundle())
    for other in (digest, "", digest[:-1], "0" * 64):
        with pytest.raises(UnexpectedDigest):
            read_bundle(path, other)


def test_nothing_of_a_tampered_bundle_reaches_a_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.vyrz"
    write_bundle(path, small_bundle())
    data = bytearray(path.read_bytes())
    data[data.index(b".target")] ^= 1
    path.write_bytes(data)
    monkeypatch.setattr("vyre.app.bundle.open_first", lambda *_: pytest.fail("a device was opened"))
    with pytest.raises(MalformedBundle, match=r"a\.vyrz"):
        vyre.load_bundle(path, backend="cuda-machine")


def test_a_crafted_layout_fails_typed_when_the_driver_disagrees(tmp_path: Path) -> None:
    def longer(m: Manifest) -> None:
        for b in m["builds"]:
            b["kernels"][0]["params"].append(
                {**b["kernels"][0]["params"][-1], "kind": "scalar", "name": None, "binding": None, "dtype": None}
                | {"offset": b["kernels"][0]["param_bytes"], "size": 4, "align": 4, "value": 1}
            )
            b["kernels"][0]["param_bytes"] += 4
            b["needs"]["parameters"] += 4

    path = tmp_path / "a.vyrz"
    path.write_bytes(crafted(longer, small_bundle()))
    with pytest.raises(VyreError, match="takes parameters at"):
        vyre.load_bundle(path, backend="cuda-machine")


# ---------------------------------------------------------------- writing


@pytest.mark.parametrize("call", ["os.fsync", "pathlib.Path.replace", "pathlib.Path.open"])
def test_a_failed_write_leaves_the_old_file(call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.vyrz"
    old = write_bundle(path, small_bundle())

    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(call, fail)
    with pytest.raises(UnreadableFile, match="No space left"):
        write_bundle(path, saxpy_bundle())
    monkeypatch.undo()
    assert read_bundle(path).digest == old
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(os.name != "posix", reason="directories are synced on POSIX systems only")
def test_the_file_is_synced_before_its_name_and_the_directory_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log: list[str] = []
    fsync, replace = os.fsync, Path.replace

    def synced(handle: int) -> None:
        log.append("directory" if stat.S_ISDIR(os.fstat(handle).st_mode) else "file")
        fsync(handle)

    def replaced(self: Path, target: Path) -> Path:
        log.append("rename")
        return replace(self, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", replaced)
    write_bundle(tmp_path / "a.vyrz", small_bundle())
    assert log == ["file", "rename", "directory"]


def test_a_bundle_too_long_is_not_written() -> None:
    with pytest.raises(MalformedBundle, match="fewer targets"):
        seal(b" " * (MAX_MANIFEST_BYTES + 1), [])


def test_results_after_all_this_are_right(tmp_path: Path) -> None:
    path = tmp_path / "a.vyrz"
    write_bundle(path, saxpy_bundle())
    x = np.arange(5, dtype=np.float32)
    with vyre.load_bundle(path, backend="cuda-machine") as bundle:
        assert bundle({"a": 2.0, "x": x, "y": x})["y"].tolist() == (3 * x).tolist()
