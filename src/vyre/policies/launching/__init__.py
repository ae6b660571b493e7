"""Decisions about launching: plainly, by replay, resident or fused, and with which parameters."""
