"""What is likely to come next, and whether to prepare for it or bet on it."""
