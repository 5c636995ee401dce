"""What goes wrong between a program and a model's provider: a small family, one class for each way to react.

Each error keeps the client's own as its ``__cause__`` and says what is known of the answer: HTTP status, the provider's
error code, the request's id. ``retryable`` tells whether the same request may well succeed later.
"""

from __future__ import annotations

from typing import Any, ClassVar

from typing_extensions import override

from ...schema.errors import AnabranchError

__all__ = (
    "AccessDenied",
    "BadRequest",
    "ContextTooLong",
    "MalformedResponse",
    "MissingKey",
    "ModelError",
    "RateLimited",
    "Refused",
    "TimedOut",
    "Unavailable",
)


class ModelError(AnabranchError):
    """A provider did not answer as it should.

    Args:
        text: What happened, mostly in the provider's words.
        provider: Whose client was asked, such as ``openai``.
        model: The model that was asked.
        status: The HTTP status, where there was an answer.
        code: The provider's own code or type of the error.
        request_id: The id by which the provider knows the request.
        retry_after: For how many seconds the provider asks to wait.
    """

    retryable: ClassVar[bool] = False
    """Whether the same request may well succeed later."""
    _advice: ClassVar[str] = ""

    def __init__(
        self,
        text: str,
        *,
        provider: str = "",
        model: str = "",
        status: int | None = None,
        code: str | None = None,
        request_id: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        self.text = text
        self.provider = provider
        self.model = model
        self.status = status
        self.code = code
        self.request_id = request_id
        self.retry_after = retry_after
        super().__init__(text)

    @override
    def __str__(self) -> str:
        place = " ".join(filter(None, (self.provider, repr(self.model) if self.model else "")))
        about = ", ".join(str(word) for word in (self.status, self.code, self.request_id) if word)
        advice = f"; it asks to wait {self.retry_after:g} s" if self.retry_after is not None else self._advice
        text = f"{place}: {self.text}" if place else self.text
        return f"{text.strip().rstrip('.')}{f' ({about})' if about else ''}{advice}"

    @override
    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), dict(self.__dict__))


class MissingKey(ModelError):
    """There is no key for the provider; the text says where to put one."""


class AccessDenied(ModelError):
    """The key is not valid, or may not do this, or has no credit left."""

    _advice = "; check the key, what it may do, and its credit"


class RateLimited(ModelError):
    """Too many requests or tokens in a short time; ``retry_after`` is the wait that the provider asks for, if any."""

    retryable = True
    _advice = "; try again later, or ask less at once"


class BadRequest(ModelError):
    """The provider does not accept the request: an unknown model or parameter, or a history that breaks its rules."""

    _advice = "; check the model's name, the options and the history"


class ContextTooLong(BadRequest):
    """The messages are longer than the model can read."""

    _advice = "; shorten the history or ask for fewer tokens"


class Refused(ModelError):
    """The provider's content rules forbid the request or the answer."""

    _advice = "; ask otherwise, or another model"


class Unavailable(ModelError):
    """The provider could not be reached, failed, is overloaded, or broke off its answer."""

    retryable = True
    _advice = "; try again later, or give the agent a fallback= model"


class TimedOut(Unavailable, TimeoutError):
    """The provider took too long."""

    _advice = "; raise timeout=, or try again later"


class MalformedResponse(Unavailable):
    """What came back is not what the provider's protocol says, such as a gateway's HTML page."""

    _advice = "; check base_url, and what stands between you and the provider"


def _rebuild(kind: type[ModelError], fields: dict[str, Any]) -> ModelError:
    return kind(**fields)
