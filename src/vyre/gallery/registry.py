"""The registry of all examples of the gallery, by name."""

from __future__ import annotations

from importlib import import_module
from typing import Final

from vyre.gallery.example import Example

BASICS: Final = (
    "p01_saxpy",
    "p02_shift",
    "p03_tree_reduction",
    "p04_histogram",
    "p05_scan",
    "p06_dfa",
    "p07_bfs_step",
    "p08_bitonic_step",
    "p09_bitonic_sort",
    "p10_matmul",
    "p11_stencil",
    "p12_popcount",
    "p13_fnv",
    "p14_blake3_block",
    "p15_u32_edges",
    "p16_f32_edges",
    "p17_quantise",
    "p18_mandelbrot",
    "p19_softmax",
    "p20_label_propagation",
    "p21_compaction",
    "p22_transpose",
    "p23_subgroups",
    "p24_grid_sync",
    "p25_async_copy",
    "p26_scopes",
)
APPLICATIONS: Final = (
    "dfa_scan",
    "byte_histogram",
    "word_count",
    "blake3_chunks",
    "bfs",
    "components",
    "spmv",
    "prefix_scan",
    "bitonic_sort",
    "tiled_matmul",
    "sobel",
    "mandelbrot",
    "game_of_life",
    "softmax",
    "stack_machine",
    "row_quicksort",
    "half_matmul",
    "blur",
    "utf8_decode",
    "frontier_bfs",
    "task_tree",
    "pagerank",
    "reachability",
    "dominators",
)
MODULES: Final = (*(f"basics.{name}" for name in BASICS), *(f"applications.{name}" for name in APPLICATIONS))


def load(module: str) -> Example:
    """Returns the example of one of ``MODULES``."""
    example = import_module(f"vyre.gallery.{module}").EXAMPLE
    assert isinstance(example, Example)
    return example


def examples() -> dict[str, Example]:
    """Returns all examples by name, in reading order."""
    return {example.name: example for example in map(load, MODULES)}
