"""Which passes of the optimizer run on the device of a session, rather than on the host?

Units: ns, nodes.  Rule: a pass runs on the device if its measured time there, a fixed part for copies and launches and
a part for each node, is less than that on the host.  The part for each node has what the host does for the device:
it writes the program as columns, and builds the new program of those that come back.  Only passes of which there are
kernels are in the table, and none runs on the device unless the session asks for it.  The table is pinned: it was made
from measurements (``benchmarks/results/device-optimizer.json``, which ``python -m benchmarks.device_optimizer``
writes), and no clock is asked.  With the measured numbers no pass pays, since writing a program as columns costs about
as much as the pass on the host; nothing was measured on a GPU, where no pass is placed either.  O(passes).

vyre-driver runs every pass on the device, where its programs are already.
"""

from __future__ import annotations

from typing import Final

from vyre.policies.optimizing.program_passes import EngineKind
from vyre.policies.record import Count, Nanoseconds, Reason, record, verdict, why_field


@record
class PassTime:
    """The time of a pass.

    - ``name``: the pass and its version, such as ``dead_code/1``.
    - ``host_ns``: its time on the host for each node.
    - ``device_ns``: its time on the device for each node.
    - ``fixed_ns``: its time on the device for a program without nodes.
    """

    name: str
    host_ns: Nanoseconds
    device_ns: Nanoseconds
    fixed_ns: Nanoseconds


@record
class PlacementTables:
    """The measured times of each kind of engine."""

    interpreter: tuple[PassTime, ...] = ()
    native: tuple[PassTime, ...] = ()
    device: tuple[PassTime, ...] = ()


@record
class PlacementInputs:
    """A program that is about to be optimized.

    - ``engine``: what runs the programs of the session.
    - ``nodes``: the number of the program's nodes.
    - ``wanted``: whether the session asks for passes on its device.
    """

    engine: EngineKind
    nodes: Count
    wanted: bool = True


@verdict
class PassPlacement:
    """The passes, with their versions, that run on the device; all others run on the host."""

    names: tuple[str, ...]
    why: Reason = why_field()

    @property
    def label(self) -> str:
        """Where passes run, for telemetry."""
        return "device" if self.names else "host"


MEASURED: Final = PlacementTables(
    interpreter=(
        PassTime("folding/1", host_ns=1_291, device_ns=2_268, fixed_ns=4_411_829),
        PassTime("numbering/1", host_ns=2_692, device_ns=197_562, fixed_ns=18_290_666),
        PassTime("dead_code/1", host_ns=1_656, device_ns=18_800, fixed_ns=4_833_292),
    ),
    native=(
        PassTime("folding/1", host_ns=1_365, device_ns=2_870, fixed_ns=1_834_679),
        PassTime("numbering/1", host_ns=3_075, device_ns=3_650, fixed_ns=575_345),
        PassTime("dead_code/1", host_ns=1_861, device_ns=3_038, fixed_ns=3_528_827),
    ),
)


def place_passes(inputs: PlacementInputs, tables: PlacementTables = MEASURED) -> PassPlacement:
    """Returns the passes that run on the device, and why."""
    if not inputs.wanted:
        return PassPlacement((), Reason("the session runs the passes on the host"))
    table: tuple[PassTime, ...] = getattr(tables, inputs.engine.value)
    if not table:
        return PassPlacement((), Reason("no times were measured on an engine of kind {}", (inputs.engine.value,)))
    taken = [time for time in table if _device_ns(time, inputs.nodes) < time.host_ns * inputs.nodes]
    compared = taken or table
    names = tuple([time.name for time in compared])
    there = sum([_device_ns(time, inputs.nodes) for time in compared])
    here = sum([time.host_ns for time in compared]) * inputs.nodes
    text = "for {} nodes {} take {} ns on the device and {} ns on the host"
    return PassPlacement(names if taken else (), Reason(text, (inputs.nodes, ", ".join(names), there, here)))


def _device_ns(time: PassTime, nodes: int) -> int:
    return time.fixed_ns + time.device_ns * nodes
