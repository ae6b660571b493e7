"""Decisions of the native CPU backend: vector width, private copies of atomics, compile pipeline and threads."""
