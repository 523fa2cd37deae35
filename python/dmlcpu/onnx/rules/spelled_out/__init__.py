"""Normalizations, GELU, SiLU, HardSwish and rotations where models spell them out, node by node.

Each node on the way is kept as a step (``steps``), from the first ones (``first_steps``) on. The last one is the
function itself.
"""
