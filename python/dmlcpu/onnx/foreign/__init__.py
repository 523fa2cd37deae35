"""Nodes without a kernel: which of them another runtime takes together, what their results are, and how they run."""
