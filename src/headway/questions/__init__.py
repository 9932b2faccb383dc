"""Requests without an input file: one question of `headway ask`, and the rows of `headway.frame`."""
