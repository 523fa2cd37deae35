"""Runs the nodes that have no kernel, on onnxruntime or onnx's reference evaluator."""

from __future__ import annotations

import ctypes
import os
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx

from dmlcpu import _core
from dmlcpu.errors import InvalidModelError, MissingRuntimeError
from dmlcpu.graph.trace import StepTime
from dmlcpu.onnx.constant_arrays import Array
from dmlcpu.onnx.constants.evaluator import evaluator_of
from dmlcpu.onnx.foreign.guards import told_by_guard
from dmlcpu.onnx.foreign.parts import FOLLOWS, ForeignPart, OpenSession
from dmlcpu.onnx.models.extraction import inferred
from dmlcpu.onnx.models.nodes import Node
from dmlcpu.onnx.models.operator_forms import is_of_onnx
from dmlcpu.onnx.models.subgraphs import all_nodes, graphs_within
from dmlcpu.onnx.models.tensor_protos import tensors_of
from dmlcpu.onnx.refusals import RefusedRunError, UnfitLengthsError
from dmlcpu.onnx.type_names import CONTAINERS

__all__ = ["OF_ONNXRUNTIME", "ForeignRunner"]

# Another runtime's session keeps the model's bytes about as often, its own forms of the weights among them.
_COPIES_OF_OTHERS = 5
# Operators by which onnxruntime ends the process where there are no queries: it divides by their number.
_DIVIDING = frozenset({"GroupQueryAttention"})
# Exceptions of onnxruntime that no other choice of its optimizers would spare a model.
_OF_ANY_OPTIMIZATION = frozenset({"InvalidGraph", "NotImplemented"})
# Types of which nodes refuse some values: indices, lengths and words.
_REFUSABLE = frozenset(map(np.dtype, ("int32", "int64", "object")))
# What onnxruntime says, by exceptions as others, where memory is short.
_OF_MEMORY = ("Failed to allocate memory", "bad_alloc", "bad allocation")
OF_ONNXRUNTIME = frozenset(
    {"Affine", "Crop", "DynamicSlice", "ImageScaler", "ParametricSoftplus", "Scale", "ScaledTanh"}
    | {"SimplifiedLayerNormalization"}
)
"""Operators that onnxruntime runs in ONNX's domain, and ONNX does not have."""
# A message names this many nodes that have no kernel.
_MOST_NODES_TOLD = 8


class ForeignRunner:
    """Another runtime's session of a part, and what it is fed.

    Args:
        part: What it runs.
        num_threads: Threads of an operator.
        is_beside_native: Whether native parts run before or after it: threads of onnxruntime's that watch for its next
            operator would hold the processors that those parts' threads need.

    Attributes:
        provider: Who runs it, ``"onnxruntime"`` or ``"onnx.reference"``: slow but complete, it takes what onnxruntime
            has no kernel for.
        size: An estimate of its bytes; a session that is for all lengths is every plan's.

    Raises:
        MissingRuntimeError: onnxruntime cannot be imported; the message names nodes that need it.
        UnfitLengthsError: Operands do not fit together.
        InvalidModelError: Nodes are not valid, or neither runtime knows them.
    """

    def __init__(self, part: ForeignPart, num_threads: int, *, is_beside_native: bool = False) -> None:
        self._part, self._num_threads, self._is_beside_native = part, num_threads, is_beside_native
        self._queries = {node.inputs[0] for node in part.nodes if node.operator in _DIVIDING and node.inputs}
        self._inputs, self._outputs = tuple(part.inputs.items()), list(part.outputs)
        self._constants = {name: np.asarray(array, order="C") for name, array in _arrays(part).items()}
        self._model = part.model
        outputs = part.model.proto.graph.output
        self._containers = {value.name for value in outputs if value.type.WhichOneof("value") in CONTAINERS}
        if self._model.is_refused:
            self._fix_lengths()
        self._open()
        own = 0 if self._model.is_shared else _COPIES_OF_OTHERS * self._model.num_bytes
        self.size = own + sum(array.nbytes for array in self._constants.values())

    def _fix_lengths(self) -> None:
        """Go on with a model for the part's own lengths alone."""
        self._model, self._constants = self._model.with_constants(self._constants), {}

    def _open(self) -> None:
        """Open the other runtime's session, unless this process has, for another plan."""
        opened = self._model.opened
        if opened is not None and opened.process != os.getpid():
            # Never freed: onnxruntime would wait for the threads of the session, which are not in a child of fork().
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(opened.session))
            opened = None
        if opened is None:
            try:
                opened = self._opened_for_any_lengths()
            except (MissingRuntimeError, InvalidModelError):
                if self._part.unfit:  # which no runtime helps
                    raise UnfitLengthsError(self._part.unfit) from None
                raise
            self._model.opened = opened
        self.provider, self._session, self._process = opened

    def _opened_for_any_lengths(self) -> OpenSession:
        """Open a session of the model, or, where that is refused, for the lengths at hand."""
        opened = self._opened()
        if opened is None:
            self._model.is_refused = True
            self._fix_lengths()
            opened = self._opened()
            assert opened is not None  # for the lengths at hand it is open, or an error
        return opened

    def _opened(self) -> OpenSession | None:
        """Open a session of the model; None if a model for the lengths at hand is to be tried."""
        nodes = _told(self._part)
        if self._part.by_reference:
            return _reference(self._part, self._model.whole(), nodes)
        opened = self._opened_by_onnxruntime(nodes)
        if isinstance(opened, OpenSession):
            return opened
        return None if self._constants else _reference(self._part, self._model.whole(), nodes, opened)

    def _opened_by_onnxruntime(self, nodes: str) -> OpenSession | str:
        """Open a session of onnxruntime's; where it takes the model with no set of its optimizers return why."""
        try:
            import onnxruntime
        except ImportError as error:
            _check_known(self._part)
            is_absent = isinstance(error, ModuleNotFoundError) and error.name == "onnxruntime"
            why = "is not installed (pip install onnxruntime)" if is_absent else f"cannot be imported ({error})"
            raise MissingRuntimeError(
                f"nodes have no kernel, and onnxruntime, which could run them, {why}: {nodes}"
            ) from (None if is_absent else error)
        if onnxruntime is sys.modules["dmlcpu"]:
            raise MissingRuntimeError(
                f"nodes have no kernel, and a program has put dmlcpu in onnxruntime's place (sys.modules): {nodes}"
            )
        serialized = self._model.proto.SerializeToString()
        refusal = kind = ""
        for disabled in _disabled(self._part):
            if kind in _OF_ANY_OPTIMIZATION:
                break
            for is_precise in _precisions(self._model.proto):
                options = self._options(is_precise)
                try:
                    session = onnxruntime.InferenceSession(
                        serialized, options, providers=["CPUExecutionProvider"], disabled_optimizers=disabled
                    )
                    return OpenSession("onnxruntime", session, os.getpid())
                except Exception as error:  # whatever onnxruntime raises: no caller knows its exceptions
                    refusal, kind = str(error), type(error).__name__
        return refusal

    def _options(self, is_precise: bool) -> Any:
        """Return onnxruntime's options for a session of the part."""
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = self._num_threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 4  # what is wrong is raised
        if self._is_beside_native:
            options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        if is_precise:
            options.add_session_config_entry("session.x64quantprecision", "1")
        if _keeps_floats(self._part):
            options.add_session_config_entry("session.disable_quant_qdq", "1")
        supplied = self._model.supplied  # not copied: the model keeps them as long as its session
        options.add_external_initializers(
            list(supplied), [onnxruntime.OrtValue.ortvalue_from_numpy(array) for array in supplied.values()]
        )
        return options

    def run(self, values: dict[str, Array], profile: bool) -> tuple[StepTime, ...]:
        """Read what the part reads from the values, and add what it writes.

        Raises:
            RefusedRunError: The nodes refuse indices, lengths or words among what they read.
            UnfitLengthsError: They cannot run on what they read, whatever its values are.
            InvalidModelError: What they make is no tensor, or they have no queries.
            MemoryError: Memory is short.
        """
        if self._process != os.getpid():
            self._open()
        feeds = {own: values[name] for own, name in self._inputs} | self._constants
        if self._queries:
            self._check_queries(feeds)
        try:
            with np.errstate(all="ignore"):
                results = self._session.run(self._outputs, feeds)
        except Exception as error:  # whatever the other runtime raises: no caller knows its exceptions
            read = [values[name] for _, name in self._inputs]
            failed = _run_error(error, self._part.unfit, f"{_named(self._part)}: {_in_short(str(error))}", read)
            if type(failed) is UnfitLengthsError and self.provider != "onnxruntime" and not self._part.unfit:
                failed = InvalidModelError(str(failed))  # which onnxruntime has refused, whatever the lengths are
            raise failed from None
        for name, result in zip(self._outputs, results, strict=True):
            if name in self._containers:  # nothing but who calls the model reads it
                values[name] = result
            elif isinstance(result, np.ndarray | np.generic):
                values[name] = np.asarray(result)
            else:
                raise InvalidModelError(f"{_named(self._part)}: their result {name} is no tensor")
        return ()

    def can_run_packed(self, outputs: Sequence[str]) -> bool:
        """Return whether ``run_packed`` takes the values that the part reads, and makes these."""
        return (
            self.provider == "onnxruntime"
            and not self._constants
            and not self._containers
            and all(own == name for own, name in self._inputs)
            and {*outputs} <= {*self._outputs}
            and len({*outputs}) == len(outputs)  # of a name that comes twice onnxruntime makes one memory
        )

    def run_packed(self, feeds: dict[str, Array], outputs: list[str]) -> list[Array] | None:
        """Return some of what the part makes of feeds of types and shapes that ``run`` has taken before.

        It is None where ``run`` has more to do, or tells what is wrong.
        """
        if self._process != os.getpid() or self.provider != "onnxruntime":
            return None
        try:
            results: list[Any] = _core.call_in_default_float_environment(self._session.run, outputs, feeds)
        except Exception:  # whatever onnxruntime raises: it does so again, and is quoted with the nodes
            return None
        for place, result in enumerate(results):
            if type(result) is not np.ndarray:
                if not isinstance(result, np.generic):
                    return None
                results[place] = np.asarray(result)
        return results

    def _check_queries(self, feeds: Mapping[str, Array]) -> None:
        """Raise InvalidModelError where an operator that divides by the number of its queries has none."""
        shapes = {tensor.name: tuple(tensor.dims) for tensor in self._model.proto.graph.initializer}
        shapes |= {name: feed.shape for name, feed in feeds.items()}
        for name, shape in shapes.items():
            if shape[:1] == (0,) or (name in self._queries and 0 in shape):
                raise InvalidModelError(f"{_named(self._part)}: got {name} of shape {shape}, expected some queries")


def _run_error(error: Exception, unfit: str, message: str, read: Sequence[Any]) -> Exception:
    """Return what is raised of another runtime's error in a run of nodes that it took when they were opened.

    Floats and codes are right whatever they are: without indices, lengths or words among what the nodes read, the fault
    is that of lengths, or the model's.
    """
    if isinstance(error, MemoryError) or any(words in str(error) for words in _OF_MEMORY):
        return MemoryError(message)
    if unfit:
        return UnfitLengthsError(unfit)
    types = {value.dtype for value in read if isinstance(value, np.ndarray)}  # of sequences only parts are read
    return UnfitLengthsError(message) if types.isdisjoint(_REFUSABLE) else RefusedRunError(message)


def _arrays(part: ForeignPart) -> Mapping[str, Array]:
    """Return the constants of a part, all of which are known once it runs."""
    return {name: array for name, array in part.constants.items() if isinstance(array, np.ndarray)}


def _check_known(part: ForeignPart) -> None:
    """Check that onnxruntime, which is not there, would know the operators of ONNX's domain.

    Raises:
        InvalidModelError: It would not know one.
    """
    if part.model.proto.functions:
        return
    for node in part.nodes:
        if node.domain == "" and not is_of_onnx(node.operator) and node.operator not in OF_ONNXRUNTIME:
            raise InvalidModelError(f"node {node}: ONNX has no such operator")


def _told(part: ForeignPart) -> str:
    """Return the first nodes of a part that no kernel computes, why, and how many follow them, for a message."""
    causes = [node for node in part.nodes if part.reasons[node.name] != FOLLOWS]
    told = [f"{node}: {part.reasons[node.name]}" for node in causes[:_MOST_NODES_TOLD]]
    more, following = len(causes) - len(told), len(part.nodes) - len(causes)
    told += [f"and {more} more"] * (more > 0)
    told += [f"and {following} that follow{'s' if following == 1 else ''}"] * (following > 0)
    return "; ".join(told)


def _named(part: ForeignPart) -> str:
    """Return which nodes of a part no kernel computes, for a message of what is wrong with them."""
    causes = [str(node) for node in part.nodes if part.reasons[node.name] != FOLLOWS][:_MOST_NODES_TOLD]
    rest = len(part.nodes) - len(causes)
    return f"{'nodes' if rest or len(causes) > 1 else 'node'} {'; '.join(causes)}{f'; and {rest} more' * (rest > 0)}"


def _in_short(refusal: str) -> str:
    """Return what onnxruntime says of a model without its numbers and names for errors, in one line."""
    return told_by_guard(refusal) or " ".join(re.sub(r"^\[ONNXRuntimeError\] : \d+ : \w+ : ", "", refusal).split())


def _disabled(part: ForeignPart) -> Sequence[list[str]]:
    """Return the optimizers of onnxruntime that a part does not get, and where it may refuse that, more of them.

    Of branches within branches whose conditions are constants its folding ends the process, or leaves out results; what
    moves dequantizations ends it where a graph within a node reads what follows one. Its fusion of products and sums
    may give a constant of its own a name that is taken, in models that it has optimized before.
    """
    holds_graphs = any(True for node in part.nodes for _ in graphs_within(node.proto.attribute))
    disabled = ["ConstantFolding", "QDQPropagationTransformer"] if holds_graphs else []
    has_products = any(node.op_type == "MatMul" for node in all_nodes(part.model.proto.graph.node))
    return (disabled, [*disabled, "MatMulAddFusion"]) if has_products else (disabled,)


# Types of codes that onnxruntime computes with in floats alone.
_WIDE = frozenset({onnx.TensorProto.UINT16, onnx.TensorProto.INT16})


def _keeps_floats(part: ForeignPart) -> bool:
    """Return whether onnxruntime dequantizes constants when it opens a part, else in each run.

    It keeps dequantized constants where operators on codes are not looked for, which would read the codes. There are no
    such operators for codes of 16 bits, so that these can always be dequantized when a part is opened.
    """
    graph = part.model.proto.graph
    types = {tensor.name: tensor.data_type for tensor in graph.initializer}
    of_codes = [node for node in part.nodes if node.operator in ("QuantizeLinear", "DequantizeLinear")]
    own = {node.name for node in part.nodes}
    has_weights = any(node.op_type == "DequantizeLinear" and node.name not in own for node in graph.node)
    return has_weights and all(types.get([*node.inputs, "", "", ""][2]) in _WIDE for node in of_codes)


def _precisions(model: onnx.ModelProto) -> Sequence[bool]:
    """Return whether onnxruntime is told to be precise, and where it may refuse that, that it is not.

    On CPUs whose sums of 8-bit products saturate, INT8 weights become UINT8 then, which is exact. It refuses some that
    it cannot move, such as those of a graph within a node.
    """
    if _is_blockwise(model.graph):
        return (False,)
    has_signed = any(tensor.data_type == onnx.TensorProto.INT8 for tensor in tensors_of(model))
    return (True, False) if has_signed else (True,)


def _is_blockwise(graph: onnx.GraphProto) -> bool:
    """Return whether codes have scales by blocks, which onnxruntime cannot run once it has moved them to UINT8."""
    return any(
        any(attribute.name == "block_size" for attribute in node.attribute)
        or any(map(_is_blockwise, graphs_within(node.attribute)))
        for node in graph.node
    )


def _reference(part: ForeignPart, proto: onnx.ModelProto, nodes: str, refusal: str = "") -> OpenSession:
    """Return onnx's reference evaluator for a part, if the part is valid ONNX.

    Args:
        part: The part.
        proto: Its model.
        nodes: Which those are, and why no kernel computes them, for a message.
        refusal: What onnxruntime says of them, if it has been asked.
    """
    nodes = f"{'node' if len(part.nodes) == 1 else 'nodes'} {nodes}"
    if any(map(_says_too_much, part.nodes)):
        raise InvalidModelError(": ".join(filter(None, (nodes, _in_short(refusal)))))
    try:
        inferred(proto, check_type=True, strict_mode=True)
        return OpenSession("onnx.reference", evaluator_of(proto), os.getpid())
    except Exception as error:  # whatever the checker or an operator without a reference raises
        raise InvalidModelError(f"{nodes}: {_in_short(refusal or str(error))}") from None


def _says_too_much(node: Node) -> bool:
    """Return whether a node is a recurrent layer with what the evaluator passes over: functions, bounds, lengths."""
    if node.operator not in ("RNN", "GRU", "LSTM"):
        return False
    said = {name for name, value in node.attributes.items() if (name, value) != ("direction", b"forward")}
    return bool(said - {"hidden_size", "layout", "linear_before_reset"} or any(node.inputs[4:5]))
