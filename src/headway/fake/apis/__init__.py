"""The APIs that the fake provider speaks, one file each, and the errors of each vendor."""
