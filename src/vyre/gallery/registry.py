"""The registry of all examples of the gallery, by name."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from typing import Final

from vyre.gallery import basics
from vyre.gallery.example import Example

BASICS: Final = tuple(sorted(module.name for module in iter_modules(basics.__path__)))
"""In reading order, which their numbers tell."""
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
