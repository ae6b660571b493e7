"""The trial kernels of the tutorial have no data race, and give the same bytes on the emulated GPU.

The page itself checks what they give on the default session.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

import vyre
from support.pages import run_page

TUTORIAL: Final = Path(__file__).parents[3] / "docs" / "tutorial.md"


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("tutorial"))
        return run_page(TUTORIAL)


def inputs_of(kernel: str, names: dict[str, Any]) -> dict[str, Any]:
    """Returns inputs of a few workgroups, the last of which is not full."""
    random = np.random.default_rng(seed=3)
    floats = random.uniform(-1, 1, 600).astype(np.float32)
    inputs: dict[str, dict[str, Any]] = {
        "saxpy": {"a": 2.0, "x": floats, "y": floats[::-1].copy()},
        "blur": {"image": floats.reshape(20, 30)},
        "histogram": {"data": random.integers(0, 256, 600, dtype=np.uint8)},
        "scan": {"data": random.integers(0, 1000, 600, dtype=np.uint32)},
        "interpret": {"code": names["code"], "entry": names["entry"][:300], "argument": names["argument"][:300]},
    }
    return inputs[kernel]


@pytest.mark.parametrize("kernel", ["saxpy", "blur", "histogram", "scan", "interpret"])
def test_a_trial_kernel_has_no_race_and_the_same_bytes_on_other_backends(kernel: str, names: dict[str, Any]) -> None:
    inputs = inputs_of(kernel, names)
    with vyre.open("reference") as session:
        checked = session.dispatch(names[kernel], inputs, race_check=True)
    wanted = {name: checked[name].tobytes() for name in checked.keys()}  # noqa: SIM118 - iterating gives outputs
    assert wanted
    for backend in ("reference-scalar", "cuda-machine"):
        with vyre.open(backend, cache=False) as session:
            found = session.dispatch(names[kernel], inputs)
            assert {name: found[name].tobytes() for name in wanted} == wanted
