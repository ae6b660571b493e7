"""Tuning: measuring the configs that may stand in for a declared one, and applying what was found, when asked to."""
