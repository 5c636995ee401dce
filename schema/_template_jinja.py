"""The format ``"jinja2"`` of templates: Jinja2 in its sandbox, strict, and narrowed to plain data.

A template reaches keys of mappings, positions of lists, and the harmless methods of ``dict``, ``list`` and ``str``;
it does not reach attributes of other objects, their methods, other templates and files. A variable that is missing
is an error, also where Jinja2 would write nothing. Time and memory are not limited: a template by somebody that is
not trusted belongs in the format ``"f-string"``.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .errors import MissingExtraError, TemplateError

if TYPE_CHECKING:
    from jinja2 import nodes
    from jinja2.sandbox import ImmutableSandboxedEnvironment

__all__ = ("JinjaText",)

_OTHER_TEMPLATES = {"Include": "include", "Extends": "extends", "Import": "import", "FromImport": "from"}
# What a rendering may raise, beside Jinja2's own errors: an expression of the template went wrong.
_FAILED = (TypeError, ValueError, ArithmeticError, LookupError, AttributeError, RecursionError)


class JinjaText:
    """One text in Jinja2's syntax."""

    __slots__ = ("_template", "optional", "required")

    def __init__(self, source: str) -> None:
        """Compile a text.

        Raises:
            TemplateError: The syntax is wrong, or it wants other templates.
            MissingExtraError: Jinja2 is not installed.
        """
        environment = _environment()
        import jinja2
        from jinja2 import meta, nodes

        try:
            tree = environment.parse(source)
            _check(tree)
            self._template = environment.from_string(source)
        except jinja2.TemplateError as error:
            line = getattr(error, "lineno", None)
            where = f"line {line}: " if line else ""
            raise TemplateError(f"{where}it is no Jinja2 template: {error.message or error}") from error
        undeclared = meta.find_undeclared_variables(tree) - environment.globals.keys()
        names = [node.name for node in tree.find_all(nodes.Name) if node.name in undeclared]
        guarded = _guarded(tree)
        self.required: tuple[str, ...] = tuple(dict.fromkeys(n for n in names if n not in guarded))
        self.optional: tuple[str, ...] = tuple(dict.fromkeys(n for n in names if n in guarded))

    def render(self, values: Mapping[str, Any]) -> str:
        """Fill in the variables.

        Raises:
            TemplateError: Something is missing, is not allowed, or went wrong in an expression.
        """
        import jinja2

        try:
            return self._template.render(dict(values))
        except (jinja2.TemplateError, *_FAILED) as error:
            reason = getattr(error, "message", None) or str(error)
            raise TemplateError(f"rendering failed: {reason}") from error


def _check(tree: nodes.Template) -> None:
    from jinja2 import nodes

    for kind, keyword in _OTHER_TEMPLATES.items():
        for node in tree.find_all(getattr(nodes, kind)):
            message = f"line {node.lineno}: {keyword!r} is not allowed: a template stands on its own"
            raise TemplateError(message)


def _guarded(tree: nodes.Template) -> set[str]:
    """Find the variables that may be missing: those with a ``default``, and those asked whether they are there."""
    from jinja2 import nodes

    filters = [node for node in tree.find_all(nodes.Filter) if node.name in ("default", "d")]
    tests = [node for node in tree.find_all(nodes.Test) if node.name in ("defined", "undefined")]
    return {node.node.name for node in (*filters, *tests) if isinstance(node.node, nodes.Name)}


@functools.cache
def _environment() -> ImmutableSandboxedEnvironment:
    try:
        from ._template_sandbox import make_environment
    except ModuleNotFoundError as error:
        raise MissingExtraError("jinja2", "jinja2") from error
    return make_environment()
