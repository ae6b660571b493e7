"""Every feature that a backend claims has a probe here, and the probe passes on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

import vyre
from vyre import ProgramBuilder, bf16, f16, f32, mulhi, subgroup_add, subgroup_shuffle, u32
from vyre.adapters.discovery import load_catalog
from vyre.domain.device import claimed_features
from vyre.domain.errors import BackendError

WORDS = np.arange(64, dtype=np.uint32)


def _builtin() -> Iterator[str]:
    for registration in load_catalog().by_precedence():
        try:
            registration.probe()
        except BackendError:
            continue
        yield str(registration.id)


BACKENDS = list(_builtin())


def subgroup_ops(session: vyre.Session) -> None:
    with ProgramBuilder("p", workgroup=64) as p:
        x, y = p.input("x", u32), p.inout("y", u32)
        y[p.global_id()] = subgroup_add(x[p.global_id()])
    found = session.dispatch(p.build(), [WORDS, WORDS])["y"]
    assert found.tolist() == [sum(range(32))] * 32 + [sum(range(32, 64))] * 32


def subgroup_shuffles(session: vyre.Session) -> None:
    with ProgramBuilder("p", workgroup=64) as p:
        x, y = p.input("x", u32), p.inout("y", u32)
        y[p.global_id()] = subgroup_shuffle(x[p.global_id()], 31 - p.subgroup_lane())
    found = session.dispatch(p.build(), [WORDS, WORDS])["y"]
    assert found.tolist() == [*range(31, -1, -1), *range(63, 31, -1)]


def specialization_constants(session: vyre.Session) -> None:
    with ProgramBuilder("p", workgroup=1) as p:
        p.output("y", u32, 1)[0] = p.spec("n", 5)
    program = p.build()
    assert session.dispatch(program)["y"].tolist() == [5]
    assert session.dispatch(program, spec={"n": 9})["y"].tolist() == [9]


def half_precision(session: vyre.Session) -> None:
    with ProgramBuilder("p", workgroup=1) as p:
        x, y = p.input("x", f16), p.output("y", f16, 1)
        y[0] = x[0] + x[1]
    found = session.dispatch(p.build(), [np.array([1.0, 2.0**-11], np.float16)])["y"]
    assert found.view(np.uint16).tolist() == [0x3C00]  # the exact sum is a tie: to even


def brain_floats(session: vyre.Session) -> None:
    with ProgramBuilder("p", workgroup=1) as p:
        x, y = p.input("x", bf16), p.output("y", bf16, 1)
        y[0] = x[0] + x[1]
    assert session.dispatch(p.build(), [np.array([0x3F80, 0x4000], np.uint16)])["y"].tolist() == [0x4040]


def traps(session: vyre.Session) -> None:
    with ProgramBuilder("p", workgroup=8) as p:
        p.output("y", u32, 8)[p.global_id()] = 1
        with p.if_(p.global_id() >= 5):
            p.trap(p.global_id() * 4, "limit")
    with pytest.raises(vyre.TrapError) as caught:
        session.dispatch(p.build())
    assert (caught.value.tag, caught.value.address, caught.value.global_id) == ("limit", 20, (5, 0, 0))


def grid_barriers(session: vyre.Session) -> None:
    with ProgramBuilder("p", workgroup=4) as p:
        x, y = p.inout("x", u32), p.inout("y", u32)
        i = p.global_id()
        x[i] = i + 1
        p.grid_sync()
        y[i] = x[63 - i]
    assert session.dispatch(p.build(), [WORDS, WORDS])["y"].tolist() == list(range(64, 0, -1))


def split_grid_barriers(session: vyre.Session) -> None:
    groups = 8192  # more than any device holds at once, so no launch of the whole grid can wait for itself
    with ProgramBuilder("p", workgroup=1) as p:
        x, y = p.inout("x", u32), p.inout("y", u32)
        i = p.global_id()
        x[i] = i + 1
        p.grid_sync()
        y[i] = x[groups - 1 - i]
    zeros = np.zeros(groups, np.uint32)
    assert session.dispatch(p.build(), [zeros, zeros])["y"].tolist() == list(range(groups, 0, -1))


def device_timestamps(session: vyre.Session) -> None:
    with ProgramBuilder("p", workgroup=64) as p:
        p.output("y", u32, 64)[p.global_id()] = 1
    timing = session.dispatch(p.build()).timing
    assert timing.device_ns is not None
    assert timing.device_ns > 0


def high_products(session: vyre.Session) -> None:
    with ProgramBuilder("p", workgroup=1) as p:
        x, y = p.input("x", u32), p.output("y", u32, 1)
        y[0] = mulhi(x[0], x[1])
    assert session.dispatch(p.build(), [np.array([2**31, 6], np.uint32)])["y"].tolist() == [3]


def workgroup_memory(session: vyre.Session) -> None:
    with ProgramBuilder("p", workgroup=8) as p:
        y = p.output("y", f32, 8)
        shared = p.workgroup("shared", f32, 8)
        i = p.local_id()
        shared[i] = i.cast(f32)
        p.barrier()
        y[i] = shared[7 - i]
    assert session.dispatch(p.build())["y"].tolist() == [7.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0, 0.0]


PROBES: dict[str, Callable[[vyre.Session], None]] = {
    "supports_subgroup_ops": subgroup_ops,
    "has_subgroup_shuffle": subgroup_shuffles,
    "supports_specialization_constants": specialization_constants,
    "supports_f16": half_precision,
    "supports_bf16": brain_floats,
    "supports_trap_propagation": traps,
    "supports_grid_sync": grid_barriers,
    "allows_host_grid_sync_split": split_grid_barriers,
    "supports_device_timestamps": device_timestamps,
    "has_mul_high": high_products,
    "has_shared_memory": workgroup_memory,
}


@pytest.mark.parametrize("backend", BACKENDS)
def test_every_claim_has_a_probe(backend: str) -> None:
    registration = load_catalog().get(backend)
    assert registration is not None
    profile = registration.probe()
    assert profile == registration.make().profile
    assert claimed_features(profile) <= PROBES.keys()


@pytest.mark.parametrize("feature", PROBES)
@pytest.mark.parametrize("backend", BACKENDS)
def test_claims_hold(backend: str, feature: str) -> None:
    with vyre.open(backend) as session:
        registration = load_catalog().get(backend)
        assert registration is not None
        if feature not in claimed_features(registration.probe()):
            pytest.skip(f"{backend} does not claim {feature}")
        PROBES[feature](session)
