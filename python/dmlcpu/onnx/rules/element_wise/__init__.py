"""Functions of elements, on codes, floats, integers and conditions."""
