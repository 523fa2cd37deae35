"""The operators' descs: one frozen dataclass for each ``DML_..._OPERATOR_DESC``, its fields in the same order.

Arguments are keywords. Constructors bring values to a canonical form (sequences become tuples, numpy's numbers become
integers) and check nothing; ``Device.create_operator`` does. An absent optional tensor is None; a required tensor
may be given as None too, and is refused there. ``DimensionCount`` is derived from the tensors and has no field.
"""
