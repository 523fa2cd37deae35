"""Attention, as one node, and what goes with its heads."""
