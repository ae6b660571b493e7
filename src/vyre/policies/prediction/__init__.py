"""Decisions about prediction: which program is likely to come next, and whether to prepare for it."""
