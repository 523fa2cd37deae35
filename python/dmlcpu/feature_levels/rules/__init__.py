"""The relations between fields that operator tables are made of: each a record of field names that can check itself.

Rules see only well-formed values: every size at least 1, every number within 32 bits, every tensor of a data type and
a dimension count that its table allows.
"""
