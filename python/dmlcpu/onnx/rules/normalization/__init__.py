"""Softmax and normalizations, also where models fuse them with what is before them."""
