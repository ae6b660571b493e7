"""What may run at the same time, and what must stay in order."""
