"""What a docstring says of a function and of each of its parameters.

Google, NumPy, reST and Epytext styles are read by the library ``docstring-parser``, which is imported only
when a docstring has sections or fields to read.
"""

from __future__ import annotations

import inspect
import re
from typing import NamedTuple

__all__ = ("Docstring", "parse_docstring")

# A line such as "Args:", "----------", ":param x:" or "@param x:": without one there are no sections.
_SECTION = re.compile(r"^[ \t]*(?:[A-Z][\w ]*:[ \t]*$|-{3,}[ \t]*$|[:@][a-z]+\b)", re.MULTILINE)
# A line break inside a paragraph, not before an item of a list, a deeper indent or an empty line.
_SOFT_BREAK = re.compile(r"(?<!\n)\n(?![\n \t]|[-*+•] |\d+[.)] )")


class Docstring(NamedTuple):
    """The description of a function and the texts of its parameters by name."""

    description: str
    parameters: dict[str, str]


def parse_docstring(text: str | None) -> Docstring:
    """Split a docstring into the description and what it says of each parameter.

    Args:
        text: The docstring as it stands in the source; ``None`` counts as empty.

    Returns:
        The summary with the paragraphs after it, and the parameters that have a text. Returns, raises and
        examples are left out: a model that chooses a tool does not need them.
    """
    if not text:
        return Docstring("", {})
    if not _SECTION.search(text):
        return Docstring(inspect.cleandoc(text).strip(), {})
    from docstring_parser import ParseError, parse

    try:
        parsed = parse(text)
    except ParseError:
        return Docstring(inspect.cleandoc(text).strip(), {})
    parameters: dict[str, str] = {}
    for parameter in parsed.params:
        if parameter.description:
            words = _SOFT_BREAK.sub(" ", parameter.description.strip())
            for name in parameter.arg_name.split(","):
                parameters.setdefault(name.strip().lstrip("*"), words)
    gap = "\n\n" if parsed.blank_after_short_description else "\n"
    description = gap.join(part for part in (parsed.short_description, parsed.long_description) if part)
    return Docstring(description.strip(), parameters)
