"""Tuning: measures configs that may replace a declared one, stores the winners and applies them on request."""
