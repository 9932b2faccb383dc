"""Evals: `headway eval` beside the real promptfoo, and 2,000 cells over three lanes."""
