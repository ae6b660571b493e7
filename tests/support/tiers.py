"""What ``make test`` runs, of all that ``make check`` runs: a part of every area, and the same part in every run.

Left out are tests marked ``slow`` or ``thorough``, and of a test that is written once for many cases all but some,
which the digests of their names choose.  Properties look at fewer examples.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Final, Protocol, TypeVar

MARKS: Final = ("slow", "thorough")
CASES: Final = 8
"""Of one test that stay in any case."""
SHARE: Final = 10
"""One of so many stays beyond them."""
COSTLY: Final[Mapping[str, int]] = {
    "tests/conformance/test_conformance.py::test_nothing_fails": 2,
    "tests/conformance/test_conformance.py::test_nothing_fails_on_an_emulated_device_in_any_order": 1,
    "tests/conformance/test_conformance.py::test_only_lru_update_is_left_out_of_the_tables": 0,
    "tests/contract/test_bundles.py::test_a_bundle_gives_the_bytes_of_a_dispatch": 6,
    "tests/contract/test_contract_finds_defects.py::test_a_recording_backend_keeps_the_contract": 0,
    "tests/contract/test_driver_on_stub.py::test_backend_gives_back_all_it_takes": 2,
    "tests/contract/test_ptxas_gate.py::test_no_kernel_is_refused": 0,
    "tests/contract/test_second_process.py::test_the_second_process_emits_nothing_and_gives_the_same_bytes": 0,
    "tests/fault/test_bundle_faults.py::test_each_call_fails_once": 1,
    "tests/fault/test_bundle_tampering.py::test_the_largest_manifest_takes_bounded_memory": 0,
    "tests/fault/test_exits.py::test_the_interpreter_ends_quietly": 6,
    "tests/fault/test_cuda_faults.py::test_each_call_fails_once": 3,
    "tests/fault/test_disk_faults.py::test_a_put_that_dies_at_any_operation_leaves_a_readable_cache": 2,
    "tests/fault/test_disk_faults.py::test_a_put_that_fails_at_any_operation_leaves_a_readable_cache": 3,
    "tests/fault/test_disk_faults.py::test_processes_share_a_directory": 1,
    "tests/fault/test_disk_faults.py::test_processes_that_are_killed_leave_a_readable_cache": 0,
    "tests/fault/test_forks.py::test_a_child_is_refused_in_words_whatever_it_calls": 1,
    "tests/fault/test_tuning_store_faults.py::test_a_put_that_fails_at_any_operation_loses_nothing": 4,
    "tests/fault/test_tuning_store_faults.py::test_processes_that_write_at_once_lose_nothing": 0,
    "tests/filetests/test_machine_code.py::test_files": 1,
    "tests/property/test_baked_programs.py::test_no_byte_changes": 1,
    "tests/property/test_cpu_campaign.py::test_seeded_programs_agree": 0,
    "tests/property/test_decision_switches.py::test_a_switch_changes_no_byte": 2,
    "tests/property/test_depth.py::test_deep_programs_compare_hash_and_print": 1,
    "tests/property/test_engines.py::test_order_independent_programs_agree_for_any_chunk": 0,
    "tests/property/test_engines.py::test_other_programs_agree_one_workgroup_at_a_time": 1,
    "tests/property/test_engines.py::test_seeded_programs_agree": 1,
    "tests/property/test_generator.py::test_the_generator_reaches_every_feature_of_the_language": 0,
    "tests/property/test_grid_sync.py::test_in_one_workgroup_a_grid_barrier_is_a_barrier": 0,
    "tests/property/test_identity.py::test_every_field_of_the_body_is_in_the_digest": 0,
    "tests/property/test_machine_campaign.py::test_seeded_programs_agree": 0,
    "tests/property/test_races.py::test_most_programs_with_races_are_caught": 0,
    "tests/property/test_races.py::test_programs_without_races_have_none_reported": 1,
    "tests/property/test_validator.py::test_every_random_program_is_valid": 1,
    "tests/unit/analysis/test_typed_indices.py::test_no_proven_access_of_many_random_programs_is_out_of_range": 0,
    "tests/unit/app/test_explained_plans.py::test_what_is_never_recorded_has_no_price_as_a_graph": 1,
    "tests/unit/app/test_session_closing.py::test_work_that_races_a_close_is_done_or_told_that_something_is_closed": 6,
    "tests/unit/app/test_session_journal.py::test_tuning_calibration_and_prediction_are_recorded": 0,
    "tests/unit/cli/test_commands.py::test_demo_checks_every_answer_and_writes_its_pictures": 0,
    "tests/unit/cli/test_output.py::test_a_closed_pipe_is_quiet": 2,
    "tests/unit/cli/test_output.py::test_poor_encodings_get_escapes": 1,
    "tests/unit/cli/test_output.py::test_streams_that_fail": 1,
    "tests/unit/cuda/test_launch_checks.py::test_no_shape_is_launched_that_was_not_diagnosed": 4,
    "tests/unit/cuda/test_ptxas_hazards.py::test_nothing_is_miscompiled_without_optimisation": 1,
    "tests/unit/cuda/test_ptxas_hazards.py::test_the_remedy_removes_the_miscompile": 1,
    "tests/unit/cuda/test_resident_graphs.py::test_a_run_tells_what_its_parts_took_where_all_were_run_alike": 1,
    "tests/unit/cuda/test_tunable.py::test_more_parameters_than_the_driver_takes_are_refused": 0,
    "tests/unit/docs/test_decision_catalogue.py::test_the_generator_notices_and_mends": 0,
    "tests/unit/forms/test_json.py::test_every_value_replaced": 1,
    "tests/unit/forms/test_text.py::test_every_token_deleted_doubled_or_replaced": 1,
    "tests/unit/forms/test_versions.py::test_chains_have_no_depth": 3,
    "tests/unit/gallery/test_gallery.py::test_it_gives_the_independent_answer": 12,
    "tests/unit/gpu_runs/test_checksums.py::test_the_program_sums_what_was_recorded_over_a_whole_chunk": 1,
    "tests/unit/machine/test_emitted_programs.py::test_grid_barriers_inside_one_kernel": 0,
    "tests/unit/machine/test_emitted_programs.py::test_order_independent_programs_agree_under_every_schedule": 1,
    "tests/unit/machine/test_emitted_programs.py::test_other_forms_of_the_same_program_agree": 1,
    "tests/unit/machine/test_emitted_programs.py::test_racy_programs_are_caught": 0,
    "tests/unit/numerics/test_correct_rounding_record.py::test_a_checksum_by_the_numpy_evaluator": 0,
    "tests/unit/numerics/test_lanes.py::test_fma_on_every_triple_of_edges": 1,
    "tests/unit/numerics/test_narrow_arithmetic.py::test_a_slice_of_each_exhaustive_proof": 3,
    "tests/unit/numerics/test_narrow_arithmetic.py::test_every_square_root_is_rounded_once": 1,
    "tests/unit/numerics/test_narrow_arithmetic.py::test_pairs_with_results_next_to_a_midpoint_are_rounded_once": 3,
    "tests/unit/numerics/test_narrow_values.py::test_every_narrow_float_is_unpacked_exactly_and_packed_again": 1,
    "tests/unit/numerics/test_narrow_values.py::test_floats_are_rounded_as_the_definition_says": 0,
    "tests/unit/numerics/test_narrow_values.py::test_integers_keep_their_low_bits": 2,
    "tests/unit/numerics/test_narrow_values.py::test_lanes_follow_the_rules_of_one_lane": 5,
    "tests/unit/numerics/test_transcendentals.py::test_both_evaluators_agree": 3,
    "tests/unit/policies/test_paired_race.py::test_races_without_a_gain_are_seldom_called": 1,
    "tests/unit/policies/test_successive_halving.py::test_noise_wins_no_more_often_than_stated": 0,
    "tests/unit/policies/test_thresholds.py::test_every_default_of_a_module_is_seen": 3,
    "tests/unit/policies/test_who_asks.py::test_a_decision_that_loses_its_last_caller_is_seen": 0,
    "tests/unit/policies/test_workgroup_candidates.py::test_no_rich_program_is_changed_by_a_candidate": 0,
    "tests/unit/policies/test_workgroup_candidates.py::test_whatever_is_a_candidate_gives_the_same_bytes": 0,
    "tests/unit/ptx/test_text.py::test_no_forbidden_instruction_is_written": 0,
    "tests/unit/reference/test_races.py::test_long_lists_end": 0,
    "tests/unit/reference/test_races.py::test_programs_that_depend_on_the_schedule_have_races": 0,
    "tests/unit/reference/test_races.py::test_the_tracer_finds_what_the_definition_finds": 0,
    "tests/unit/test_eviction_study.py::test_the_numbers_hold_in_short": 0,
    "tests/unit/test_eviction_study.py::test_the_record_is_of_this_code": 0,
    "tests/unit/test_prediction_study.py::test_the_numbers_hold_and_are_those_of_the_record": 1,
    "tests/unit/test_program_size.py::test_no_phase_takes_more_than_linear_steps": 4,
    "tests/unit/test_regret.py::test_the_limits_hold_in_short": 1,
    "tests/unit/test_tiers.py::test_the_last_line_says_what_was_left_and_the_one_before_what_passed": 1,
    "tests/unit/validation/test_flow_soundness.py::test_a_plan_does_what_the_program_does": 0,
    "tests/unit/validation/test_flow_soundness.py::test_accepted_barriers_are_reached_by_all_lanes_or_none": 0,
    "tests/unit/validation/test_flow_soundness.py::test_accepted_copies_are_paired": 0,
    "tests/unit/vector/test_flow.py::test_shared_expressions": 0,
}
"""Tests of which one case takes seconds, and how many of their cases stay."""


class Named(Protocol):
    """A test with its arguments."""

    @property
    def nodeid(self) -> str: ...
    def get_closest_marker(self, name: str, /) -> object | None: ...


Item = TypeVar("Item", bound=Named)


def quick_part(items: Sequence[Item]) -> list[Item]:
    """The tests that stay, in their order."""
    names: defaultdict[str, list[str]] = defaultdict(list)
    for item in items:
        if not any(item.get_closest_marker(mark) for mark in MARKS):
            names[item.nodeid.partition("[")[0]].append(item.nodeid)
    kept = {case for name, cases in names.items() for case in chosen(cases, COSTLY.get(name))}
    return [item for item in items if item.nodeid in kept]


def chosen(names: Iterable[str], most: int | None = None) -> list[str]:
    """Names of the cases of one test that stay: which ones depends on the names alone.  ``most``: so many."""
    ranked = sorted(names, key=_digest)
    return ranked[: CASES + max(0, len(ranked) - CASES) // SHARE if most is None else most]


def _digest(name: str) -> bytes:
    return blake2b(name.encode(), digest_size=16).digest()
