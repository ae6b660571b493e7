"""Every default threshold is pinned: moving one by a step makes a golden vector fail."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import vyre.policies
from vyre.testing.vector_rows import FILES
from vyre.testing.vectors import Tally, run_file

VECTORS = Path(__file__).parents[2] / "data" / "vectors"
STEMS = {
    "claims": "megakernel_speedup_gate",
    "fixpoint": "device_convergence",
    "fusion_pressure": "megakernel_scheduler",
    "plan_cache": "megakernel_plan_cache",
    "topology": "megakernel_execution",
}
"""Vector file of a module, where the names differ."""
NOT_IN_VECTORS = {
    ("extraction_cost", "max_scale_bps"): "no scale of the rule comes near the clamp",
    ("extraction_cost", "forbid_zero"): "ours; see test_kernel_policies",
    ("device_extraction", "extraction"): "the thresholds of extraction_cost",
    ("dispatch_policy", "persistent"): "the thresholds of persistent_kernel",
    ("dispatch_policy", "graph"): "the thresholds of command_reuse",
    ("dispatch_policy", "bindless"): "the thresholds of bindless",
    ("dispatch_policy", "trace_jit"): "the thresholds of trace_jit",
    ("fixpoint", "max_unrolled_steps"): "ours; see test_fixpoint",
    ("claims", "error_ppm"): "ours; see test_residency",
    ("claims", "max_timed_host_syncs"): "see test_residency",
    ("bindless", "min_resources"): "see test_launch_policies",
    ("device_extraction", "tile_bps"): "see test_kernel_policies",
    ("device_extraction", "speculate_bps"): "see test_kernel_policies",
    ("topology", "provenance"): "a remark; see test_topology",
    ("topology", "warp_sparse_max_degree_bps"): "see test_topology",
    ("topology", "density_margin"): "see test_topology",
    ("topology", "fused_pressure_margin"): "see test_topology",
    ("topology", "fused_keep_launch_bps"): "see test_topology",
    ("topology", "fused_keep_memory_bps"): "see test_topology",
}


class Threshold(NamedTuple):
    module: str
    function: Callable[..., object]
    field: str

    def __str__(self) -> str:
        return f"{self.module}.{self.function.__name__}.{self.field}"


def thresholds() -> Iterator[Threshold]:
    for found in pkgutil.iter_modules(vyre.policies.__path__):
        module = importlib.import_module(f"vyre.policies.{found.name}")
        for function in vars(module).values():
            if not inspect.isfunction(function) or function.__module__ != module.__name__:
                continue
            for default in function.__defaults__ or ():
                if is_dataclass(default) and type(default).__name__.endswith(("Thresholds", "Weights")):
                    yield from (Threshold(found.name, function, f.name) for f in fields(default))


ALL = list(thresholds())


def moved(value: Any) -> Any:
    """The next value."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, tuple):
        return (*value[:-1], moved(value[-1]))
    return value + "x" if isinstance(value, str) else value * 2 if isinstance(value, float) else value + 1


def failures(module: str) -> int:
    tally = Tally(lambda _: None)
    run_file(VECTORS / f"{STEMS.get(module, module)}.jsonl.xz", tally)
    return tally.failed


def test_thresholds_are_found() -> None:
    assert len(ALL) > 20
    assert {(t.module, t.field) for t in ALL} >= set(NOT_IN_VECTORS)


@pytest.mark.parametrize("module", sorted({t.module for t in ALL}))
def test_every_field_of_a_module_is_seen(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert STEMS.get(module, module) in FILES
    unseen = []
    for field in {t.field for t in ALL if t.module == module and (module, t.field) not in NOT_IN_VECTORS}:
        with monkeypatch.context() as patch:
            for _, function, _ in (t for t in ALL if (t.module, t.field) == (module, field)):
                defaults = tuple(
                    replace(d, **{field: moved(getattr(d, field))}) if hasattr(d, field) else d
                    for d in function.__defaults__ or ()
                )
                patch.setattr(function, "__defaults__", defaults)
            if not failures(module):
                unseen.append(field)
    assert unseen == []
    assert failures(module) == 0
