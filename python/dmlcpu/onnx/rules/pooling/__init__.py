"""Averages and maxima of windows, and what is made of them."""
