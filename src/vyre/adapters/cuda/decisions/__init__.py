"""Decisions of the CUDA adapter: which PTX target to write for, and which miscompiles of its assembler to avoid."""
