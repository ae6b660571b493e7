"""Memory-bound kernels as a fraction of the device's copy rate.

The copy rate is the better of the driver's copy between two buffers and our own copy kernel; both move every byte
twice.  Buffers have at least 1 GiB, so that no cache holds them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import numpy as np

from gpu_runs.bench import programs
from gpu_runs.bench.timing import spread
from gpu_runs.context import Context
from gpu_runs.findings import Fact, Finding
from gpu_runs.workbench import Array, Workbench, has_driver
from vyre.adapters.cuda.ptx.kernel import Assumption
from vyre.adapters.cuda.ptx.options import EmitOptions
from vyre.adapters.cuda.runtime.launch import PreparedLaunch
from vyre.testing.outcomes import Outcome, Verdict

_OPTIONS: Final = EmitOptions(assume=frozenset({Assumption.ALIGNED16, Assumption.NOALIAS}))
_FACTOR: Final = np.float32(1.5)
_SLICE: Final = 1 << 18
REDUCTION_GROUPS_EACH: Final = 8
"""Workgroups of a reduction for each multiprocessor."""


class Scale(NamedTuple):
    """``elements`` of 32 bits in a buffer, and how often each kernel is timed."""

    elements: int
    rounds: int


FULL: Final = Scale(1 << 28, 50)
REHEARSAL: Final = Scale(1 << 12, 3)


def bandwidth(context: Context) -> Iterator[Finding]:
    if not has_driver(context.backend):
        yield Outcome("bandwidth", Verdict.SKIPPED, f"`{context.backend}` has no CUDA driver")
        return
    scale = REHEARSAL if context.emulated else FULL
    nbytes = 4 * scale.elements
    rates: dict[str, dict[str, Any]] = {}
    with Workbench(context.backend) as bench:
        words = np.random.default_rng(1).random(scale.elements, np.float32).view(np.uint32)
        x, y, z = bench.upload(words), bench.allocate(nbytes), bench.allocate(nbytes)
        bench.driver.copy_on_device(y, x, nbytes, bench.stream)

        def driver_copy() -> None:
            bench.driver.copy_on_device(z, x, nbytes, bench.stream)

        rates["driver copy"] = _rate(bench, driver_copy, 2 * nbytes, scale.rounds)
        yield Fact("bytes_of_a_buffer", nbytes)
        yield Fact("rates", dict(rates))
        for name, make in programs.STREAMING.items():
            addresses, values, moved, wanted = {
                "copy": ((x, z), {}, 2 * nbytes, words),
                "elementwise": ((x, z), {}, 2 * nbytes, _as_words(_square_plus_one, words)),
                "saxpy": ((0, x, y, z), {"a": _FACTOR.tobytes()}, 3 * nbytes, _as_words(_saxpy, words)),
            }[name]
            for shape in programs.SHAPES:
                program = make(shape)
                grid = (scale.elements // programs.elements_of_group(shape), 1, 1)
                bench.zero(z, nbytes)
                with bench.module(program, _OPTIONS) as module:
                    counts = [scale.elements] * len(addresses)
                    launch = bench.prepare(program, module, grid, addresses, counts, values)
                    rates[f"{name}, {shape}"] = _rate(bench, launch, moved, scale.rounds, **_resources(launch))
                yield _check(f"{name}, {shape}", bench, z, scale.elements, wanted)
                yield Fact("rates", dict(rates))
        yield from _reductions(bench, scale, x, words, rates)
    yield Fact("rates", dict(rates))
    yield Fact("summary", summarise(rates))


def summarise(rates: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The copy rate, and each kernel's best shape as a fraction of it; the required fraction is 0.9."""
    copies = {name: found["median"] for name, found in rates.items() if "copy" in name}
    best_copy = max(copies, key=lambda name: copies[name])
    found: dict[str, Any] = {"copy_gb_s": copies[best_copy], "copy_by": best_copy}
    for kernel in ("saxpy", "reduction", "elementwise"):
        own = {name: rate["median"] for name, rate in rates.items() if name.startswith(f"{kernel}, ")}
        if own:
            best = max(own, key=lambda name: own[name])
            found[kernel] = {
                "gb_s": own[best],
                "shape": best.removeprefix(f"{kernel}, "),
                "of_copy_rate": own[best] / copies[best_copy],
            }
    return found


def _reductions(
    bench: Workbench, scale: Scale, x: int, words: Array, rates: dict[str, dict[str, Any]]
) -> Iterator[Finding]:
    total, launches = bench.allocate(256), 0
    wanted = int(words.sum(dtype=np.uint64))
    groups = bench.device.facts.multiprocessors * REDUCTION_GROUPS_EACH
    for shape in programs.SHAPES:
        if programs.SHAPES[shape][1]:
            continue
        program = programs.reduction(shape)
        grid = (min(groups, scale.elements // programs.elements_of_group(shape)), 1, 1)
        bench.zero(total, 256)
        with bench.module(program, _OPTIONS) as module:
            launch = bench.prepare(program, module, grid, (x, total), (scale.elements, 1))
            rates[f"reduction, {shape}"] = _rate(bench, launch, 4 * scale.elements, scale.rounds, **_resources(launch))
            launches = scale.rounds + 1
        found = int(bench.download(total, 1, np.uint32)[0])
        right = found == wanted * launches % 2**32
        yield Outcome(
            f"reduction, {shape}", Verdict.PASSED if right else Verdict.FAILED, "" if right else f"{found:#x}"
        )


def _rate(bench: Workbench, work: Callable[[], object], nbytes: int, rounds: int, **more: int) -> dict[str, Any]:
    """10^9 bytes a second, of device time, and ``more`` facts."""
    work()
    bench.synchronize()
    return spread([nbytes / 1e6 / bench.device_ms(work) for _ in range(rounds)], unit="GB/s", **more)


def _resources(launch: PreparedLaunch) -> dict[str, int]:
    (kernel,) = launch.kernels
    return {"registers": kernel.kernel.facts.registers, "local_bytes": kernel.kernel.facts.local_bytes}


def _check(name: str, bench: Workbench, address: int, elements: int, wanted: Array) -> Outcome:
    """Compare the first and the last stretch."""
    count = min(_SLICE, elements)
    for start in (0, elements - count):
        found = bench.download(address + 4 * start, count, np.uint32)
        if not np.array_equal(found, wanted[start : start + count]):
            return Outcome(name, Verdict.FAILED, f"wrong from element {start} on, somewhere in {count}")
    return Outcome(name, Verdict.PASSED)


def _as_words(function: Callable[[Array], Array], words: Array) -> Array:
    """``function`` on the words as f32, its results as words; both ends only, the middle stays 0."""
    found, count = np.zeros_like(words), min(_SLICE, words.size)
    for part in (slice(0, count), slice(words.size - count, words.size)):
        found[part] = function(words[part].view(np.float32)).view(np.uint32)
    return found


def _square_plus_one(x: Array) -> Array:
    return np.asarray(x * x + np.float32(1))


def _saxpy(x: Array) -> Array:
    return np.asarray(_FACTOR * x + x)
