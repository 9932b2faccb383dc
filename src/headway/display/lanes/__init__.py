"""Lanes as rows of a terminal: their order, their figures, and how near to its limit each was in the last seconds."""
