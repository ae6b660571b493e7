"""How many threads there are and where they run: the environment, control groups, and what is refused."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from vyre.adapters.cpu.pool.options import (
    PoolOptions,
    checked_affinity,
    cpu_quota,
    cpu_text,
    default_threads,
    options_from,
    parsed_cpus,
    usable_cpus,
)
from vyre.domain.errors import InvalidConfig

CPU = min(usable_cpus())


def options(**variables: str) -> PoolOptions:
    return options_from(variables)


def test_the_environment() -> None:
    assert options() == options(VYRE_CPU_THREADS="", VYRE_CPU_AFFINITY=" ") == PoolOptions(None, None)
    assert options(VYRE_CPU_THREADS=" 3 ", VYRE_CPU_AFFINITY=f"{CPU}") == PoolOptions(3, frozenset([CPU]))


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"VYRE_CPU_THREADS": "0"}, "VYRE_CPU_THREADS='0': threads=0 is not an int in 1..1023"),
        ({"VYRE_CPU_THREADS": "two"}, "VYRE_CPU_THREADS='two': threads='two' is not an int in 1..1023"),
        ({"VYRE_CPU_THREADS": "-1"}, "VYRE_CPU_THREADS='-1': threads='-1' is not"),
        ({"VYRE_CPU_THREADS": "1024"}, "threads=1024 is not"),
        ({"VYRE_CPU_THREADS": "9" * 5000}, "is not an int in 1..1023"),
        ({"VYRE_CPU_AFFINITY": "all"}, "VYRE_CPU_AFFINITY='all': affinity: 'all' is no CPU and no range of CPUs"),
        ({"VYRE_CPU_AFFINITY": "0,"}, "affinity: '' is no CPU"),
        ({"VYRE_CPU_AFFINITY": "3-1"}, "'3-1' is no CPU and no range"),
        ({"VYRE_CPU_AFFINITY": "0-99999999"}, "is no CPU and no range"),
        ({"VYRE_CPU_AFFINITY": "65000"}, "affinity names CPU 65000, which the process may not use"),
    ],
)
def test_invalid_variables(variables: Mapping[str, str], message: str) -> None:
    with pytest.raises(InvalidConfig) as caught:
        options_from(variables)
    assert message in caught.value.message
    assert caught.value.fix


def test_cpus_that_the_process_may_not_use() -> None:
    with pytest.raises(InvalidConfig, match="affinity names CPU 65000") as caught:
        checked_affinity(frozenset({CPU, 65_000}))
    assert cpu_text(usable_cpus()) in caught.value.fix


def test_valid_values() -> None:
    assert [options(VYRE_CPU_THREADS=n).threads for n in ("1", "1023")] == [1, 1023]
    assert checked_affinity(usable_cpus()) == usable_cpus()


@pytest.mark.parametrize("text", ["0", "0,2-5", "1-2,4,7-9"])
def test_lists_of_cpus(text: str) -> None:
    assert cpu_text(parsed_cpus(text)) == text


def test_a_list_with_spaces() -> None:
    assert parsed_cpus(" 1 , 3 - 4 ") == {1, 3, 4}


# ---------------------------------------------------------------- control groups
V2 = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
V1 = (
    "30 23 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
    "31 23 0:27 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
)
CONTAINER = "31 23 0:27 /docker/abc /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu\n"


def quota(root: Path, mounts: str, groups: str, files: Mapping[str, str]) -> int | None:
    for name, text in {"proc/self/mountinfo": mounts, "proc/self/cgroup": groups, **files}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return cpu_quota(root)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("200000 100000", 2),
        ("150000 100000", 2),
        ("1000 100000", 1),
        ("max 100000", None),
        ("100001 100000", 2),
        ("100000 0", None),
        ("", None),
        ("nonsense", None),
    ],
)
def test_a_quota_of_the_second_version(tmp_path: Path, text: str, expected: int | None) -> None:
    assert quota(tmp_path, V2, "0::/a/b\n", {"sys/fs/cgroup/a/b/cpu.max": f"{text}\n"}) == expected


def test_the_least_quota_of_all_groups_above(tmp_path: Path) -> None:
    files = {
        "sys/fs/cgroup/a/b/cpu.max": "800000 100000",
        "sys/fs/cgroup/a/cpu.max": "300000 100000",
        "sys/fs/cgroup/cpu.max": "max 100000",
        "sys/fs/cgroup/c/cpu.max": "100000 100000",
    }
    assert quota(tmp_path, V2, "0::/a/b\n", files) == 3


def test_a_group_outside_of_the_mount(tmp_path: Path) -> None:
    assert quota(tmp_path, V2, "0::/../other\n", {"sys/fs/cgroup/cpu.max": "400000 100000"}) == 4


@pytest.mark.parametrize(("text", "expected"), [("250000", 3), ("-1", None)])
def test_a_quota_of_the_first_version(tmp_path: Path, text: str, expected: int | None) -> None:
    folder = "sys/fs/cgroup/cpu,cpuacct/jobs/"
    files = {folder + "cpu.cfs_quota_us": text, folder + "cpu.cfs_period_us": "100000"}
    assert quota(tmp_path, V1, "4:memory:/\n3:cpu,cpuacct:/jobs/mine\n", files) == expected


def test_a_container_that_sees_its_own_group(tmp_path: Path) -> None:
    folder = "sys/fs/cgroup/cpu/"
    files = {folder + "cpu.cfs_quota_us": "50000", folder + "cpu.cfs_period_us": "25000"}
    assert quota(tmp_path, CONTAINER, "3:cpu:/docker/abc\n", files) == 2


def test_a_system_without_control_groups(tmp_path: Path) -> None:
    assert cpu_quota(tmp_path) is None
    assert quota(tmp_path, "odd\n1 2 3 - cgroup2 a b\n\n", "odd\n::\n", {}) is None


def test_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    module = "vyre.adapters.cpu.pool.options"
    monkeypatch.setattr(f"{module}.usable_cpus", lambda: frozenset(range(8)))
    for found, expected in ((None, 8), (3, 3), (20, 8)):
        monkeypatch.setattr(f"{module}.cpu_quota", lambda found=found: found)
        assert default_threads() == expected
    assert default_threads(frozenset([1, 2])) == 2


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="the system has no affinity of threads")
def test_the_default_of_this_machine() -> None:
    assert 1 <= default_threads() <= len(os.sched_getaffinity(0))
