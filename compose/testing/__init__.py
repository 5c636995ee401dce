"""For those who test graphs: a reference interpreter, generated graphs, forced and explored orders of completion.

:func:`graphs` and :func:`invalid_graphs` need the package ``hypothesis`` (``pip install "anabranch[testing]"``);
nothing else here does, and none of it is loaded with :mod:`anabranch.compose`.
"""

from __future__ import annotations

from ._asserts import assert_as_interpreted, assert_order_does_not_matter, assert_paradigms_agree
from ._explore import Explored, explore
from ._interpret import interpret
from ._interpretation import Failure, Interpretation
from ._leaks import assert_leaves_nothing_behind
from ._models import AskedModel, ScriptedModel, ScriptEntry
from ._resumes import assert_resumes_anywhere
from ._scripted import Scripted, Sequencer
from ._stores import StoreCase, check_store, store_cases
from ._strategies import GraphCase, InvalidGraph, graphs, invalid_graphs

__all__ = (
    "AskedModel",
    "Explored",
    "Failure",
    "GraphCase",
    "Interpretation",
    "InvalidGraph",
    "ScriptEntry",
    "Scripted",
    "ScriptedModel",
    "Sequencer",
    "StoreCase",
    "assert_as_interpreted",
    "assert_leaves_nothing_behind",
    "assert_order_does_not_matter",
    "assert_paradigms_agree",
    "assert_resumes_anywhere",
    "check_store",
    "explore",
    "graphs",
    "interpret",
    "invalid_graphs",
    "store_cases",
)
