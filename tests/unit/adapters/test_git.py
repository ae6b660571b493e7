"""Git as the source of provenance: commits, changes, what is left out, and what has no repository."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from support.limits import LIMIT_S
from vyre.adapters.git import GitRepository
from vyre.domain.evidence.provenance import SourceFile, source_state

Git = Callable[..., str]
pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


@pytest.fixture
def git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Git:
    """A repository with a package of one file; returns what runs Git in it."""
    for name in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{name}_NAME", "somebody")
        monkeypatch.setenv(f"GIT_{name}_EMAIL", "somebody@example.org")
        monkeypatch.setenv(f"GIT_{name}_DATE", "2026-01-02T03:04:05+00:00")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "none"))
    monkeypatch.setenv("GIT_CONFIG_SYSTEM", str(tmp_path / "none"))

    def run(*arguments: str) -> str:
        done = subprocess.run(
            ["git", *arguments], cwd=tmp_path, check=True, capture_output=True, text=True, timeout=LIMIT_S
        )
        return done.stdout.strip()

    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "a.py").write_text("one\n")
    (tmp_path / ".gitignore").write_text("*.pyc\n")
    run("init", "--initial-branch=trunk")
    run("add", ".")
    run("commit", "--message=first")
    return run


def test_a_clean_tree(git: Git, tmp_path: Path) -> None:
    found = GitRepository(tmp_path / "package").working_tree()
    assert found is not None
    assert (found.commit, found.branch, found.parent) == (git("rev-parse", "HEAD"), "trunk", None)
    assert found.committed_at is not None and found.committed_at.startswith("2026-01-02T03:04:05")
    assert (found.status, found.diff, found.untracked) == (b"", b"", ())
    assert found.files == (SourceFile("a.py", b"one\n"),)
    git("commit", "--allow-empty", "--message=second")
    again = GitRepository(tmp_path / "package").working_tree()
    assert again is not None and again.parent == found.commit
    git("checkout", "--detach")
    detached = GitRepository(tmp_path / "package").working_tree()
    assert detached is not None and detached.branch is None


def test_changes_and_untracked_files_make_a_tree_dirty(git: Git, tmp_path: Path) -> None:
    repository = GitRepository(tmp_path / "package", ("results",))
    clean = source_state("p", "1", repository.working_tree())
    (tmp_path / "package" / "cache.pyc").write_bytes(b"ignored")
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "evidence.zip").write_bytes(b"generated")
    assert source_state("p", "1", repository.working_tree()) == clean
    (tmp_path / "package" / "a.py").write_text("two\n")
    changed = source_state("p", "1", repository.working_tree())
    assert changed.git is not None and changed.git.dirty and changed.tree != clean.tree
    (tmp_path / "package" / "new.py").write_text("new\n")
    (tmp_path / "package" / "link.py").symlink_to("nowhere")
    more = repository.working_tree()
    assert more is not None
    assert more.untracked == (SourceFile("package/link.py", b"nowhere"), SourceFile("package/new.py", b"new\n"))
    assert [file.path for file in more.files] == ["a.py", "link.py", "new.py"]
    assert source_state("p", "1", more).fingerprint != changed.fingerprint


def test_a_deleted_file_cannot_be_read(git: Git, tmp_path: Path) -> None:
    (tmp_path / "package" / "a.py").unlink()
    found = GitRepository(tmp_path / "package").working_tree()
    assert found is not None and found.files == (SourceFile("a.py", None),)


def test_a_package_that_no_repository_tracks(git: Git, tmp_path: Path) -> None:
    installed = tmp_path / "environment" / "package"
    installed.mkdir(parents=True)
    (installed / "a.py").write_text("one\n")
    assert GitRepository(installed).working_tree() is None
    assert GitRepository(tmp_path / "missing").working_tree() is None


def test_without_git_there_is_no_revision(git: Git, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert GitRepository(tmp_path / "package").working_tree() is None
