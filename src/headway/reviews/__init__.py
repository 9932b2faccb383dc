"""Reviews: each file of a tree is judged by models, on several axes, and what they find is checked against the file."""
