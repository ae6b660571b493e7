"""What a backend offers and lacks: by a session, by name, and in notebooks."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

import numpy as np
import pytest

import vyre
from vyre import In, Out, f32, like, u32
from vyre.domain.ir.types import USUAL_TYPES
from vyre.domain.names import OpId
from vyre.domain.op_ids import ALL_OPS, USUAL_OPS
from vyre.ports import Backend, BackendCatalog
from vyre.testing import cuda_machine, function_backend, registration_of

T = TypeVar("T", u32, f32)
SHUFFLE = OpId("vyre.subgroup_shuffle")
WIDE = """workgroup_size 2048, 1, 1
buffer x @0 read f16[2048]
buffer y @1 write u32[2048]
buffer s @- workgroup u32[64]
body {
  s[lid.x % 64u] = 1u
  barrier(seq_cst)
  y[gid.x] = subgroup_shuffle(cast<u32>(x[gid.x]), 0u) + s[0u]
}"""


def catalog_of(backend: Backend) -> BackendCatalog:
    return BackendCatalog((registration_of(backend),))


@vyre.kernel
def doubled(x: In[T], y: Out[T, like("x")]) -> None:  # type: ignore[valid-type]
    y[vyre.global_id()] = x[vyre.global_id()] + x[vyre.global_id()]


def test_everything_that_is_missing_is_named_with_its_place() -> None:
    backend = function_backend(dict)
    poor = replace(
        backend,
        supported_ops=USUAL_OPS - {SHUFFLE},
        profile=replace(
            backend.profile,
            element_types=USUAL_TYPES,
            has_subgroup_shuffle=False,
            max_invocations_per_workgroup=1024,
            max_shared_memory_bytes=255,
            max_storage_buffer_bytes=4096,
        ),
    )
    program = vyre.Program.from_text(WIDE)
    with vyre.open(catalog=catalog_of(poor)) as session:
        found = session.missing(program)
        with pytest.raises(
            vyre.UnsupportedFeature, match=r"subgroup_shuffle \(at <text>:8:.*session\.missing"
        ) as caught:
            session.compile(program)
    assert [(m.kind.value, m.name, m.needed, m.offered) for m in found] == [
        ("operation", SHUFFLE, None, None),
        ("element type", "f16", None, None),
        ("feature", "has_subgroup_shuffle", None, None),
        ("limit", "max_invocations_per_workgroup", 2048, 1024),
        ("limit", "max_shared_memory_bytes", 256, 255),
        ("limit", "max_storage_buffer_bytes", 8192, 4096),
    ]
    assert [[place.line for place in m.locations] for m in found] == [[8], [2], [8], [], [4], [3]]
    assert all(str(m) in caught.value.feature for m in found)
    assert vyre.missing(program, poor.id, catalog=catalog_of(poor)) == found


def test_kernels_are_accepted_wherever_dispatch_accepts_them() -> None:
    x = np.arange(8, dtype=np.float32)
    with vyre.open("reference") as session:
        assert session.missing(doubled, {"x": x}) == ()
        assert session.dispatch(doubled, {"x": x})["y"].tolist() == (x + x).tolist()
        with pytest.raises(vyre.InvalidProgram):
            session.missing(vyre.Program.from_text("workgroup_size 1, 1, 1 body { x[0u] = 1u }"))
        with pytest.raises(vyre.InvalidInput):
            session.missing("a kernel")  # type: ignore[arg-type]
        found = session.missing(doubled, {"x": x}, vyre.DispatchConfig(workgroup=(1 << 16,)))
    assert {m.name for m in found} == {"max_invocations_per_workgroup", "max_workgroup_size"}
    with pytest.raises(vyre.BackendUnavailable, match="no backend `none`"):
        vyre.missing(doubled, "none", {"x": x})


def test_a_session_tells_its_profile_operations_version_and_device() -> None:
    with vyre.open("cuda-machine") as session:
        assert (session.profile.backend, session.profile.supports_f16, vyre.f16 in session.profile.element_types) == (
            "cuda-machine",
            True,
            True,
        )
        assert session.supported_ops == ALL_OPS - {"vyre.node.indirect_dispatch"} | {"vyre.native_ptx"}
        assert session.version
        assert session.device_lost is False
        shown = session._repr_html_()
    assert "max_shared_memory_bytes" in shown
    assert "vyre.subgroup_shuffle" in shown
    with pytest.raises(vyre.InvalidResource):
        _ = session.device_lost


def test_a_buffer_that_no_device_memory_holds_is_refused_before_it_is_allocated() -> None:
    backend = cuda_machine("t4").backend
    most = backend.profile.max_storage_buffer_bytes
    assert most is not None
    with vyre.ProgramBuilder("large", workgroup=1) as p:
        p.output("y", vyre.u64, most // 8 + 1)[0] = 1
    with vyre.open(backend.id, catalog=catalog_of(backend)) as session:
        (found,) = session.missing(p.build())
        assert (found.name, found.offered) == ("max_storage_buffer_bytes", most)
        with pytest.raises(vyre.DeviceLimitExceeded, match=f"allows {most}"):
            session.compile(p.build())
