"""Policies are found by name, and their versions follow their source and that of the policies they use."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from vyre.adapters import policy_sources
from vyre.adapters.policy_sources import find_policy, version_of
from vyre.domain.errors import UnreadableFile
from vyre.policies.command_reuse import decide_command_reuse
from vyre.policies.emission.grid_sync_mode import choose_grid_sync
from vyre.policies.journal import Policy, name_of
from vyre.policies.plan_execution import plan_execution


@pytest.mark.parametrize("policy", [decide_command_reuse, choose_grid_sync, plan_execution], ids=lambda p: p.__name__)
def test_a_policy_is_found_by_its_name(policy: Policy) -> None:
    assert find_policy(name_of(policy)) == (policy, version_of(policy))


@pytest.mark.parametrize(
    "name",
    [
        "",
        "command_reuse",
        "command_reuse.",
        ".decide_command_reuse",
        "command_reuse.decide",
        "command_reuse.CommandReuseInputs",
        "command_reuse.DEFAULT_THRESHOLDS",
        "command_reuse.record",  # of another module
        "plan_execution._choose",
        "no_such_module.decide",
        "emission.choose_grid_sync",
        "../policies/command_reuse.decide_command_reuse",
        "os.path.join",
        "command_reuse.decide_command_reuse.__call__",
    ],
)
def test_what_is_no_public_function_of_a_policy_is_not_found(name: str) -> None:
    assert find_policy(name) is None


def test_versions_are_short_and_their_own() -> None:
    versions = {version_of(policy) for policy in (decide_command_reuse, choose_grid_sync, plan_execution)}
    assert len(versions) == 3
    assert {len(version) for version in versions} == {16}


# ---- what a version follows
SOURCES = {
    "one.py": "from vyre.policies import two\nfrom vyre.policies.three import x\nimport os\n",
    "two.py": "def f():\n    from vyre.policies.deep.four import y\n",
    "three.py": "from vyre.domain.record import record\nfrom .two import z\nfrom vyre.policies_of_others import w\n",
    "deep/four.py": "from vyre.policies.one import back\n",
    "five.py": "",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package of policies of its own, written long ago."""
    root = tmp_path / "policies"
    for path, source in SOURCES.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        write(root / path, source)
    monkeypatch.setattr(policy_sources, "_ROOT", tmp_path)
    forget()
    yield root
    forget()


def write(path: Path, source: str) -> None:
    import os

    path.write_text(source, "utf-8")
    os.utime(path, (1, 1))


def forget() -> None:
    policy_sources._version.cache_clear()
    policy_sources._file.cache_clear()


def version(module: str) -> str:
    forget()
    return policy_sources._version(module)


@pytest.mark.parametrize(
    ("module", "followed"),
    [
        ("one", {"one.py", "two.py", "three.py", "deep/four.py"}),
        ("two", {"one.py", "two.py", "three.py", "deep/four.py"}),
        ("five", {"five.py"}),
    ],
)
def test_a_version_follows_whatever_policy_is_imported(folder: Path, module: str, followed: set[str]) -> None:
    before = version(module)
    assert version(module) == before
    for path, source in SOURCES.items():
        write(folder / path, f"{source}# changed\n")
        assert (version(module) != before) is (path in followed), path
        write(folder / path, source)


def test_the_version_of_source_that_changed_since_it_was_imported_is_of_this_process_alone(folder: Path) -> None:
    (folder / "five.py").write_text("# new\n", "utf-8")
    assert version("five") != version("five")


def test_source_that_cannot_be_read_is_an_error(folder: Path) -> None:
    with pytest.raises(UnreadableFile, match="Fix: "):
        version("six")
