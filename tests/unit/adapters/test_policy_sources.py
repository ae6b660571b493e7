"""Policies are found by name, and their versions follow their source and that of the policies they use."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from vyre.adapters import policy_sources
from vyre.adapters.cuda.decisions.ptx_target import select_target
from vyre.adapters.policy_sources import find_policy, version_of
from vyre.domain.errors import UnreadableFile
from vyre.policies.journal import Policy, name_of
from vyre.policies.launching.command_reuse import decide_command_reuse
from vyre.policies.launching.grid_sync_mode import choose_grid_sync
from vyre.policies.launching.plan_execution import plan_execution


@pytest.mark.parametrize(
    "policy", [decide_command_reuse, choose_grid_sync, plan_execution, select_target], ids=lambda p: p.__name__
)
def test_a_policy_is_found_by_its_name(policy: Policy) -> None:
    assert find_policy(name_of(policy)) == (policy, version_of(policy))


@pytest.mark.parametrize(
    "name",
    [
        "",
        "command_reuse",
        "launching.command_reuse.decide_command_reuse",
        "CommandReuseInputs",
        "DEFAULT_THRESHOLDS",
        "record",  # what decisions are written with
        "_choose",
        "decide_nothing",
        "../policies/command_reuse.decide_command_reuse",
        "os.path.join",
        "decide_command_reuse.__call__",
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
    "policies/one.py": "from vyre.policies import two\nfrom vyre.policies.three import x\nimport os\n",
    "policies/two.py": "def f():\n    from vyre.policies.deep.four import y\n",
    "policies/three.py": "from vyre.domain.record import record\nfrom .two import z\n"
    "from vyre.policies_of_others import w\n",
    "policies/deep/four.py": "from vyre.policies.one import back\n",
    "policies/five.py": "",
    "adapters/own/decisions/six.py": "from vyre.policies.five import of_all\n",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package of its own, written long ago, with decisions that all share and those of one adapter."""
    for path, source in SOURCES.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        write(tmp_path / path, source)
    monkeypatch.setattr(policy_sources, "_ROOT", tmp_path)
    forget()
    yield tmp_path
    forget()


def write(path: Path, source: str) -> None:
    import os

    path.write_text(source, "utf-8")
    os.utime(path, (1, 1))


def forget() -> None:
    own = policy_sources
    for cached in (own._version, own._code, own._imported, own._modules, own._modules_by_function):
        cached.cache_clear()


def version(module: str) -> str:
    forget()
    return policy_sources._version(module)


ONE_TO_FOUR = {"policies/one.py", "policies/two.py", "policies/three.py", "policies/deep/four.py"}


@pytest.mark.parametrize(
    ("module", "followed"),
    [
        ("policies.one", ONE_TO_FOUR),
        ("policies.two", ONE_TO_FOUR),
        ("policies.five", {"policies/five.py"}),
        ("adapters.own.decisions.six", {"policies/five.py", "adapters/own/decisions/six.py"}),
    ],
)
def test_a_version_follows_whatever_policy_is_imported(folder: Path, module: str, followed: set[str]) -> None:
    before = version(module)
    assert version(module) == before
    for path, source in SOURCES.items():
        write(folder / path, f"{source}changed = True\n")
        assert (version(module) != before) is (path in followed), path
        write(folder / path, source)


@pytest.mark.parametrize(
    ("source", "same"),
    [
        ('"""Other words."""\n\n\ndef f():\n    """And here."""\n    return 1  # and here\n', True),
        ("def f():\n    return 2\n", False),
        ("def f():\n    'a docstring'\n    return '1'\n", False),
        ("def g():\n    return 1\n", False),
    ],
)
def test_a_version_follows_code_and_not_words(folder: Path, source: str, same: bool) -> None:
    write(folder / "policies" / "five.py", '"""Words."""\n\ndef f():\n    return 1\n')
    before = version("policies.five")
    write(folder / "policies" / "five.py", source)
    assert (version("policies.five") == before) is same


def test_the_version_of_source_that_changed_since_it_was_imported_is_of_this_process_alone(folder: Path) -> None:
    (folder / "policies" / "five.py").write_text("# new\n", "utf-8")
    assert version("policies.five") != version("policies.five")


def test_source_that_cannot_be_read_is_an_error(folder: Path) -> None:
    with pytest.raises(UnreadableFile, match="Fix: "):
        version("policies.six")


def test_a_name_that_two_modules_define_is_nobodys(folder: Path) -> None:
    for name in ("five", "six"):
        write(folder / "policies" / f"{name}.py", "def decide_twice():\n    return 1\n")
    forget()
    assert find_policy("decide_twice") is None
