"""Random valid programs with inputs, the same for a seed everywhere: what backends are compared with."""
