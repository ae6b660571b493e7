"""What a device can run: ranking of backends, occupancy, subgroups."""
