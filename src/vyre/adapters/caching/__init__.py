"""Caches of values that are expensive to build."""
