"""Decisions about frontier analyses of graphs: kernel shape, order of the waves, memory, and fixed points."""
