"""One function for each operator, on numpy arrays.

Each call describes its arrays, creates and compiles the operator (the last few hundred are kept) and dispatches it.
What a device refuses, it refuses here with the same exceptions. Called on an expression (``GraphBuilder``), a function
adds a node to the expression's graph and returns expressions; its other arrays become constants.
"""
