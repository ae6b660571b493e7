"""Sequences: steps on resident memory, described once, and run in the mode that costs least or that was asked for."""
