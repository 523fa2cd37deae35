"""Products of matrices, and what becomes them."""
