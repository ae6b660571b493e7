"""What stays on the device, and how copies between host and device are packed."""
