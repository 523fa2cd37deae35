"""One function for each operator, on numpy arrays.

Each call describes its arrays, creates and compiles the operator (the last few hundred are kept) and dispatches it.
What a device refuses, it refuses here with the same exceptions.
"""
