"""Devices, and the operators that they create and compile."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
from dataclasses import FrozenInstanceError
from typing import Any

import numpy as np
import pytest

import dmlcpu
from bound_arrays import compiled, dispatched, random_inputs, same_bits, tensors_of
from dmlcpu import DmlError, ExecutionFlags, FeatureLevel, TensorDataType
from instruction_sets import ISAS
from operator_samples import CONVOLUTION, DYNAMIC, QUANTIZE, VALID_DESCS, changed, tensor

LEVELS = tuple(FeatureLevel)

pytestmark = pytest.mark.usefixtures("no_environment")


def test_defaults() -> None:
    device = dmlcpu.Device()
    assert device.feature_level is FeatureLevel.LEVEL_6_4
    assert device.isa == dmlcpu.available_isas()[-1]
    assert 1 <= device.num_threads <= os.cpu_count()


def test_devices_are_equal_to_devices_alone() -> None:
    device = dmlcpu.Device(num_threads=1)
    assert device == dmlcpu.Device(num_threads=1) != dmlcpu.Device(num_threads=2)
    assert device != "a device"


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinity on this system")
def test_default_threads_are_those_of_the_affinity() -> None:
    script = "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}); import dmlcpu; print(dmlcpu.Device())"
    output = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    ).stdout
    assert "num_threads=1," in output


@pytest.mark.parametrize("level", LEVELS, ids=lambda level: level.name)
def test_every_feature_level_is_presented(level: FeatureLevel) -> None:
    assert dmlcpu.Device(level).feature_level is level
    assert dmlcpu.Device(feature_level=int(level)).feature_level is level  # type: ignore[arg-type]


@pytest.mark.parametrize("level", [0, 0x6500, -1, "LEVEL_6_4", None, [], np.nan, pytest.param(10**5000, id="long")])
def test_unknown_feature_levels(level: Any) -> None:
    with pytest.raises(dmlcpu.UnsupportedFeatureLevelError, match="LEVEL_1_0 to LEVEL_6_4") as raised:
        dmlcpu.Device(level)
    assert (raised.value.operator, raised.value.field, raised.value.required_level) == (None, None, None)


def test_a_feature_level_without_a_repr() -> None:
    class Unprintable:
        def __repr__(self) -> str:
            raise RuntimeError("no repr")

    with pytest.raises(dmlcpu.UnsupportedFeatureLevelError, match="feature_level=an object of type Unprintable; "):
        dmlcpu.Device(Unprintable())  # type: ignore[arg-type]


def test_properties_are_read_only() -> None:
    device = dmlcpu.Device()
    for name in ("feature_level", "num_threads", "isa"):
        with pytest.raises(AttributeError):
            setattr(device, name, getattr(device, name))


# --- instruction sets -------------------------------------------------------------------------------------------


def test_each_available_isa_can_be_chosen(isa: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert dmlcpu.Device(isa=isa).isa == isa
    monkeypatch.setenv("DMLCPU_ISA", isa)
    assert dmlcpu.Device().isa == isa


def test_an_explicit_isa_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    for environment in (dmlcpu.available_isas()[-1], "nonsense"):
        monkeypatch.setenv("DMLCPU_ISA", environment)
        assert dmlcpu.Device(isa="scalar").isa == "scalar"


def test_an_empty_variable_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = repr(dmlcpu.Device())
    monkeypatch.setenv("DMLCPU_ISA", "")
    monkeypatch.setenv("DMLCPU_NUM_THREADS", "")
    assert repr(dmlcpu.Device()) == expected


UNAVAILABLE = [*(isa for isa in ISAS if isa not in dmlcpu.available_isas()), "sse9", "AVX2", "scalar ", "\udc80"]


@pytest.mark.parametrize("name", UNAVAILABLE, ids=ascii)
def test_an_isa_that_cannot_run_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for source in ("isa", "DMLCPU_ISA"):
        explicit = name if source == "isa" else None
        if source == "DMLCPU_ISA":
            monkeypatch.setenv("DMLCPU_ISA", name)
        with pytest.raises(dmlcpu.UnsupportedIsaError) as raised:
            dmlcpu.Device(isa=explicit)
        assert isinstance(raised.value, DmlError)
        assert isinstance(raised.value, ValueError)
        message = str(raised.value)
        assert message.startswith(f"{source}={name!r}: ")
        assert message.endswith(f"available here: {', '.join(dmlcpu.available_isas())}")


@pytest.mark.parametrize(
    "name", ["", 5, [], b"scalar", np.array(["scalar", "avx2"]), pytest.param(10**5000, id="long")], ids=repr
)
def test_what_is_no_name_is_refused_too(name: Any) -> None:
    with pytest.raises(dmlcpu.UnsupportedIsaError, match="available here"):
        dmlcpu.Device(isa=name)


# --- threads ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, 5, 1024, np.int64(3)])
def test_number_of_threads(count: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    device = dmlcpu.Device(num_threads=count)
    assert device.num_threads == count
    assert type(device.num_threads) is int
    monkeypatch.setenv("DMLCPU_NUM_THREADS", str(count))
    assert dmlcpu.Device().num_threads == count


def test_an_explicit_number_of_threads_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    for environment in ("7", "nonsense"):
        monkeypatch.setenv("DMLCPU_NUM_THREADS", environment)
        assert dmlcpu.Device(num_threads=3).num_threads == 3


@pytest.mark.parametrize("count", [0, -1, 1025, 2**31, 2**64, -(2**64), pytest.param(10**5000, id="long")])
def test_numbers_of_threads_out_of_range(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=r"^num_threads=.*from 1 to 1024$"):
        dmlcpu.Device(num_threads=count)
    monkeypatch.setenv("DMLCPU_NUM_THREADS", str(count) if count < 2**100 else "9" * 5000)
    with pytest.raises(ValueError, match=r"^DMLCPU_NUM_THREADS='.*from 1 to 1024$"):
        dmlcpu.Device()


@pytest.mark.parametrize("text", ["two", "2.0", "0x2", "1e1", " ", "²", "-", "9" * 5000])
def test_a_variable_that_is_no_number(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DMLCPU_NUM_THREADS", text)
    with pytest.raises(ValueError, match=r"^DMLCPU_NUM_THREADS='.*from 1 to 1024$"):
        dmlcpu.Device()


@pytest.mark.parametrize("count", [2.0, "2", [2]])
def test_what_is_no_integer_is_a_type_error(count: Any) -> None:
    with pytest.raises(TypeError):
        dmlcpu.Device(num_threads=count)


# --- feature levels ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", LEVELS, ids=lambda level: level.name)
def test_check_feature_levels(level: FeatureLevel) -> None:
    device = dmlcpu.Device(level)
    assert device.check_feature_levels(LEVELS) is level
    assert device.check_feature_levels(LEVELS[::-1]) is level
    below = [other for other in LEVELS if other < level]
    above = [other for other in LEVELS if other > level]
    if below:
        assert device.check_feature_levels([*above, *below]) is below[-1]
    if above:
        with pytest.raises(dmlcpu.UnsupportedFeatureLevelError, match=level.name) as raised:
            device.check_feature_levels(above)
        assert raised.value.required_level is above[0]


def test_check_feature_levels_takes_numbers_and_passes_over_unknown_ones() -> None:
    device = dmlcpu.Device(FeatureLevel.LEVEL_5_0)
    levels: Any = [0x4100, 0x4200, 0x9000, 0x2000]
    assert device.check_feature_levels(levels) is FeatureLevel.LEVEL_4_1


def test_check_feature_levels_takes_a_sequence() -> None:
    for levels, shown in ((FeatureLevel.LEVEL_5_0, "LEVEL_5_0"), (None, "None"), ("LEVEL_5_0", "'LEVEL_5_0'")):
        with pytest.raises(TypeError, match=f"^levels={shown}; expected a sequence of FeatureLevels$"):
            dmlcpu.Device().check_feature_levels(levels)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("levels", "message"),
    [
        ([], "levels: got none, expected at least one FeatureLevel"),
        ([0x9000], "no feature level is 36864"),
        (
            (1, "LEVEL_1_0"),
            "no feature level is 1 or 'LEVEL_1_0'; expected members of dmlcpu.FeatureLevel, such as LEVEL_6_4",
        ),
    ],
)
def test_check_feature_levels_without_a_level(levels: Any, message: str) -> None:
    with pytest.raises(dmlcpu.UnsupportedFeatureLevelError) as raised:
        dmlcpu.Device().check_feature_levels(levels)
    assert raised.value.required_level is None
    assert str(raised.value) == message


def test_check_feature_levels_tells_of_those_above_and_of_those_that_there_are_not() -> None:
    with pytest.raises(dmlcpu.UnsupportedFeatureLevelError) as raised:
        dmlcpu.Device(FeatureLevel.LEVEL_2_0).check_feature_levels([3, 0x4000, 0x6500, 0x3000])
    assert str(raised.value) == (
        "none of LEVEL_3_0, LEVEL_4_0 is at most LEVEL_2_0, the level of this device; no feature level is 3 or 25856"
    )
    assert raised.value.required_level is FeatureLevel.LEVEL_3_0


@pytest.mark.parametrize("level", LEVELS, ids=lambda level: level.name)
def test_is_data_type_supported(level: FeatureLevel) -> None:
    expected = {"FLOAT32", "UINT8"}
    if level >= FeatureLevel.LEVEL_2_1:
        expected |= {"INT8", "INT16", "UINT16", "INT32", "UINT32"}
    if level >= FeatureLevel.LEVEL_4_0:
        expected |= {"FLOAT16"}
    if level >= FeatureLevel.LEVEL_6_3:
        expected |= {"INT4", "UINT4"}
    device = dmlcpu.Device(level)
    assert {data_type.name for data_type in TensorDataType if device.is_data_type_supported(data_type)} == expected
    assert not device.is_data_type_supported(99)


def test_operators_of_a_lower_level() -> None:
    device = dmlcpu.Device(FeatureLevel.LEVEL_3_1)
    device.create_operator(QUANTIZE)
    with pytest.raises(dmlcpu.UnsupportedFeatureLevelError) as raised:
        device.create_operator(DYNAMIC)
    assert not isinstance(raised.value, ValueError)
    assert raised.value.operator is dmlcpu.OperatorType.DYNAMIC_QUANTIZE_LINEAR
    assert (raised.value.field, raised.value.required_level) == (None, FeatureLevel.LEVEL_4_0)


def test_a_field_of_a_lower_level() -> None:
    device = dmlcpu.Device(FeatureLevel.LEVEL_6_1)
    with pytest.raises(dmlcpu.UnsupportedFeatureLevelError, match="zero_point_tensor") as raised:
        device.create_operator(changed(QUANTIZE, zero_point_tensor=None))
    assert raised.value.operator is dmlcpu.OperatorType.ELEMENT_WISE_QUANTIZE_LINEAR
    assert (raised.value.field, raised.value.required_level) == ("zero_point_tensor", FeatureLevel.LEVEL_6_2)


def test_what_no_level_accepts_is_invalid_at_every_level() -> None:
    desc = changed(DYNAMIC, output_tensor=tensor("UINT8", 4, 6))
    for level in LEVELS:
        with pytest.raises(dmlcpu.InvalidDescError, match="output_tensor") as raised:
            dmlcpu.Device(level).create_operator(desc)
        assert raised.value.hresult == 0x80070057
        assert raised.value.operator is dmlcpu.OperatorType.DYNAMIC_QUANTIZE_LINEAR
        assert raised.value.field == "output_tensor"


# --- operators --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("device", "desc"), [(3, 4), (None, QUANTIZE), (dmlcpu.Device, QUANTIZE), (3, None)])
def test_operators_are_of_a_device(device: Any, desc: Any) -> None:
    with pytest.raises(TypeError, match=f"^expected a Device, got an object of type {type(device).__name__}$"):
        dmlcpu.Operator(device, desc)


@pytest.mark.parametrize("desc", VALID_DESCS.values(), ids=lambda desc: desc.operator_type.name)
def test_operators_know_where_they_come_from(desc: dmlcpu.OperatorDesc) -> None:
    device = dmlcpu.Device()
    operator = device.create_operator(desc)
    assert (operator.device, operator.desc, operator.type) == (device, desc, desc.operator_type)
    with pytest.raises(FrozenInstanceError):
        operator.desc = desc  # type: ignore[misc]
    compiled_operator = device.compile_operator(operator)
    assert compiled_operator.desc is desc
    assert desc.operator_type.name in repr(compiled_operator)
    assert desc.operator_type.name in compiled_operator.describe()
    assert f"isa: {device.isa}" in compiled_operator.describe()


def test_an_operator_of_another_device_is_refused() -> None:
    device, other = dmlcpu.Device(isa="scalar", num_threads=1), dmlcpu.Device(isa="scalar", num_threads=2)
    with pytest.raises(DmlError, match="another device") as raised:
        other.compile_operator(device.create_operator(DYNAMIC))
    assert type(raised.value) is DmlError


@pytest.mark.parametrize("operator", [None, DYNAMIC, dmlcpu.Operator, "operator"])
def test_what_is_no_operator_is_a_type_error(operator: Any) -> None:
    with pytest.raises(TypeError, match=r"^expected an Operator, got an object of type ") as raised:
        dmlcpu.Device().compile_operator(operator)
    assert str(raised.value).endswith("; create_operator makes one of a desc") == (operator is DYNAMIC)


@pytest.mark.parametrize("desc", [None, dmlcpu.DynamicQuantizeLinearOperatorDesc, tensor("UINT8", 1), {}])
def test_what_is_no_desc_is_a_type_error(desc: Any) -> None:
    with pytest.raises(TypeError, match="expected an operator's desc"):
        dmlcpu.Device().create_operator(desc)


@pytest.mark.parametrize("desc", VALID_DESCS.values(), ids=lambda desc: desc.operator_type.name)
def test_devices_side_by_side_and_execution_flags_give_the_same_bits(
    desc: dmlcpu.OperatorDesc, devices: dict[str, dmlcpu.Device], random_numbers: np.random.Generator
) -> None:
    inputs = random_inputs(desc, random_numbers)
    expected = dispatched(compiled(dmlcpu.Device(isa="scalar", num_threads=1), desc), **inputs)
    operators = {label: device.create_operator(desc) for label, device in devices.items()}
    for label, device in devices.items():
        for flags in (*ExecutionFlags, sum(ExecutionFlags)):
            plan = device.compile_operator(operators[label], flags)  # type: ignore[arg-type]
            assert same_bits(dispatched(plan, **inputs), expected), f"{label}, {flags!r}"


@pytest.mark.parametrize("flags", [8, -1, 1 << 40, pytest.param(10**5000, id="long")])
def test_unknown_execution_flags_are_refused(flags: Any) -> None:
    device = dmlcpu.Device()
    with pytest.raises(ValueError, match="ALLOW_HALF_PRECISION_COMPUTATION, DISABLE_META_COMMANDS"):
        device.compile_operator(device.create_operator(DYNAMIC), flags)


def test_the_default_device_is_one() -> None:
    assert dmlcpu.default_device() is dmlcpu.default_device()
    assert dmlcpu.default_device().feature_level is FeatureLevel.LEVEL_6_4


def test_repr_makes_an_equal_device() -> None:
    device = dmlcpu.Device(FeatureLevel.LEVEL_5_2, num_threads=3, isa="scalar")
    again = eval(repr(device), {"Device": dmlcpu.Device, "FeatureLevel": FeatureLevel})
    assert (again.feature_level, again.num_threads, again.isa) == (FeatureLevel.LEVEL_5_2, 3, "scalar")


class LabelledDevice(dmlcpu.Device):
    """Has a name that tells what it is."""

    @property
    def label(self) -> str:
        return f"{self.isa} x {self.num_threads}"


def test_derived_devices_stay_what_they_are() -> None:
    device = LabelledDevice(FeatureLevel.LEVEL_5_2, num_threads=3, isa="scalar")
    for made in (pickle.loads(pickle.dumps(device)), copy.copy(device), copy.deepcopy(device)):
        assert type(made) is LabelledDevice
        assert (made, made.label) == (device, "scalar x 3")


class SingleDevice(dmlcpu.Device):
    """Has a constructor of its own."""

    def __init__(self, purpose: str) -> None:
        super().__init__(num_threads=1)
        self.purpose = purpose


def test_derived_devices_have_what_their_constructor_sets() -> None:
    device = SingleDevice("tests")
    for made in (pickle.loads(pickle.dumps(device)), copy.copy(device), copy.deepcopy(device)):
        assert type(made) is SingleDevice
        assert (made, made.purpose) == (device, "tests")


def test_binding_properties() -> None:
    device = dmlcpu.Device(num_threads=1)
    for desc in VALID_DESCS.values():
        assert compiled(device, desc).binding_properties.persistent_resource_size == 0
    owned = tensor("INT32", 1, 4, 1, 1, flags=dmlcpu.TensorFlags.OWNED_BY_DML)
    properties = compiled(device, changed(CONVOLUTION, bias_tensor=owned)).binding_properties
    assert properties.persistent_resource_size == 16
    # At least the filter, packed anew at every dispatch.
    assert properties.temporary_resource_size >= np.prod(tensors_of(CONVOLUTION)["filter_tensor"].sizes)
    assert compiled(device, QUANTIZE).binding_properties.temporary_resource_size == 0


def test_nothing_is_printed_where_there_is_no_stderr(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Where print() is given no stream it writes to stdout."""
    monkeypatch.setenv("DMLCPU_VERBOSE", "1")
    monkeypatch.setattr("sys.stderr", None)  # as in a process that is started with it closed
    compiled(dmlcpu.Device(), QUANTIZE)
    assert capfd.readouterr() == ("", "")
