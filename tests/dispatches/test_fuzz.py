"""Random descs and random bindings, through the whole path from desc to dispatch.

Whatever is asked for, it is done, with the bits of `scalar`, or refused by an exception of dmlcpu that leaves every
byte as it was. The sanitizers watch that no byte beyond is touched.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import dmlcpu
from bound_arrays import (
    addresses,
    blank_outputs,
    compiled,
    dispatched,
    input_names,
    is_blank,
    output_names,
    owning,
    random_inputs,
    same_bits,
    tensors_of,
)
from conftest import SEED
from dmlcpu import TensorDataType, TensorFlags
from dmlcpu.feature_levels import OPERATORS
from dmlcpu.schema import HIGHEST_FEATURE_LEVEL, FieldKind
from dmlcpu.tensor import dtype_of, span_in_elements
from operator_samples import SAMPLES, VALID_DESCS, changed, tensor
from strided_tensor import FILL_BYTE

SCALAR = dmlcpu.Device(isa="scalar", num_threads=1)
BEST = dmlcpu.Device(num_threads=2)

# What a dispatch may take, so that examples are quick: bytes of all tensors, and products of codes.
MOST_BYTES, MOST_PRODUCTS = 1 << 20, 1 << 20

BASES = tuple(desc for sample in SAMPLES.values() for desc in (sample.desc, *sample.others))

# --- descs ------------------------------------------------------------------------------------------------------

NUMBERS = st.sampled_from(
    (0, 1, 2, 3, 4, 5, 6, 8, 9, 16, 37, 2**8, 2**16, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**63, 2**64 - 1, 2**64, -1)
) | st.integers(0, 70)
LENGTHS = st.sampled_from((1, 255, 2**12, 2**16, 2**20, 2**24, 2**28, 2**32 - 1))
GARBAGE = st.sampled_from(
    (None, "UINT8", "", b"1", 1.0, 2.5, float("nan"), 10**30, True, (), [], {}, {1}, object(), tensor, TensorDataType)
)


ANYTHING = NUMBERS | GARBAGE
DATA_TYPES = st.sampled_from(tuple(TensorDataType)) | ANYTHING
FLAGS = st.sampled_from((TensorFlags.NONE, *[TensorFlags.OWNED_BY_DML] * 3)) | ANYTHING
AMOUNTS = NUMBERS | st.sampled_from((None, 4096, 2**34)) | GARBAGE
OTHER_TENSORS = st.sampled_from((tensor("UINT8", 1), tensor("FLOAT32", 2, 3), tensor("INT4", 1, 4, 1, 1), None))
TENSOR_FIELDS = st.sampled_from(
    (
        "data_type",
        *("sizes", "strides", "flags"),
        "total_tensor_size_in_bytes",
        "guaranteed_base_offset_alignment",
        *("sizes", "strides", "strides", "flags", "tensor"),
    )
)
SEQUENCE_CHANGES = st.sampled_from(("replace", "replace", "insert", "delete", "garbage", "fill", "reverse"))
TAME_CHANGES = st.sampled_from(("resize", "own", "repeat", "spread", "leave out"))
SIZES = st.integers(1, 70) | LENGTHS
ANY_BASE = st.sampled_from(BASES)
COUNTS_OF_CHANGES = st.sampled_from((0, 0, 1, 1, 2, 3))


def mutated_sequence(draw: st.DrawFn, values: Any) -> Any:
    if not isinstance(values, Sequence) or isinstance(values, str) or draw(st.integers(0, 9)) == 0:
        return draw(GARBAGE)
    entries = list(values)
    kind = draw(SEQUENCE_CHANGES)
    position = draw(st.integers(0, max(len(entries) - 1, 0)))
    if kind == "fill":
        return [draw(NUMBERS)] * len(entries)
    if kind == "reverse":
        return entries[::-1]
    if kind == "insert" or not entries:
        return [*entries[:position], draw(NUMBERS), *entries[position:]]
    if kind == "delete":
        return entries[:position] + entries[position + 1 :]
    entries[position] = draw(NUMBERS if kind == "replace" else GARBAGE)
    return entries


def mutated_tensor(draw: st.DrawFn, described: Any) -> Any:
    if not isinstance(described, dmlcpu.TensorDesc):
        return draw(OTHER_TENSORS)
    values = {
        "data_type": described.data_type,
        "sizes": described.sizes,
        "strides": described.strides,
        "flags": described.flags,
        "total_tensor_size_in_bytes": described.total_tensor_size_in_bytes,
        "guaranteed_base_offset_alignment": described.guaranteed_base_offset_alignment,
    }
    name = draw(TENSOR_FIELDS)
    if name == "tensor":
        return draw(GARBAGE)
    if name == "data_type":
        values[name] = draw(DATA_TYPES)
    elif name == "sizes":
        values[name] = mutated_sequence(draw, values[name])
    elif name == "strides":
        values[name] = mutated_sequence(draw, described.strides or values["sizes"]) if draw(st.booleans()) else None
    elif name == "flags":
        values[name] = draw(FLAGS)
    else:
        values[name] = draw(AMOUNTS)
    return dmlcpu.TensorDesc(values.pop("data_type"), values.pop("sizes"), **values)


def tamely_changed(draw: st.DrawFn, desc: dmlcpu.OperatorDesc) -> dmlcpu.OperatorDesc:
    """A change that is often accepted: other sizes, strides, flags, or a tensor left out."""
    tensors = tensors_of(desc)
    kind = draw(TAME_CHANGES)
    if kind == "own":
        return owning(desc, draw(st.sets(st.sampled_from(input_names(desc)))))
    name = draw(st.sampled_from(list(tensors)))
    described = tensors[name]
    if kind == "leave out":
        supports = {
            field.name: field.support_at(HIGHEST_FEATURE_LEVEL) for field in OPERATORS[desc.operator_type].tensors
        }
        optional = [field for field in tensors if supports[field].optional]
        desc = changed(desc, **dict.fromkeys(optional[: draw(st.integers(0, len(optional)))]))
        has_array = hasattr(desc, "quantization_tensors")
        return changed(desc, quantization_type=len(desc.quantization_tensors)) if has_array else desc
    if kind == "resize":
        axis, size = draw(st.integers(0, 3)), draw(SIZES)
        return changed(desc, **{field: resized(content, axis, size) for field, content in tensors.items()})
    strides = [0] * len(described.sizes)
    if kind == "spread":
        step = draw(st.integers(1, 3))
        for axis in draw(st.permutations(range(len(strides)))):
            strides[axis] = step
            step = step * described.sizes[axis] + draw(st.integers(0, 2))
    flags = described.flags
    return changed(
        desc, **{name: dmlcpu.TensorDesc(described.data_type, described.sizes, strides=strides, flags=flags)}
    )


def resized(described: dmlcpu.TensorDesc, axis: int, size: int) -> dmlcpu.TensorDesc:
    """Of one element it stays, whatever the size."""
    sizes, strides = list(described.sizes), described.strides
    if set(sizes) != {1}:
        sizes[axis % len(sizes)] = size
    return dmlcpu.TensorDesc(described.data_type, sizes, strides=strides, flags=described.flags)


@st.composite
def descs(draw: st.DrawFn) -> dmlcpu.OperatorDesc:
    desc = draw(ANY_BASE)
    for _ in range(draw(st.integers(0, 3))):
        desc = tamely_changed(draw, desc)
    fields = OPERATORS[desc.operator_type].fields
    for _ in range(draw(COUNTS_OF_CHANGES)):
        field = draw(st.sampled_from(fields))
        name, value = field.name, field.value_in(desc)
        if field.entry is not None and type(getattr(desc, field.attribute)) is not tuple:
            continue  # replaced by garbage, which has no entries
        if field.history:
            desc = changed(desc, **{name: mutated_tensor(draw, value)})
        elif field.kind in (FieldKind.UINT, FieldKind.BOOLEAN, FieldKind.ENUMERATION):
            desc = changed(desc, **{name: draw(ANYTHING)})
        else:
            desc = changed(desc, **{name: mutated_sequence(draw, value)})
    return desc


def is_small(desc: dmlcpu.OperatorDesc) -> bool:
    tensors = tensors_of(desc)
    sizes = [dmlcpu.calc_buffer_tensor_size(t.data_type, t.sizes, t.strides) for t in tensors.values()]
    elements = max(math.prod(t.sizes) for t in tensors.values())
    if sum(sizes) > MOST_BYTES or elements > MOST_BYTES:
        return False
    return SAMPLES[desc.operator_type].products(tensors) < MOST_PRODUCTS


@given(desc=descs())
def test_descs(desc: dmlcpu.OperatorDesc) -> None:
    try:
        BEST.create_operator(desc)
    except dmlcpu.DmlError:
        return
    # Compiling allocates nothing to speak of, however large the tensors are.
    operators = [compiled(device, desc) for device in (SCALAR, BEST)]
    if not is_small(desc):
        return
    inputs = random_inputs(desc, np.random.default_rng(SEED))
    owned = [name for name in input_names(desc) if tensors_of(desc)[name].flags & TensorFlags.OWNED_BY_DML]
    results = []
    for operator in operators:
        if owned:
            operator.initialize(**{name: inputs[name] for name in owned})
        outputs = blank_outputs(desc)
        operator.dispatch(**{name: inputs[name] for name in inputs.keys() - set(owned)}, **outputs)
        results.append(outputs)
    assert same_bits(results[1], results[0])
    for name, output in results[0].items():
        elements = set(addresses(tensors_of(desc)[name], 0))
        gaps = [byte for position, byte in enumerate(output.tobytes()) if position not in elements]
        assert set(gaps) <= {FILL_BYTE}


# --- bindings ---------------------------------------------------------------------------------------------------

ARENA = 4096
OBJECTS = (None, 1, 1.0, "1", b"", b"1234", (), [1], {}, object(), np.ndarray, np.float32(1), np.uint8(1), np.int8(1))
DTYPES = ("float32", "float16", "uint8", "int8", "int32", "int16", "float64", "int64", "bool", "O", ">f4", ">i4", "V1")
BINDING_BASES = tuple(VALID_DESCS.values())


@cache
def operators_of(index: int, owned: bool) -> list[dmlcpu.CompiledOperator]:
    """Of both devices, ready to dispatch; the first input may be owned."""
    desc = owning(BINDING_BASES[index], input_names(BINDING_BASES[index])[: int(owned)])
    operators = [compiled(device, desc) for device in (SCALAR, BEST)]
    for operator in operators:
        if owned:
            name = input_names(desc)[0]
            operator.initialize(**{name: random_inputs(desc, np.random.default_rng(SEED))[name]})
    return operators


class Placement(NamedTuple):
    """A view of the arena."""

    dtype: np.dtype[Any]
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    writeable: bool


TYPES = st.sampled_from(DTYPES)
ARRAY_KINDS = st.sampled_from(("flat", "flat", "shaped", "shaped", "odd"))
SURPLUS = st.sampled_from((0, 0, 0, 1, 9, -1))
SHAPES = st.lists(st.integers(0, 5), max_size=5)
ARRAY_CHANGES = st.sampled_from(("size", "stride", "reverse", "repeat"))
STEPS = st.sampled_from((-1, 1))


def placement(draw: st.DrawFn, described: dmlcpu.TensorDesc) -> Placement:
    """Mostly one that fits."""
    dtype = dtype_of(described.data_type)
    step = dtype.itemsize
    offset = draw(st.integers(0, 200)) * 4
    if draw(st.integers(0, 5)) == 0:
        offset += draw(st.integers(1, 3))
    span = span_in_elements(described.sizes, described.strides)
    kind = draw(ARRAY_KINDS)
    shape = list(described.sizes) if kind == "shaped" else [span + draw(SURPLUS)]
    strides = [step * stride for stride in described.element_strides] if kind == "shaped" else [step]
    if kind == "odd":
        dtype = np.dtype(draw(TYPES))
        shape = draw(SHAPES)
        strides = [draw(st.integers(-3, 12)) for _ in shape]
    elif draw(st.integers(0, 5)) == 0:
        axis = draw(st.integers(0, len(shape) - 1))
        change = draw(ARRAY_CHANGES)
        if change == "size":
            shape[axis] = max(shape[axis] + draw(STEPS), 0)
        else:
            strides[axis] = {"stride": strides[axis] + step, "reverse": -strides[axis], "repeat": 0}[change]
    return Placement(dtype, offset, tuple(shape), tuple(strides), draw(st.integers(0, 9)) > 0)


def view_of(arena: NDArray[np.uint8], placed: Placement) -> NDArray[Any] | None:
    try:
        view: NDArray[Any] = np.ndarray(placed.shape, placed.dtype, arena.data, placed.offset, placed.strides)
    except (ValueError, TypeError):  # beyond the arena, or objects in it
        return None
    view.flags.writeable = placed.writeable
    return view


def seen(value: Any) -> NDArray[Any]:
    return np.asarray(memoryview(value) if isinstance(value, bytes) else value)


def fits(described: dmlcpu.TensorDesc, value: Any, is_output: bool) -> bool:
    """Whether an array is what the documents ask for."""
    if not isinstance(value, np.ndarray | np.generic | bytes):
        return False
    content = seen(value)
    dtype = dtype_of(described.data_type)
    if content.dtype != dtype or not content.dtype.isnative or content.ctypes.data % dtype.alignment:
        return False
    if is_output and not (isinstance(value, np.ndarray) and content.flags.writeable):
        return False
    if content.ndim == 0:
        return math.prod(described.sizes) == 1
    if any(stride % dtype.alignment for stride, size in zip(content.strides, content.shape, strict=True) if size > 1):
        return False
    span = span_in_elements(described.sizes, described.strides)
    if content.ndim == 1 and content.size >= span and (content.strides[0] == dtype.itemsize or content.size == 1):
        return True
    wanted = zip(content.shape, content.strides, described.element_strides, strict=False)
    return content.shape == described.sizes and all(
        size == 1 or here == dtype.itemsize * there for size, here, there in wanted
    )


def is_acceptable(desc: dmlcpu.OperatorDesc, owned: list[str], bindings: dict[str, Any]) -> bool:
    tensors, outputs = tensors_of(desc), output_names(desc)
    touched: dict[str, set[int]] = {}
    for name, value in bindings.items():
        if value is None and (name in outputs or name in owned or not hasattr(desc, name)):
            if name not in tensors:
                return False
            continue
        if name not in tensors or name in owned or not fits(tensors[name], value, name in outputs):
            return False
        touched[name] = addresses(tensors[name], seen(value).ctypes.data)
    if set(input_names(desc)) - set(owned) - touched.keys():
        return False
    return not any(
        touched[name] & touched[other] for name in outputs for other in touched if name in touched and other != name
    )


BINDING_KINDS = st.sampled_from(("placed", "placed", "placed", "object", "left out"))


@st.composite
def calls(draw: st.DrawFn) -> tuple[int, bool, dict[str, Any]]:
    """A desc, whether its first input is owned, and by name "good", a placement in the arena or an object's number."""
    index, owned = draw(st.integers(0, len(BINDING_BASES) - 1)), draw(st.booleans())
    desc = BINDING_BASES[index]
    recipe: dict[str, Any] = {name: "good" for name in input_names(desc)[int(owned) :]}
    recipe |= {name: "good" for name in output_names(desc)}
    for _ in range(draw(st.integers(1, 4))):
        name = draw(st.sampled_from((*tensors_of(desc), *tensors_of(desc), "nonsense", "bias_tensor")))
        kind = draw(BINDING_KINDS)
        if kind == "left out":
            recipe.pop(name, None)
        elif kind == "placed" and name in tensors_of(desc):
            recipe[name] = placement(draw, tensors_of(desc)[name])
        else:
            recipe[name] = draw(st.integers(0, len(OBJECTS) - 1))
    return index, owned, recipe


@given(call=calls())
def test_bindings(call: tuple[int, bool, dict[str, Any]]) -> None:
    index, is_owner, recipe = call
    outcomes = []
    for operator in operators_of(index, is_owner):
        desc = operator.desc
        arena = np.random.default_rng(SEED).integers(0, 256, ARENA, np.uint8)
        outputs = blank_outputs(desc)
        good = {**random_inputs(desc, np.random.default_rng(SEED)), **outputs}
        bindings: dict[str, Any] = {}
        for name, made in recipe.items():
            if made == "good":
                bindings[name] = good[name]
            else:
                bindings[name] = view_of(arena, made) if isinstance(made, Placement) else OBJECTS[made]
        before = arena.copy()
        acceptable = is_acceptable(desc, input_names(desc)[: int(is_owner)], bindings)
        refusal: dmlcpu.BindingError | None = None
        results: dict[str, Any] = {}
        try:
            results = dispatched(operator, **bindings)
        except dmlcpu.BindingError as error:
            refusal = error
        assert (refusal is None) is acceptable, (refusal, bindings)
        if refusal is not None:
            assert refusal.field in {*bindings, *input_names(desc)}
            assert (arena == before).all()
            assert is_blank(outputs)
        contents = [np.asarray(content).tobytes() for content in results.values()]
        outcomes.append((str(refusal), arena.tobytes(), contents))
    assert outcomes[0] == outcomes[1]
