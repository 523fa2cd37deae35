"""The tables: what each operator's desc holds, what every feature level allows of it, and what is refused on purpose.

Sources: for the levels below 6_4 the pages of DirectML's operator descs; for 6_4, and for the relations between
fields, what CreateOperator of DirectML.dll 1.15.4 accepted and refused.
"""

from __future__ import annotations

from dmlcpu.feature_levels.operators import OPERATORS
from dmlcpu.feature_levels.refusals import DELIBERATE_REFUSALS

__all__ = ["DELIBERATE_REFUSALS", "OPERATORS"]
