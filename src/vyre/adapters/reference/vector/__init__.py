"""The vectorised engine: runs whole chunks of workgroups as NumPy lanes."""
