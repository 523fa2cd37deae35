"""Measurements of dmlcpu; ``python -m bench --help`` lists them."""
