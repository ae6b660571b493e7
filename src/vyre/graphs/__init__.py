"""Graphs on a device: their columns, the kernels that run over them, and what a session makes of both."""
