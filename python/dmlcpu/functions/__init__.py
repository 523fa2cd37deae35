"""One function for each operator, on numpy arrays.

A call describes its arrays, creates and compiles the operator and dispatches it; one that comes again, with arrays of
the same types, shapes and strides, and the same numbers, is dispatched at once (``operator_function``).
What a device refuses, it refuses here with the same exceptions. Called on an expression (``GraphBuilder``), a function
adds a node to the expression's graph and returns expressions; its other arrays become constants.
"""
