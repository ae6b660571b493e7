"""The facets of the native CPU backend."""
