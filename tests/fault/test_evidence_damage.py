"""Evidence that is damaged, cut, swapped or crafted: a typed error that says what and where, never accepted damage."""

from __future__ import annotations

import io
import json
import os
import random
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from blake3 import blake3

import vyre
from support.evidence import measured, write, write_failed, write_resident, write_work
from vyre.adapters import evidence_files
from vyre.adapters.evidence_files import decode
from vyre.app.evidence.bundle import checked
from vyre.domain.errors import MalformedBundle, UnreadableFile
from vyre.domain.evidence.records import SpeedClaim
from vyre.domain.strict_json import canonical

MUTANTS: Final = 1_125


KINDS: Final[dict[str, Callable[[Path], object]]] = {
    "host": write,
    "error": write_failed,
    "resident": write_resident,
    "work": write_work,
}
"""Bundles of a dispatch on host data, of one that ends in an error of the program, of one on resident memory, and of a
fixed point."""


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("evidence")
    for name, make in KINDS.items():
        make(folder / name)
    return {name: (folder / name).read_bytes() for name in KINDS}


@pytest.fixture
def bundle(bundles: dict[str, bytes]) -> bytes:
    """Returns the bytes of the bundle of a dispatch on host data."""
    return bundles["host"]


@pytest.fixture(params=KINDS)
def any_bundle(bundles: dict[str, bytes], request: pytest.FixtureRequest) -> bytes:
    """One of each kind in turn."""
    return bundles[request.param]


def refusal(data: bytes) -> str:
    """Returns the message of the refusal; fails if the bytes are accepted, or by any other error."""
    with pytest.raises(MalformedBundle) as error:
        checked(decode(data), "e.zip")
    assert error.value.fix
    return error.value.message


def sealed(body: bytes) -> bytes:
    return body + blake3(body).hexdigest().encode()


def rebuilt(data: bytes, change: Callable[[dict[str, bytes]], dict[str, bytes]]) -> bytes:
    """A whole archive of other files, with a digest that matches."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        held = {name: archive.read(name) for name in archive.namelist()}
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        for name, content in change(held).items():
            archive.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), content)
        archive.comment = bytes(64)
    return sealed(stream.getvalue()[:-64])


def test_random_damage_is_never_accepted(any_bundle: bytes) -> None:
    draw = random.Random(21)
    for _ in range(MUTANTS):
        data = bytearray(any_bundle)
        match draw.randrange(5):
            case 0:
                data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
            case 1:
                del data[draw.randrange(len(data)) :]
            case 2:
                at = draw.randrange(len(data))
                data[at:at] = draw.randbytes(draw.randrange(1, 40))
            case 3:
                start = draw.randrange(len(data) - 1)
                del data[start : start + draw.randrange(1, 40)]
            case _:
                one, other, size = draw.randrange(len(data)), draw.randrange(len(data)), draw.randrange(1, 60)
                data[one : one + size], data[other : other + size] = data[other : other + size], data[one : one + size]
        if bytes(data) != any_bundle:
            refusal(bytes(data))


def test_random_damage_that_is_sealed_again_is_a_typed_error_or_no_damage(any_bundle: bytes) -> None:
    """A forger can seal anything; what is accepted then has files that match its manifest."""
    draw, body = random.Random(22), any_bundle[:-64]
    original = checked(decode(any_bundle), "e.zip")
    accepted = 0
    for _ in range(MUTANTS):
        data = bytearray(body)
        for _ in range(draw.randrange(1, 4)):
            data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        try:
            found = checked(decode(sealed(bytes(data))), "e.zip")
        except MalformedBundle:
            continue
        accepted += 1
        assert (found.evidence, found.files) == (original.evidence, original.files), "only the archive's own tables"
    assert accepted < MUTANTS // 2


@pytest.mark.parametrize("bit", [0, 7])
def test_every_flipped_bit_is_noticed(any_bundle: bytes, bit: int) -> None:
    data = bytearray(any_bundle)
    for at in range(0, len(data), 3):
        data[at] ^= 1 << bit
        refusal(bytes(data))
        data[at] ^= 1 << bit


def test_what_is_damaged_is_named(bundle: bytes) -> None:
    at = bundle.index((65).to_bytes(4, "little"), bundle.index(b"outputs/0.bin"))
    flipped = bundle[:at] + b"B" + bundle[at + 1 :]
    assert refusal(flipped).startswith("`outputs/0.bin` (from byte ")
    assert "ends too early" in refusal(bundle[:-100])
    assert "the first bytes are others" in refusal(b"no archive")
    assert refusal(bundle + b"!").startswith("every file in it is whole")
    assert refusal(bundle[:-64] + b"0" * 64).startswith("every file in it is whole")


def crafted(change: Callable[[Any], object]) -> Callable[[dict[str, bytes]], dict[str, bytes]]:
    """Changes the manifest as JSON, and writes it canonically."""

    def changed(held: dict[str, bytes]) -> dict[str, bytes]:
        document = json.loads(held["manifest.json"])
        change(document)
        return held | {"manifest.json": canonical(document).encode()}

    return changed


def swapped(held: dict[str, bytes]) -> dict[str, bytes]:
    return held | {"inputs/0.bin": held["inputs/1.bin"], "inputs/1.bin": held["inputs/0.bin"]}


CRAFTED: Final[dict[str, tuple[Callable[[dict[str, bytes]], dict[str, bytes]], str]]] = {
    "swapped": (swapped, "`inputs/0.bin` is not what was written"),
    "added": (lambda held: held | {"more.bin": b"?"}, "`more.bin` was added"),
    "missing": (lambda held: {n: c for n, c in held.items() if n != "inputs/2.bin"}, "`inputs/2.bin` is missing"),
    "longer": (lambda held: held | {"outputs/0.bin": held["outputs/0.bin"] + b"\0"}, "has 21 bytes, and 20 were"),
    "no manifest": (lambda held: {n: c for n, c in held.items() if n != "manifest.json"}, "holds no `manifest.json`"),
    "no JSON": (lambda held: held | {"manifest.json": b"{"}, "`manifest.json` is not JSON"),
    "no text": (lambda held: held | {"manifest.json": b"\xff"}, "is no ASCII text"),
    "a list": (lambda held: held | {"manifest.json": b"[]"}, "`manifest.json` is refused"),
    "spaces": (lambda held: held | {"manifest.json": held["manifest.json"] + b"\n"}, "not written canonically"),
    "other order": (lambda held: dict(reversed(held.items())), "in another order"),
    "another field": (crafted(lambda d: d.update(more=1)), "has no field `more`"),
    "a number for a text": (crafted(lambda d: d.update(made_at=1)), "is not a text"),
    "another digest": (crafted(lambda d: d["run"].update(digest="0" * 64)), "another program"),
    "another element": (crafted(lambda d: d["run"]["inputs"][0].update(element="f64")), "not those of the program"),
    "a path out": (crafted(lambda d: d["run"]["program"].update(path="../../x")), "`../../x` is missing"),
    "a name twice": (
        crafted(lambda d: d["run"]["inputs"][1].update(content=d["run"]["inputs"][0]["content"])),
        "was added",
    ),
}


@pytest.mark.parametrize(("change", "said"), CRAFTED.values(), ids=CRAFTED)
def test_crafted_bundles_are_refused(
    bundle: bytes, change: Callable[[dict[str, bytes]], dict[str, bytes]], said: str
) -> None:
    assert said in refusal(rebuilt(bundle, change))


ODD: Final[tuple[Any, ...]] = (
    None,
    True,
    -1,
    0,
    2**70,
    1e308,
    "",
    "u32",
    "nan",
    "../x",
    "\ud800",
    [],
    {},
    [[]],
    {"$type": "BufferContent"},
    [["a", 1]],
)
"""Values that stand where others are expected."""


def places(document: Any) -> list[tuple[Any, Any]]:
    """Returns every container of a document with each of its keys or indices."""
    pairs = document.items() if isinstance(document, dict) else enumerate(document)
    found: list[tuple[Any, Any]] = []
    for key, value in pairs:
        found.append((document, key))
        if isinstance(value, dict | list):
            found += places(value)
    return found


def test_random_manifests_are_typed_errors_or_other_facts(any_bundle: bytes) -> None:
    """What no digest covers, such as the name of the machine, may be forged; what was run may not change unnoticed."""
    draw = random.Random(23)
    original = checked(decode(any_bundle), "e.zip")
    accepted = 0
    for _ in range(MUTANTS):

        def change(document: Any) -> None:
            for _ in range(draw.randrange(1, 3)):
                container, key = draw.choice(places(document))
                if draw.random() < 0.2:
                    del container[key]
                else:
                    container[key] = draw.choice(ODD)

        try:
            found = checked(decode(rebuilt(any_bundle, crafted(change))), "e.zip")
        except MalformedBundle:
            continue
        accepted += 1
        assert found.programs == original.programs and found.evidence.work == original.evidence.work
        if found.evidence.work is not None:
            continue
        assert found.run.inputs == original.run.inputs and found.run.got == original.run.got
        assert found.run.resident == original.run.resident
        assert found.outcome(found.run.got) == original.outcome(original.run.got)
    assert 0 < accepted < MUTANTS // 2


def test_what_is_damaged_in_a_recorded_error_is_named(bundles: dict[str, bytes]) -> None:
    data = bundles["error"]
    at = data.index(b'"tag":"too large"') + 7
    assert refusal(data[:at] + b"T" + data[at + 1 :]).startswith("`outputs/error.json` (from byte ")


def resealed(path: str, change: Callable[[bytes], bytes]) -> Callable[[dict[str, bytes]], dict[str, bytes]]:
    """Changes a file, and says so in the manifest: the digests match."""

    def changed(held: dict[str, bytes]) -> dict[str, bytes]:
        data = change(held[path])
        manifest = json.loads(held["manifest.json"])
        for container, key in places(manifest):
            if key == "path" and container[key] == path:
                container |= {"nbytes": len(data), "blake3": blake3(data).hexdigest()}
        return held | {path: data, "manifest.json": canonical(manifest).encode()}

    return changed


def renamed(held: dict[str, bytes]) -> dict[str, bytes]:
    """The manifest of an answer with an error that has outputs, too."""
    document = json.loads(held["manifest.json"])
    document["run"]["got"]["slots"] = document["run"]["inputs"][1:]
    document["run"]["inputs"] = document["run"]["inputs"][:1]
    order = ["program.vyre", "inputs/0.bin", "inputs/1.bin", "outputs/error.json", "decisions.jsonl"]
    return {"manifest.json": canonical(document).encode()} | {name: held[name] for name in order if name in held}


def reworked(change: Callable[[Any], object]) -> Callable[[dict[str, bytes]], dict[str, bytes]]:
    """Changes the recorded work, and gives it the digest that matches."""

    def changed(document: Any) -> None:
        work = document["work"]
        change(work)
        work["digest"] = blake3(canonical(work | {"digest": ""}).encode()).hexdigest()

    return crafted(changed)


def step_of(work: Any) -> Any:
    """The step that runs once."""
    return work["first"][0]["steps"][0]


def at(work: Any, name: str) -> Any:
    """What it binds a buffer to."""
    return dict(step_of(work)["bound"])[name]


FORGED: Final[dict[str, tuple[str, Callable[[dict[str, bytes]], dict[str, bytes]], str]]] = {
    "error of another class": (
        "error",
        resealed("outputs/error.json", lambda data: data.replace(b'"TrapError"', b'"DataRaceError"')),
        "class or code of another",
    ),
    "error of another code": (
        "error",
        resealed("outputs/error.json", lambda data: data.replace(b'"code":1011', b'"code":1013')),
        "class or code of another",
    ),
    "error that is no JSON": ("error", resealed("outputs/error.json", lambda data: data[:-1]), "is not JSON"),
    "error without a lane": (
        "error",
        resealed("outputs/error.json", lambda data: data.replace(b'"global_id":[1,0,0]', b'"global_id":[1,0]')),
        "is not a list of 3",
    ),
    "error and outputs": ("error", renamed, "are not those of the program"),
    "neither error nor outputs": ("error", crafted(lambda d: d["run"]["got"].update(error=None)), "was added"),
    "resident at another place": (
        "resident",
        crafted(lambda d: d["run"].update(resident=[["x", 16], ["y", 4]])),
        "digest of the inputs",
    ),
    "resident and host": ("resident", crafted(lambda d: d["run"].update(resident=[])), "digest of the inputs"),
    "resident parameter": (
        "resident",
        crafted(lambda d: d["run"].update(resident=[["a", 0], ["x", 12], ["y", 4]])),
        "no buffers of the program",
    ),
    "resident before memory": (
        "resident",
        crafted(lambda d: d["run"].update(resident=[["x", -4], ["y", 4]])),
        "no buffers of the program",
    ),
    "run as nothing that there is": ("host", crafted(lambda d: d["run"].update(way="by hand")), "digest of the inputs"),
    "work of another digest": ("work", crafted(lambda d: d["work"].update(dropped=1)), "digest of the work"),
    "part behind memory": ("work", reworked(lambda w: at(w, "y").update(begin=4)), "`y` of a step is bound to what"),
    "part before memory": ("work", reworked(lambda w: at(w, "y").update(begin=-4)), "`y` of a step is bound to what"),
    "part between elements": (
        "work",
        reworked(lambda w: w["memory"][0].update(place=2)),
        "`y` of a step is bound to what",
    ),
    "part of no memory": ("work", reworked(lambda w: at(w, "y").update(memory=4)), "`y` of a step is bound to what"),
    "more data than there is": (
        "work",
        reworked(lambda w: at(w, "x").update(nbytes=64)),
        "`x` of a step is bound to what",
    ),
    "written data of the host": (
        "work",
        reworked(lambda w: step_of(w)["bound"].__setitem__(2, ["y", at(w, "x")])),
        "`y` of a step is bound to what",
    ),
    "another buffer": (
        "work",
        reworked(lambda w: step_of(w)["bound"].__setitem__(2, ["z", at(w, "y")])),
        "binds other buffers",
    ),
    "temporary array of another size": (
        "work",
        reworked(lambda w: w["memory"][1].update(nbytes=8)),
        "of a step is bound to what",
    ),
    "step of no program": ("work", reworked(lambda w: step_of(w).update(program=3)), "runs no program"),
    "step before itself": ("work", reworked(lambda w: step_of(w).update(after=[0])), "is not listed before it"),
    "memory of one name": (
        "work",
        reworked(lambda w: w["memory"][2]["before"].update(name=w["memory"][0]["before"]["name"])),
        "the name of other memory",
    ),
    "memory at no place": ("work", reworked(lambda w: w["memory"][0].update(place=-252)), "memory lies at no place"),
    "flag that is none": ("work", reworked(lambda w: w["call"]["changed"].update(nbytes=0)), "the flag is no u32"),
    "answer of other memory": (
        "work",
        reworked(lambda w: w["got"]["slots"][0].update(element="f32")),
        "the answer is not that of the memory",
    ),
    "an earlier form": ("resident", crafted(lambda d: d.update(form=1)), "form has version 1, and this vyre reads 2"),
}


@pytest.mark.parametrize(("kind", "change", "said"), FORGED.values(), ids=FORGED)
def test_forged_errors_and_places_are_refused(
    bundles: dict[str, bytes], kind: str, change: Callable[[dict[str, bytes]], dict[str, bytes]], said: str
) -> None:
    assert said in refusal(rebuilt(bundles[kind], change))


def test_a_compressed_file_is_not_unpacked(bundle: bytes) -> None:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("manifest.json", bytes(1 << 20))
        archive.comment = bytes(64)
    assert "is compressed" in refusal(sealed(stream.getvalue()[:-64]))


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_name_twice_in_the_archive_is_refused() -> None:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("manifest.json", b"{}")
        archive.writestr("manifest.json", b"{}")
        archive.comment = bytes(64)
    assert "holds `manifest.json` twice" in refusal(sealed(stream.getvalue()[:-64]))


def test_damaged_measurements_are_never_accepted() -> None:
    data = evidence_files.encode(measured(SpeedClaim("row", "ours", "theirs", 1.5)), {})
    assert checked(decode(data), "m.zip").evidence.claims
    for at in range(len(data)):
        refusal(data[:at] + bytes([data[at] ^ 0x20]) + data[at + 1 :])


# ---- writing
def test_a_failed_write_leaves_the_old_bundle_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "e.zip"
    write(path)
    before = path.read_bytes()
    for owner, name in ((os, "fsync"), (Path, "replace")):
        with monkeypatch.context() as broken:

            def fail(*arguments: object, **named: object) -> None:
                raise OSError(28, "No space left on device")

            broken.setattr(owner, name, fail)
            with pytest.raises(UnreadableFile, match="No space left"):
                write(path)
        assert path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["e.zip"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs processes that end at once")
def test_a_process_that_ends_in_the_middle_leaves_no_half_bundle(tmp_path: Path) -> None:
    path = tmp_path / "e.zip"
    write(path)
    before = path.read_bytes()
    child = os.fork()
    if child == 0:  # the file is complete beside the target, and the process ends before it is renamed
        Path.replace = lambda self, target: os._exit(7)  # type: ignore[method-assign]
        try:
            write(path)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert path.read_bytes() == before
    assert vyre.read_evidence(path)
