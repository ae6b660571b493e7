"""What to measure, and when one candidate is faster for sure."""
