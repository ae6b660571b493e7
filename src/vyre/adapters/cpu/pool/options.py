"""``PoolOptions``: the number of threads of a pool and their CPUs, by arguments, environment and machine.

    variable             option     values
    VYRE_CPU_THREADS     threads    1 to 1023
    VYRE_CPU_AFFINITY    affinity   CPUs, such as 0,2-5

An empty variable counts as unset.  An argument of ``vyre.open`` counts more than a variable.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path, PurePosixPath
from typing import Final, NamedTuple, TypeVar

from vyre.domain.arguments import whole
from vyre.domain.errors import InvalidConfig
from vyre.domain.host_options import MOST_THREADS
from vyre.ports.support import Environment

THREADS: Final = "VYRE_CPU_THREADS"
AFFINITY: Final = "VYRE_CPU_AFFINITY"
_MOST_CPUS: Final = 1 << 16
T = TypeVar("T")


class PoolOptions(NamedTuple):
    """Options of the pool.

    ``threads`` is how many threads take part in a run at most, None for the default.  ``affinity`` is the set of CPUs
    on which the worker threads run, None for all that the process may use.
    """

    threads: int | None = None
    affinity: frozenset[int] | None = None


def options_from(environment: Environment) -> PoolOptions:
    """Returns the options that the environment sets.

    Raises ``InvalidConfig`` for a variable with an invalid value, or with CPUs that the process may not use.
    """
    return PoolOptions(
        _option(environment, THREADS, lambda text: whole("threads", _number(text), 1, MOST_THREADS)),
        _option(environment, AFFINITY, lambda text: checked_affinity(parsed_cpus(text))),
    )


def _option(environment: Environment, name: str, read: Callable[[str], T]) -> T | None:
    text = (environment.get(name) or "").strip()
    try:
        return read(text) if text else None
    except InvalidConfig as error:
        raise InvalidConfig(f"{name}={text!r}: {error.message}", fix=error.fix) from None


def _number(text: str) -> int | str:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else text


def checked_affinity(cpus: frozenset[int]) -> frozenset[int]:
    """Returns a set of CPUs.  Raises ``InvalidConfig`` for one that the process may not use."""
    usable = usable_cpus()
    if missing := sorted(cpus - usable):
        raise InvalidConfig(
            f"affinity names CPU {missing[0]}, which the process may not use", fix=f"use {cpu_text(usable)}."
        )
    return cpus


def parsed_cpus(text: str) -> frozenset[int]:
    """Returns the CPUs of a list such as ``0,2-5``.  Raises ``InvalidConfig`` for another text."""
    cpus: set[int] = set()
    for part in text.split(","):
        first, dash, last = (piece.strip() for piece in part.partition("-"))
        low = _number(first)
        high = _number(last) if dash else low
        if not isinstance(low, int) or not isinstance(high, int) or not low <= high < _MOST_CPUS:
            raise InvalidConfig(f"affinity: {part.strip()!r} is no CPU and no range of CPUs", fix="write 0,2-5.")
        cpus.update(range(low, high + 1))
    return frozenset(cpus)


def cpu_text(cpus: Iterable[int]) -> str:
    """Returns a set of CPUs as ``parsed_cpus`` reads it."""
    ranges: list[list[int]] = []
    for cpu in sorted(cpus):
        if ranges and ranges[-1][1] == cpu - 1:
            ranges[-1][1] = cpu
        else:
            ranges.append([cpu, cpu])
    return ",".join(f"{low}" if low == high else f"{low}-{high}" for low, high in ranges)


# ---------------------------------------------------------------- the machine
def usable_cpus() -> frozenset[int]:
    """Returns the CPUs on which this process may run."""
    if hasattr(os, "sched_getaffinity"):
        return frozenset(os.sched_getaffinity(0))
    return frozenset(range(os.cpu_count() or 1))


def default_threads(affinity: frozenset[int] | None = None) -> int:
    """Returns the lesser of the number of usable CPUs (those of ``affinity``) and the CPU quota of the process."""
    cpus = len(usable_cpus() if affinity is None else affinity)
    return max(1, min(cpus, cpu_quota() or cpus, MOST_THREADS))


def cpu_quota(root: Path = Path("/")) -> int | None:
    """Returns how many CPUs the control groups of the process allow, rounded up, or None for no limit.

    Both versions of control groups are read, and all groups above that of the process.  ``root`` is the directory that
    has ``proc``.  What cannot be read sets no limit.
    """
    try:
        mounts = (root / "proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
        groups = (root / "proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return None
    paths = {controller: path for line in groups for controller, path in _controllers(line)}
    quotas: list[int] = []
    for line in mounts:
        mount = _control_mount(line)
        if mount is not None and mount.controller in paths:
            for folder in _folders(root, mount, paths[mount.controller]):
                quota = _quota_v2(folder) if mount.controller == "" else _quota_v1(folder)
                if quota is not None:
                    quotas.append(quota)
    return min(quotas, default=None)


class _Mount(NamedTuple):
    controller: str
    """``cpu``, or empty for the second version."""
    top: str
    """The control group that the mount point shows."""
    point: str


def _controllers(line: str) -> list[tuple[str, str]]:
    """Returns the controllers that a line of ``/proc/self/cgroup`` names, with their group."""
    parts = line.split(":", 2)
    return [(name, parts[2]) for name in parts[1].split(",")] if len(parts) == 3 else []


def _control_mount(line: str) -> _Mount | None:
    """Returns the mount of a line of ``/proc/self/mountinfo``, if it shows CPU quotas."""
    left, _, right = line.partition(" - ")
    fields, kind = left.split(" "), right.split(" ")
    if len(fields) < 5 or len(kind) < 3:
        return None
    if kind[0] == "cgroup2":
        return _Mount("", fields[3], fields[4])
    return _Mount("cpu", fields[3], fields[4]) if kind[0] == "cgroup" and "cpu" in kind[2].split(",") else None


def _folders(root: Path, mount: _Mount, group: str) -> list[Path]:
    """Returns the directories of a control group and of all above it that the mount shows."""
    path, top = PurePosixPath(group), PurePosixPath(mount.top)
    inside = path.relative_to(top) if path.is_relative_to(top) else PurePosixPath()
    point = root / mount.point.lstrip("/")
    return [point / folder for folder in (inside, *inside.parents)] if ".." not in inside.parts else [point]


def _read(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").split()
    except (OSError, UnicodeDecodeError):
        return []


def _quota_v2(folder: Path) -> int | None:
    words = _read(folder / "cpu.max")
    return _rounded(*words) if len(words) == 2 else None


def _quota_v1(folder: Path) -> int | None:
    quota, period = _read(folder / "cpu.cfs_quota_us"), _read(folder / "cpu.cfs_period_us")
    return _rounded(quota[0], period[0]) if quota and period else None


def _rounded(quota: str, period: str) -> int | None:
    if not (quota.isdigit() and period.isdigit()) or int(period) == 0:
        return None  # `max`, or -1
    return max(1, -(-int(quota) // int(period)))
