"""The plans of a session: found, or made at their first time, and run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Any

from dmlcpu import _core
from dmlcpu.device import Device, print_plan
from dmlcpu.float_environment import in_default_float_environment
from dmlcpu.graph.trace import PartTime
from dmlcpu.onnx.constant_arrays import Array, ArrayType
from dmlcpu.onnx.models.model import Model, is_fixed
from dmlcpu.onnx.planning.execution import ExecutablePlan, MisjudgedShapesError, type_of
from dmlcpu.onnx.planning.plan_cache import PlanCache
from dmlcpu.onnx.planning.planned_model import PlannedModel
from dmlcpu.onnx.planning.plans import PlanKey
from dmlcpu.onnx.planning.variants import Variants

__all__ = ["SessionPlans"]


class SessionPlans:
    """The plans of a model. Any number of threads may ask for them, and run them, at once.

    Planning computes constants: ``run`` and ``find_or_make`` are called in the default float environment.

    Attributes:
        variants: What the model is, by what the inputs that decide on branches are.
        cache: The plans that are kept.
        has_fixed_inputs: Whether each input has one shape, and none decides: as a rule there is one plan then.
    """

    def __init__(self, model: Model, device: Device) -> None:
        self.variants, self.cache = Variants(model, device), PlanCache()
        self.has_fixed_inputs = all(is_fixed(value.shape) for value in model.inputs) and not self.deciding
        self._device = device
        self.begin_process()

    def begin_process(self) -> None:
        """Make a new lock and new memory: those of a parent that forked may be held by threads that are not here."""
        self._lock = Lock()
        self._shared = _core.new_session_memory()

    @property
    def deciding(self) -> tuple[str, ...]:
        """Names of the inputs that decide on branches."""
        return self.variants.deciding

    @property
    def constants(self) -> Mapping[str, Array] | None:
        """The model's constants; None once they are released."""
        return None if self.variants.is_released else self.variants.whole.model.constants

    def release(self) -> None:
        """Keep nothing of the model but its inputs: there will be no other plan."""
        self.variants.release()

    def model(self, feeds: Mapping[str, Array], keep: bool = True) -> PlannedModel:
        """Return the model where inputs that decide are as they are fed.

        Args:
            feeds, keep: As of ``Variants.of``.
        """
        variants = self.variants
        if not variants.deciding:
            return variants.whole
        with self._lock:
            return variants.of(feeds, keep)

    def find_or_make(self, model: PlannedModel, arrays: Mapping[str, ArrayType]) -> ExecutablePlan:
        """Return the plan of inputs of these types and shapes, made at their first time; takes no lock to find it."""
        key = model.key_of(arrays)
        return self.cache.find(key) or self._make(key, model, arrays)

    def _make(self, key: PlanKey, model: PlannedModel, arrays: Mapping[str, ArrayType]) -> ExecutablePlan:
        """Make a plan and keep it; a caller that waits for the lock meanwhile is given the same one."""
        with self._lock:
            plan = self.cache.find(key)
            if plan is None:
                assert not self.variants.is_released  # without free shapes there is one key
                # What is shared is compared, which takes time: not for a plan that most likely stays the only one.
                shared = None if self.has_fixed_inputs and not self.cache else self._shared
                made = model.plan(arrays, shared)
                for graph in made.graphs:
                    print_plan(graph)
                plan = ExecutablePlan(made, model.rest_of(made), arrays, self._device)
                self.cache.keep(key, plan)
            return plan

    def run_packed(self, feeds: dict[str, Any]) -> tuple[ExecutablePlan, list[Array]] | None:
        """Run the model on arrays just as it takes them, by the fast path of their plan; return the plan and outputs.

        Returns None, and has run nothing, if they are others, or inputs decide, or the plan has no such path.

        Args:
            feeds: Whatever a caller gives.
        """
        if self.deciding:
            return None
        model = self.variants.whole
        shapes = model.packed_feeds.shapes(feeds)
        if shapes is None:
            return None
        key = model.key_of_shapes(shapes)
        plan = self.cache.find(key)
        if plan is None:
            types = {value.name: (value.dtype, shape) for value, shape in zip(model.inputs, shapes, strict=True)}
            plan = self._make_in_default_environment(key, model, types)
        run = self.cache.used(plan).run_packed
        outputs = None if run is None else run(feeds)
        return None if outputs is None else (plan, outputs)

    @in_default_float_environment
    def _make_in_default_environment(
        self, key: PlanKey, model: PlannedModel, arrays: Mapping[str, ArrayType]
    ) -> ExecutablePlan:
        return self._make(key, model, arrays)

    def run(
        self, feeds: Mapping[str, Array], profile: list[PartTime] | None = None
    ) -> tuple[Sequence[ExecutablePlan], Mapping[str, Array]]:
        """Run the model; return the plans that ran, each on the rest of the one before, and what the last one made.

        Args:
            feeds: The inputs.
            profile: If given, gets an entry for each part that runs.
        """
        model = self.model(feeds)
        types = {value.name: (value.dtype, feeds[value.name].shape) for value in model.inputs}
        plan, values = self._run_plan(model, types, feeds, profile)
        plans = [plan]
        while plan.rest is not None:
            given = plan.feeds_of_rest(values)
            types = {name: type_of(array) for name, array in given.items()}
            plan, values = self._run_plan(plan.rest, types, given, profile)
            plans.append(plan)
        return plans, values

    def _run_plan(
        self,
        model: PlannedModel,
        arrays: Mapping[str, ArrayType],
        feeds: Mapping[str, Array],
        profile: list[PartTime] | None,
    ) -> tuple[ExecutablePlan, dict[str, Array]]:
        """Run the plan of inputs of these types and shapes; another one, where what it was told has misled it."""
        begun = len(profile or ())
        while True:
            plan = self.find_or_make(model, arrays)
            try:
                return plan, self.cache.used(plan).run(feeds, profile)
            except MisjudgedShapesError as error:
                with self._lock:
                    model.correct(error.names)
                    key = model.key_of(arrays)
                    if self.cache.find(key) is plan:  # no other thread has planned anew
                        self.cache.forget(key)
                if profile is not None:
                    del profile[begun:]
