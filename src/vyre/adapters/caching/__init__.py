"""Caches of what is expensive to build."""
