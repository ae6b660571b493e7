"""The registry of dialects, and the checks of what dialects claim."""
