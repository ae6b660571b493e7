"""Decisions of the CPU backend: vector width, private copies of atomics, the effort of the compiler and threads."""
