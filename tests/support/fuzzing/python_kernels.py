"""Differential fuzzing of kernels in plain Python: ``PYTHONPATH=src:tests python -m support.fuzzing.python_kernels
--kernels 20000 --out benchmarks/results/python-kernels.json``.

Each random kernel runs as Python, lane by lane over NumPy scalars, and as a kernel on a backend; all bytes must be
equal, except that any NaN equals any other.
"""

from __future__ import annotations

import argparse
import json
import linecache
import platform
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import numpy as np

import vyre
from support.python_kernels import ELEMENTS, LANES, Writer
from vyre.app.kernels.entered import enter, leave

_NUMPY: Final = {
    "u32": np.uint32,
    "i32": np.int32,
    "u64": np.uint64,
    "i64": np.int64,
    "f32": np.float32,
    "f64": np.float64,
}
EDGES: Final = {
    "f": (0.0, -0.0, 1.0, -1.5, 0.1, 1e-40, 3.5, float("inf"), float("nan"), -2.5, 1e30),
    "i": (0, 1, -1, 2, 7, -8, 2**31 - 1, -(2**31), 255, 12345),
    "u": (0, 1, 2, 3, 7, 255, 2**31, 2**32 - 1, 65535),
}


def arrays_for(seed: int, types: tuple[str, ...]) -> dict[str, Any]:
    """Returns the input arrays of a kernel."""
    chance = np.random.default_rng(seed)
    found: dict[str, Any] = {}
    for kind in types:
        dtype = np.dtype(_NUMPY[kind])
        edges = np.array(EDGES[dtype.kind], np.float64 if dtype.kind == "f" else np.int64).astype(dtype)
        values = chance.choice(edges, ELEMENTS)
        plain = chance.integers(-50, 50, ELEMENTS).astype(dtype)
        found[f"x_{kind}"] = np.where(chance.random(ELEMENTS) < 0.5, values, plain).astype(dtype)
    return found


def _converter(kind: str) -> Callable[[Any], Any]:
    dtype = _NUMPY[kind]
    return lambda value: np.asarray(value).astype(dtype)[()]


class _Lane:
    """The functions of vyre for one lane that Python runs."""

    def __init__(self) -> None:
        self.at = 0
        self.names = SimpleNamespace(
            global_id=lambda axis=0: self.at,
            static=lambda value: value,
            private_array=lambda kind, count: np.zeros(count, kind.dtype),
        )


class _Kind:
    """A type of vyre as Python runs it: a conversion."""

    def __init__(self, kind: str) -> None:
        self.dtype = np.dtype(_NUMPY[kind])
        self._convert = _converter(kind)

    def __call__(self, value: Any) -> Any:
        return self._convert(value)


def run_as_python(source: str, types: tuple[str, ...], inputs: dict[str, Any], n: int) -> dict[str, Any]:
    """Returns the outputs that Python computes, one lane after the other."""
    lane = _Lane()
    kinds = {kind: _Kind(kind) for kind in _NUMPY}
    anything = {name: _Anything() for name in ("In", "Out")}
    same = lambda function: function  # noqa: E731
    names: dict[str, Any] = {**kinds, **anything, "np": np, "vyre": lane.names, "kernel": same, "function": same}
    exec(compile(source, "<as python>", "exec"), names)
    outputs = {f"y_{kind}": np.zeros(ELEMENTS, _NUMPY[kind]) for kind in types}
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for lane.at in range(LANES):
            names["generated"](*inputs.values(), *outputs.values(), np.uint32(n))
    return outputs


class _Anything:
    def __getitem__(self, item: object) -> None:
        return None


def kernel_of(source: str, name: str) -> Any:
    """Returns the kernel of a source."""
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    names: dict[str, Any] = {"np": np, "vyre": vyre, "kernel": vyre.kernel(workgroup=4), "function": vyre.function}
    names |= {kind: getattr(vyre, kind) for kind in _NUMPY} | {"In": vyre.In, "Out": vyre.Out}
    exec(compile(source, name, "exec"), names)
    return names["generated"]


def differences(seed: int, session: vyre.Session) -> str | None:
    """Returns what differs between the two runs of a random kernel; None if nothing does."""
    writer = Writer(seed)
    source = writer.source()
    types = writer.types
    inputs = arrays_for(seed, types)
    expected = run_as_python(source, types, inputs, seed % 11)
    name = f"<kernel {seed}>"
    try:
        kernel = kernel_of(source, name)
        with session_of(session):
            results = kernel.over(LANES)(*inputs.values(), n=seed % 11)
    except Exception:
        return f"{traceback.format_exc()}\n{source}"
    finally:
        linecache.cache.pop(name, None)
    for kind, found in zip(types, results, strict=True):
        wanted = expected[f"y_{kind}"]
        wrong = wanted.view(f"u{wanted.itemsize}") != found.view(f"u{found.itemsize}")
        if wanted.dtype.kind == "f":
            wrong &= ~(np.isnan(wanted) & np.isnan(found))
        if wrong.any():
            at = int(np.flatnonzero(wrong)[0])
            return f"y_{kind}[{at}] is {found[at]!r}, and Python computes {wanted[at]!r}\n{source}"
    return None


class session_of:
    """Makes a session the current one for a while, and leaves it open."""

    def __init__(self, session: vyre.Session) -> None:
        self._session = session

    def __enter__(self) -> None:
        enter(self._session)

    def __exit__(self, *_: object) -> None:
        leave(self._session)


@dataclass(slots=True)
class Campaign:
    """A run over consecutive seeds, which can be continued from its record."""

    first_seed: int
    next_seed: int
    backend: str
    kernels: int = 0
    lanes: int = LANES
    seconds: float = 0.0
    python: str = field(default_factory=platform.python_version)
    numpy: str = np.__version__
    failed_seeds: list[int] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def run(self, kernels: int, *, stop_after: int, record: Path | None) -> None:
        """Goes on until so many kernels have been compared in all."""
        started, before = time.monotonic(), self.seconds
        retried, self.failed_seeds, self.failures = self.failed_seeds, [], []
        with vyre.open(self.backend, cache=False) as session:
            while (retried or self.kernels < kernels) and len(self.failures) < stop_after:
                seed = retried.pop() if retried else self.next_seed
                self.next_seed = max(self.next_seed, seed + 1)
                found = differences(seed, session)
                if found is None:
                    self.kernels += 1
                else:
                    self.failed_seeds.append(seed)
                    self.failures.append(f"seed {seed}: {found}")
                self.seconds = round(before + time.monotonic() - started, 1)
                if record is not None and seed % 200 == 0:
                    self.write(record)
        if record is not None:
            self.write(record)

    def write(self, record: Path) -> None:
        """Writes the record."""
        record.write_text(json.dumps(asdict(self), indent=2) + "\n", encoding="utf-8")


def main() -> int:
    """Runs a campaign from the command line."""
    parser = argparse.ArgumentParser(description="differential fuzzing of kernels in plain Python")
    parser.add_argument("--kernels", type=int, default=1000, help="in all, with those of the record")
    parser.add_argument("--seed", type=int, default=1, help="the first seed of a new record")
    parser.add_argument("--backend", default="reference")
    parser.add_argument("--failures", type=int, default=5, help="stop after that many")
    parser.add_argument("--out", type=Path, help="the record, which is continued if it exists")
    given = parser.parse_args()
    if given.out is not None and given.out.exists():
        campaign = Campaign(**json.loads(given.out.read_text(encoding="utf-8")))
    else:
        campaign = Campaign(given.seed, given.seed, given.backend)
    campaign.run(given.kernels, stop_after=given.failures, record=given.out)
    print(
        f"{campaign.kernels} kernels on {campaign.backend} in {campaign.seconds} s, {len(campaign.failures)} failures"
    )
    print("\n\n".join(campaign.failures))
    return 1 if campaign.failures else 0


if __name__ == "__main__":
    sys.exit(main())
