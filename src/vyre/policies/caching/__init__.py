"""Decisions about caches: which entries to keep, which to evict, and what a change invalidates."""
