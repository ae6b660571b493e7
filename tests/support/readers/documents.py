"""Readers of documents: programs, recorded values, journals and evidence."""

from __future__ import annotations

import contextlib
import io
import json
import lzma
import random
import re
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
from blake3 import blake3

import vyre
from support import evidence
from support.fuzzing import manifests as manifest_fuzzing
from support.fuzzing import mutations
from support.fuzzing.mutations import mixed, of_bytes, of_json, of_tokens
from support.launch_costs import SOURCE, launch_costs
from support.readers.registry import TESTS, Reader, programs, reader, scratch
from support.tuning import tuning_key, tuning_record
from vyre.adapters import device_files
from vyre.adapters.evidence_files import DIGEST_DIGITS
from vyre.adapters.evidence_files import decode as decode_evidence
from vyre.adapters.evidence_files import encode as encode_evidence
from vyre.adapters.policy_sources import find_policy, version_of
from vyre.adapters.program_files import parse_program_file
from vyre.app.evidence.bundle import checked
from vyre.app.evidence.writing import write_bundle
from vyre.app.explain.journals import replay_file
from vyre.domain import launch_costs as cost_texts
from vyre.domain import tuning, tuning_pins, wave_times
from vyre.domain.diagnostics import Diagnostic, Severity
from vyre.domain.dialects import lowering
from vyre.domain.dispatch import DispatchConfig, DispatchTiming, PersistentThreadMode, SpeculationMode
from vyre.domain.errors import VyreError
from vyre.domain.evidence.records import SpeedClaim
from vyre.domain.identity import body_digest, names_digest
from vyre.domain.ir import wire_format
from vyre.domain.ir.program import Program
from vyre.domain.ir.upstream import import_upstream
from vyre.domain.ir.wire_encoder import encode_sections, uleb
from vyre.domain.sealed_json import SealedForm
from vyre.domain.signature_files import read_signatures
from vyre.domain.strict_json import canonical
from vyre.policies.decision_records import to_lines
from vyre.testing.conform import certificate
from vyre.testing.conform.campaign import CaseRecord
from vyre.testing.execution import execute, open_backend
from vyre.testing.filetest_syntax import parse_filetest
from vyre.testing.filetests import load_filetests


# ---- programs
@reader
def text() -> Reader:
    corpus = [program.to_text().encode() for program in programs()]
    words: tuple[str, ...] = (
        "f32",
        "u32",
        "if",
        "else",
        "for",
        "body",
        "buffer",
        "workgroup_size",
        "1e39f",
        "f32(0x7fc00001)",
        "load",
    )
    return Reader(
        "text", mixed(of_bytes(corpus), of_tokens(corpus, words)), lambda data: parse_program_file(data, Path("a.vyre"))
    )


@reader
def wire() -> Reader:
    corpus = [program.to_wire() for program in programs()]
    sections = [encode_sections(program) for program in programs()]

    def sealed(source: random.Random) -> bytes:
        body, names = source.choice(sections)
        if source.random() < 0.3:
            names = of_bytes([names])(source)
        else:
            body = of_bytes([body])(source)
        digests = body_digest(body) + names_digest(names)
        return wire_format.MAGIC + bytes((wire_format.VERSION,)) + digests + uleb(0) + uleb(len(body)) + body + names

    return Reader(
        "wire", mixed(of_bytes(corpus), sealed, sealed), lambda data: parse_program_file(data, Path("a.vyrb"))
    )


def _program_json(name: str, corpus: list[Any]) -> Reader:
    texts = [json.dumps(document).encode() for document in corpus]
    draw = mixed(of_json(corpus), of_json(corpus), of_json(corpus), of_bytes(texts), of_tokens(texts))
    return Reader(name, draw, lambda data: parse_program_file(data, Path("a.json")))


@reader
def jsonprograms() -> Reader:
    return _program_json("json programs", [program.to_json() for program in programs()])


@reader
def upstream_json() -> Reader:
    """Programs of vyre-driver in both of its schemas."""
    vectors = TESTS / "data" / "vectors"
    named = json.loads(lzma.decompress((vectors / "ir-conformance.json.xz").read_bytes()))["programs"]
    lines = lzma.decompress((vectors / "oracle-programs.jsonl.xz").read_bytes()).splitlines()
    tagged = [json.loads(line) for line in lines[::40]]
    return _program_json("upstream json", [record["program"] for record in (*named[::20], *tagged)])


@reader
def program_values() -> Reader:
    """``Program.from_json`` and ``import_upstream`` on values of Python that no text of JSON gives."""
    corpus = [program.to_json() for program in programs()]
    strange: tuple[Any, ...] = (
        *(
            b"a",
            1j,
            float("nan"),
            float("inf"),
            10**400,
            -(10**5000),
            {1, 2},
            (1,),
            range(3),
            np.float32(1),
            np.int64(3),
        ),
        *(np.zeros(2), object(), {1: 2}, {None: 1}, {("a",): 1}, Ellipsis, NotImplemented, type, len),
    )

    def read(data: bytes) -> object:
        source = random.Random(data)
        document = json.loads(json.dumps(source.choice(corpus)))
        changing = mutations.Changing(source, document)
        held, key = source.choice(changing.places())
        held[key] = source.choice(strange)
        if isinstance(held, dict) and source.random() < 0.2:
            held[source.choice((1, None, ("a",), b"a", 1.5))] = 1
        return (Program.from_json if source.random() < 0.7 else import_upstream)(document)

    return Reader("program values", lambda source: source.randbytes(8), read)


@reader
def filetests() -> Reader:
    corpus = [Path(test.filename).read_bytes() for test in load_filetests([TESTS / "filetests"])][::12]
    words: tuple[str, ...] = (
        "run:",
        "->",
        "iota(",
        "rnd(",
        "hex(",
        "*",
        "blake3(",
        "count.",
        "spec.",
        "grid=",
        "error",
        "check:",
        "; run: ",
    )
    words += (
        "iota(1048576)",
        "rnd(1, 1048576, 0..9)",
        "iota(999999999)",
        "0*1048576",
        "[iota(1048576), iota(1048576)]",
    )
    read = lambda data: parse_filetest(data.decode("utf-8", "replace"), "a.vyre")  # noqa: E731
    return Reader("filetests", mixed(of_tokens(corpus, words), of_tokens(corpus, words), of_bytes(corpus)), read)


@reader
def manifests() -> Reader:
    """Dialects in TOML, with definitions and laws, which are registered."""

    def draw(source: random.Random) -> bytes:
        return manifest_fuzzing.mutated(source.randrange(1 << 40))

    valid = [manifest_fuzzing.VALID.encode()]
    return Reader("manifests", mixed(draw, draw, of_bytes(valid), of_tokens(valid)), manifest_fuzzing.check)


@reader
def device_signatures() -> Reader:
    """Known devices in TOML: those that are shipped, changed."""

    def read(data: bytes) -> None:
        reading = read_signatures(data, "fuzz.toml")
        lines = data.count(b"\n") + 1
        for found in reading.diagnostics:
            assert found.code.startswith("E-DEVICE-") and found.fix and found.loc is not None and found.render()
            assert 1 <= found.loc.line <= lines
        assert bool(reading.signatures) is not bool(reading.diagnostics)

    folder = Path(device_files.__file__).with_name("devices")
    valid = [file.read_bytes() for file in sorted(folder.glob("*.toml"))]
    words = ("true", "-1", "1e400", "9" * 5000, "[" * 300, '"sheet"', "{}", "[]", "[[generations]]", "value", "names")
    return Reader("device_signatures", mixed(of_bytes(valid), of_tokens(valid), of_tokens(valid, words)), read)


# ---- sealed documents
def _sealed(form: SealedForm) -> Callable[[str], str]:
    """Returns what gives a changed document the digest of its content, if it is any."""

    def seal_again(text: str) -> str:
        try:
            content = json.loads(text)
            content.pop("blake3", None)
            digest = json.loads(form.seal(content))["blake3"]
        except (ValueError, TypeError, AttributeError, RecursionError):
            return text
        return re.sub('"blake3": ?"[0-9a-f]*"', f'"blake3":"{digest}"', text, count=1)

    return seal_again


def _document(name: str, form: SealedForm, texts: Sequence[str], read: Callable[[bytes], object]) -> Reader:
    corpus = [json.loads(each) for each in texts]
    encoded = [each.encode() for each in texts]
    draw = of_json(corpus, _sealed(form))
    return Reader(
        name,
        mixed(draw, draw, draw, of_json(corpus), of_bytes(encoded), of_tokens(encoded)),
        read,
    )


@reader
def tuning_records() -> Reader:
    lines = [tuning.to_line(tuning_record(1)), tuning.to_line(tuning_record(2, samples=tuple(range(1, 300))))]

    def read(text: bytes) -> object:
        found = tuning.merge([tuning.from_line(text)])
        return [str(one.candidate) + repr(one.key) for one in found]

    return _document("tuning records", tuning._FORM, lines, read)


@reader
def tuning_pins_files() -> Reader:
    pins = [tuning_pins.Pin(tuning_key(n), tuning.Candidate(64), tuning.TimeKind.DEVICE) for n in range(3)]
    return _document("pins", tuning_pins._FORM, [tuning_pins.pins_text(tuning_pins.Pins.of(pins))], tuning_pins.pins_of)


@reader
def cost_files() -> Reader:
    return _document("launch costs", cost_texts._FORM, [cost_texts.to_text(launch_costs())], cost_texts.from_text)


@reader
def wave_time_files() -> Reader:
    table = wave_times.WaveTimes(SOURCE, {"a": wave_times.WaveTime(1, 2), "b": wave_times.WaveTime(3, 4)})
    return _document("wave times", wave_times._FORM, [wave_times.to_text(table)], wave_times.from_text)


@reader
def verdict_files() -> Reader:
    key = lowering.LoweringKey("acme.f", "1" * 64, "2" * 64, "cpu", "1")
    found = [
        lowering.LoweringVerdict(key, 5, True),
        lowering.LoweringVerdict(key, 5, False, lowering.LoweringDifference((1, 2), 3, 4)),
    ]

    def read(text: bytes) -> object:
        verdict = lowering.verdict_of_text(text)
        return str(verdict), verdict.is_usable, hash(verdict)

    return _document("verdicts", lowering._FORM, list(map(lowering.verdict_text, found)), read)


@reader
def certificates() -> Reader:
    cases = (CaseRecord("operations", "add u32 u32", "1" * 64, "2" * 64, "agreed", "", ""),)
    subject = certificate.Subject("reference", "1", {"name": "x"}, "lockstep", True, True)
    found = certificate.Certificate(subject, 0, 1.5, cases * 3, {"add u32 u32": 5}, {"Let": 3}, {"random": 2}, ("x",))

    def read(text: bytes) -> object:
        read_back = certificate.Certificate.from_json(text)
        read_back.to_json()
        from vyre.testing.conform.command import _print
        from vyre.testing.conform.verification import verify

        with contextlib.redirect_stdout(io.StringIO()):
            _print(read_back, as_json=False)
        return verify(read_back).objections

    return _document("certificates", certificate._FORM, [found.to_json()], read)


# ---- journals and evidence
@cache
def journal_lines() -> list[str]:
    """Lines of journals: decisions of every policy that can be recorded."""
    from support.recorded_decisions import decisions

    return to_lines(decisions(), version_of).splitlines()


@reader
def journals() -> Reader:
    lines = journal_lines()
    documents = [json.loads(line) for line in lines]
    encoded = [line.encode() for line in lines]

    names = [record["policy"] for record in documents] + ["decide", "replay", "facts_of", "plan_token_fact", "name_of"]

    def renamed(source: random.Random) -> bytes:
        """The inputs of one policy for another."""
        name = source.choice(names)
        policy = find_policy(name)
        known = {} if policy is None else {"version": policy.version}
        return of_json([source.choice(documents) | {"policy": name} | known])(source)

    def read(data: bytes) -> object:
        path.write_bytes(data)
        return list(replay_file(path))

    path = scratch() / "journal"
    draw = of_json(documents)
    return Reader("journals", mixed(draw, draw, draw, renamed, of_bytes(encoded), of_tokens(encoded)), read)


def _archive(files: dict[str, bytes]) -> bytes:
    """Returns an archive whose digest is right."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), content)
        archive.comment = bytes(DIGEST_DIGITS)
    return _with_digest(stream.getvalue()[:-DIGEST_DIGITS])


def _with_digest(body: bytes) -> bytes:
    return body + blake3(body).hexdigest().encode()


_CONFIG: Final = DispatchConfig(
    grid=(2, 1, 1),
    workgroup=(4, 1, 1),
    spec={"k": 3, "f": 1.5, "b": True},
    output_counts={"y": 5},
    step_budget=100,
    timeout_s=9.0,
    profile="p",
    ulp_budget=1,
    label="l",
    speculation=SpeculationMode.AUTO,
    persistent_thread=PersistentThreadMode.AUTO,
)


def _agree(files: dict[str, bytes], manifest: Any) -> None:
    """Gives a manifest the digests of the program, of the inputs and of the work that it names, if it names any."""
    with contextlib.suppress(VyreError, LookupError, TypeError, ValueError, AttributeError):
        run = manifest["run"]
        program = Program.from_text(files[run["program"]["path"]].decode("utf-8", "surrogatepass"))
        run["digest"], run["name"] = program.digest.hex(), program.name
        fields: list[Any] = [
            [each["name"], each["content"]["nbytes"], each["content"]["blake3"]] for each in run["inputs"]
        ]
        if run["resident"]:
            fields.append(sorted(run["resident"]))
        run["inputs_digest"] = blake3(json.dumps(fields, separators=(",", ":")).encode()).hexdigest()
    with contextlib.suppress(VyreError, LookupError, TypeError, ValueError):
        manifest["work"]["digest"] = blake3(canonical(manifest["work"] | {"digest": ""}).encode()).hexdigest()


@reader
def evidence_bundles() -> Reader:
    """Bundles of runs and of measurements, of which the manifest or any file in them was changed and sealed again."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder, name) for name in "abcde"]
        given, reference = evidence.INPUTS, open_backend("reference")
        options: dict[str, Any] = {"timings": [DispatchTiming(5, 4, 3, 2)], "repository": evidence.FakeRepository()}
        got = execute(reference, evidence.scale(), given)
        write_bundle(paths[0], evidence.scale(), given, got, config=_CONFIG, backend=reference, **options)
        with vyre.open("reference") as session, contextlib.suppress(VyreError):
            session.write_evidence(paths[3], evidence.racy(), {}, DispatchConfig(race_check=True, grid=(2, 1, 1)))
        evidence.write_failed(paths[1])
        evidence.write_resident(paths[2])
        evidence.write_work(paths[4])
        corpus = [path.read_bytes() for path in paths]
    claim = SpeedClaim("row", "ours", "theirs", 1.5)
    corpus += [encode_evidence(evidence.measured(claim, count=count), {}) for count in (9, 1000)]
    opened = []
    for data in corpus:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            opened.append({name: archive.read(name) for name in archive.namelist()})
    lines = journal_lines()

    def crafted(source: random.Random) -> bytes:
        files = dict(source.choice(opened))
        manifest = json.loads(files["manifest.json"])
        inner = [name for name in files if name != "manifest.json"]
        if not inner or source.random() < 0.6:
            return _archive(files | {"manifest.json": of_json([manifest])(source)})
        name = source.choice(inner)
        if name.endswith(".json"):
            files[name] = of_json([json.loads(files[name])])(source)
        elif manifest["run"] is not None and manifest["run"]["decisions"] is None and source.random() < 0.5:
            name = "decisions.jsonl"
            files[name] = of_json([json.loads(source.choice(lines))])(source)
            manifest["run"]["decisions"] = {"path": name, "nbytes": 0, "blake3": "", "$type": "Content"}
        else:
            files[name] = mixed(of_bytes([files[name]]), of_tokens([files[name]]))(source)
        content = {"nbytes": len(files[name]), "blake3": blake3(files[name]).hexdigest()}
        for held, key in mutations.Changing(source, manifest).places():
            if isinstance(held, dict) and key == "path" and held[key] == name:
                held.update(content)
        if source.random() < 0.5:
            changed = of_json([manifest])(source)
            with contextlib.suppress(ValueError, RecursionError):
                manifest = json.loads(changed)
        _agree(files, manifest)
        files["manifest.json"] = json.dumps(manifest, sort_keys=True, separators=(",", ":")).encode()
        return _archive(files)

    bodies = [data[:-DIGEST_DIGITS] for data in corpus]
    return Reader(
        "evidence bundles",
        mixed(crafted, crafted, crafted, of_bytes(corpus), of_bytes(bodies, _with_digest)),
        lambda data: checked(decode_evidence(data), "a bundle"),
    )


@reader
def diagnostics() -> Reader:
    from vyre.domain.source_location import SourceLocation

    found = Diagnostic(Severity.ERROR, "V001", "a message", "a fix", SourceLocation("a.py", 3, 4))
    encoded = [found.render_json().encode()]
    return Reader(
        "diagnostics",
        mixed(of_json([found.to_json()]), of_bytes(encoded), of_tokens(encoded)),
        lambda data: Diagnostic.parse_json(data.decode("utf-8", "replace")).render(),
    )
