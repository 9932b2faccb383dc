"""Assertions: what a test demands of an answer, and how far the answer meets it. PURE."""
