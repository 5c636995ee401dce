"""Types for the graph compiler: do they fit, how is a value checked, what are they called, what does a function take.

The parts: :mod:`._types_forms` takes annotations apart, :mod:`._types_fits` compares two of them, and its header has
the rules and laws; :mod:`._types_check` compiles run-time checks, :mod:`._types_names` writes names for messages,
:mod:`._types_hints` reads the annotations of functions.
"""

from __future__ import annotations

from ._types_check import checker
from ._types_fits import Fit, fits
from ._types_forms import substitute
from ._types_hints import AnnotationError, resolve_hints
from ._types_names import type_name, value_type_name

__all__ = (
    "AnnotationError",
    "Fit",
    "checker",
    "fits",
    "resolve_hints",
    "substitute",
    "type_name",
    "value_type_name",
)
