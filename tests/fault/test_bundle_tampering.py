"""Bundles that are damaged, cut, crafted or not there: always a typed error, never code that runs."""

from __future__ import annotations

import json
import os
import stat
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from blake3 import blake3
from hypothesis import given
from hypothesis import strategies as st

import vyre
from support.bundles import Manifest, crafted, saxpy_bundle, small_bundle
from support.profiles import examples
from vyre.adapters.bundles.container import DIGEST_BYTES, MAGIC, MAX_BYTES, MAX_MANIFEST_BYTES, seal, unseal
from vyre.adapters.bundles.files import read_bundle, write_bundle
from vyre.adapters.bundles.manifest import decode, encode
from vyre.domain.artifact_key import ArtifactKey, ArtifactKind
from vyre.domain.errors import MalformedBundle, UnexpectedDigest, UnreadableFile, VyreError
from vyre.domain.strict_json import canonical
from vyre.ports.bundles import Bundle
from vyre.testing import cuda_machine


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


def entry(**values: Any) -> Callable[[Manifest], object]:
    return lambda m: m["entries"][0].update(values)


def code(**values: Any) -> Callable[[Manifest], object]:
    return lambda m: m["codes"][0].update(values)


def member(of: str, **values: Any) -> Callable[[Manifest], object]:
    return lambda m: m["codes"][0][of].update(values)


def key(change: Callable[[ArtifactKey], ArtifactKey]) -> Callable[[Manifest], object]:
    """Another key of the first code."""

    def changed(m: Manifest) -> None:
        m["codes"][0]["key"] = change(ArtifactKey.decode(bytes.fromhex(m["codes"][0]["key"]))).encode().hex()

    return changed


def swap(of: str) -> Callable[[Manifest], object]:
    def change(m: Manifest) -> None:
        first, second = m["codes"][0], m["codes"][-1]
        first[of], second[of] = second[of], first[of]

    return change


INNER: Final[dict[str, Callable[[Manifest], object]]] = {
    "another format": lambda m: m.update(format="vyre-bundle/2"),
    "an unknown key": lambda m: m.update(more=1),
    "a missing key": lambda m: m.pop("entries"),
    "a version that is a number": lambda m: m.update(vyre=1),
    "no entries": lambda m: m.update(entries=[]),
    "entries that are a number": lambda m: m.update(entries=1),
    "a short digest of the program": entry(program="00"),
    "a digest in capitals": lambda m: m["entries"][0].update(program=m["entries"][0]["program"].upper()),
    "a name that is a number": entry(name=3),
    "an empty name": entry(name=""),
    "a long name": entry(name="a" * 257),
    "one name twice": lambda m: m["entries"][1].update(name=m["entries"][0]["name"]),
    "entries that are swapped": lambda m: m["entries"].reverse(),
    "a program longer than the file": entry(bytes=1 << 40),
    "no target": code(target="../../etc/passwd"),
    "a target that is a number": code(target=1),
    "a key that is no key": code(key="00"),
    "a key of text": code(key="key"),
    "a key of capitals": lambda m: m["codes"][0].update(key=m["codes"][0]["key"].upper()),
    "a key of a verdict": key(lambda k: replace(k, kind=ArtifactKind.VERDICT)),
    "one key twice": lambda m: m["codes"].append(m["codes"][0]),
    "layouts that are swapped": swap("layout"),
    "code that is swapped": swap("code"),
    "codes that are swapped": lambda m: m["codes"].reverse(),
    "a member longer than the file": member("code", bytes=1 << 40),
    "a member of no bytes": member("layout", bytes=0),
    "a negative member": member("code", bytes=-1),
    "a fractional member": member("code", bytes=1.5),
    "a shorter member": lambda m: m["codes"][0]["code"].update(bytes=m["codes"][0]["code"]["bytes"] - 1),
    "code that is left out": lambda m: m["codes"].pop(),
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


def test_a_tampered_bundle_is_refused_by_its_path(tmp_path: Path) -> None:
    path = tmp_path / "a.vyrz"
    write_bundle(path, small_bundle())
    data = bytearray(path.read_bytes())
    data[data.index(b".target")] ^= 1
    path.write_bytes(data)
    with pytest.raises(MalformedBundle, match=r"a\.vyrz"):
        vyre.load_bundle(path)
    newer = (2).to_bytes(4, "little")
    path.write_bytes(sealed(MAGIC + newer + encode(small_bundle())[12:-DIGEST_BYTES]))
    with pytest.raises(MalformedBundle, match=r"a\.vyrz: it has version 2 of the format, this vyre reads 1"):
        vyre.load_bundle(path)


def kernel(**values: Any) -> Callable[[Manifest], object]:
    return lambda layout: layout["kernels"][0].update(values)


def parameter(of: str, /, **values: Any) -> Callable[[Manifest], object]:
    def change(layout: Manifest) -> None:
        next(p for p in layout["kernels"][0]["params"] if p["kind"] == of).update(values)

    return change


LAYOUTS: Final[dict[str, Callable[[Manifest], object]]] = {
    "another format": lambda layout: layout.update(format="vyre-module/2"),
    "no kernels": lambda layout: layout.update(kernels=[]),
    "a target that is not that of the text": lambda layout: layout.update(target="sm_80"),
    "a version that is not that of the text": lambda layout: layout.update(version="7.0"),
    "an entry that is no name": kernel(entry="a b"),
    "another entry": kernel(entry="other"),
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


def with_layouts(entry: str, change: Callable[[Manifest], object]) -> Bundle:
    """The bundle whose code of an entry point is described otherwise, as somebody would who can write bundles."""
    codes = []
    for each in saxpy_bundle().codes:
        layout = json.loads(each.artifact.metadata)
        if each.key.program == saxpy_bundle().entries[entry].digest:
            change(layout)
        codes.append(replace(each, artifact=replace(each.artifact, metadata=canonical(layout).encode())))
    return replace(saxpy_bundle(), codes=tuple(codes))


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_crafted_layout_is_refused_before_its_code_runs(name: str, tmp_path: Path) -> None:
    write_bundle(tmp_path / "a.vyrz", with_layouts("saxpy", LAYOUTS[name]))
    saxpy = vyre.load_bundle(tmp_path / "a.vyrz")["saxpy"]
    with cuda_machine().open() as session, pytest.raises(MalformedBundle, match=r"sm_90\.ptx"):
        session.compile(saxpy)


def test_a_crafted_layout_fails_typed_when_the_driver_disagrees(tmp_path: Path) -> None:
    def longer(layout: Manifest) -> None:
        (of_kernel,) = layout["kernels"]
        of_kernel["params"].append(
            {**of_kernel["params"][-1], "kind": "scalar", "name": None, "binding": None, "dtype": None}
            | {"offset": of_kernel["param_bytes"], "size": 4, "align": 4, "value": 1}
        )
        of_kernel["param_bytes"] += 4

    write_bundle(tmp_path / "a.vyrz", with_layouts("copy", longer))
    bundle = vyre.load_bundle(tmp_path / "a.vyrz")
    with cuda_machine().open() as session, pytest.raises(VyreError, match="takes parameters at"):
        session.compile(bundle["copy"])


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
    fsync, rename = os.fsync, Path.replace

    def synced(handle: int) -> None:
        log.append("directory" if stat.S_ISDIR(os.fstat(handle).st_mode) else "file")
        fsync(handle)

    def replaced(self: Path, target: Path) -> Path:
        log.append("rename")
        return rename(self, target)

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
    with vyre.open("cuda-machine", cache=False) as session:
        saxpy = vyre.load_bundle(path)["saxpy"]
        assert session.dispatch(saxpy, {"a": 2.0, "x": x, "y": x})["y"].tolist() == (3 * x).tolist()
