"""The tables of every feature level, against the tables of DirectML's documents."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from dmlcpu.descs.operator_desc import OperatorDesc
from dmlcpu.enums import FeatureLevel, OperatorType, TensorDataType
from dmlcpu.errors import UnsupportedFeatureLevelError
from dmlcpu.feature_levels import DELIBERATE_REFUSALS, OPERATORS
from dmlcpu.schema import Check, FieldKind, OperatorSchema
from dmlcpu.validation import is_data_type_supported, validate
from operator_samples import (
    ADD,
    BLOCK_DEQUANTIZE,
    BLOCK_QUANTIZE,
    CONVOLUTION,
    DEQUANTIZE,
    DYNAMIC,
    POOLING,
    QUANTIZE,
    SAMPLES,
    changed,
    tensor,
)
from operator_samples.sample import OperatorSample


def documented_row(sample: OperatorSample, level: FeatureLevel) -> Iterator[tuple[set[str], int, int, bool]]:
    row = sample.rows[max(first for first in sample.rows if first <= level)]
    for column in row.split("|"):
        words = column.split()
        optional = words[-1] == "?"
        *data_types, ranks = words[:-1] if optional else words
        lowest, highest = ranks.split("-")
        yield set(data_types), int(lowest), int(highest), optional


@pytest.mark.parametrize(
    ("operator", "level"),
    [(operator, level) for operator, sample in SAMPLES.items() for level in FeatureLevel if level >= sample.introduced],
    ids=lambda parameter: parameter.name,
)
def test_tables_are_the_documents(operator: OperatorType, level: FeatureLevel) -> None:
    schema = OPERATORS[operator]
    assert schema.introduced is SAMPLES[operator].introduced
    supports = [field.support_at(level) for field in schema.tensors]
    given = [
        ({data_type.name for data_type in s.data_types}, s.lowest_rank, s.highest_rank, s.optional) for s in supports
    ]
    assert given == list(documented_row(SAMPLES[operator], level))


@pytest.mark.parametrize("schema", OPERATORS.values(), ids=lambda schema: schema.operator_type.name)
def test_histories_lead_back_to_the_operator_s_first_level_and_only_ever_allowed_less(schema: OperatorSchema) -> None:
    for field in schema.fields:
        assert bool(field.history) == (field.kind in (FieldKind.INPUT, FieldKind.OUTPUT))
        levels = [support.since for support in field.history]
        assert levels == sorted(set(levels), reverse=True)
        assert levels[-1:] in ([], [schema.introduced])
        for newer, older in zip(field.history, field.history[1:], strict=False):
            assert set(older.data_types) <= set(newer.data_types)
            assert newer.lowest_rank <= older.lowest_rank <= older.highest_rank <= newer.highest_rank
            assert newer.optional or not older.optional


def names_in(record: Any) -> Iterator[str]:
    """Every field that a rule names, in whatever it is nested."""
    if isinstance(record, str):
        yield record
    elif isinstance(record, tuple):
        for entry in record:
            yield from names_in(entry)
    elif hasattr(record, "__dataclass_fields__"):
        for name in record.__dataclass_fields__:
            yield from names_in(getattr(record, name))


@pytest.mark.parametrize("schema", OPERATORS.values(), ids=lambda schema: schema.operator_type.name)
def test_rules_name_fields_of_the_desc(schema: OperatorSchema) -> None:
    fields = {field.name for field in schema.fields}
    for rule in schema.rules:
        names = set(names_in(rule))
        assert names
        assert names <= fields


def test_each_deliberate_refusal_is_of_a_kind_of_its_own_and_has_a_reason() -> None:
    checks = [refusal.check for refusal in DELIBERATE_REFUSALS]
    assert checks == [
        Check.PRESENCE,
        Check.DIMENSION_COUNT,
        Check.FORM,
        Check.PARAMETER_SIZES,
        Check.BOOLEAN,
        Check.STEPS,
        Check.WINDOW,
        Check.OUTPUT_SIZES,
        Check.SCALE_DATA_TYPE,
        Check.OUTPUT_ADDRESSES,
    ]
    for refusal in DELIBERATE_REFUSALS:
        assert refusal.recorded
        assert refusal.reason
        for operator, names in refusal.fields.items():
            assert set(names) <= {field.name for field in OPERATORS[operator].fields}


def quantized_in(name: str) -> dict[str, Any]:
    return dict.fromkeys(("input_tensor", "zero_point_tensor"), tensor(name, 2, 3, 4, 5))


def of_rank(desc: OperatorDesc, rank: int) -> OperatorDesc:
    """The same element-wise desc with packed tensors of another dimension count."""
    tensors = {field.name: getattr(desc, field.name) for field in OPERATORS[desc.operator_type].tensors}
    return changed(desc, **{name: tensor(t.data_type.name, *(2,) * rank) for name, t in tensors.items()})


# Each desc, the lowest level that accepts it, and the field that is refused below, None where the operator is.
FIRST_ACCEPTED: dict[str, tuple[OperatorDesc, str, str | None]] = {
    "quantize": (QUANTIZE, "1_0", None),
    "quantize of INT32": (changed(QUANTIZE, input_tensor=tensor("INT32", 2, 3, 4, 5)), "2_1", "input_tensor"),
    "quantize to INT8": (
        changed(QUANTIZE, zero_point_tensor=tensor("INT8", 2, 3, 4, 5), output_tensor=tensor("INT8", 2, 3, 4, 5)),
        "2_1",
        "zero_point_tensor",
    ),
    "quantize in 1 dimension": (of_rank(QUANTIZE, 1), "3_0", "input_tensor"),
    "quantize in 3 dimensions": (of_rank(QUANTIZE, 3), "3_0", "input_tensor"),
    "quantize in 5 dimensions": (of_rank(QUANTIZE, 5), "3_0", "input_tensor"),
    "quantize in 8 dimensions": (of_rank(QUANTIZE, 8), "3_0", "input_tensor"),
    "quantize of FLOAT16": (
        changed(QUANTIZE, input_tensor=tensor("FLOAT16", 2, 3, 4, 5), scale_tensor=tensor("FLOAT16", 2, 3, 4, 5)),
        "6_0",
        "input_tensor",
    ),
    "quantize without zero point": (changed(QUANTIZE, zero_point_tensor=None), "6_2", "zero_point_tensor"),
    "dequantize": (DEQUANTIZE, "1_0", None),
    **{
        f"dequantize of {name}": (changed(DEQUANTIZE, **quantized_in(name)), "2_1", "input_tensor")
        for name in ("INT32", "INT16", "INT8", "UINT32", "UINT16")
    },
    "dequantize in 2 dimensions": (of_rank(DEQUANTIZE, 2), "3_0", "input_tensor"),
    "dequantize in 8 dimensions": (of_rank(DEQUANTIZE, 8), "3_0", "input_tensor"),
    "dequantize to FLOAT16": (
        changed(DEQUANTIZE, scale_tensor=tensor("FLOAT16", 2, 3, 4, 5), output_tensor=tensor("FLOAT16", 2, 3, 4, 5)),
        "6_0",
        "scale_tensor",
    ),
    "dequantize without zero point": (changed(DEQUANTIZE, zero_point_tensor=None), "6_2", "zero_point_tensor"),
    "add": (ADD, "4_0", None),
    "dynamic quantize": (DYNAMIC, "4_0", None),
    "block-wise quantize": (BLOCK_QUANTIZE, "6_3", None),
    "block-wise dequantize": (BLOCK_DEQUANTIZE, "6_3", None),
    "convolution": (CONVOLUTION, "2_1", None),
    "convolution in 1 dimension": (
        changed(
            CONVOLUTION,
            input_tensor=tensor("UINT8", 1, 6, 9),
            filter_tensor=tensor("INT8", 4, 3, 3),
            output_tensor=tensor("UINT8", 1, 4, 5),
        ),
        "4_0",
        "input_tensor",
    ),
    "convolution with an input scale of 1 dimension": (
        changed(CONVOLUTION, input_scale_tensor=tensor("FLOAT32", 1), input_zero_point_tensor=None),
        "4_0",
        "input_scale_tensor",
    ),
    "convolution with a bias of 3 dimensions": (
        changed(CONVOLUTION, bias_tensor=tensor("INT32", 1, 4, 1)),
        "4_0",
        "bias_tensor",
    ),
    "convolution with an output scale of 2 dimensions": (
        changed(CONVOLUTION, output_scale_tensor=tensor("FLOAT32", 1, 1), output_zero_point_tensor=None),
        "4_0",
        "output_scale_tensor",
    ),
    "convolution with a filter scale of 3 dimensions": (
        changed(
            CONVOLUTION,
            filter_scale_tensor=tensor("FLOAT32", 1, 4, 1),
            filter_zero_point_tensor=tensor("INT8", 1, 4, 1),
        ),
        "4_0",
        "filter_scale_tensor",
    ),
    "convolution with a filter scale of 2 dimensions": (
        changed(
            CONVOLUTION, filter_scale_tensor=tensor("FLOAT32", 1, 4), filter_zero_point_tensor=tensor("INT8", 1, 4)
        ),
        "5_2",
        "filter_scale_tensor",
    ),
    "convolution with a filter scale of 1 dimension": (
        changed(CONVOLUTION, filter_scale_tensor=tensor("FLOAT32", 1), filter_zero_point_tensor=None),
        "5_2",
        "filter_scale_tensor",
    ),
    "average pooling": (POOLING, "6_2", None),
}


@pytest.mark.parametrize("level", FeatureLevel, ids=lambda level: level.name)
@pytest.mark.parametrize(("desc", "first", "field"), FIRST_ACCEPTED.values(), ids=FIRST_ACCEPTED)
def test_a_desc_is_accepted_from_its_level_on(
    desc: OperatorDesc, first: str, field: str | None, level: FeatureLevel
) -> None:
    required = FeatureLevel[f"LEVEL_{first}"]
    if level >= required:
        validate(desc, level)
        return
    with pytest.raises(UnsupportedFeatureLevelError) as caught:
        validate(desc, level)
    assert caught.value.operator is desc.operator_type
    assert caught.value.field == (field if level >= SAMPLES[desc.operator_type].introduced else None)
    assert caught.value.required_level is required


@pytest.mark.parametrize(
    ("level", "field", "message"),
    [
        (
            FeatureLevel.LEVEL_1_0,
            "input_tensor",
            "ELEMENT_WISE_QUANTIZE_LINEAR: input_tensor: got data type INT32, expected FLOAT32 at LEVEL_1_0; "
            "LEVEL_6_2 accepts this desc",
        ),
        (
            FeatureLevel.LEVEL_2_1,
            "input_tensor",
            "ELEMENT_WISE_QUANTIZE_LINEAR: input_tensor: got dimension count 2, expected 4 at LEVEL_2_1; "
            "LEVEL_6_2 accepts this desc",
        ),
        (
            FeatureLevel.LEVEL_6_1,
            "zero_point_tensor",
            "ELEMENT_WISE_QUANTIZE_LINEAR: zero_point_tensor: got None, expected a TensorDesc at LEVEL_6_1; "
            "LEVEL_6_2 accepts this desc",
        ),
    ],
)
def test_the_required_level_is_that_of_the_whole_desc(level: FeatureLevel, field: str, message: str) -> None:
    desc = changed(
        QUANTIZE,
        input_tensor=tensor("INT32", 2, 3),
        scale_tensor=tensor("FLOAT32", 2, 3),
        zero_point_tensor=None,
        output_tensor=tensor("UINT8", 2, 3),
    )
    with pytest.raises(UnsupportedFeatureLevelError) as caught:
        validate(desc, level)
    assert caught.value.field == field
    assert caught.value.required_level is FeatureLevel.LEVEL_6_2
    assert str(caught.value) == message


def test_an_operator_newer_than_the_level_is_named_as_such() -> None:
    desc = changed(CONVOLUTION, filter_scale_tensor=tensor("FLOAT32", 1), filter_zero_point_tensor=None)
    with pytest.raises(UnsupportedFeatureLevelError) as caught:
        validate(desc, FeatureLevel.LEVEL_2_0)
    assert str(caught.value) == (
        "QUANTIZED_LINEAR_CONVOLUTION: got LEVEL_2_0, expected LEVEL_2_1, which introduced the operator; "
        "LEVEL_5_2 accepts this desc"
    )


@pytest.mark.parametrize(
    ("level", "names"),
    [
        ("1_0", "FLOAT32 UINT8"),
        ("2_0", "FLOAT32 UINT8"),
        ("2_1", "FLOAT32 UINT32 UINT16 UINT8 INT32 INT16 INT8"),
        ("3_1", "FLOAT32 UINT32 UINT16 UINT8 INT32 INT16 INT8"),
        ("4_0", "FLOAT32 FLOAT16 UINT32 UINT16 UINT8 INT32 INT16 INT8"),
        ("6_2", "FLOAT32 FLOAT16 UINT32 UINT16 UINT8 INT32 INT16 INT8"),
        ("6_3", "FLOAT32 FLOAT16 UINT32 UINT16 UINT8 INT32 INT16 INT8 UINT4 INT4"),
    ],
)
def test_is_data_type_supported(level: str, names: str) -> None:
    supported = {
        data_type.name
        for data_type in TensorDataType
        if is_data_type_supported(FeatureLevel[f"LEVEL_{level}"], data_type)
    }
    assert supported == set(names.split())
    assert not is_data_type_supported(FeatureLevel.LEVEL_6_4, 99)  # type: ignore[arg-type]
