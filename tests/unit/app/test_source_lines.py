"""Lines of the source stand beside the code that comes from them."""

from __future__ import annotations

from pathlib import Path

import pytest

from vyre.app.source_lines import with_source_lines


@pytest.mark.parametrize("mark", ["  ; ", "\t# ", "\t// "])
def test_a_comment_with_a_place_ends_with_its_line(mark: str, tmp_path: Path) -> None:
    file = tmp_path / "kernel with: colon.py"
    file.write_text("first\n    y[i] = x[i]  # so\n\n\u202efourth\n", encoding="utf-8")
    text = "\n".join(f"{mark}{file}:{place}" for place in ("1", "2:7", "3", "4", "5", "0"))
    lines = with_source_lines(f"code\n{text}\n").split("\n")
    assert lines[0] == "code" and lines[-1] == ""
    assert [line.removeprefix(f"{mark}{file}:") for line in lines[1:-1]] == [
        "1  first",
        "2:7  y[i] = x[i]  # so",
        "3",
        "4  \\u{202e}fourth",
        "5",
        "0",
    ]


def test_what_cannot_be_read_stays_as_it_is(tmp_path: Path) -> None:
    binary, long = tmp_path / "binary", tmp_path / "long"
    binary.write_bytes(b"\xff\n")
    long.write_bytes(b"x\n" * (1 << 21) + b"x")
    for name in (binary, long, tmp_path, tmp_path / "absent", "a\0b", "x" * 5000):
        assert with_source_lines(f"; {name}:1") == f"; {name}:1"
    assert with_source_lines(".loc 1 2\n;\n; kernel") == ".loc 1 2\n;\n; kernel"
