"""The vectorised engine: whole chunks of workgroups as NumPy lanes."""
