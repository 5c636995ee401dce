"""What somebody may have meant by a name that there is not."""

from __future__ import annotations

from collections.abc import Iterable


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """Give a hint at names like one that is unknown, to stand at the end of a text; empty if there are none.

    Example:
        >>> did_you_mean("daft", ["draft", "review"])
        "; did you mean 'draft'?"
        >>> did_you_mean("daft", ["review"])
        ''
    """
    from difflib import get_close_matches

    near = get_close_matches(name, list(known), n=3) if isinstance(name, str) else []
    return f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
