"""Every golden-vector file passes, and every answer in it can make the runner fail."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from vectors.rows import CONFORMANCE_FILES, FILES
from vectors.runner import Tally, run_file
from vyre.testing.packed_files import unpacked

VECTORS = Path(__file__).parents[2] / "data" / "vectors"
UNPINNED = {"closure", "field"}
"""Members of results that are no requirement."""
LINES_MUTATED = 3
"""Of every function, this many lines are mutated."""


def path_of(stem: str) -> Path:
    return VECTORS / f"{stem}.jsonl.xz"


def lines_of(stem: str) -> list[str]:
    return unpacked(path_of(stem)).decode().splitlines()


def test_every_answered_file_is_here_and_every_file_here_is_answered() -> None:
    here = {p.name.split(".")[0] for p in VECTORS.glob("*.xz")}
    assert here - CONFORMANCE_FILES == set(FILES)


@pytest.mark.parametrize("stem", sorted(FILES))
def test_every_line_passes(stem: str) -> None:
    said: list[object] = []
    tally = Tally(said.append)
    run_file(path_of(stem), tally)
    assert said == []
    assert tally.passed == len(lines_of(stem)) > 0
    assert tally.skipped == 0


@pytest.mark.parametrize("stem", sorted(FILES))
def test_every_changed_answer_fails(stem: str, tmp_path: Path) -> None:
    seen: dict[str, int] = {}
    wrong = []
    for line in lines_of(stem):
        case = json.loads(line)
        name = case.get("fn", case.get("kind"))
        seen[name] = seen.get(name, 0) + 1
        if seen[name] <= LINES_MUTATED:
            wrong += [json.dumps({**case, "out": out}) for out in mutations(case["out"])]
    assert len(wrong) >= len(seen) > 0
    path = tmp_path / f"{stem}.jsonl"
    path.write_text("\n".join(wrong))
    tally = Tally(lambda _: None)
    run_file(path, tally)
    assert (tally.passed, tally.failed) == (0, len(wrong))


def mutations(out: Any) -> Iterator[Any]:
    """Copies of ``out`` in each of which one leaf is another value."""
    if isinstance(out, dict) and out:
        for name in out.keys() - UNPINNED:
            yield from ({**out, name: other} for other in mutations(out[name]))
    elif isinstance(out, list) and out:
        for place in {0, len(out) - 1}:
            yield from ([*out[:place], other, *out[place + 1 :]] for other in mutations(out[place]))
    elif isinstance(out, bool):
        yield not out
    elif isinstance(out, int):
        yield out + 1
    elif isinstance(out, float):
        yield out + 1.0
    elif isinstance(out, str):
        yield out[:3] + ("1" if out[3:4] == "0" else "0") + out[4:]  # in a float: an exponent digit
    else:
        yield [0]  # nothing, or an empty list or record
