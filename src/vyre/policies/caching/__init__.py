"""What a cache keeps, what it drops, and what a change invalidates."""
