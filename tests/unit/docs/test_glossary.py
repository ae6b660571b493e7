"""The glossary for maintainers: its words mean in names of classes what it says of them."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[3]
SOURCES: Final = ROOT / "src" / "vyre"
ROW: Final = re.compile(r"\| (\w+) \| ([^|]+) \| ((?:`[^`]+`(?:, )?)+) \|")
OTHER_SLOTS: Final = frozenset({
    ("app/transfers/slots.py", "SlotReading"),  # of the slots of results that `download_slots` names
    ("policies/launching/queueing.py", "SlotLayout"),  # of a queue, as vyre-driver calls it
    ("policies/transfer/readback.py", "ResultSlot"),  # likewise
})  # fmt: skip
"""Classes with another meaning of the word, which others have named."""


def rows() -> dict[str, tuple[str, ...]]:
    """Returns the folders and files of the classes of each word."""
    text = (ROOT / "docs" / "maintainers" / "glossary.md").read_text("utf-8")
    return {word: tuple(re.findall(r"`([^`]+)`", places)) for word, _, places in ROW.findall(text)}


@cache
def classes() -> list[tuple[str, str]]:
    """Returns the file below ``src/vyre`` and the name of each class at the top of a module."""
    return [
        (path.relative_to(SOURCES).as_posix(), node.name)
        for path in sorted(SOURCES.rglob("*.py"))
        for node in ast.parse(path.read_bytes()).body
        if isinstance(node, ast.ClassDef)
    ]


def named(word: str) -> list[tuple[str, str]]:
    """Returns the classes in whose name a word, or its plural, is one of the words."""
    wanted = {word.capitalize(), f"{word.capitalize()}s"}
    return [(file, name) for file, name in classes() if wanted & set(re.findall(r"[A-Z][a-z0-9]*", name))]


def test_a_dozen_words_have_a_row() -> None:
    assert len(rows()) == 12


@pytest.mark.parametrize("word", rows())
def test_classes_have_a_word_where_it_means_that(word: str) -> None:
    places = rows()[word]
    used = named(word)
    assert used
    assert [
        f"{file}: {name}" for file, name in used if not file.startswith(places) and (file, name) not in OTHER_SLOTS
    ] == []
    assert [place for place in places if not any(file.startswith(place) for file, _ in used)] == []


def test_every_other_slot_exists() -> None:
    assert set(named("slot")) >= OTHER_SLOTS
