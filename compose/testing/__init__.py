"""What helps to test graphs: models that follow a script."""

from __future__ import annotations

from ._models import AskedModel, ScriptedModel

__all__ = ("AskedModel", "ScriptedModel")
