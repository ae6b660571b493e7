"""Data-flow analysis of programs, shared by all code generators: uniformity, indices, bounds proofs, zeroing."""
