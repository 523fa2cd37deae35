"""Nodes without a kernel: which of them other runtimes or functions of arrays take, what they make, and their runs."""
