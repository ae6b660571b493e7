"""Equality saturation: many equal forms of one expression at once, and the cheapest of them."""
