"""Plans for other lengths of the inputs, without lowering the model anew.

The rules lower a model for given shapes. Here they do so once for lengths that record what becomes of them
(``dmlcpu.graph.lengths``); for the next shapes the record is computed again, which takes a fraction of the time, and
gives the very graph that the rules would give.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from dmlcpu import _core
from dmlcpu.device import Device, print_plan
from dmlcpu.errors import InvalidDescError
from dmlcpu.graph.compiled_graph import CompiledGraph
from dmlcpu.graph.lengths import Record, Replay
from dmlcpu.onnx.extraction import ArrayType
from dmlcpu.onnx.model import Model
from dmlcpu.onnx.planning import lowered_whole
from dmlcpu.onnx.plans import NativePart, Plan, WholeGraph

__all__ = ["PlanTemplate", "Templates"]

# Each template is of use to the lengths that decide everything alike, such as one image and several.
_MOST_TEMPLATES: Final = 8
# Of a model whose templates are of no use to any other lengths, no more are made than these.
_MOST_UNUSED: Final = 2


class PlanTemplate:
    """A model lowered to one graph, for all lengths for which its rules decide as they did.

    Attributes:
        whole: What it was lowered to, with lengths of a record.
        uses: How many plans have been made of it.
    """

    def __init__(self, record: Record, whole: WholeGraph) -> None:
        self._record, self.whole = record, whole
        self.uses = 0

    @classmethod
    def of(cls, model: Model, arrays: Mapping[str, ArrayType], device: Device) -> PlanTemplate | None:
        """Lower a model; None if it does not become one native graph.

        Args:
            model: With inputs that have free lengths.
            arrays: The types and shapes of the inputs.
            device: Where graphs run.
        """
        record = Record()
        free: dict[str, ArrayType] = {}
        for value in model.inputs:
            dtype, shape = arrays[value.name]
            said = value.shape or (None,) * len(shape)
            lengths = (
                length if isinstance(name, int) else record.free(length)
                for length, name in zip(shape, said, strict=True)
            )
            free[value.name] = dtype, tuple(lengths)
        whole = lowered_whole(model, free, device)
        return None if whole is None else cls(record, whole)

    def replay(self, model: Model, arrays: Mapping[str, ArrayType]) -> Replay | None:
        """Compute lengths again for other shapes of the inputs; None if the rules would decide otherwise."""
        free = []
        for value in model.inputs:
            _, shape = arrays[value.name]
            said = value.shape or (None,) * len(shape)
            free += [length for length, name in zip(shape, said, strict=True) if not isinstance(name, int)]
        return self._record.again(free) if len(free) == self._record.free_count else None

    def plan(self, replay: Replay, device: Device, shared: _core.SharedBuffers | None) -> Plan | None:
        """Return the plan for a replay; None if an operator refuses its tensors."""
        whole = self.whole
        try:
            graph = CompiledGraph(device, whole.graph.at(replay), shared)
        except InvalidDescError:
            return None
        names = tuple(tensor.name for tensor in whole.exports)
        types = tuple((tensor.dtype, replay.lengths(tensor.shape)) for tensor in whole.exports)
        print_plan(graph)
        self.uses += 1
        return Plan((NativePart(whole.nodes, graph, whole.inputs, names, types),), whole.outputs)


class Templates:
    """The templates of a model that leaves lengths free, made as they are needed.

    The first shapes are planned as any, since most models meet no others; the second ones make a template.
    """

    def __init__(self, model: Model, device: Device) -> None:
        self._model, self._device = model, device
        self._templates: list[PlanTemplate] = []
        self._is_first = self._is_of_use = True

    def plan(self, arrays: Mapping[str, ArrayType], shared: _core.SharedBuffers | None) -> Plan | None:
        """Return a plan for shapes of the inputs; None if it has to be made anew."""
        if self._is_first or not self._is_of_use:
            self._is_first = False
            return None
        for template in self._templates:
            replay = template.replay(self._model, arrays)
            if replay is not None and (plan := template.plan(replay, self._device, shared)) is not None:
                return plan
        unused = sum(template.uses < 2 for template in self._templates)  # each has been used for its own shapes
        if len(self._templates) == _MOST_TEMPLATES or unused == _MOST_UNUSED:
            return None
        made = PlanTemplate.of(self._model, arrays, self._device)
        if made is None:
            self._is_of_use = False
            return None
        self._templates.append(made)
        replay = made.replay(self._model, arrays)
        return None if replay is None else made.plan(replay, self._device, shared)
