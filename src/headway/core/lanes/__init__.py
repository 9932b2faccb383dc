"""One lane: its limits as meters, what it may have in flight, and what it learns from answers. PURE."""
