"""What is known of an eval, typed: rates with intervals, comparisons of columns, differences between two evals. Contains no wording."""
