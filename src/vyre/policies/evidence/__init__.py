"""What may be claimed from measurements."""
