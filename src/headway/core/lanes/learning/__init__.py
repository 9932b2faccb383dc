"""What a lane finds out by itself: an unknown rate, limits that refusals disprove, reports that cannot be true, other clients."""
