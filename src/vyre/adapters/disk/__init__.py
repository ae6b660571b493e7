"""Compiled artifacts in a directory that processes share; ``docs/caches.md`` states its guarantees."""
