"""The one checker of operator descs: it knows the shape of the tables and no operator by name."""

from __future__ import annotations

from functools import lru_cache

from dmlcpu.descs.operator_desc import OperatorDesc
from dmlcpu.enums import FeatureLevel, TensorDataType
from dmlcpu.errors import InvalidDescError, UnsupportedFeatureLevelError
from dmlcpu.feature_levels import DELIBERATE_REFUSALS, OPERATORS
from dmlcpu.field_checks import read_fields, tensor_violation, unsupported_tensor
from dmlcpu.schema import HIGHEST_FEATURE_LEVEL, DescValues, OperatorSchema, TensorSupport, Violation
from dmlcpu.tensor import TensorDesc

__all__ = ["find_violation", "is_data_type_supported", "validate", "validate_graph_input"]


def validate(desc: OperatorDesc, feature_level: FeatureLevel) -> None:
    """Check everything there is to check about a desc before data is bound.

    Args:
        desc: Any operator's desc, with any values.
        feature_level: The level that the device presents.

    Raises:
        InvalidDescError: No feature level accepts the desc.
        UnsupportedFeatureLevelError: A higher level accepts it; ``required_level`` is the lowest that does.
        TypeError: It is not an operator's desc.
        ValueError: There is no such feature level.

    >>> from dmlcpu.descs.element_wise import ElementWiseDequantizeLinearOperatorDesc
    >>> desc = ElementWiseDequantizeLinearOperatorDesc(
    ...     input_tensor=TensorDesc(TensorDataType.INT8, (4, 5)),
    ...     scale_tensor=None,
    ...     output_tensor=TensorDesc(TensorDataType.FLOAT32, (4, 5)))
    >>> validate(desc, FeatureLevel.LEVEL_6_4)
    Traceback (most recent call last):
    dmlcpu.errors.InvalidDescError: ELEMENT_WISE_DEQUANTIZE_LINEAR: scale_tensor: got None, expected a TensorDesc
    """
    schema = _schema_of(desc)
    level = FeatureLevel(feature_level)
    found = _examine(desc, schema)
    if isinstance(found, Violation):
        message = f"{schema.operator_type.name}: {found.field}: {_wording(found)}{_reason(schema, found)}"
        raise InvalidDescError(message, schema.operator_type, found.field)
    if level < HIGHEST_FEATURE_LEVEL and not _is_accepted(found, schema, level):
        raise _unsupported(found, schema, level)


def validate_graph_input(name: str, tensor: TensorDesc) -> None:
    """Check what holds of every operator's input, whatever the operator, of an input of a graph.

    Args:
        name: Its binding.
        tensor: Its desc.

    Raises:
        InvalidDescError: No operator of any feature level takes such a tensor.

    >>> validate_graph_input("input_0", TensorDesc(TensorDataType.UINT8, (1,) * 9))
    Traceback (most recent call last):
    dmlcpu.errors.InvalidDescError: graph: input_0: got dimension count 9, expected 1 to 8
    """
    data_types = tuple(sorted(_data_types_at(HIGHEST_FEATURE_LEVEL)))
    violation = tensor_violation(name, tensor, TensorSupport(HIGHEST_FEATURE_LEVEL, data_types, 1, 8), is_output=False)
    if violation is not None:
        raise InvalidDescError(f"graph: {name}: {_wording(violation)}", None, name)


def find_violation(desc: OperatorDesc) -> Violation | None:
    """Return the first reason why the highest feature level refuses a desc, or None if it accepts it.

    Raises:
        TypeError: It is not an operator's desc.
    """
    found = _examine(desc, _schema_of(desc))
    return found if isinstance(found, Violation) else None


def is_data_type_supported(feature_level: FeatureLevel, data_type: TensorDataType) -> bool:
    """Return whether some operator of a feature level takes or gives tensors of a data type.

    >>> is_data_type_supported(FeatureLevel.LEVEL_1_0, TensorDataType.UINT8)
    True
    >>> is_data_type_supported(FeatureLevel.LEVEL_1_0, TensorDataType.INT8)
    False
    """
    return data_type in _data_types_at(FeatureLevel(feature_level))


@lru_cache
def _data_types_at(level: FeatureLevel) -> frozenset[TensorDataType]:
    schemas = (schema for schema in OPERATORS.values() if schema.introduced <= level)
    fields = (field for schema in schemas for field in schema.tensors)
    return frozenset(data_type for field in fields for data_type in field.support_at(level).data_types)


def _schema_of(desc: OperatorDesc) -> OperatorSchema:
    if not isinstance(desc, OperatorDesc) or desc.operator_type not in OPERATORS:
        raise TypeError(f"expected an operator's desc, got an object of type {type(desc).__name__}")
    return OPERATORS[desc.operator_type]


def _examine(desc: OperatorDesc, schema: OperatorSchema) -> DescValues | Violation:
    """Check a desc at the highest level; return its values if it is accepted."""
    values = read_fields(desc, schema)
    if isinstance(values, DescValues):
        for rule in schema.rules:
            violation = rule.violation(values)
            if violation is not None:
                return violation
    return values


def _first_unsupported(values: DescValues, schema: OperatorSchema, level: FeatureLevel) -> Violation | None:
    """Return the first tensor that a level's table does not allow; the level has the operator."""
    for field in schema.tensors:
        violation = unsupported_tensor(field.name, values.tensors.get(field.name), field.support_at(level))
        if violation is not None:
            return violation
    return None


def _is_accepted(values: DescValues, schema: OperatorSchema, level: FeatureLevel) -> bool:
    return level >= schema.introduced and _first_unsupported(values, schema, level) is None


def _unsupported(values: DescValues, schema: OperatorSchema, level: FeatureLevel) -> UnsupportedFeatureLevelError:
    """Return the error for a desc that the highest level accepts and this one does not."""
    required = next(higher for higher in FeatureLevel if _is_accepted(values, schema, higher))
    violation = _first_unsupported(values, schema, level) if level >= schema.introduced else None
    if violation is None:
        what, field = f"got {level.name}, expected {schema.introduced.name}, which introduced the operator", None
    else:
        what, field = f"{violation.field}: {_wording(violation)} at {level.name}", violation.field
    message = f"{schema.operator_type.name}: {what}; {required.name} accepts this desc"
    return UnsupportedFeatureLevelError(message, schema.operator_type, field, required)


def _wording(violation: Violation) -> str:
    return f"got {violation.got}, expected {violation.expected}"


def _reason(schema: OperatorSchema, violation: Violation) -> str:
    """Say why, where the refusal is our own."""
    for refusal in DELIBERATE_REFUSALS:
        if refusal.check is violation.check and violation.field in refusal.fields.get(schema.operator_type, ()):
            return f" ({refusal.reason})"
    return ""
