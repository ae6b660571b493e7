"""A prepared launch is little more than the call of the binding, and leaves nothing behind.

What is counted here is the same on every machine; ``python -m benchmarks --only 'launch_*'`` measures the times.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.cuda import stub as cuda_stub

pytestmark = pytest.mark.skipif(not cuda_stub.can_build(), reason=cuda_stub.NO_COMPILER)

COUNTED = """
import json
from benchmarks.launch_cost import BUFFERS, MORE_BUFFERS, Prepared, trace_memory
from support.counting import at_most
from support.cuda.stub import StubControl
from vyre.adapters.cuda.driver import RealDriver
from driver_contract.rig import make_rig

rig, control = make_rig(RealDriver()), StubControl()
found = {}
for name, buffers in (("few", BUFFERS), ("more", MORE_BUFFERS)):
    prepared = Prepared(rig, buffers)
    launch, pack, values = prepared.launch, prepared.parameters.pack, prepared.values
    pack(*values)
    launch()
    control.take_log()
    with at_most(calls=1000) as work:
        launch()
    found[name] = {"launch": work.calls, "driver": control.take_log()}
    with at_most(calls=1000) as work:
        pack(*values)
    found[name]["pack"] = work.calls
control.record(False)

def rewritten():
    pack(*values)
    launch()

found["memory"] = trace_memory(rewritten)
print(json.dumps(found))
"""


def test_a_prepared_launch_is_one_call_of_the_driver_and_keeps_no_memory(tmp_path: Path) -> None:
    stub = cuda_stub.build(tmp_path)
    found = json.loads(cuda_stub.run(COUNTED, stub))
    for name in ("few", "more"):
        assert [line.split("(")[0] for line in found[name]["driver"] if line[0] != " "] == ["cuLaunchKernelEx"]
        assert found[name]["launch"] <= 8 and found[name]["pack"] <= 5  # of which 3 are those of counting
    assert found["memory"]["growth"] == 0
    assert found["memory"]["peak"] < 1024
