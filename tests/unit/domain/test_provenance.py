"""Fingerprints of sources: every difference of the tree changes them, and clean trees have stable ones."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from support.evidence import TREE
from vyre.domain.evidence.provenance import SourceFile, WorkingTree, changes_digest, source_state, tree_digest

DIRTY = TREE._replace(status=b" M a.py\0", diff=b"-1\n+2\n", untracked=(SourceFile("new.py", b"new"),))


def test_clean_dirty_and_unknown_trees() -> None:
    clean = source_state("vyre", "1.0", TREE)
    assert clean.fingerprint == f"git:{TREE.commit}:dirty=false"
    assert clean.git is not None
    assert asdict(clean.git) == {
        "commit": "1" * 40,
        "branch": "main",
        "dirty": False,
        "changes": None,
        "parent": "2" * 40,
        "committed_at": "2026-01-02T03:04:05+00:00",
    }
    dirty = source_state("vyre", "1.0", DIRTY)
    assert dirty.fingerprint == f"git:{TREE.commit}:dirty=true:changes={changes_digest(DIRTY)}"
    silent = source_state("vyre", "1.0", TREE._replace(status=None))
    assert silent.fingerprint.endswith(":dirty=unknown") and silent.git is not None and silent.git.dirty is None
    lost = source_state("vyre", "1.0", DIRTY._replace(diff=None))
    assert lost.fingerprint.endswith(":dirty=true:changes=unknown")
    assert source_state("vyre", "1.0", None).fingerprint == "package:vyre:1.0"


@pytest.mark.parametrize(
    "other",
    [
        DIRTY._replace(status=b" M b.py\0"),
        DIRTY._replace(diff=b"-1\n+3\n"),
        DIRTY._replace(untracked=(SourceFile("other.py", b"new"),)),
        DIRTY._replace(untracked=(SourceFile("new.py", b"old"),)),
        DIRTY._replace(untracked=(SourceFile("new.py", None),)),
        DIRTY._replace(untracked=()),
    ],
)
def test_every_difference_changes_the_digest(other: WorkingTree) -> None:
    assert changes_digest(other) != changes_digest(DIRTY)


def test_paths_and_contents_cannot_be_shifted_into_one_another() -> None:
    pairs = [(("ab", b"c"), ("d", b"e")), (("a", b"bc"), ("d", b"e")), (("ab", b""), ("cd", b"e"))]
    digests = {tree_digest(SourceFile(*file) for file in files) for files in pairs}
    assert len(digests) == len(pairs)
    files = [SourceFile("b", b"2"), SourceFile("a", b"1")]
    assert tree_digest(files) == tree_digest(reversed(files))
