"""How work is launched: plainly, replayed, kept resident or fused, and with which parameters."""
