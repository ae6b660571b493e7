"""Kernels in other processes: by their name, or by cloudpickle and joblib with all that they use."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Final

import cloudpickle
import numpy as np
import pytest

import vyre
from support.limits import LIMIT_S
from vyre import In, InOut, Out, f32, like

X: Final = np.arange(5, dtype=np.float32)
SCRIPT: Final = """
import sys
import numpy as np
import vyre
from vyre import In, Out, f32 as real, like

SCALE = np.float32(3)

@vyre.function
def scaled(v: real) -> real:
    return v * SCALE

@vyre.function
def moved(v: "real") -> "real":
    w: real = scaled(v)
    return w + 1.0

@vyre.kernel(workgroup=64)
def kernel(x: In[real], y: Out[real, like("x")]):
    i = vyre.global_id()
    if i < len(x):
        y[i] = moved(x[i])

def run(one, x):
    with vyre.open("reference", cache=False):
        return one(x)

if __name__ == "__main__":
    x = np.arange(5, dtype=np.float32)
    if sys.argv[1] == "joblib":
        from joblib import Parallel, delayed
        found = Parallel(n_jobs=2, backend="loky")(delayed(run)(kernel, x) for _ in range(2))
    else:
        from multiprocessing import get_context
        with get_context("spawn").Pool(1) as pool:
            found = [pool.apply(run, (kernel, x))]
    assert all((one == 3 * x + 1).all() for one in found), found
"""


@vyre.kernel
def of_a_module(x: In[f32], y: Out[f32, like("x")]) -> None:
    i = vyre.global_id()
    if i < len(x):
        y[i] = doubled(x[i])


@vyre.function
def doubled(v: f32) -> f32:
    return v + v


def local_kernel(offset: int) -> vyre.Kernel[...]:
    @vyre.kernel(workgroup=32)
    def local(y: InOut[f32]) -> None:
        i = vyre.global_id()
        if i < len(y):
            y[i] = doubled(y[i]) + f32(offset)

    return local


@pytest.mark.parametrize(("by", "annotations"), [("joblib", "texts"), ("multiprocessing", "values")])
def test_kernels_of_the_main_module_run_in_workers(tmp_path: Path, by: str, annotations: str) -> None:
    script = tmp_path / "script.py"
    future = "from __future__ import annotations\n" if annotations == "texts" else ""
    script.write_text(future + SCRIPT)
    ran = subprocess.run([sys.executable, script, by], capture_output=True, text=True, timeout=LIMIT_S)
    assert ran.returncode == 0, ran.stderr


def test_pickles_name_what_a_module_holds() -> None:
    for one in (of_a_module, doubled):
        assert pickle.loads(pickle.dumps(one)) is one
        assert cloudpickle.loads(cloudpickle.dumps(one)) is one
        assert copy.copy(one) is one and copy.deepcopy(one) is one
        assert len(pickle.dumps(one)) < 200  # no text


def test_local_kernels_are_carried_with_their_values_and_their_text() -> None:
    local = local_kernel(7)
    assert copy.deepcopy(local) is local
    with pytest.raises(AttributeError, match="local object"):
        pickle.dumps(local)
    carried = cloudpickle.loads(cloudpickle.dumps(local))
    again = cloudpickle.loads(cloudpickle.dumps(carried))
    for one in (carried, again):
        assert one is not local and one.definition.workgroup == (32, 1, 1)
        assert one.__qualname__ == local.__qualname__ and one.definition.source.lines == local.definition.source.lines
        assert one.program == local.program and one.program.digest == local.program.digest
        with vyre.open("reference", cache=False) as session:
            np.testing.assert_array_equal(session.dispatch(one, {"y": X})["y"], X + X + 7)


def test_neither_package_is_imported_by_vyre() -> None:
    code = "import sys, vyre; vyre.kernel; sys.exit(bool({'joblib', 'cloudpickle'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], timeout=LIMIT_S).returncode == 0
