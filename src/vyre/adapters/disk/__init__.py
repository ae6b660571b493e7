"""Compiled artifacts in a directory that processes share; ``docs/caches.md`` says what it guarantees."""
