"""Decisions that only the CUDA adapter needs: which target to write for, and which miscompiles to write around."""
