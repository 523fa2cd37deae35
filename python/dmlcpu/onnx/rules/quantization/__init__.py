"""Codes made of floats, and floats of codes: of 8 bits, and of other types that no kernel has."""
