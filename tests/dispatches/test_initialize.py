"""The life of tensors that are OWNED_BY_DML: bound once, copied, and kept."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dmlcpu
from bound_arrays import Arrays, compiled, dispatched, input_names, owning, random_inputs, same_bits, shaped, tensors_of
from conftest import SEED
from operator_samples import ADD, CONVOLUTION, VALID_DESCS, changed, tensor

each_desc = pytest.mark.parametrize("desc", VALID_DESCS.values(), ids=lambda desc: desc.operator_type.name)
PARAMETERS = ("filter_tensor", "filter_scale_tensor", "filter_zero_point_tensor", "bias_tensor")


def inputs_of(desc: dmlcpu.OperatorDesc) -> Arrays:
    return random_inputs(desc, np.random.default_rng(SEED))


def divided(inputs: Arrays, owned: Any) -> tuple[Arrays, Arrays]:
    """What is bound at initialize, and what at dispatch."""
    return {name: inputs[name] for name in owned}, {name: inputs[name] for name in inputs.keys() - set(owned)}


@pytest.fixture
def convolution() -> dmlcpu.CompiledOperator:
    """As in a network: all that is trained is owned."""
    return compiled(dmlcpu.Device(), owning(CONVOLUTION, PARAMETERS))


@pytest.fixture
def expected() -> Arrays:
    return dispatched(compiled(dmlcpu.Device(), CONVOLUTION), **inputs_of(CONVOLUTION))


@each_desc
@given(data=st.data())
def test_any_inputs_may_be_owned(desc: dmlcpu.OperatorDesc, data: st.DataObject) -> None:
    owned = data.draw(st.frozensets(st.sampled_from(input_names(desc))))
    at_initialize, at_dispatch = divided(inputs_of(desc), owned)
    operator = compiled(dmlcpu.Device(), owning(desc, owned))
    if owned:
        assert operator.initialize(**at_initialize) is None
    reference = dispatched(compiled(dmlcpu.Device(), desc), **inputs_of(desc))
    for _ in range(2):
        assert same_bits(dispatched(operator, **at_dispatch), reference)


def test_all_inputs_may_be_owned(isa: str) -> None:
    for desc in VALID_DESCS.values():
        operator = compiled(dmlcpu.Device(isa=isa), owning(desc, input_names(desc)))
        inputs = inputs_of(desc)
        operator.initialize(**{name: shaped(tensors_of(desc)[name], content) for name, content in inputs.items()})
        assert same_bits(dispatched(operator), dispatched(compiled(dmlcpu.Device(isa=isa), desc), **inputs))


def codes(sizes: tuple[int, ...], is_channels_last: bool) -> dmlcpu.TensorDesc:
    _, channels, height, width = sizes
    last = (height * width * channels, 1, width * channels, channels)
    return tensor("UINT8", *sizes, strides=last if is_channels_last else None)


def windows(
    sizes: tuple[int, int, int, int],
    channels: int,
    groups: int = 1,
    padding: int = 1,
    dilation: int = 1,
    is_channels_last: bool = False,
) -> Any:
    """A convolution 3x3 that keeps height and width."""
    of_channels = tensor("FLOAT32", 1, channels, 1, 1)
    return changed(
        CONVOLUTION,
        input_tensor=codes(sizes, is_channels_last),
        filter_tensor=tensor("INT8", channels, sizes[1] // groups, 3, 3),
        filter_scale_tensor=of_channels,
        filter_zero_point_tensor=tensor("INT8", 1, channels, 1, 1),
        bias_tensor=tensor("INT32", 1, channels, 1, 1),
        output_tensor=codes((sizes[0], channels, *sizes[2:]), is_channels_last),
        strides=(1, 1),
        dilations=(dilation, dilation),
        start_padding=(padding, padding),
        end_padding=(padding, padding),
        group_count=groups,
    )


# What the parameters of channels follow from: at initialize if all of it is there, else at each dispatch.
FIXED = (*PARAMETERS, "input_scale_tensor", "input_zero_point_tensor", "output_scale_tensor")


@pytest.mark.parametrize(
    ("desc", "algorithm"),
    [
        (windows((1, 18, 9, 9), 24, groups=2), "matrix product"),
        (windows((1, 64, 9, 11), 36, padding=6, dilation=6), "regions"),
        (windows((1, 64, 9, 9), 64, groups=16), "as lanes"),
        (windows((1, 20, 9, 9), 20, groups=20), "depthwise"),
        (windows((1, 40, 9, 9), 40, groups=40, is_channels_last=True), "depthwise, channels as lanes, a window of 3x3"),
        (windows((1, 96, 32, 32), 96), "algorithm: Winograd's"),
    ],
    ids=["product", "regions", "groups", "depthwise", "windows", "winograd"],
)
@pytest.mark.parametrize("bound", [None, *FIXED, "output_zero_point_tensor"])
def test_parameters_of_channels(
    devices: Mapping[str, dmlcpu.Device],
    random_numbers: np.random.Generator,
    desc: dmlcpu.OperatorDesc,
    algorithm: str,
    bound: str | None,
) -> None:
    """All are owned but one, which then changes from dispatch to dispatch."""
    owned = {*FIXED, "output_zero_point_tensor"} - {bound}
    at_initialize, _ = divided(inputs_of(desc), owned)
    reference, runs = compiled(dmlcpu.Device(), desc), []
    for _ in range(3):
        _, at_dispatch = divided(random_inputs(desc, random_numbers), owned)
        runs.append((at_dispatch, dispatched(reference, **at_initialize, **at_dispatch)))
    for label, device in devices.items():
        operator = compiled(device, owning(desc, owned))
        assert algorithm in operator.describe() or (device.isa == "amx_int8" and "Winograd" in algorithm)
        operator.initialize(**at_initialize)
        for at_dispatch, expected in runs:
            assert same_bits(dispatched(operator, **at_dispatch), expected), label


def test_the_source_may_be_changed_afterwards(convolution: dmlcpu.CompiledOperator, expected: Arrays) -> None:
    owned, bound = divided(inputs_of(CONVOLUTION), PARAMETERS)
    convolution.initialize(**owned)
    for content in owned.values():
        content.view(np.uint8)[...] ^= 0x55
    assert same_bits(dispatched(convolution, **bound), expected)


@each_desc
def test_owned_tensors_of_any_layout(desc: dmlcpu.OperatorDesc) -> None:
    """Gaps, an order of their own, repeated elements."""
    inputs = inputs_of(desc)
    sparse, spread = {}, {}
    for name in input_names(desc):
        described = tensors_of(desc)[name]
        rank = len(described.sizes)
        packed = shaped(described, inputs[name])
        # The axes the other way round, twice as far apart.
        roomy = np.zeros((*[2 * size for size in described.sizes[::-1]],), packed.dtype)
        view = roomy.T[tuple(slice(None, None, 2) for _ in range(rank))]
        view[...] = packed
        strides = [stride // view.itemsize for stride in view.strides]
        flags = dmlcpu.TensorFlags.OWNED_BY_DML
        spread[name] = dmlcpu.TensorDesc(described.data_type, described.sizes, strides=strides, flags=flags)
        sparse[name] = view
    operator = compiled(dmlcpu.Device(), changed(desc, **spread))
    operator.initialize(**sparse)
    assert same_bits(dispatched(operator), dispatched(compiled(dmlcpu.Device(), desc), **inputs))


# --- the order of calls -----------------------------------------------------------------------------------------


@each_desc
def test_dispatch_before_initialize(desc: dmlcpu.OperatorDesc) -> None:
    for owned in ([input_names(desc)[0]], input_names(desc)):
        operator = compiled(dmlcpu.Device(), owning(desc, owned))
        at_initialize, at_dispatch = divided(inputs_of(desc), owned)
        # Whatever is bound: initialize is what is missing.
        for bindings in (at_dispatch, {**at_dispatch, **at_initialize}, {}, {"nonsense": 1}):
            with pytest.raises(dmlcpu.DmlError, match="initialize") as raised:
                operator.dispatch(**bindings)
            assert type(raised.value) is dmlcpu.DmlError
        operator.initialize(**at_initialize)
        operator.dispatch(**at_dispatch)


def test_a_second_initialize_is_refused(convolution: dmlcpu.CompiledOperator, expected: Arrays) -> None:
    owned, bound = divided(inputs_of(CONVOLUTION), PARAMETERS)
    convolution.initialize(**owned)
    others = {name: np.zeros_like(content) for name, content in owned.items()}
    for again in (owned, others, {}, {"nonsense": 1}):
        with pytest.raises(dmlcpu.DmlError, match="initialized already") as raised:
            convolution.initialize(**again)
        assert type(raised.value) is dmlcpu.DmlError
    assert same_bits(dispatched(convolution, **bound), expected)


def test_a_failed_initialize_may_be_repeated(convolution: dmlcpu.CompiledOperator, expected: Arrays) -> None:
    owned, bound = divided(inputs_of(CONVOLUTION), PARAMETERS)
    failures: list[tuple[str, dict[str, Any]]] = [("filter_tensor", {})]
    failures += [(name, {**owned, name: None}) for name in PARAMETERS]
    failures += [(name, {**owned, name: owned[name].astype(np.float64)}) for name in PARAMETERS]
    failures += [(name, {**owned, name: owned[name][:-1]}) for name in PARAMETERS]
    failures += [(name, {**owned, name: owned[name].tolist()}) for name in PARAMETERS]
    failures += [("nonsense", {**owned, "nonsense": owned["bias_tensor"]}), ("bias", {**owned, "bias": None})]
    failures += [(name, {**owned, name: bound[name]}) for name in bound]
    failures += [("output_tensor", {**owned, "output_tensor": np.zeros((1, 4, 5, 6), np.uint8)})]
    for field, bindings in failures:
        with pytest.raises(dmlcpu.BindingError) as raised:
            convolution.initialize(**bindings)
        assert raised.value.field == field
        assert str(raised.value).startswith(f"QUANTIZED_LINEAR_CONVOLUTION: {field}: ")
        with pytest.raises(dmlcpu.DmlError, match="initialize"):
            convolution.dispatch(**bound)
    convolution.initialize(**owned)
    assert same_bits(dispatched(convolution, **bound), expected)


def test_what_is_not_owned_is_bound_at_dispatch(convolution: dmlcpu.CompiledOperator) -> None:
    owned, bound = divided(inputs_of(CONVOLUTION), PARAMETERS)
    with pytest.raises(dmlcpu.BindingError, match="is not flagged OWNED_BY_DML") as raised:
        convolution.initialize(**owned, input_tensor=bound["input_tensor"])
    assert raised.value.field == "input_tensor"
    # None is nothing, wherever it stands.
    convolution.initialize(**owned, **dict.fromkeys(bound), output_tensor=None)
    convolution.dispatch(**bound, **dict.fromkeys(owned))


def test_without_owned_tensors_initialize_may_be_called_once() -> None:
    inputs = inputs_of(ADD)
    operator = compiled(dmlcpu.Device(), ADD)
    expected = dispatched(operator, **inputs)
    for name, content in inputs.items():
        with pytest.raises(dmlcpu.BindingError, match="is not flagged OWNED_BY_DML") as raised:
            operator.initialize(**{name: content})
        assert raised.value.field == name
    with pytest.raises(dmlcpu.BindingError, match="nonsense"):
        operator.initialize(nonsense=None)
    assert operator.initialize() is None
    with pytest.raises(dmlcpu.DmlError, match="initialized already"):
        operator.initialize()
    assert same_bits(dispatched(operator, **inputs), expected)


def test_each_compiled_operator_owns_its_own() -> None:
    device = dmlcpu.Device()
    operator = device.create_operator(owning(CONVOLUTION, PARAMETERS))
    first, second, third = (device.compile_operator(operator) for _ in range(3))
    owned, bound = divided(inputs_of(CONVOLUTION), PARAMETERS)
    first.initialize(**owned)
    doubled = {**owned, "bias_tensor": owned["bias_tensor"] // 2 + 12345}
    second.initialize(**doubled)
    plain = compiled(device, CONVOLUTION)
    assert same_bits(dispatched(second, **bound), dispatched(plain, **doubled, **bound))
    assert same_bits(dispatched(first, **bound), dispatched(plain, **owned, **bound))
    with pytest.raises(dmlcpu.DmlError, match="initialize"):
        third.dispatch(**bound)


def test_of_several_threads_one_initializes(convolution: dmlcpu.CompiledOperator, expected: Arrays) -> None:
    owned, bound = divided(inputs_of(CONVOLUTION), PARAMETERS)
    barrier = threading.Barrier(8)
    outcomes: list[str] = []

    def initialize() -> None:
        barrier.wait()
        try:
            convolution.initialize(**owned)
        except dmlcpu.DmlError as error:
            outcomes.append(str(error))
        else:
            outcomes.append("initialized")

    threads = [threading.Thread(target=initialize) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outcomes.count("initialized") == 1
    assert all("initialized already" in outcome for outcome in outcomes if outcome != "initialized")
    assert same_bits(dispatched(convolution, **bound), expected)


def test_persistent_size_counts_what_is_kept() -> None:
    def persistent_size(*owned: str) -> int:
        return compiled(dmlcpu.Device(), owning(CONVOLUTION, owned)).binding_properties.persistent_resource_size

    assert persistent_size() == 0
    assert persistent_size("bias_tensor") == 16
    assert persistent_size("bias_tensor", "filter_scale_tensor") == 32
    # Packed for the kernels: no smaller than it was.
    assert persistent_size("filter_tensor") >= 4 * 3 * 3 * 3
    assert persistent_size("filter_tensor", "bias_tensor") == persistent_size("filter_tensor") + 16


@pytest.mark.parametrize("groups", [2, 256], ids=["product", "depthwise"])
@pytest.mark.parametrize("filter_type", ["INT8", "UINT8"])
def test_parameters_of_channels_are_kept_once(isa: str, groups: int, filter_type: str) -> None:
    """As an offset and a multiplier, of filters with zero points a third number, and none of what they are made of."""
    desc = changed(
        windows((1, 256, 9, 9), 256, groups=groups, is_channels_last=True),
        filter_tensor=tensor(filter_type, 256, 256 // groups, 3, 3),
        filter_zero_point_tensor=None,
        output_tensor=codes((1, 256, 5, 5), True),
        strides=(2, 2),
    )

    def persistent_size(*owned: str) -> int:
        device = dmlcpu.Device(isa=isa)
        return compiled(device, owning(desc, owned)).binding_properties.persistent_resource_size

    of_parameters = persistent_size(*(set(FIXED) - {"filter_zero_point_tensor"})) - persistent_size("filter_tensor")
    numbers = 2 if filter_type == "INT8" else 3  # an absent UINT8 zero point is no middle of the codes
    assert numbers * 4 * 256 <= of_parameters <= numbers * 4 * (256 + 64) + 2 * 64


def test_an_output_cannot_be_owned() -> None:
    output = tensor("INT8", 2, 3, flags=dmlcpu.TensorFlags.OWNED_BY_DML)
    with pytest.raises(dmlcpu.InvalidDescError) as raised:
        dmlcpu.Device().create_operator(changed(ADD, output_tensor=output))
    assert raised.value.field == "output_tensor"
