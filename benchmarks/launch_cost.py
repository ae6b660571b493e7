"""Host cost of a prepared launch beside that of the bare binding call, in one process over the driver stub.

``python -m benchmarks.launch_cost ROUNDS`` with the stub as the driver library prints JSON: for each way of launching
the nanoseconds a call of every round, and under ``memory`` what tracemalloc saw.  The stub returns at once, so nothing
but the way to the driver and back is timed.

Single calls are timed, of each way in turn, so that all find the processor alike, as in a program that does more
than launch; a round's figure is the 10th percentile, less that of timing nothing.
"""

from __future__ import annotations

import gc
import json
import statistics
import sys
import time
import tracemalloc
from array import array
from collections.abc import Callable
from typing import Final

from cuda.bindings import driver as api

from driver_contract.ptx import image, launch_shape
from driver_contract.rig import AnyRig, make_rig
from support.cuda.stub import StubControl
from vyre.adapters.cuda.driver import RealDriver
from vyre.adapters.cuda.seam import Launcher, ParameterBlock, ParameterPlace

BUFFERS: Final = 3
MORE_BUFFERS: Final = 11
CALLS: Final = 3_000
WARM_CALLS: Final = 10_000
Timed = Callable[[], int]


class Prepared:
    """A launch with a 64-bit address and a 32-bit count for each buffer."""

    def __init__(self, rig: AnyRig, buffers: int) -> None:
        declared = [f".param .u64 p{i}" for i in range(buffers)] + [f".param .u32 n{i}" for i in range(buffers)]
        ptx = image(f".visible .entry many({', '.join(declared)})\n{{ ret; }}\n")
        self.kernel: Final = rig.driver.library_kernel(rig.driver.library_load(ptx).library, "many")
        addresses = [ParameterPlace(8 * i, 8, "Q") for i in range(buffers)]
        counts = [ParameterPlace(8 * buffers + 4 * i, 4, "I") for i in range(buffers)]
        self.parameters: Final = ParameterBlock(addresses + counts)
        shape = launch_shape()
        self.launch: Final[Launcher] = rig.driver.prepare_launch(self.kernel, shape, rig.stream, self.parameters)
        self.values: Final = (*(0x7F00_0000_0000 + 4096 * i for i in range(buffers)), *range(10**6, 10**6 + buffers))


def nothing() -> Timed:
    now = time.perf_counter_ns

    def run() -> int:
        start = now()
        return now() - start

    return run


def bare(rig: AnyRig, prepared: Prepared) -> Timed:
    """The binding called by hand with objects made before: as little as Python can do."""
    call, config, now = api.cuLaunchKernelEx, api.CUlaunchConfig(), time.perf_counter_ns
    config.gridDimX = config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1
    config.blockDimX, config.hStream = 32, rig.stream
    function, pointers = api.CUfunction(prepared.kernel), prepared.parameters.pointers

    def run() -> int:
        start = now()
        call(config, function, pointers, 0)
        return now() - start

    return run


def unchanged(prepared: Prepared) -> Timed:
    launch, now = prepared.launch, time.perf_counter_ns

    def run() -> int:
        start = now()
        launch()
        return now() - start

    return run


def rewritten(prepared: Prepared) -> Timed:
    launch, pack, values, now = prepared.launch, prepared.parameters.pack, prepared.values, time.perf_counter_ns

    def run() -> int:
        start = now()
        pack(*values)
        launch()
        return now() - start

    return run


def time_in_turn(ways: dict[str, Timed], rounds: int) -> dict[str, list[float]]:
    """Nanoseconds a call, by way and round."""
    found: dict[str, list[float]] = {name: [] for name in ways}
    gc.collect()
    gc.disable()
    for _ in range(rounds + 1):
        samples: dict[str, list[int]] = {name: [] for name in ways}
        for _ in range(CALLS):
            for name, run in ways.items():
                samples[name].append(run())
        for name, taken in samples.items():
            found[name].append(statistics.quantiles(taken, n=10)[0])
    gc.enable()
    idle = found.pop("nothing")
    # The first round warms everything up.
    return {name: [x - y for x, y in zip(taken, idle, strict=True)][1:] for name, taken in found.items()}


def trace_memory(run: Timed) -> dict[str, int]:
    """Bytes that warm calls leave behind (``growth``), and the most they hold at a time (``peak``)."""

    def repeat() -> None:
        for _ in range(WARM_CALLS):
            run()

    tracemalloc.start()
    readings = array("q", bytes(24))  # keeps no objects, so reading changes nothing
    for i in range(len(readings)):
        repeat()
        readings[i] = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
    repeat()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return {"growth": readings[-1] - readings[-2], "peak": peak - readings[-1]}


def main() -> None:
    rig: AnyRig = make_rig(RealDriver())
    few, more = Prepared(rig, BUFFERS), Prepared(rig, MORE_BUFFERS)
    control = StubControl()
    control.take_log()
    for prepared in (few, more):
        prepared.parameters.pack(*prepared.values)
        prepared.launch()
    assert len(control.take_launches()) == 2, "both launches reach the driver"
    control.record(False)
    ways = {
        "nothing": nothing(),
        "bare": bare(rig, few),
        "unchanged": unchanged(few),
        "rewritten": rewritten(few),
        "more_rewritten": rewritten(more),
    }
    found: dict[str, object] = dict(time_in_turn(ways, int(sys.argv[1])))
    found["memory"] = trace_memory(ways["rewritten"])
    print(json.dumps(found))


if __name__ == "__main__":
    main()
