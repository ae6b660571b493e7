"""Device work queues: a program that runs once for each item, and may add items, becomes one that drains a queue."""
