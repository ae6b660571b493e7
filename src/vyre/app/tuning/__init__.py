"""Tuning: measures configs that may replace a declared one, stores the samples and applies winners on request."""
