"""Compiled operators: what is left of DirectML's object model once a device has planned an operator."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Sequence
from functools import cache
from threading import Lock
from typing import Any

from dmlcpu import _core
from dmlcpu.bindings import BindingResolver, TensorBinding
from dmlcpu.created_operator import Operator
from dmlcpu.descriptions import BindingProperties
from dmlcpu.descs.operator_desc import OperatorDesc
from dmlcpu.enums import TensorFlags
from dmlcpu.errors import DmlError
from dmlcpu.feature_levels import OPERATORS
from dmlcpu.schema import FieldKind, place_of

__all__ = [
    "CompiledOperator",
    "native_operator",
    "operator_attributes",
    "operator_tensors",
    "result_type",
]


class CompiledOperator:
    """An operator ready to run (``IDMLCompiledOperator``). Made by ``Device.compile_operator``.

    Kernels, blocking and threads are chosen, and the workspace is sized; ``describe`` tells them. ``initialize`` binds
    the inputs flagged OWNED_BY_DML, once; where there are none it may be left out. ``dispatch`` binds all others, as
    often as you like, from any number of threads at once. Graphs are compiled operators as well.

    >>> import numpy as np
    >>> from dmlcpu import Device, ElementWiseDequantizeLinearOperatorDesc, TensorDataType, TensorDesc
    >>> device = Device(num_threads=1)
    >>> operator = device.create_operator(ElementWiseDequantizeLinearOperatorDesc(
    ...     input_tensor=TensorDesc(TensorDataType.UINT8, (3,)),
    ...     scale_tensor=TensorDesc(TensorDataType.FLOAT32, (3,), strides=(0,), flags=TensorFlags.OWNED_BY_DML),
    ...     output_tensor=TensorDesc(TensorDataType.FLOAT32, (3,))))
    >>> compiled = device.compile_operator(operator)
    >>> compiled.initialize(scale_tensor=np.float32([0.5]))
    >>> compiled.dispatch(input_tensor=np.uint8([1, 2, 255]))
    array([  0.5,   1. , 127.5], dtype=float32)
    >>> memory = np.zeros((2, 3), np.float32)
    >>> row = memory[1]
    >>> compiled.dispatch(input_tensor=np.uint8([4, 5, 6]), output_tensor=row) is row
    True
    >>> memory
    array([[0. , 0. , 0. ],
           [2. , 2.5, 3. ]], dtype=float32)
    """

    def __init__(self, operator: Operator) -> None:
        """Plan the operator; use ``Device.compile_operator``.

        Raises:
            TypeError: It is no operator.
        """
        if not isinstance(operator, Operator):
            got = f"an object of type {type(operator).__name__}"
            raise TypeError(
                f"operator: got {got}, expected an Operator; Device.compile_operator makes a CompiledOperator"
            )
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

    def __reduce__(self) -> Any:
        """Raise TypeError: what is compiled is of this process alone."""
        raise TypeError("a CompiledOperator cannot be copied or pickled; pickle its desc, and compile that again")

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


def native_operator(compiled: CompiledOperator) -> _core.BoundOperator:
    """Return what the native module knows an operator by."""
    return compiled._native


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
        if field.kind in (FieldKind.UINT, FieldKind.BOOLEAN, FieldKind.UINT_ARRAY)
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
