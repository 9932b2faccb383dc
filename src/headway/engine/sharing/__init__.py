"""Lanes and open files that several runs use at the same time."""
