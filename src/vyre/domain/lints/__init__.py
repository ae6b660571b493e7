"""Notes on valid programs: what is legal and hardly meant."""
