"""Launch plans of e-graph kernels, and the extraction of terms."""
