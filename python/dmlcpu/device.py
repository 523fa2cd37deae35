"""Devices, which create and compile operators: DirectML's object model."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from functools import cache
from operator import index
from typing import Any

from dmlcpu import _core
from dmlcpu.coercion import coerce_integer, coerce_member
from dmlcpu.compiled_operator import CompiledOperator
from dmlcpu.created_operator import Operator
from dmlcpu.descs.operator_desc import OperatorDesc
from dmlcpu.enums import ExecutionFlags, FeatureLevel, TensorDataType
from dmlcpu.errors import DmlError, UnsupportedFeatureLevelError, UnsupportedIsaError
from dmlcpu.graph.compiled_graph import CompiledGraph
from dmlcpu.graph.connections import connect
from dmlcpu.graph.descs import GraphDesc
from dmlcpu.shown_values import shown
from dmlcpu.validation import is_data_type_supported

__all__ = ["Device", "available_isas", "check_flags", "default_device", "print_plan"]


def available_isas() -> tuple[str, ...]:
    """Return the instruction sets that this process can run, worst to best.

    There is always one, since ``scalar`` runs on every CPU, and no environment variable counts.

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
    if not isinstance(isa, str) or isa not in available:
        known = isinstance(isa, str) and isa in _core.known_isas()
        reason = _core.unavailable_reason(isa) if known else "no instruction set has this name"
        near = isa.strip().lower() if isinstance(isa, str) else ""
        told = f", the nearest is {near!r}" if not known and near in _core.known_isas() else ""
        raise UnsupportedIsaError(f"{source}={shown(isa)}: {reason}{told}; available here: {', '.join(available)}")
    return isa


def _choose_num_threads(num_threads: int | None) -> int:
    if num_threads is not None:
        count = _integer("num_threads", num_threads)
        source = f"num_threads={shown(count)}"
    elif text := os.environ.get("DMLCPU_NUM_THREADS"):
        is_number = text.strip().isdecimal() and len(text) < 20  # Python refuses to read thousands of digits
        source, count = f"DMLCPU_NUM_THREADS={text!r}", int(text) if is_number else 0
    else:
        return min(_core.usable_processor_count(), _core.MOST_THREADS)
    if not 1 <= count <= _core.MOST_THREADS:
        raise ValueError(f"{source}; expected a number of threads from 1 to {_core.MOST_THREADS}")
    return count


def _integer(name: str, value: Any, expected: str = "an integer") -> int:
    try:
        return index(value)
    except TypeError:
        raise TypeError(f"{name}={shown(value)}; expected {expected}") from None


class Device:
    """A CPU that presents a DirectML feature level (``IDMLDevice``). Cheap, thread-safe, and several may live at once.

    Args:
        feature_level: The level presented; what a higher level allows is refused.
        num_threads: Threads of one dispatch at most; by default ``DMLCPU_NUM_THREADS``, else the processors that
            the affinity of the calling thread and the container's limit leave.
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
        self._feature_level = coerce_member(FeatureLevel, feature_level)
        if not isinstance(self._feature_level, FeatureLevel):
            known = f"a dmlcpu.FeatureLevel, from {min(FeatureLevel).name} to {max(FeatureLevel).name}"
            example = f"such as dmlcpu.FeatureLevel.{max(FeatureLevel).name}"
            message = f"feature_level={shown(self._feature_level)}; expected {known}, {example}"
            if isinstance(feature_level, str) and feature_level in _core.known_isas():
                message += f"; an instruction set is isa={feature_level!r}"
            raise UnsupportedFeatureLevelError(message)
        self._isa = _choose_isa(isa)
        self._num_threads = _choose_num_threads(num_threads)
        self._key = (self._feature_level, self._num_threads, self._isa)

    def __eq__(self, other: object) -> bool:
        """Return whether operators compiled by the one could have been compiled by the other."""
        return isinstance(other, Device) and self._key == other._key

    def __hash__(self) -> int:
        """Return equal values for equal devices."""
        return hash(self._key)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as a call, so that a machine without the instruction set refuses it, and what a derived class sets."""
        return _made_again, (type(self), *self._key), vars(self)

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
            TypeError: They are no sequence.

        >>> device = Device(FeatureLevel.LEVEL_5_0)
        >>> device.check_feature_levels([FeatureLevel.LEVEL_2_0, FeatureLevel.LEVEL_4_1, FeatureLevel.LEVEL_6_4])
        <FeatureLevel.LEVEL_4_1: 16640>
        """
        if not isinstance(levels, Iterable) or isinstance(levels, str | bytes):
            raise TypeError(f"levels={shown(levels)}; expected a sequence of FeatureLevels")
        given = list(levels)
        known = [level for level in FeatureLevel if level in given]
        supported = [level for level in known if level <= self._feature_level]
        if not supported:
            unknown = [shown(coerce_integer(level)) for level in given if level not in known]
            reasons = [f"no feature level is {' or '.join(unknown)}"] if unknown else []
            if any(type(coerce_integer(level)) is not int for level in given):
                reasons.append(f"expected members of dmlcpu.FeatureLevel, such as {max(FeatureLevel).name}")
            if known:
                above = f"none of {', '.join(level.name for level in known)} is at most {self._feature_level.name}"
                reasons.insert(0, f"{above}, the level of this device")
            message = "; ".join(reasons) or "levels: got none, expected at least one FeatureLevel"
            raise UnsupportedFeatureLevelError(message, required_level=min(known, default=None))
        return max(supported)

    def is_data_type_supported(self, data_type: TensorDataType | int) -> bool:
        """Return whether some operator at this level uses the type (``DML_FEATURE_TENSOR_DATA_TYPE_SUPPORT``).

        Raises:
            TypeError: It is no integer.
        """
        number = _integer("data_type", data_type, "a dmlcpu.TensorDataType, such as TensorDataType.UINT8")
        member = coerce_member(TensorDataType, number)
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
            DmlError: A device that is not equal to this one created the operator.
            ValueError: A flag is unknown.
        """
        if not isinstance(operator, Operator):
            told = "; create_operator makes one of a desc" if isinstance(operator, OperatorDesc) else ""
            raise TypeError(f"expected an Operator, got an object of type {type(operator).__name__}{told}")
        if operator.device != self:
            another = f"created by another device, {operator.device!r}, than compiles it, {self!r}"
            raise DmlError(f"{operator.type.name}: the operator was {another}")
        check_flags(flags)
        compiled = CompiledOperator(operator)
        print_plan(compiled)
        return compiled

    def compile_graph(self, desc: GraphDesc, flags: ExecutionFlags = ExecutionFlags.NONE) -> CompiledGraph:
        """Compile a graph of operators (``IDMLDevice1::CompileGraph``), from feature level 2_1 on.

        The graph runs in one native call; its values share memory and lie in it as suits the operators best. The bits
        are those of the operators run one after the other. Nodes that no output needs are checked and left out; their
        inputs of the graph are to be bound all the same.

        Raises:
            InvalidDescError: A node or an edge breaks a rule of graphs.
            UnsupportedFeatureLevelError: The device's level has no graphs, or no constant nodes.
            DmlError: A device that is not equal to this one created one of the operators.
            ValueError: A flag is unknown.
        """
        check_flags(flags)
        compiled = CompiledGraph(self, connect(desc, self))
        print_plan(compiled)
        return compiled


def _made_again(kind: type[Device], feature_level: FeatureLevel, num_threads: int, isa: str) -> Device:
    device = object.__new__(kind)  # the constructor of a derived class may take other arguments
    Device.__init__(device, feature_level, num_threads, isa)
    return device


def check_flags(flags: ExecutionFlags) -> None:
    """Raise ValueError for a flag that does not exist."""
    number = _integer("flags", flags, "dmlcpu.ExecutionFlags, such as ExecutionFlags.NONE")
    if number & ~sum(ExecutionFlags):
        raise ValueError(
            f"flags={shown(number)}; expected a combination of {', '.join(f.name or '' for f in ExecutionFlags)}"
        )


def print_plan(compiled: CompiledOperator) -> None:
    """Print what was chosen on stderr if ``DMLCPU_VERBOSE`` asks for it: a line for an operator or a graph's step."""
    # A process may have no stderr; to print, None means stdout.
    if os.environ.get("DMLCPU_VERBOSE", "0") not in ("", "0") and sys.stderr is not None:
        lines = compiled.describe().splitlines()
        steps = [line for line in lines if line.startswith("step ")]
        for line in ("; ".join(lines[: len(lines) - len(steps)]), *steps):
            print(f"dmlcpu: {line}", file=sys.stderr)


@cache
def default_device() -> Device:
    """Return the device of functions and graphs that are not given one: of the highest level, made at the first use.

    Raises:
        UnsupportedIsaError: ``DMLCPU_ISA`` is no instruction set that this machine can run.
        ValueError: ``DMLCPU_NUM_THREADS`` is no number from 1 to 1024.

    >>> default_device() is default_device()
    True
    >>> default_device().feature_level is max(FeatureLevel)
    True
    """
    return Device()
