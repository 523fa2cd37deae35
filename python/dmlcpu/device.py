"""Devices, operators and compiled operators: DirectML's object model."""

from __future__ import annotations

import os
import sys
from collections import namedtuple
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from operator import index
from threading import Lock
from typing import TYPE_CHECKING, Any

from dmlcpu import _core
from dmlcpu.bindings import BindingResolver, TensorBinding
from dmlcpu.coercion import coerce_member
from dmlcpu.descs.operator_desc import OperatorDesc
from dmlcpu.enums import ExecutionFlags, FeatureLevel, OperatorType, TensorDataType, TensorFlags
from dmlcpu.errors import DmlError, UnsupportedFeatureLevelError, UnsupportedIsaError
from dmlcpu.feature_levels import OPERATORS
from dmlcpu.schema import FieldKind, place_of
from dmlcpu.validation import is_data_type_supported, validate

if TYPE_CHECKING:
    from dmlcpu.graph.descs import GraphDesc

__all__ = ["BindingProperties", "CompiledOperator", "Device", "Operator", "available_isas", "default_device"]


def available_isas() -> tuple[str, ...]:
    """Return the instruction sets that this process can run, worst to best.

    >>> available_isas()[0]
    'scalar'
    """
    return _core.available_isas()


def _choose_isa(isa: str | None) -> str:
    source = "isa"
    if isa is None:
        source, isa = "DMLCPU_ISA", os.environ.get("DMLCPU_ISA") or None
    available = available_isas()
    if isa is None:
        return available[-1]
    if isa not in available:
        known = isa in _core.known_isas()
        reason = _core.unavailable_reason(isa) if known else "no instruction set has this name"
        raise UnsupportedIsaError(f"{source}={isa!r}: {reason}; available here: {', '.join(available)}")
    return isa


def _choose_num_threads(num_threads: int | None) -> int:
    if num_threads is not None:
        source, count = f"num_threads={num_threads!r}", _integer("num_threads", num_threads)
    elif text := os.environ.get("DMLCPU_NUM_THREADS"):
        is_number = text.strip().isdecimal() and len(text) < 20  # Python refuses to read thousands of digits
        source, count = f"DMLCPU_NUM_THREADS={text!r}", int(text) if is_number else 0
    else:
        return min(_core.usable_processor_count(), _MAX_THREADS)
    if not 1 <= count <= _MAX_THREADS:
        raise ValueError(f"{source}; expected a number of threads from 1 to {_MAX_THREADS}")
    return count


def _integer(name: str, value: Any) -> int:
    try:
        return index(value)
    except TypeError:
        raise TypeError(f"{name}={value!r}; expected an integer") from None


# More than any machine has processors; each slot of a plan costs scratch memory.
_MAX_THREADS = 1024


class Device:
    """A CPU that presents a DirectML feature level (``IDMLDevice``). Cheap, thread-safe, and several may live at once.

    Args:
        feature_level: The level presented; what a higher level allows is refused.
        num_threads: Threads of one dispatch at most; by default ``DMLCPU_NUM_THREADS``, else the processors that
            affinity and the container's limit leave to this process.
        isa: An instruction set of ``available_isas()``; by default ``DMLCPU_ISA``, else the best one.

    Raises:
        UnsupportedFeatureLevelError: The feature level is unknown.
        UnsupportedIsaError: The instruction set is unknown, or this machine cannot run it.
        ValueError: ``num_threads`` is below 1 or above 1024.
        TypeError: ``num_threads`` is no integer.

    >>> Device(isa="scalar", num_threads=1)
    Device(feature_level=FeatureLevel.LEVEL_6_4, num_threads=1, isa='scalar')
    """

    def __init__(
        self,
        feature_level: FeatureLevel = FeatureLevel.LEVEL_6_4,
        num_threads: int | None = None,
        isa: str | None = None,
    ) -> None:
        try:
            self._feature_level = FeatureLevel(feature_level)
        except ValueError:
            known = f"{min(FeatureLevel).name} to {max(FeatureLevel).name}"
            raise UnsupportedFeatureLevelError(f"feature_level={feature_level!r}; expected {known}") from None
        self._isa = _choose_isa(isa)
        self._num_threads = _choose_num_threads(num_threads)
        self._key = (self._feature_level, self._num_threads, self._isa)

    def __eq__(self, other: object) -> bool:
        """Return whether operators compiled by the one could have been compiled by the other."""
        return isinstance(other, Device) and self._key == other._key

    def __hash__(self) -> int:
        """Return equal values for equal devices."""
        return hash(self._key)

    def __reduce__(self) -> tuple[type[Device], tuple[FeatureLevel, int, str]]:
        """Pickle as a call, so that a machine without the instruction set refuses it."""
        return Device, self._key

    def __repr__(self) -> str:
        """Return the call that makes an equal device."""
        level = f"FeatureLevel.{self._feature_level.name}"
        return f"Device(feature_level={level}, num_threads={self._num_threads}, isa={self._isa!r})"

    @property
    def feature_level(self) -> FeatureLevel:
        """The feature level that the device presents."""
        return self._feature_level

    @property
    def num_threads(self) -> int:
        """Threads of one dispatch at most, the caller's included."""
        return self._num_threads

    @property
    def isa(self) -> str:
        """The instruction set in use."""
        return self._isa

    def check_feature_levels(self, levels: Sequence[FeatureLevel]) -> FeatureLevel:
        """Return the highest of the given levels that the device supports (``DML_FEATURE_FEATURE_LEVELS``).

        Raises:
            UnsupportedFeatureLevelError: It supports none of them.

        >>> device = Device(FeatureLevel.LEVEL_5_0)
        >>> device.check_feature_levels([FeatureLevel.LEVEL_2_0, FeatureLevel.LEVEL_4_1, FeatureLevel.LEVEL_6_4])
        <FeatureLevel.LEVEL_4_1: 16640>
        """
        given = list(levels)
        known = [level for level in FeatureLevel if level in given]
        supported = [level for level in known if level <= self._feature_level]
        if not supported:
            raise UnsupportedFeatureLevelError(
                f"none of {', '.join(level.name for level in known) or given} is at most {self._feature_level.name}, "
                "the level of this device",
                required_level=min(known, default=None),
            )
        return max(supported)

    def is_data_type_supported(self, data_type: TensorDataType) -> bool:
        """Return whether some operator at this level uses the type (``DML_FEATURE_TENSOR_DATA_TYPE_SUPPORT``).

        Raises:
            TypeError: It is no integer.
        """
        member = coerce_member(TensorDataType, _integer("data_type", data_type))
        return is_data_type_supported(self._feature_level, member)

    def create_operator(self, desc: OperatorDesc) -> Operator:
        """Check a desc against every rule of this device's feature level (``IDMLDevice::CreateOperator``).

        Raises:
            InvalidDescError: No feature level accepts the desc.
            UnsupportedFeatureLevelError: A higher feature level accepts it.
            TypeError: It is no operator's desc.
        """
        return Operator(self, desc)

    def compile_operator(self, operator: Operator, flags: ExecutionFlags = ExecutionFlags.NONE) -> CompiledOperator:
        """Choose kernels and blocking, and size the workspace (``IDMLDevice::CompileOperator``).

        No execution flag changes a result. With ``DMLCPU_VERBOSE=1`` one line on stderr tells what was chosen.

        Raises:
            DmlError: Another device created the operator.
            ValueError: A flag is unknown.
        """
        if not isinstance(operator, Operator):
            raise TypeError(f"expected an Operator, got an object of type {type(operator).__name__}")
        if operator.device != self:
            raise DmlError(f"{operator.type.name}: the operator was created by another device, {operator.device!r}")
        check_flags(flags)
        compiled = CompiledOperator(operator)
        print_plan(compiled)
        return compiled

    def compile_graph(self, desc: GraphDesc, flags: ExecutionFlags = ExecutionFlags.NONE) -> CompiledOperator:
        """Compile a graph of operators (``IDMLDevice1::CompileGraph``), from feature level 2_1 on.

        The graph runs in one native call; its values share memory and lie in it as suits the operators best. The bits
        are those of the operators run one after the other.

        Raises:
            InvalidDescError: A node or an edge breaks a rule of graphs.
            UnsupportedFeatureLevelError: The device's level has no graphs, or no constant nodes.
            DmlError: Another device created one of the operators.
            ValueError: A flag is unknown.
        """
        from dmlcpu.graph.compiled_graph import CompiledGraph
        from dmlcpu.graph.connections import connect

        check_flags(flags)
        compiled = CompiledGraph(self, connect(desc, self))
        print_plan(compiled)
        return compiled


def check_flags(flags: ExecutionFlags) -> None:
    """Raise ValueError for a flag that does not exist."""
    if _integer("flags", flags) & ~sum(ExecutionFlags):
        raise ValueError(
            f"flags={flags!r}; expected a combination of {', '.join(f.name or '' for f in ExecutionFlags)}"
        )


def print_plan(compiled: CompiledOperator) -> None:
    """Print what was chosen on stderr if ``DMLCPU_VERBOSE`` asks for it: a line for an operator or a graph's step."""
    if os.environ.get("DMLCPU_VERBOSE", "0") not in ("", "0"):
        lines = compiled.describe().splitlines()
        steps = [line for line in lines if line.startswith("step ")]
        for line in ("; ".join(lines[: len(lines) - len(steps)]), *steps):
            print(f"dmlcpu: {line}", file=sys.stderr)


@dataclass(frozen=True, slots=True)
class Operator:
    """A desc that a device has accepted (``IDMLOperator``). Made by ``Device.create_operator``."""

    device: Device
    desc: OperatorDesc

    def __post_init__(self) -> None:
        """Check the desc, however the operator is made."""
        validate(self.desc, self.device.feature_level)

    @property
    def type(self) -> OperatorType:
        """Which operator it is."""
        return self.desc.operator_type


@dataclass(frozen=True, slots=True)
class BindingProperties:
    """The memory that a compiled operator uses besides its bindings (``DML_BINDING_PROPERTIES``), in bytes.

    Attributes:
        temporary_resource_size: Workspace of one dispatch, shared by all operators that a thread runs.
        persistent_resource_size: The owned tensors, as kept after ``initialize``.
    """

    temporary_resource_size: int
    persistent_resource_size: int


class CompiledOperator:
    """An operator ready to run (``IDMLCompiledOperator``). Made by ``Device.compile_operator``."""

    def __init__(self, operator: Operator) -> None:
        """Plan the operator; use ``Device.compile_operator``."""
        self._operator = operator
        tensors = operator_tensors(operator.desc)
        outputs = [tensor.name for tensor in tensors if tensor.output and tensor.desc is not None]
        self._has_owned = any(tensor.owned for tensor in tensors)
        self._initialized_empty = False
        self._initialize_lock = Lock()
        self._resolver = BindingResolver(operator.type.name, tensors)
        self._native = _core.bind_operator(
            operator.type.name,
            [place_of(tensor.name) for tensor in tensors],
            [_tensor_row(tensor) for tensor in tensors],
            operator_attributes(operator.desc),
            operator.device.isa,
            operator.device.num_threads,
            self._resolver,
            result_type("".join(word.title() for word in operator.type.name.split("_")) + "Outputs", tuple(outputs)),
        )

    def __repr__(self) -> str:
        """Return the operator's name and where it runs."""
        device = self._operator.device
        return f"<CompiledOperator {self._operator.type.name} isa={device.isa} num_threads={device.num_threads}>"

    @property
    def desc(self) -> OperatorDesc:
        """The desc that was compiled."""
        return self._operator.desc

    @property
    def binding_properties(self) -> BindingProperties:
        """The memory that the operator uses besides its bindings."""
        return BindingProperties(self._native.temporary_resource_size, self._native.persistent_resource_size)

    def describe(self) -> str:
        """Tell the algorithm, blocking, kernels and threads that were chosen, and why: one property a line."""
        device = self._operator.device
        head = f"operator: {self._operator.type.name}\nisa: {device.isa}\nnum_threads: {device.num_threads}"
        return f"{head}\n{self._native.describe()}"

    def initialize(self, **owned: Any) -> None:
        """Bind the OWNED_BY_DML inputs; they are copied and packed, so the arrays may be changed or freed afterwards.

        Args:
            owned: One array for each tensor of the desc that is flagged OWNED_BY_DML, by field name. For an array of
                tensors a tuple or list of its full length, with None in the places that ``dispatch`` binds.

        Raises:
            BindingError: An array is missing, unknown or does not fit. The call may be repeated.
            DmlError: The operator is initialized already.
            MemoryError: The copies do not fit in memory. The call may be repeated.
        """
        if self._has_owned:
            initialized = not self._native.ready and self._native.initialize(owned)
        else:
            self._resolver(owned, True, True)
            with self._initialize_lock:
                initialized, self._initialized_empty = not self._initialized_empty, True
        if not initialized:
            raise DmlError(f"{self._operator.type.name}: the operator is initialized already; compile another one")

    def dispatch(self, **bindings: Any) -> Any:
        """Run the operator once, without the GIL. Any number of threads may dispatch one operator at once.

        Args:
            bindings: By field name, one array for each tensor of the desc that is not OWNED_BY_DML: of exactly its data
                type, and either shaped as the desc or 1-D and long enough. An output that is left out, or None, is
                allocated. For an array of tensors a tuple or list of its full length, with None in the places that
                ``initialize`` has bound. Of 4-bit elements either the packed bytes, two elements in each, as a
                contiguous 1-D ``uint8`` array, or an array of ``ml_dtypes``' ``int4`` or ``uint4`` in any of the
                forms above: these have one element a byte, so they pass through a packed copy. A new one is packed.

        Returns:
            The output array, or a named tuple of them; an array that was passed is itself returned.

        Raises:
            BindingError: An array is missing, unknown, does not fit, or overlaps an output. Nothing was written.
            DmlError: The operator has OWNED_BY_DML tensors and was not initialized.
            MemoryError: Workspace or outputs do not fit in memory. Nothing was written.
        """
        return self._native.dispatch(bindings)


def operator_tensors(desc: OperatorDesc) -> tuple[TensorBinding, ...]:
    """Return the tensors of a desc in the order of the struct, in which inputs come before outputs."""
    return tuple(
        _tensor_binding(field.name, field.value_in(desc), field.kind) for field in OPERATORS[desc.operator_type].tensors
    )


def operator_attributes(desc: OperatorDesc) -> dict[str, tuple[int, ...]]:
    """Return the other fields of a desc; a number is an array of one."""
    return {
        field.name: value if isinstance(value := getattr(desc, field.name), tuple) else (value,)
        for field in OPERATORS[desc.operator_type].fields
        if field.kind in (FieldKind.UINT, FieldKind.UINT_ARRAY)
    }


def _tensor_binding(name: str, desc: Any, kind: FieldKind) -> TensorBinding:
    owned = desc is not None and bool(desc.flags & TensorFlags.OWNED_BY_DML)
    return TensorBinding(name, desc, owned, kind is FieldKind.OUTPUT)


def _tensor_row(tensor: TensorBinding) -> tuple[int, Sequence[int], Sequence[int], bool, bool] | None:
    if tensor.desc is None:
        return None
    return (int(tensor.desc.data_type), tensor.desc.sizes, tensor.desc.element_strides, tensor.owned, tensor.output)


@cache
def result_type(name: str, fields: tuple[str, ...]) -> Any:
    """Return the class of an operator's several outputs; its values pickle by the names, not by a place in a module."""
    outputs: Any = namedtuple(name, fields)  # type: ignore[misc]  # the names are data, known for each operator
    members = {"__slots__": (), "__reduce__": lambda self: (_make_result, (name, fields, tuple(self)))}
    return type(name, (outputs,), members)


def _make_result(name: str, fields: tuple[str, ...], outputs: tuple[Any, ...]) -> Any:
    return result_type(name, fields)(*outputs)


@cache
def default_device() -> Device:
    """Return the device of functions that are not given one: the highest level, made at the first use."""
    return Device()
