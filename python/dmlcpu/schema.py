"""The record types of the operator tables: what a desc holds, what each feature level allows, what went wrong."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from functools import lru_cache
from typing import Any, ClassVar, Final, Protocol

from dmlcpu.enums import FeatureLevel, OperatorType, TensorDataType
from dmlcpu.tensor import TensorDesc

__all__ = [
    "HIGHEST_FEATURE_LEVEL",
    "Check",
    "DeliberateRefusal",
    "DescValues",
    "Field",
    "FieldKind",
    "OperatorSchema",
    "TensorSupport",
    "Violation",
    "place_of",
]


HIGHEST_FEATURE_LEVEL: Final = max(FeatureLevel)
"""The level that decides between a desc that is invalid and one that needs a higher level."""


class FieldKind(Enum):
    """What a field of an operator's desc holds."""

    INPUT = "input tensor"
    OUTPUT = "output tensor"
    UINT = "unsigned 32-bit integer"
    BOOLEAN = "0 or 1"
    UINT_ARRAY = "array of unsigned 32-bit integers"
    ENUMERATION = "member of an enumeration"
    INPUT_ARRAY = "array of input tensors, each of which is a field of its own: name[0], name[1], ..."


@lru_cache(maxsize=1024)  # more than there are tensors: asked at each call, of each
def place_of(name: str) -> tuple[str, int | None]:
    """Return the attribute of a desc (or keyword of a binding) that holds a field, and the index in an array.

    >>> place_of("input_tensor"), place_of("quantization_tensors[1]")
    (('input_tensor', None), ('quantization_tensors', 1))
    """
    attribute, bracket, rest = name.partition("[")
    return attribute, int(rest[:-1]) if bracket else None


@dataclass(frozen=True, slots=True)
class TensorSupport:
    """What an operator allows of one tensor from a feature level on, until a later entry replaces it.

    Attributes:
        since: The first level it holds at.
        data_types: The data types.
        lowest_rank: The smallest dimension count.
        highest_rank: The largest dimension count.
        optional: Whether the tensor may be absent.
    """

    since: FeatureLevel
    data_types: tuple[TensorDataType, ...]
    lowest_rank: int
    highest_rank: int
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Field:
    """One field of an operator's desc, or one tensor of a field that is an array of them.

    Attributes:
        name: Its name in Python; of a tensor in an array, with the index: ``"quantization_tensors[1]"``.
        kind: What it holds.
        history: Of a tensor, what the feature levels allow of it, latest first, down to the operator's first level.
        members: Of an enumeration, what the operator allows of it.
        attribute: The attribute of the desc that holds it.
        entry: The index in that attribute, of a tensor in an array.
    """

    name: str
    kind: FieldKind
    history: tuple[TensorSupport, ...] = ()
    members: tuple[IntEnum, ...] = ()
    attribute: str = field(init=False)
    entry: int | None = field(init=False)

    def __post_init__(self) -> None:
        """Derive the place from the name."""
        attribute, entry = place_of(self.name)
        object.__setattr__(self, "attribute", attribute)
        object.__setattr__(self, "entry", entry)

    def value_in(self, desc: object) -> Any:
        """Return what a desc holds there; None past the end of an array of tensors, or where there is none."""
        value = getattr(desc, self.attribute)
        if self.entry is None:
            return value
        return value[self.entry] if type(value) is tuple and self.entry < len(value) else None

    def support_at(self, level: FeatureLevel) -> TensorSupport:
        """Return what a level, which has the operator, allows of this tensor."""
        return next(support for support in self.history if support.since <= level)


@dataclass(frozen=True, slots=True, eq=False)
class OperatorSchema:
    """All that is known of an operator's desc. Compares by identity: there is one for each operator.

    Attributes:
        operator_type: The operator.
        introduced: The feature level that introduced it.
        fields: The fields in the order of the DirectML struct, which is also the order of the bindings.
        rules: What holds between fields at every level, in the order of checking.
    """

    operator_type: OperatorType
    introduced: FeatureLevel
    fields: tuple[Field, ...]
    rules: tuple[Rule, ...]

    @property
    def tensors(self) -> tuple[Field, ...]:
        """The fields that hold tensors, in order."""
        return tuple(field for field in self.fields if field.history)

    @property
    def inputs(self) -> tuple[Field, ...]:
        """The fields that hold input tensors, in order."""
        return tuple(field for field in self.fields if field.kind is FieldKind.INPUT)

    @property
    def outputs(self) -> tuple[Field, ...]:
        """The fields that hold output tensors, in order."""
        return tuple(field for field in self.fields if field.kind is FieldKind.OUTPUT)


class Check(Enum):
    """What a check looked at."""

    PRESENCE = "a required tensor or array is there"
    FORM = "values have the right type and are in range"
    DATA_TYPE = "data types are supported and go together"
    DIMENSION_COUNT = "dimension counts are supported and go together"
    SIZES = "sizes go together"
    SCALE_DATA_TYPE = "scales are of the floating output's data type"
    FLAGS = "flags suit the tensor"
    BUFFER_SIZE = "the buffer is neither too small nor too large"
    ALIGNMENT = "the alignment is 0 or a power of two of at least 16"
    GROUPS = "the channels divide into the groups"
    ARRAY_LENGTH = "arrays of attributes are long enough and go together"
    PARAMETER_SIZES = "scales and zero points have one element, or one for each channel"
    BOOLEAN = "a boolean is 0 or 1"
    STEPS = "no stride, dilation or window size is 0"
    WINDOW = "the dilated window is no larger than the padded input"
    OUTPUT_SIZES = "the spatial sizes of the output follow from the input's"
    OUTPUT_ADDRESSES = "no two elements of an output share an address"


@dataclass(frozen=True, slots=True)
class Violation:
    """Why a desc is refused: which check, which field, what it holds, and what would be accepted."""

    check: Check
    field: str
    got: str
    expected: str


@dataclass(frozen=True, slots=True)
class DescValues:
    """The values of a desc whose fields are each well formed; tensors that are absent have no entry.

    Of an array of tensors the number is its length, and of an enumeration that of the member.
    """

    tensors: Mapping[str, TensorDesc]
    numbers: Mapping[str, int]
    arrays: Mapping[str, tuple[int, ...]]

    def present(self, names: Iterable[str]) -> Iterator[tuple[str, TensorDesc]]:
        """Yield the tensors of these names that are there, each with its name."""
        for name in names:
            if (tensor := self.tensors.get(name)) is not None:
                yield name, tensor


class Rule(Protocol):
    """A relation between the fields of a desc: a record that names the fields, and how to check it."""

    check: ClassVar[Check]

    def violation(self, values: DescValues) -> Violation | None:
        """Return what breaks the rule, or None."""


@dataclass(frozen=True, slots=True)
class DeliberateRefusal:
    """A kind of desc that DirectML.dll does not refuse and that is refused here.

    Attributes:
        check: The check that refuses it.
        fields: The fields concerned, by operator.
        recorded: What DirectML.dll does with such a desc.
        reason: Why it is refused.
    """

    check: Check
    fields: Mapping[OperatorType, tuple[str, ...]]
    recorded: str
    reason: str
