"""Whether somebody runs each operator of a model, asked when a session is opened."""

from __future__ import annotations

from collections.abc import Callable

from dmlcpu.errors import BindingError, InvalidModelError, MissingRuntimeError
from dmlcpu.onnx.foreign.custom_operators import custom_operators, why_not_run
from dmlcpu.onnx.missing_package import has_onnxruntime
from dmlcpu.onnx.models.model import Model
from dmlcpu.onnx.models.operator_forms import is_of_onnx
from dmlcpu.onnx.planning.plans import Plan
from dmlcpu.onnx.rules import RULES

__all__ = ["check_operators"]


def check_operators(model: Model, plan_without_run: Callable[[], Plan]) -> None:
    """Raise what would be raised by every run, whatever lengths it is fed.

    A plan is made if nodes have neither a rule nor, as far as can be told at once, a runtime: that finds out, as some
    of them are constants, or lead to no output.

    Args:
        model: Any.
        plan_without_run: Makes a plan for some lengths, which may be others than the nodes take.

    Raises:
        MissingRuntimeError: onnxruntime is not installed, or has no such operator either.
        InvalidModelError: An operator of ONNX's domain is not ONNX's, nor onnxruntime's.
    """
    without_rule = [node for node in model.nodes if (node.domain, node.operator) not in RULES]
    custom = custom_operators(without_rule, model.proto)
    unknown = [node for node in without_rule if node.domain == "" and not is_of_onnx(node.operator)]
    if not (custom or unknown or (without_rule and not has_onnxruntime())):
        return
    try:
        plan = plan_without_run()
    except MissingRuntimeError as error:
        left = {name for each in error.partitions if each.provider != "dmlcpu" for name in each.nodes}
        if not left.isdisjoint(node.name for node in without_rule):
            raise
    except InvalidModelError:
        if unknown:
            raise
    except BindingError:  # nodes do not take these lengths
        pass
    else:
        if custom and plan.rest is not None:
            raise MissingRuntimeError(why_not_run(custom))
