"""Copies of many arrays at once: joined where they touch, and packed on the device where that costs less."""
