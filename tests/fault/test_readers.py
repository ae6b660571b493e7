"""Whatever a file, an option or a variable holds: it is read, or refused by a typed error, within bounds.

``reader_fuzzing`` changes valid inputs of every reader.  Here is a part of each, and single inputs that once broke one.
"""

from __future__ import annotations

import contextlib
import io
import json
import resource
import signal
import struct
import sys
from collections.abc import Callable
from dataclasses import replace
from math import comb
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

from support.fuzzing.readers import Tried, attempt, campaign, limited
from support.launch_costs import SOURCE
from support.limits import LIMIT_S
from support.llvm import NEEDS_LLVM
from support.readers import READERS, Reader
from support.small_programs import saxpy_program
from vyre.adapters.cuda.drivers import SIZE, jit_cache_settings
from vyre.adapters.cuda.machine import libraries
from vyre.adapters.cuda.machine.memory import DeviceMemory
from vyre.adapters.cuda.machine.presets import H200
from vyre.adapters.cuda.machine.status import Status
from vyre.adapters.cuda.runtime.interop import read_foreign
from vyre.adapters.cuda.seam import DEFAULT_JIT
from vyre.adapters.discovery import installed_plugins
from vyre.adapters.evidence_files import read_bundle
from vyre.adapters.files import read_file, write_files
from vyre.app.cli import arguments, main
from vyre.app.dialects.loading import load_manifests
from vyre.app.dialects.registry import DialectRegistry
from vyre.domain import wave_times
from vyre.domain.dialects import lowering
from vyre.domain.errors import InvalidField, InvalidInput, InvalidResource, MalformedJson, UnreadableFile
from vyre.domain.ir.types import ScalarType
from vyre.domain.strict_json import NotStrictJson, parse
from vyre.domain.value_json import MAX_VALUE_DEPTH, to_json
from vyre.policies.decision_records import DecisionRecord, Known, replay
from vyre.policies.evidence.claims import ClaimInputs, MeasuredSide, judge_claim
from vyre.testing.conform.cases import Cases, Group
from vyre.testing.conform.certificate import _FORM, Certificate, Subject
from vyre.testing.conformance import read_cases

INPUTS: Final = 20
_COMPILED: Final = ("elf", "linked_objects")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=NEEDS_LLVM) if name in _COMPILED else name for name in READERS]
)
def test_changed_inputs_are_read_or_refused(name: str) -> None:
    (tried,) = campaign([READERS[name]()], 0, INPUTS, LIMIT_S, LIMIT_S).values()
    assert not tried.failures, "\n".join(tried.failures)
    assert tried.inputs == INPUTS // READERS[name]().every


def test_what_a_reader_raises_beyond_its_refusals_is_found() -> None:
    def read(data: bytes) -> object:
        if data[0] % 2:
            raise LookupError("foreign")
        return bytearray(1 << 40) if data[0] % 4 else None

    broken = READERS["pictures"]()._replace(name="broken", draw=lambda source: source.randbytes(1), read=read)
    (tried,) = campaign([broken], 0, 20, LIMIT_S, LIMIT_S).values()
    assert isinstance(tried, Tried) and tried.accepted
    assert any("LookupError: foreign" in each for each in tried.failures)
    assert any("MemoryError" in each for each in tried.failures)


# ---- JSON
@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("9" * 41, "holds an integer of more than 40 digits"),
        ("[" * 65 + "]" * 65, "is nested more than 64 deep"),
        ('{"a":1,"a":1}', "gives a member twice"),
        (b"\xff\xfe\xff", "is not JSON"),
        (b'{"a":1\xc3}', "is not JSON"),
    ],
)
def test_json_beyond_the_bounds_is_refused(text: str | bytes, why: str) -> None:
    with pytest.raises(NotStrictJson, match=why):
        parse(text)


def test_what_can_be_written_can_be_read() -> None:
    value: Any = {1: 2}
    for _ in range(MAX_VALUE_DEPTH - 2):
        value = (value,)
    for whole in (value, 10**40 - 1, -(10**39)):
        assert parse(json.dumps([[to_json(whole)]])) == [[to_json(whole)]]
    for larger in ((value,), 10**40, -(10**5000)):
        with pytest.raises(InvalidField):
            to_json(larger)


def test_sealed_documents_are_bounded_by_the_reader_of_all() -> None:
    text = wave_times.to_text(wave_times.WaveTimes(SOURCE, {"a": wave_times.WaveTime(1, 2)}))
    assert wave_times.from_text(text.encode()) == wave_times.from_text(text)
    for damage, why in (
        ('"times":' + "[" * 600 + "]" * 600, "is nested more than 64 deep"),
        ('"times":[],"times":[]', "gives a member twice"),
        ('"times":[["a",' + "9" * 4000 + ",1]]", "more than 40 digits"),
        ('"times":[["a",NaN,1]]', "holds NaN"),
    ):
        with pytest.raises(MalformedJson, match=why):
            wave_times.from_text(text.replace('"times":[["a",1,2]]', damage))


@pytest.mark.parametrize(
    "changes",
    [{"cases": "5"}, {"cases": -1}, {"exhaustive": 1}, {"difference": [["1"], 2, 3]}, {"difference": [[1], 2, 3, 4]}],
)
def test_a_verdict_on_a_lowering_holds_numbers(changes: dict[str, Any]) -> None:
    key = lowering.LoweringKey("acme.f", "1" * 64, "2" * 64, "cpu", "1")
    text = lowering.verdict_text(lowering.LoweringVerdict(key, 5, True))
    content = {name: value for name, value in json.loads(text).items() if name != "blake3"}
    assert lowering.verdict_of_text(lowering._FORM.seal(content)).cases == 5
    with pytest.raises(MalformedJson, match="not a verdict"):
        lowering.verdict_of_text(lowering._FORM.seal(content | changes))


@pytest.mark.parametrize(
    "changes", [{"schedule": "sideways"}, {"schedule": 1}, {"device": {"a": 1}}, {"device": {"a": [[]]}}]
)
def test_a_certificate_names_a_schedule_and_facts(changes: dict[str, Any]) -> None:
    subject = Subject("reference", "1", {"name": "x"}, "lockstep", True, True)
    text = Certificate(subject, 0, 1.5, (), {}, {}, {}).to_json()
    assert Certificate.from_json(text).subject == subject
    content = {name: value for name, value in json.loads(text).items() if name != "blake3"}
    with pytest.raises(MalformedJson, match="schedule"):
        Certificate.from_json(_FORM.seal(content | {"subject": content["subject"] | changes}))


def test_no_random_case_has_a_number_of_thousands_of_digits() -> None:
    with pytest.raises(KeyError):
        Cases(0, True, True).find(Group.RANDOM, "9" * 5000)


# ---- journals and claims
def test_a_policy_that_fails_on_recorded_inputs_is_a_refused_record() -> None:
    def policy(a: int, b: int) -> int:
        return a // b

    record = DecisionRecord("policy", "v1", {"a": 1, "b": 0}, {}, 1)
    with pytest.raises(MalformedJson, match="ZeroDivisionError"):
        replay(record, lambda name: Known(policy, "v1"))
    assert replay(replace(record, inputs={"a": 1, "b": 1}), lambda name: Known(policy, "v1")).reproduced


TOO_LONG: Final = "x" * 5000 + ".py"


def test_paths_that_cannot_be_are_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``Path.exists`` and ``Path.is_dir`` raise for a name that is too long, ``Path.resolve`` for a loop of links."""
    (tmp_path / "loop").symlink_to("loop")
    for words in (
        ["new", TOO_LONG],
        ["cache", "invalidate", "--dry-run", "--program", "x" * 5000],
        ["run", "program.vyre", "-b", "reference", "--in", "a=1", "--in", "x=1", "--in", "y=1", "--out", "y=loop/y"],
    ):
        out, err = io.StringIO(), io.StringIO()
        monkeypatch.chdir(tmp_path)
        Path("program.vyre").write_text(saxpy_program().to_text())
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main(words)
        assert code == 2, words
        assert "Fix: " in err.getvalue()
        assert "internal error" not in err.getvalue()
    registry = DialectRegistry()
    load_manifests(registry, TOO_LONG)
    assert [note.code for note in registry.snapshot.diagnostics] == ["E-TOML-DIALECT-DIR-MISSING"]
    monkeypatch.setattr(sys, "path", [TOO_LONG, str(tmp_path / "loop"), *sys.path])
    installed_plugins()


def test_no_limit_is_left_to_the_next_input() -> None:
    """Neither by what takes all memory, so that a block may not reach its end, nor by what swallows the alarm."""
    limit = resource.getrlimit(resource.RLIMIT_AS)

    def takes_all(data: bytes) -> None:
        kept: Any = None
        with contextlib.suppress(MemoryError):
            while True:
                kept = (kept, bytes(1 << 20))
        while True:
            kept = (kept, bytes(1000))

    def swallows(data: bytes) -> None:
        for _ in range(3):
            with contextlib.suppress(BaseException):
                while True:
                    pass

    for read, problem, seconds in ((takes_all, "MemoryError", 60.0), (swallows, "it took", 0.3)):
        tried = Tried()
        attempt(Reader("bad", lambda source: source.randbytes(8), read), 1, tried, seconds)
        (failure,) = tried.failures
        assert problem in failure
        assert resource.getrlimit(resource.RLIMIT_AS) == limit
        assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0, 0)
        assert signal.getsignal(signal.SIGVTALRM) is signal.SIG_DFL


def test_claims_of_many_samples_are_judged_by_few_steps() -> None:
    def judged(count: int) -> Any:
        one, other = (MeasuredSide(name, "d", "r", (time,) * count) for name, time in (("a", 1.0), ("b", 2.0)))
        return judge_claim(ClaimInputs(one, other, 1.5))

    for count in range(1, 60):
        ranks = [k for k in range(count) if 40 * sum(comb(count, i) for i in range(k)) <= 2**count and k]
        assert judged(count).supported is bool(ranks)
    with limited(LIMIT_S):  # a binomial coefficient for each sample would take hours
        assert judged(100_000).supported


# ---- PTX
HEAD: Final = ".version 8.0\n.target sm_80\n.address_size 64\n"


def entry(body: str, *, before: str = "", attributes: str = "") -> str:
    return f"{HEAD}{before}.visible .entry e(.param .u64 p)\n{attributes}{{\n{body}\nret;\n}}\n"


BROKEN_PTX: Final = {
    "an opcode without a type": entry("mov %r1, %r2;"),
    "a load without anything": entry("ld %r1, [p];"),
    "a type that is none": entry(".reg .b32 %r<3>;\nmov.b32param %r1, 5;"),
    "an octal number that is none": entry(".reg .b32 %r<3>;\nmov.b32 %r1, 09;"),
    "a number of thousands of digits": entry(".reg .b32 %r<3>;\nmov.b32 %r1, " + "9" * 5000 + ";"),
    "a float beyond binary32": entry(".reg .f32 %f<3>;\nmov.f32 %f1, 1.0e300;"),
    "a barrier that is no number": entry("bar.sync \u00b2;".encode().decode("latin-1")),
    "a declaration without a name": entry(".reg ;"),
    "registers without end": entry(".reg .b32 %r<999999999>;"),
    "more registers than a number has digits": entry(".reg .b32 %r<" + "9" * 5000 + ">;"),
    "a block of no axis": entry("", attributes=".reqntid\n"),
    "a block of four axes": entry("", attributes=".reqntid 1, 1, 1, 1\n"),
    "a block of no threads": entry("", attributes=".reqntid 0\n"),
    "a block of too many": entry("", attributes=".reqntid 1024, 2\n"),
    "memory without end": entry("", before=".global .u32 x[4294967295];\n"),
    "local memory without end": entry(".local .u32 x[4294967295];"),
    "no alignment": entry("", before=".global .align 0 .u32 x[4];\n"),
    "an alignment of three": entry("", before=".global .align 3 .u32 x[4];\n"),
    "a version of thousands of digits": entry("").replace("8.0", "8" * 5000 + ".0"),
    "a target of thousands of digits": entry("").replace("80", "8" * 5000),
}


def loaded(text: str) -> libraries.Library:
    return libraries.load(1, text.encode() + b"\0", DEFAULT_JIT, H200, 13_000, DeviceMemory())


@pytest.mark.parametrize("text", BROKEN_PTX.values(), ids=BROKEN_PTX)
def test_ptx_that_is_none_is_a_code_of_the_driver(text: str) -> None:
    assert loaded(entry(".reg .b32 %r<3>;\nmov.b32 %r1, 017;"))
    with pytest.raises(Status):
        loaded(text)


@pytest.mark.parametrize(
    "text",
    [
        HEAD + "/*" * 500_000,
        HEAD + ".global .u32 x" + " " * 1_000_000 + "y;",
        entry("mov.b32 " + "[" * 1_000_000 + ";"),
        entry("mov.b32 " + "{" * 1_000_000 + ";"),
        "\n" * 1_000_000,
        HEAD + ".visible .entry a() { " + "mov" * 300_000,
        HEAD + ".visible .entry " + "a" * 1_000_000,
        HEAD + ".visible .entry a" + " " * 1_000_000 + ";",
    ],
    ids=["comments", "blanks", "brackets", "braces", "lines", "opcode", "name", "blanks after the name"],
)
def test_hostile_ptx_is_scanned_once(text: str) -> None:
    """Each would take many minutes if it were looked at again from every place in it."""
    with limited(LIMIT_S), pytest.raises(Status):
        loaded(text)


# ---- arrays of others
@pytest.mark.parametrize("strides", [{"a": 4}, ["x"], [None], 4])
def test_a_foreign_array_has_strides(strides: object) -> None:
    class Foreign:
        __cuda_array_interface__: Final = {
            "shape": (2,), "typestr": "<f4", "data": (4096, False), "version": 3, "strides": strides
        }  # fmt: skip

    with pytest.raises(InvalidResource, match=r"malformed|not contiguous"):
        read_foreign(Foreign())


@pytest.mark.parametrize("shape", [[float("inf")], [float("nan")], ["x"], [[1]], [-1]])
def test_a_foreign_array_has_a_shape(shape: list[Any]) -> None:
    class Foreign:
        __cuda_array_interface__: Final = {"shape": shape, "typestr": "<f4", "data": (4096, False), "version": 3}

    with pytest.raises(InvalidResource, match="malformed"):
        read_foreign(Foreign())


def npy(header: str, data: bytes = bytes(32), version: bytes = b"\1\0") -> bytes:
    return b"\x93NUMPY" + version + struct.pack("<H", len(header)) + header.encode() + data


PLAIN: Final = "{'descr': '<f4', 'fortran_order': False, 'shape': (8,), }"
BROKEN_NPY: Final = {
    "empty": b"",
    "other bytes": b"x" * 64,
    "the magic alone": b"\x93NUMPY",
    "a statement without end": npy("{'descr': ("),
    "a text without end": npy("{'descr"),
    "no names": npy("{}"),
    "a shape of no numbers": npy(PLAIN.replace("8", "'8'")),
    "a negative shape": npy(PLAIN.replace("8", "-8")),
    "a type of no kind": npy(PLAIN.replace("'<f4'", "3j")),
    "objects": npy(PLAIN.replace("<f4", "|O")),
    "a shape of exabytes": npy(PLAIN.replace("8", str(1 << 60))),
    "a shape beyond all numbers": npy(PLAIN.replace("8", "9" * 400)),
    "elements of exabytes": npy(PLAIN.replace("<f4", "|V" + "9" * 18)),
    "a depth of thousands": npy("[" * 9000),
    "cut off": npy(PLAIN, bytes(31)),
    "bytes behind it": npy(PLAIN, bytes(33)),
    "two arrays": npy(PLAIN) * 2,
    "a version to come": npy(PLAIN, version=b"\7\0"),
}


@pytest.mark.parametrize("data", BROKEN_NPY.values(), ids=BROKEN_NPY)
def test_a_broken_npy_file_is_refused_and_never_raw_memory(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    path.write_bytes(data)
    with limited(LIMIT_S), pytest.raises(UnreadableFile, match=r"no readable \.npy file.*Fix: save it again"):
        arguments.inputs([f"x=@{path}"], saxpy_program())


@pytest.mark.parametrize("name", ["x.npz", "x.NPZ", "x", "x.npy"])
def test_an_archive_of_arrays_is_never_raw_memory(name: str, tmp_path: Path) -> None:
    with (tmp_path / name).open("wb") as file:
        np.savez(file, x=np.ones(8, np.float32))
    with pytest.raises(UnreadableFile, match=r"is an archive of arrays.*Fix: save the array alone"):
        arguments.inputs([f"x=@{tmp_path / name}"], saxpy_program())


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("shape", [(8,), (2, 4), (0,), (3, 0)])
def test_npy_files_are_read_as_numpy_reads_them(shape: tuple[int, ...], order: Any, tmp_path: Path) -> None:
    array = np.arange(np.prod(shape), dtype=np.float32).reshape(shape, order=order)
    np.save(tmp_path / "x.npy", np.asarray(array, order=order))
    found = arguments.inputs([f"x=@{tmp_path / 'x.npy'}"], saxpy_program())["x"]
    assert np.array_equal(found, array) and found.flags.c_contiguous
    (tmp_path / "x.bin").write_bytes(b"raw bytes")
    assert arguments.inputs([f"x=@{tmp_path / 'x.bin'}"], saxpy_program())["x"] == b"raw bytes"


@pytest.mark.parametrize(
    "changes", [{"name": 1}, {"tags": 1}, {"inputs": [1]}, {"program": None, "tags": [], "name": []}]
)
def test_a_recorded_case_of_other_types_is_no_case(changes: dict[str, Any], tmp_path: Path) -> None:
    record: dict[str, Any] = {"name": "a", "tags": ["invalid"], "program": {}, "status": "ok", "inputs": None}
    (tmp_path / "cases").write_text(json.dumps(record), "utf-8")
    assert len(read_cases(tmp_path / "cases")) == 1
    (tmp_path / "cases").write_text(json.dumps(record | {"tags": [], "input_buffers": []} | changes), "utf-8")
    with pytest.raises(UnreadableFile, match="no conformance file"):
        read_cases(tmp_path / "cases")


# ---- paths, strings and variables
@pytest.mark.parametrize("path", ["a\0b", "a\ud800b"])
@pytest.mark.parametrize(
    "use", [read_file, read_bundle, lambda path: write_files({path: b""})], ids=["file", "evidence", "written"]
)
def test_a_path_that_is_none_is_refused(use: Callable[[Path], object], path: str, tmp_path: Path) -> None:
    with pytest.raises(UnreadableFile):
        use(tmp_path / path)


@pytest.mark.parametrize("text", ['"\\ud800"', '"', '"a" 1'])
def test_a_string_option_is_text(text: str) -> None:
    bytes_ = replace(saxpy_program().abi_buffers[1], element=ScalarType.U8)
    with pytest.raises(InvalidInput, match="is no string"):
        arguments._string(bytes_, text)


def test_the_size_of_the_drivers_cache_is_a_number() -> None:
    assert "no number of bytes" in jit_cache_settings({SIZE: "9" * 5000}).problem
