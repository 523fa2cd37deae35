"""Means, sums, extremes and their places, along axes."""
