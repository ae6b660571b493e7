"""What the seam over the bindings asks of the driver for a loop in a graph; the driver's functions are fakes here."""

from __future__ import annotations

import os
from typing import Any

import pytest

from vyre.adapters.cuda.codes import Result
from vyre.adapters.cuda.driver import RealDriver
from vyre.adapters.cuda.seam import CudaCallError, WhileNode

bindings: Any = pytest.importorskip("cuda.bindings.driver", reason="cuda-python is not installed")


class Api:
    """The bindings, with functions that record their arguments."""

    def __init__(self, status: int = 0) -> None:
        self.status = bindings.CUresult(status)
        self.calls: list[tuple[Any, ...]] = []

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("cu"):
            return getattr(bindings, name)
        results = {
            "cuCtxGetCurrent": bindings.CUcontext(70),
            "cuGraphConditionalHandleCreate": bindings.CUgraphConditionalHandle(51),
            "cuGraphAddNode": bindings.CUgraphNode(61),
        }

        def call(*arguments: Any) -> tuple[Any, ...]:
            self.calls.append((name, *arguments))
            good = name == "cuCtxGetCurrent" or not int(self.status)
            return (bindings.CUresult(0) if good else self.status, results[name])

        return call


def driver_over(api: Api) -> RealDriver:
    driver: Any = RealDriver()
    driver._api, driver._pid = api, os.getpid()
    made: RealDriver = driver
    return made


def test_a_condition_is_set_at_each_launch() -> None:
    api = Api()
    assert driver_over(api).graph_condition(9) == 51
    name, graph, context, default, flags = api.calls[-1]
    assert (name, graph, int(context), default) == ("cuGraphConditionalHandleCreate", 9, 70, 1)
    assert flags == bindings.CU_GRAPH_COND_ASSIGN_DEFAULT


def test_a_node_repeats_one_body() -> None:
    api = Api()
    assert driver_over(api).graph_add_while(9, [3, 4], 51) == WhileNode(61, 0)
    name, graph, after, data, count, given = api.calls[-1]
    assert (name, graph, [int(node) for node in after], data, count) == ("cuGraphAddNode", 9, [3, 4], None, 2)
    assert given.type == bindings.CUgraphNodeType.CU_GRAPH_NODE_TYPE_CONDITIONAL
    loop = given.conditional
    assert (int(loop.handle), loop.size, int(loop.ctx)) == (51, 1, 70)
    assert loop.type == bindings.CUgraphConditionalNodeType.CU_GRAPH_COND_TYPE_WHILE


@pytest.mark.parametrize("node", [False, True])
def test_an_old_driver_says_so(node: bool) -> None:
    driver = driver_over(Api(Result.NOT_SUPPORTED))
    with pytest.raises(CudaCallError) as error:
        if node:
            driver.graph_add_while(9, [], 51)
        else:
            driver.graph_condition(9)
    assert error.value.code == Result.NOT_SUPPORTED
