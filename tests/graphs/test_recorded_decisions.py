"""What is accepted and refused, against the record of what DirectML.dll accepted and refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from dmlcpu.descs.operator_desc import OperatorDesc
from dmlcpu.device import Device
from dmlcpu.errors import InvalidDescError
from dmlcpu.feature_levels import DELIBERATE_REFUSALS, OPERATORS
from dmlcpu.schema import HIGHEST_FEATURE_LEVEL, Check
from dmlcpu.validation import find_violation, validate
from operator_samples import SAMPLES
from operator_samples.sample import OperatorSample
from recorded_descs import recorded

each_sample = pytest.mark.parametrize("sample", SAMPLES.values(), ids=lambda sample: sample.operator.name)


@each_sample
def test_decisions_are_those_of_directml_but_for_the_deliberate_refusals(sample: OperatorSample) -> None:
    decided = [(desc, accepted) for desc, accepted in recorded() if desc.operator_type is sample.operator]
    assert len(decided) == sample.recording.count
    refused_only_here: Counter[Check] = Counter()
    for desc, accepted in decided:
        violation = find_violation(desc)
        if not accepted:
            assert violation is not None, desc
        elif violation is not None:
            refused_only_here[violation.check] += 1
            listed = [refusal for refusal in DELIBERATE_REFUSALS if refusal.check is violation.check]
            assert [violation.field in refusal.fields[sample.operator] for refusal in listed] == [True], desc
    assert refused_only_here == sample.recording.refused_only_here


# What the fields look like that DirectML.dll stumbles over: absent, of more dimensions than the input, or empty.
CAUSES_OF_FAULTS: dict[Check, Callable[[Any, Any], bool]] = {
    Check.PRESENCE: lambda desc, value: value is None,
    Check.DIMENSION_COUNT: lambda desc, value: value and len(value.sizes) > len(desc.input_tensor.sizes),
    Check.FORM: lambda desc, value: value and 0 in value.sizes,
}


def is_listed(desc: OperatorDesc, check: Check, condition: Callable[[Any, Any], bool]) -> bool:
    """Whether the condition holds for a field that the deliberate refusal of this check lists."""
    [refusal] = [refusal for refusal in DELIBERATE_REFUSALS if refusal.check is check]
    fields_ = {field.name: field for field in OPERATORS[desc.operator_type].fields}
    names = refusal.fields.get(desc.operator_type, ())
    return any(condition(desc, fields_[name].value_in(desc)) for name in names)


@each_sample
def test_where_directml_faults_a_listed_field_is_absent_or_cuts_no_blocks(sample: OperatorSample) -> None:
    faults = [desc for desc, accepted in recorded() if accepted is None and desc.operator_type is sample.operator]
    assert len(faults) == sample.recording.faults
    for desc in faults:
        assert any(is_listed(desc, check, condition) for check, condition in CAUSES_OF_FAULTS.items())
        with pytest.raises(InvalidDescError):
            validate(desc, HIGHEST_FEATURE_LEVEL)


def test_devices_create_and_compile_what_is_accepted(device: Device) -> None:
    """No plan refuses what the rules accept; nothing is created of what they refuse."""
    for desc, _ in recorded():
        if find_violation(desc) is None:
            assert device.compile_operator(device.create_operator(desc)).desc == desc
        else:
            with pytest.raises(InvalidDescError):
                device.create_operator(desc)
