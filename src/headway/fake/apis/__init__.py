"""The APIs of the vendors: one file each."""
