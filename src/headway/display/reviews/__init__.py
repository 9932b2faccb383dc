"""What a review found: files by suffix, and lines on the terminal."""
