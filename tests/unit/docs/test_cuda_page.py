"""The launch by hand of the CUDA page, on the stand-in for the driver library: the right calls with the right bytes."""

from __future__ import annotations

import json
import re
import struct
from pathlib import Path
from typing import Final

import pytest

import vyre
from support.cuda import stub as cuda_stub
from support.small_programs import saxpy_program

PAGE: Final = (Path(__file__).parents[3] / "docs" / "cuda.md").read_text("utf-8")
PRELUDE: Final = """
import json
import numpy as np
from support.cuda.stub import StubControl
kernel = json.loads({document!r})
xs, ys = np.arange(1000, dtype=np.float32), np.ones(1000, dtype=np.float32)
"""
EPILOGUE: Final = """
log = StubControl().take_log()
(launch,) = (line.split() for line in log if line.startswith(" launch "))
print(json.dumps([log, launch, int(memory["x"]), int(memory["y"])]))
"""


@pytest.mark.skipif(not cuda_stub.can_build(), reason=cuda_stub.NO_COMPILER)
def test_the_launch_by_hand_is_right(tmp_path: Path) -> None:
    (block,) = re.findall(r"^```py\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    document = vyre.emit(saxpy_program()).to_json()
    source = PRELUDE.format(document=json.dumps(document)) + block + EPILOGUE
    log, launch, x, y = json.loads(cuda_stub.run(source, cuda_stub.build(tmp_path)))
    assert not [line for line in log if line.startswith(("!", "unlisted"))], "every call is known and succeeds"
    parameters = struct.pack("<QQIIf", x, y, 1000, 1000, 2.0).hex()
    assert launch[1:4] == [document["entry"], "grid=16,1,1", "block=64,1,1"]
    assert launch[4:] == ["shared=0", "cooperative=0", f"parameters={parameters}"]
