"""The results of reviews as files: a review for each file, and what an earlier report knows."""
