"""The verdicts of five decisions over their two most important inputs; pictures for ``decision_catalogue``."""

from __future__ import annotations

from typing import Final

from sweep_chart import Sweep, categories, linear, logarithmic

from vyre.policies.caching.cache_eviction_heat import HeatEntry, HeatEvictionInputs, entries_to_evict
from vyre.policies.launching.bindless import ResourceTableInputs, plan_resource_table
from vyre.policies.launching.command_reuse import CommandReuseInputs, decide_command_reuse
from vyre.policies.launching.param_inlining import ParamInliningInputs, ParamInliningPolicy, decide_param_inlining
from vyre.policies.launching.persistent_kernel import PersistentKernelInputs, decide_persistent_kernel

SETUP_NS: Final = 50_000
RECORD_NS: Final = 100_000
REPLAY_NS: Final = 2_000
ALIGN_BYTES: Final = 16
RIVAL_HITS: Final = 8
PARAMETER_BYTES: Final = 400


def _persistent_kernel(batch: int, launch_ns: int) -> str:
    return type(decide_persistent_kernel(PersistentKernelInputs(batch, launch_ns, 0, SETUP_NS))).__name__


def _command_reuse(repeats: int, launch_ns: int) -> str:
    return type(decide_command_reuse(CommandReuseInputs(repeats, launch_ns, RECORD_NS, REPLAY_NS))).__name__


def _param_inlining(length: int, budget: int) -> str:
    policy = ParamInliningPolicy(budget, ALIGN_BYTES, allow_padding_to_align=True)
    return type(decide_param_inlining(ParamInliningInputs(length), policy)).__name__


def _bindless(resources: int, may_use_table: bool) -> str:
    return type(plan_resource_table(ResourceTableInputs(resources, may_use_table, 0, PARAMETER_BYTES))).__name__


def _cache_eviction_heat(age_s: int, hits: int) -> str:
    entries = (HeatEntry(0, hits, 0.0), HeatEntry(1, RIVAL_HITS, float(age_s)))
    (evicted,) = entries_to_evict(HeatEvictionInputs(entries, 1, float(age_s)))
    return "evicted" if evicted == 0 else "kept"


_TABLES: Final[dict[str, object]] = {"no table": False, "a table": True}

SWEEPS: Final = {
    "persistent_kernel": Sweep(
        "persistent_kernel: a resident kernel that takes 50 us to set up",
        "Items against the cost of one launch, with a setup of 50 000 ns. The boundary is where their product is the "
        "setup; a single item is always launched plainly.",
        logarithmic("batch_size", 1, 1000, 61),
        logarithmic("per_launch_overhead_ns", 100, 100_000, 46),
        ("StandardLaunches", "PersistentKernel"),
        _persistent_kernel,
    ),
    "param_inlining": Sweep(
        "param_inlining: parameters padded to 16 bytes",
        "Bytes of parameters against the budget, with an alignment of 16 and padding allowed. The steps are the "
        "padding; without any budget nothing is inlined.",
        linear("bytes_len", 0, 160, 2, 16),
        linear("max_inline_bytes", 0, 160, 4, 16),
        ("UniformBuffer", "Inline"),
        _param_inlining,
    ),
    "bindless": Sweep(
        "bindless: a kernel that may take a table, and one that may not",
        "Resources against what the kernel may take, with 400 bytes of parameters.",
        linear("resource_count", 1, 64, 1, 8),
        categories("may_use_table", _TABLES),
        ("Parameters", "PointerTable", "Unsupported"),
        _bindless,
    ),
    "command_reuse": Sweep(
        "command_reuse: a recording that takes 100 us, and 2 us to replay",
        "Runs against the cost of one plain launch, with 100 000 ns to record and 2 000 ns to replay. A launch that is "
        "no dearer than a replay is never recorded, however often it runs.",
        logarithmic("repeat_count", 1, 1000, 61),
        logarithmic("per_launch_overhead_ns", 1000, 1_000_000, 46),
        ("PlainLaunches", "RecordAndReplay"),
        _command_reuse,
    ),
    "cache_eviction_heat": Sweep(
        "cache_eviction_heat: an entry beside one that was hit 8 times, just now",
        "Time since the last hit against all hits of an entry, in a cache for one of two: the other entry has 8 hits, "
        "the last of them now. With the default half-life an entry needs twice the hits for every 300 s.",
        linear("seconds since the last hit", 0, 2400, 30, 300),
        logarithmic("hit_count", 1, 1000, 46),
        ("kept", "evicted"),
        _cache_eviction_heat,
    ),
}
