"""Decisions about e-graphs: launch plans of their kernels, and the extraction of terms."""
