"""Values to JSON trees and back, by their declared types.

``decode(load(dump(encode(value))))`` equals the value, and is of the same type at every depth; or encoding raises
:class:`~anabranch.compose.errors.UnsavableValueError`; or there is no codec for the type at all. There is no way in
between: nothing is written as something else that is like it.

Decoding imports nothing and calls no code but what puts values together: a record can only choose among what the
declared type allows.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from ._codec_build import Builder, shared
from ._codec_json import Json, dump, load
from ._codec_part import Part, Refused
from ._tracker import Tracker
from ._types import type_name
from ._types_forms import Form
from .errors import DamagedRecordError, UnsavableTypeError, UnsavableValueError

__all__ = ("Codec", "Json", "codec_for", "dump", "load")

_CODECS = 512
_TOO_DEEP = "it is nested too deeply, or contains itself"


class Codec:
    """Writes and reads the values of one type; see :func:`codec_for`."""

    __slots__ = ("_decode", "_encode", "form", "part")

    def __init__(self, form: Form, part: Part) -> None:
        self.form = form
        """The type."""
        self.part = part
        """What it is made of."""
        self._encode = part.encode
        self._decode = part.decode

    def __repr__(self) -> str:
        return f"<Codec for {type_name(self.form)}>"

    def encode(self, value: Any) -> Json:
        """Write a value.

        Raises:
            UnsavableValueError: It is not of the type, or would not come back as it is.
        """
        try:
            return self._encode(value)
        except Refused as refused:
            raise UnsavableValueError(refused.path, refused.why) from None
        except RecursionError:
            raise UnsavableValueError("", _TOO_DEEP) from None
        except Exception as error:  # from methods of the value's own
            raise UnsavableValueError("", f"it cannot be looked at: {type(error).__name__}: {error}") from error

    def decode(self, tree: Json) -> Any:
        """Read a value.

        Raises:
            DamagedRecordError: The tree is not what this codec writes.
        """
        try:
            return self._decode(tree)
        except Refused as refused:
            raise DamagedRecordError(refused.path, refused.why) from None
        except RecursionError:
            raise DamagedRecordError("", "it is nested too deeply") from None
        except Exception as error:  # from the constructors of values, such as that of a date
            raise DamagedRecordError("", f"a value cannot be made again: {type(error).__name__}: {error}") from error

    def tracker(self) -> Tracker:
        """Make what tells how a value changes from one look to the next."""
        return Tracker(self.part)


def codec_for(form: Form) -> Codec:
    """Give the codec of a type.

    Args:
        form: The type, as in an annotation.

    Raises:
        UnsavableTypeError: There are values of it that cannot be saved, such as functions or locks.

    Example:
        >>> from anabranch.schema import Message
        >>> codec = codec_for(list[Message])
        >>> codec.encode([Message.user("Hello!")])
        [{'role': 'user', 'content': 'Hello!'}]
        >>> codec.decode([{"role": "user", "content": "Hello!"}]) == [Message.user("Hello!")]
        True
    """
    try:
        return _cached(form)
    except UnsavableTypeError:
        raise
    except TypeError:  # a form that cannot be hashed
        return _new(form)


def _new(form: Form) -> Codec:
    try:
        return Codec(form, Builder(shared()).part(form))
    except Refused as refused:
        raise UnsavableTypeError(refused.path, type_name(form), refused.why) from None
    except RecursionError:
        raise UnsavableTypeError("", type_name(form), "it contains itself in a way that cannot be written") from None


_cached = lru_cache(maxsize=_CODECS)(_new)
