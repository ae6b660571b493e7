"""The reference backends: a scalar oracle and a vectorised engine, on NumPy."""
