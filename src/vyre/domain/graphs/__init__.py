"""Graphs as flat arrays that a device can walk: token/fact graphs and e-graphs."""
