"""Draw the Mermaid blocks of the pages as pictures, so that the site needs no script of another server."""

from __future__ import annotations

import hashlib
from importlib import import_module
from typing import Any

mermaidx: Any = import_module("mermaidx")


def picture(source: str, language: str, css_class: str, options: Any, md: Any, **_: Any) -> str:
    """Give the picture of one block; superfences calls this."""
    name = f"picture-{hashlib.sha256(source.encode()).hexdigest()[:8]}"  # several may stand on one page
    svg: str = mermaidx.render(source).svg().replace("my-svg", name)
    return f'<div class="{css_class}-picture" style="background: white; padding: 1em">{svg}</div>'
