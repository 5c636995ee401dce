"""What the clients raise, and what providers say in an error, as one of our errors."""

from __future__ import annotations

import json
import re
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from math import isfinite
from time import time
from typing import Any, cast

from ...schema import Message
from .errors import (
    AccessDenied,
    BadRequest,
    ContextTooLong,
    MalformedResponse,
    ModelError,
    RateLimited,
    Refused,
    TimedOut,
    Unavailable,
)

__all__ = ()

# An error that comes in the middle of a stream has no status of its own: its code or type says as much.
_STATUSES = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "timeout_error": 504,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "api_error": 500,
    "server_error": 500,
    "overloaded_error": 529,
}
_NO_CREDIT = frozenset(("insufficient_quota", "billing_hard_limit_reached", "billing_error", "credit_balance_too_low"))
_REFUSED = frozenset(
    (
        "content_filter",
        "content_policy_violation",
        "data_inspection_failed",
        "invalid_prompt",
        "moderation_blocked",
        "responsibleaipolicyviolation",
    )
)
_REFUSED_TEXT = re.compile(
    r"content (management|filter\w*|exists risk|policy)|usage policy|flagged|inappropriate content"
)
_TOO_LONG = frozenset(("context_length_exceeded", "exceed_context_size_error", "request_too_large"))
_TOO_LONG_TEXT = re.compile(
    r"context[ _](length|window|size|limit)|maximum context|prompt is too long|input is too long|too many input tokens"
    r"|input length .*exceed|range of input length|exceeds? the (available )?context|maximum (allowed )?input length"
)


@dataclass(frozen=True)
class Origin:
    """Whom a request goes to, and with what client."""

    provider: str
    model: str
    sdk: Any
    """The client's package."""
    header: str
    """The header that carries the id of a request."""

    def error(self, kind: type[ModelError], text: str) -> ModelError:
        """Make an error of which nothing more is known."""
        return kind(text, provider=self.provider, model=self.model)

    def request_id(self, headers: Mapping[str, str]) -> dict[str, str]:
        """Give the id of the request, to be kept with the answer; nothing where there is none."""
        found = headers.get(self.header) or headers.get("x-request-id")
        return {"request_id": found} if found else {}


@contextmanager
def translating(origin: Origin, messages: Sequence[Message] = ()) -> Generator[None]:
    """Turn what the client raises into our errors, with the original as their cause."""
    try:
        yield
    except ModelError:
        raise
    except UnicodeEncodeError as error:
        raise origin.error(BadRequest, _not_to_be_written(error, messages)) from error
    except Exception as error:
        found = translate(error, origin)
        if found is None:
            raise
        raise found from error


def translate(error: Exception, origin: Origin) -> ModelError | None:
    """Make one of our errors of what the client or its transport raised.

    Args:
        error: The original.
        origin: Whom the request went to.

    Returns:
        Our error, or nothing if the original is neither the client's nor its transport's.
    """
    import httpx2

    sdk = origin.sdk
    if isinstance(error, sdk.APITimeoutError | httpx2.TimeoutException):
        return origin.error(TimedOut, _text_of(error, "the provider took too long"))
    if isinstance(error, sdk.APIConnectionError):
        return origin.error(Unavailable, _text_of(error.__cause__ or error, "the connection failed"))
    if isinstance(error, httpx2.TransportError):
        return origin.error(Unavailable, f"the connection broke off: {_text_of(error, type(error).__name__)}")
    if isinstance(error, json.JSONDecodeError | UnicodeDecodeError):
        return origin.error(MalformedResponse, f"the answer is no JSON: {error}")
    if isinstance(error, httpx2.DecodingError | sdk.APIResponseValidationError):
        return origin.error(MalformedResponse, f"the answer cannot be read: {error}")
    if isinstance(error, sdk.APIError):
        known: Any = error
        headers: Any = known.response.headers if isinstance(error, sdk.APIStatusError) else {}
        return from_body(
            known.body, origin, status=getattr(known, "status_code", None), headers=headers, text=str(known)
        )
    return None


def from_body(
    body: object, origin: Origin, *, status: int | None, headers: Mapping[str, str], text: str = ""
) -> ModelError:
    """Make one of our errors of what a provider says went wrong.

    Args:
        body: The error as the provider wrote it; shapes differ.
        origin: Whom the request went to.
        status: The HTTP status, if that says it.
        headers: The headers of the answer.
        text: What to say if the body says nothing.

    Returns:
        The error.
    """
    details = _details(body)
    code = next((str(word) for key in ("code", "type", "status") if (word := details.get(key))), None)
    words = {str(details.get(key) or "").lower() for key in ("code", "type")}
    message = str(details.get("message") or details.get("detail") or text or "the provider reports an error")
    if status is None:
        status = next((_STATUSES[word] for word in words if word in _STATUSES), _as_status(details.get("code")))
    return classify(status, words, message)(
        message,
        provider=origin.provider,
        model=origin.model,
        status=status,
        code=code,
        request_id=origin.request_id(headers).get("request_id"),
        retry_after=retry_after(headers),
    )


def reported(body: object, origin: Origin) -> ModelError:
    """Make one of our errors of an error that comes within an answer; its cause is what the client has for that."""
    import httpx2

    error = from_body(body, origin, status=None, headers={})
    request = httpx2.Request("POST", "")
    error.__cause__ = origin.sdk.APIError(error.text, request, body=body)
    return error


def classify(status: int | None, words: set[str], text: str) -> type[ModelError]:
    """Choose the error for an answer.

    Args:
        status: The HTTP status, or what comes nearest to it.
        words: The provider's codes for the error, in lower case.
        text: What the provider says.

    Returns:
        The class.
    """
    said = text.lower()
    if words & _NO_CREDIT or status in (401, 402):
        return AccessDenied
    if words & _TOO_LONG or status == 413 or (status in (400, 422) and _TOO_LONG_TEXT.search(said)):
        return ContextTooLong
    if words & _REFUSED:
        return Refused
    if status is None and any(word.startswith("invalid") for word in words):
        return BadRequest
    if status is None or status >= 500 or status in (408, 409, 425):
        return Unavailable
    if status == 429:
        return RateLimited
    if _REFUSED_TEXT.search(said):
        return Refused
    return AccessDenied if status == 403 else BadRequest


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Read for how many seconds a provider asks to wait."""
    for header, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        try:
            seconds = float(headers.get(header) or "") / unit
        except ValueError:
            continue
        return seconds if seconds >= 0 and isfinite(seconds) else None
    try:
        return max(0.0, parsedate_to_datetime(headers.get("retry-after") or "").timestamp() - time())
    except (TypeError, ValueError):
        return None


def _not_to_be_written(error: UnicodeEncodeError, messages: Sequence[Message]) -> str:
    """Say which text of a request cannot be sent; what is no text for the provider may be a secret."""
    if error.encoding not in ("utf-8", "utf8"):
        return f"the request cannot be written: {error}"
    half, before = error.object[error.start], error.object[max(0, error.start - 30) : error.start]
    place = next((f"message {position}" for position, message in enumerate(messages) if _has_half(message)), "it")
    return f"the request cannot be written: {place} has half of a character, {half!r}, behind {before!r}"


def _has_half(message: Message) -> bool:
    try:
        message.model_dump_json()
    except ValueError:
        return True
    return False


def _details(body: object) -> Mapping[str, Any]:
    """Find the error in an answer: at the top, below ``error``, or just a text."""
    if isinstance(body, str):
        return {"message": body[:500]} if body.strip() else {}
    if not isinstance(body, Mapping):
        return {}
    found = cast("Mapping[str, Any]", body)
    inner: object = found.get("error")
    return _details(cast("object", inner)) if isinstance(inner, str | Mapping) else found


def _as_status(code: object) -> int | None:
    try:
        status = int(str(code))
    except ValueError:
        return None
    return status if 400 <= status < 600 else None


def _text_of(error: BaseException, otherwise: str) -> str:
    return str(error).strip() or otherwise
