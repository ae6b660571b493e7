"""Measurements: ``python -m benchmarks`` times vyre beside the alternative, both sides in one run."""
