"""Decisions about devices: the ranking of backends, occupancy, and subgroups."""
