"""The vector runner, and the vectors of specialization and input identity."""

from __future__ import annotations

import gzip
import json
import lzma
from pathlib import Path
from typing import Any

import pytest

from vectors.codec import bits_of_float, float_of_bits, matches
from vectors.runner import main

VECTORS = Path(__file__).parents[2] / "data" / "vectors"
GOOD = {"fn": "dtype_tag", "in": {"dtype": "u32"}, "out": {"tag": 1, "cache_hash": 260}}


@pytest.mark.parametrize(("stem", "lines"), [("specialization", 305), ("input_identity", 165)])
def test_golden_vectors(stem: str, lines: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(VECTORS / f"{stem}.jsonl.xz")]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"{lines} passed, 0 failed, 0 skipped"


def run(capsys: pytest.CaptureFixture[str], *paths: Path) -> tuple[int, list[str]]:
    code = main([str(p) for p in paths])
    return code, capsys.readouterr().out.splitlines()


def write(path: Path, *cases: object) -> Path:
    text = "\n".join(c if isinstance(c, str) else json.dumps(c) for c in cases) + "\n"
    data = text.encode()
    packed = {".gz": gzip.compress(data), ".xz": lzma.compress(data)}
    path.write_bytes(packed.get(path.suffix, data))
    return path


@pytest.mark.parametrize("suffix", ["", ".gz", ".xz"])
def test_plain_and_packed_files(tmp_path: Path, capsys: pytest.CaptureFixture[str], suffix: str) -> None:
    assert run(capsys, write(tmp_path / f"specialization.jsonl{suffix}", GOOD)) == (
        0,
        ["1 passed, 0 failed, 0 skipped"],
    )


@pytest.mark.parametrize(
    "bad",
    [
        {**GOOD, "out": {"tag": 2, "cache_hash": 260}},
        {**GOOD, "out": {"tag": 1, "cache_hash": 260, "more": 0}},
        {**GOOD, "fn": "unknown"},
        {**GOOD, "in": {"dtype": "no_such_type"}},
        {**GOOD, "in": {}},
        {"fn": "dtype_tag"},
        "not json",
        "[1]",
        "3",
    ],
)
def test_every_deviation_is_a_failure_with_its_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], bad: Any
) -> None:
    code, lines = run(capsys, write(tmp_path / "specialization.jsonl", GOOD, bad, GOOD))
    assert code == 1
    assert lines[0].startswith("FAIL specialization.jsonl:2: ")
    assert lines[-1] == "2 passed, 1 failed, 0 skipped"


def test_an_unknown_file_is_a_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, lines = run(capsys, write(tmp_path / "nobody.jsonl", GOOD))
    assert (code, lines[-1]) == (1, "0 passed, 1 failed, 0 skipped")


def test_directories_are_searched(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "deeper").mkdir()
    write(tmp_path / "deeper" / "specialization.jsonl.xz", GOOD)
    write(tmp_path / "specialization.json", GOOD)
    (tmp_path / "README.md").write_text("passed over")
    write(tmp_path / "oracle-programs.jsonl", "not for us")
    code, lines = run(capsys, tmp_path)
    assert code == 0
    assert lines == ["left to vyre.testing.conformance: oracle-programs.jsonl", "2 passed, 0 failed, 0 skipped"]


def test_unreadable_paths(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    torn = tmp_path / "specialization.jsonl.xz"
    torn.write_bytes(lzma.compress(b"{}" * 1000)[:-9])
    for path in (tmp_path / "missing.jsonl", torn):
        assert main([str(path)]) == 2
        assert "Fix: " in capsys.readouterr().err
    assert main([]) == 2


def test_comparison() -> None:
    assert matches({"a": 1}, {"a": 1, "b": 2})
    assert not matches({"a": 1}, {"b": 1})
    assert not matches([1], [1, 2])
    assert not matches(1, True)
    assert not matches(1, 1.0)
    assert matches("0x7ff8000000000000", "0xfff8000000000001")
    assert not matches("0x0000000000000000", "0x8000000000000000")
    assert matches(None, None)
    assert float_of_bits(bits_of_float(0.1)) == 0.1
