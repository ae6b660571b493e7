"""Each written form of a kernel in plain Python keeps which parameters hold sizes of its arrays."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
import pytest

import vyre
from vyre import In, MalformedJson, MalformedText, MalformedWire, Out, Program, f32, like


@vyre.kernel
def doubled(x: In[f32, Literal[2]], y: Out[f32, Literal[2], like("x")]) -> None:  # type: ignore[valid-type]
    row, column = vyre.global_id(1), vyre.global_id(0)
    y[row, column] = x[row, column] * 2.0


@vyre.kernel
def layered(x: In[f32, Literal[3]], y: Out[f32, Literal[3], like("x")]) -> None:  # type: ignore[valid-type]
    plane, row, column = vyre.global_id(2), vyre.global_id(1), vyre.global_id(0)
    y[plane, row, column] = x[plane, row, column] * 2.0


KERNELS: Final[dict[str, tuple[vyre.Kernel[Any], tuple[int, ...]]]] = {
    "rows": (doubled, (2, 3)),
    "planes": (layered, (2, 3, 4)),
}
FORMS: Final[dict[str, Callable[[Program], Program]]] = {
    "text": lambda program: Program.from_text(program.to_text()),
    "wire": lambda program: Program.from_wire(program.to_wire()),
    "json": lambda program: Program.from_json(json.loads(json.dumps(program.to_json()))),
    "pickle": lambda program: pickle.loads(pickle.dumps(program)),
    "copy": copy.deepcopy,
}


@pytest.fixture(scope="module")
def session() -> Iterator[vyre.Session]:
    with vyre.open("reference", cache=False) as opened:
        yield opened


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", KERNELS)
def test_a_program_that_was_written_takes_the_inputs_of_the_kernel(session: vyre.Session, name: str, form: str) -> None:
    kernel, shape = KERNELS[name]
    program = kernel.program
    again = FORMS[form](program)
    assert (again, again.sizes, again.digest) == (program, program.sizes, program.digest) and program.sizes
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    found = session.dispatch(again, {"x": x}, extent=shape[::-1])["y"]
    assert (found.shape, found.tolist()) == (shape, (2 * x).tolist())


@pytest.mark.parametrize("name", KERNELS)
def test_a_bundle_takes_the_inputs_of_the_kernel(name: str, tmp_path: Path) -> None:
    kernel, shape = KERNELS[name]
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    vyre.build_bundle(kernel, tmp_path / "kernel.vyrz", targets=["cuda"])
    (loaded,) = vyre.load_bundle(tmp_path / "kernel.vyrz").values()
    with vyre.open("cuda-machine", cache=False) as session:
        found = session.dispatch(loaded, {"x": x}, extent=shape[::-1])["y"]
    assert (found.shape, found.tolist()) == (shape, (2 * x).tolist())


def test_programs_without_sizes_are_written_as_before() -> None:
    plain = replace(doubled.program, sizes=())
    assert "size" not in plain.to_text().replace("workgroup_size", "") and "sizes" not in plain.to_json()
    assert plain.to_wire() != doubled.program.to_wire() and len(plain.to_wire()) < len(doubled.program.to_wire())
    assert plain.to_wire()[:40] == doubled.program.to_wire()[:37] + plain.to_wire()[37:40]  # the digest of the body


@pytest.mark.parametrize(
    "sizes",
    [
        (("x", "y", -1),),
        (("x_width", "y_width", -1),),
        (("x_width", "nothing", -1),),
        (("x_width", "x", 0),),
        (("x_width", "x", -3),),
        (("x_width", "x", -1), ("x_width", "x", -2)),
    ],
)
def test_sizes_that_are_none_are_not_read(sizes: Any) -> None:
    text = replace(doubled.program, sizes=()).to_text()
    lines = "".join(f"size {name} of {array} axis {axis}\n" for name, array, axis in sizes)
    with pytest.raises(MalformedText):
        Program.from_text(text.replace("body {", lines + "body {"))
    with pytest.raises(MalformedJson, match=r"\$\.sizes"):
        Program.from_json(doubled.program.to_json() | {"sizes": [list(size) for size in sizes]})


@pytest.mark.parametrize("sizes", [1, "x", [1], [["x_width", "x"]], [["x_width", "x", True]], [[1, "x", -1]], {}])
def test_json_of_another_kind_is_refused(sizes: Any) -> None:
    with pytest.raises(MalformedJson, match=r"\$\.sizes"):
        Program.from_json(doubled.program.to_json() | {"sizes": sizes})


def test_a_wire_whose_sizes_are_none_is_refused() -> None:
    from vyre.domain.ir import wire_format as w
    from vyre.domain.ir.wire import decode as decode_wire

    wire = doubled.program.to_wire()
    tail = bytes([2, 2, 0, 1, 3, 0, 1])  # two sizes: of parameter 2 and of parameter 3, both of the last axis of x
    assert wire.endswith(tail)
    for wrong in (b"\0", bytes([1, 0, 1, 1]), bytes([1, 2, 3, 1]), bytes([1, 2, 0, 3]), bytes([2, 2, 0, 1, 2, 0, 2])):
        changed = _sealed(wire[: -len(tail)] + wrong, w.HEADER_BYTES)
        with pytest.raises(MalformedWire):
            decode_wire(changed, Program)
    assert _sealed(wire, w.HEADER_BYTES) == wire


def _sealed(wire: bytes, header: int) -> bytes:
    """Returns a wire with the digest of the names that it has."""
    from vyre.domain.identity import names_digest
    from vyre.domain.ir.wire_reader import WireReader

    reader = WireReader(wire, header, len(wire))
    assert reader.uleb() == 0, "the program has no definitions"
    reader.take(reader.uleb())
    names = wire[reader.position :]
    return wire[: header - 32] + names_digest(names) + wire[header:]
