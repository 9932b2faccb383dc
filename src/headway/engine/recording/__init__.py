"""What a run puts on record of its attempts, its lanes and its worker processes."""
