"""Which kernels and pipeline stages become one launch."""
