"""Narrow values, wrapping casts and bytes of truth, in every form that the vectorised engine has for a value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import vyre
from support.reference.agreement import Array, agreed
from vyre.app.host_arrays import HostInputs
from vyre.domain.ir.program import Program

LANES = 40
Model = Callable[[npt.NDArray[Any]], npt.NDArray[Any]]


def _signed(bits: int) -> Model:
    return lambda x: ((x + (1 << (bits - 1))) % (1 << bits)) - (1 << (bits - 1))


def _wrapped(bits: int, *, signed: bool) -> Model:
    """Truncated and reduced in Python's integers; infinities and NaN give 0."""

    def model(x: npt.NDArray[Any]) -> npt.NDArray[Any]:
        exact = [int(v) % (1 << bits) if np.isfinite(v) else 0 for v in x.astype(float)]
        if signed:
            exact = [v - (v >> (bits - 1) << bits) for v in exact]
        return np.array(exact, object)

    return model


_INTEGERS = np.concatenate([np.arange(20) * 37, np.arange(20) * 214748364])
_FLOATS = np.array(
    [0.0, 1.0, -1.5, 65519.9, 65520.0, -7e4, 1e-8, 3e-8, 6.1e-5, 1 / 3, -0.1, 2049, 2051, 1e10, -1e10, 1e19, 4e19,
     -3e19, 1e38, np.inf, -np.inf, 0.5, 1.5, 2.5, -0.5, -2.5, 3.5, 1e-45, 1.00390625, 1.01171875]
    + [float(k) ** 3 / 7 for k in range(10)],
    np.float32,
)  # fmt: skip
_CASES: list[tuple[str, str, str, Model]] = [
    ("u32", "u32", "narrow<u8>({})", lambda x: x % 256),
    ("u32", "u32", "narrow<u16>({})", lambda x: x % 65536),
    ("i32", "i32", "narrow<i8>({})", _signed(8)),
    ("i32", "i32", "narrow<i16>({})", _signed(16)),
    ("i32", "u32", "pack<i8>({})", lambda x: x % 256),
    ("i32", "u32", "pack<i16>({})", lambda x: x % 65536),
    ("u32", "u32", "pack<u8>({})", lambda x: x % 256),
    ("u32", "u32", "unpack<u16>({})", lambda x: x % 65536),
    ("u32", "i32", "unpack<i16>({})", _signed(16)),
    ("u32", "f32", "unpack<f16>({})", lambda x: (x % 65536).astype(np.uint16).view(np.float16).astype(np.float32)),
    ("u32", "f32", "unpack<bf16>({})", lambda x: (x % 65536 << 16).astype(np.uint32).view(np.float32)),
    ("f32", "f32", "narrow<f16>({})", lambda x: x.astype(np.float16).astype(np.float32)),
    ("f32", "u32", "pack<f16>({})", lambda x: x.astype(np.float16).view(np.uint16)),
    ("f32", "f32", "unpack<bf16>(pack<bf16>({}))", lambda x: _bfloat(x)),
    ("f32", "f32", "narrow<bf16>({})", lambda x: _bfloat(x)),
    ("f32", "u32", "wrap_cast<u32>({})", _wrapped(32, signed=False)),
    ("f32", "i32", "wrap_cast<i32>({})", _wrapped(32, signed=True)),
    ("f32", "u64", "wrap_cast<u64>({})", _wrapped(64, signed=False)),
    ("f32", "i64", "wrap_cast<i64>({})", _wrapped(64, signed=True)),
    ("f32", "f32", "round_even({})", np.rint),
]


def _bfloat(x: npt.NDArray[Any]) -> npt.NDArray[Any]:
    words = x.astype(np.float32).view(np.uint32).astype(np.uint64)
    rounded = words + 0x7FFF + (words >> np.uint64(16) & np.uint64(1))
    return (rounded & np.uint64(0xFFFF0000)).astype(np.uint32).view(np.float32)


@pytest.mark.parametrize(("source", "result", "form", "model"), _CASES, ids=[case[2] for case in _CASES])
def test_arrays_positions_and_values_that_all_lanes_share(source: str, result: str, form: str, model: Model) -> None:
    dtypes: dict[str, Any] = {"u32": np.uint32, "i32": np.int32, "f32": np.float32}
    x: Array = _FLOATS if source == "f32" else _INTEGERS.astype(np.int64).astype(dtypes[source])
    text = f"""
        program narrow
        workgroup_size 8, 1, 1
        buffer x @0 read {source}[{LANES}]
        buffer s @1 uniform {source}[1]
        buffer y @2 read_write {result}[{LANES * 4}] output
        body {{
          let at = gid.x * 4u
          y[at] = {form.format("x[gid.x]")}
          y[at + 1u] = {form.format("s[0u]")}
          y[at + 2u] = {form.format(f"cast<{source}>(gid.x * 11u)")}
          for k in 0u .. 3u {{
            if x[gid.x] == x[gid.x] {{ y[at + 3u] = {form.format("x[gid.x]")} }}
          }}
        }}
    """
    with np.errstate(all="ignore"):
        positions = (np.arange(LANES) * 11).astype(x.dtype)
        plain = x if source == "f32" else x.astype(np.int64)
        columns = [model(plain), np.repeat(model(plain[:1]), LANES), model(positions), model(plain)]
        found = agreed(text, {"x": x, "s": x[:1]}, grid=(LANES // 8, 1, 1))["y"].reshape(LANES, 4)
    for number, column in enumerate(columns):
        wanted = column if column.dtype == object else column.astype(found.dtype)
        assert np.array_equal(found[:, number], wanted.astype(found.dtype), equal_nan=result == "f32")


_TRUTHS = """
    program truths
    workgroup_size 8, 1, 1
    buffer x @0 read bool8[runtime]
    buffer u @1 uniform bool8[1]
    buffer z @2 read_write bool8[runtime]
    buffer y @3 read_write bool8[runtime] output like x
    buffer w @4 read_write bool[runtime] output like x
    buffer m @- workgroup bool8[8]
    body {
      m[lid.x] = x[gid.x]
      barrier(seq_cst)
      y[gid.x] = m[7u - lid.x] and u[0u]
      w[gid.x] = x[gid.x * 3u] or z[gid.x]
      if x[gid.x] { z[gid.x] = not(z[gid.x]) }
    }
"""


def test_bytes_of_truth() -> None:
    """A byte other than 0 is true; what is stored is 0 or 1, and what is not stored stays."""
    x = np.resize(np.array([0, 1, 2, 128, 255, 0, 0], np.uint8), LANES)
    z = np.resize(np.array([3, 0, 1], np.uint8), LANES)
    found = agreed(_TRUTHS, {"x": x, "u": np.array([4], np.uint8), "z": z}, grid=(LANES // 8, 1, 1))
    assert found["y"].view(np.uint8).tolist() == (x.reshape(-1, 8)[:, ::-1].reshape(-1) != 0).astype(int).tolist()
    third = np.array([x[3 * k] != 0 if 3 * k < LANES else False for k in range(LANES)])
    assert found["w"].tolist() == (third | (z != 0)).astype(int).tolist()
    assert found["z"].view(np.uint8).tolist() == np.where(x != 0, z == 0, z).tolist()


@pytest.mark.parametrize("engine", ["reference", "reference-scalar"])
def test_arrays_of_bools_are_bound_as_they_are(engine: str) -> None:
    program = Program.from_text(_TRUTHS)
    x, z = np.arange(LANES) % 3 == 0, np.arange(LANES) % 2 == 0
    inputs = {"x": x, "u": np.array([True]), "z": z}
    for name in ("x", "z"):
        assert np.shares_memory(np.frombuffer(HostInputs(program).view(name, inputs[name]), np.uint8), inputs[name])
    y = np.empty(LANES, np.bool_)
    with vyre.open(backend=engine) as session:
        result = session.dispatch(program, inputs, grid=LANES // 8, out={"y": y})
    assert {result[name].dtype for name in ("y", "z", "w")} == {np.dtype(np.bool_)}
    assert np.array_equal(y, x.reshape(-1, 8)[:, ::-1].reshape(-1))
    assert np.array_equal(result["z"], z ^ x)
