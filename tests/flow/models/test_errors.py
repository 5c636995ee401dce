from __future__ import annotations

import copy
import pickle
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any, cast

import pytest

from anabranch.flow.models import (
    AccessDenied,
    BadRequest,
    ContextTooLong,
    MalformedResponse,
    MissingKey,
    ModelError,
    RateLimited,
    Refused,
    TimedOut,
    Unavailable,
)
from anabranch.flow.models._provider_errors import Origin, from_body, retry_after, translating
from anabranch.schema.errors import AnabranchError

ORIGIN = Origin("openai", "m-1", None, "x-request-id")

# What providers and the servers that speak like them say, and what it means.
SAID: list[tuple[int | None, Any, type[ModelError]]] = [
    (400, {"message": "Unknown parameter: 'x'.", "type": "invalid_request_error"}, BadRequest),
    (404, {"message": "The model `gpt-9` does not exist", "code": "model_not_found"}, BadRequest),
    (422, {"detail": "messages: field required"}, BadRequest),
    (400, {"message": "max_tokens is too large: 99999. This model supports at most 4096 tokens."}, BadRequest),
    (400, {"message": "This model's maximum context length is 8192 tokens.", "code": 400}, ContextTooLong),
    (400, {"message": "x", "code": "context_length_exceeded"}, ContextTooLong),
    (400, {"message": "x", "type": "exceed_context_size_error", "n_ctx": 4096}, ContextTooLong),
    (400, {"message": "the request exceeds the available context size. try increasing it"}, ContextTooLong),
    (400, {"message": "prompt is too long: 210000 tokens > 200000 maximum"}, ContextTooLong),
    (400, {"message": "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000"}, ContextTooLong),
    (400, {"message": "Range of input length should be [1, 30720]"}, ContextTooLong),
    (413, {"message": "Request exceeds the maximum size", "type": "request_too_large"}, ContextTooLong),
    (400, {"message": "The response was filtered", "code": "content_filter"}, Refused),
    (400, {"message": "x", "code": "content_policy_violation"}, Refused),
    (400, {"message": "Invalid prompt: your prompt was flagged", "code": "invalid_prompt"}, Refused),
    (400, {"message": "Input data may contain inappropriate content.", "code": "data_inspection_failed"}, Refused),
    (400, {"message": "Content Exists Risk", "type": "invalid_request_error"}, Refused),
    (400, {"message": "Output blocked by content filtering policy"}, Refused),
    (401, {"message": "Incorrect API key provided", "code": "invalid_api_key"}, AccessDenied),
    (402, {"message": "Insufficient Balance"}, AccessDenied),
    (403, {"message": "Your key may not use this model"}, AccessDenied),
    (429, {"message": "You exceeded your current quota", "code": "insufficient_quota"}, AccessDenied),
    (429, {"message": "Rate limit reached for tokens per min. Limit 30000."}, RateLimited),
    (408, {"message": "x"}, Unavailable),
    (409, {"message": "lock timeout"}, Unavailable),
    (500, {"message": "x", "type": "server_error"}, Unavailable),
    (503, "upstream connect error", Unavailable),
    (529, {"message": "Overloaded", "type": "overloaded_error"}, Unavailable),
    (None, {"message": "Overloaded", "type": "overloaded_error"}, Unavailable),
    (None, {"message": "x", "code": 429}, RateLimited),
    (None, {"message": "x", "code": "400"}, BadRequest),
    (None, {"message": "x"}, Unavailable),
    (None, None, Unavailable),
]


@pytest.mark.parametrize(("status", "details", "kind"), SAID)
def test_what_a_provider_says_is_the_error_to_react_to(
    status: int | None, details: Any, kind: type[ModelError]
) -> None:
    for body in (details, {"error": details}, {"type": "error", "error": details}):
        error = from_body(body, ORIGIN, status=status, headers={}, text="fallback")
        assert type(error) is kind
        said = cast("dict[str, Any]", details)
        if isinstance(details, dict):
            assert error.text == (said.get("message") or said["detail"])


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "3"}, 3.0),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "inf"}, None),
    ],
)
def test_the_wait_that_a_provider_asks_for_is_read(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers) == seconds


def test_the_wait_may_be_a_date() -> None:
    at = datetime.now(UTC) + timedelta(seconds=60)
    assert retry_after({"retry-after": format_datetime(at, usegmt=True)}) == pytest.approx(60, abs=5)
    assert retry_after({"retry-after": format_datetime(at - timedelta(days=1), usegmt=True)}) == 0.0


def test_the_family_says_how_to_react() -> None:
    retryable = {RateLimited, Unavailable, TimedOut, MalformedResponse}
    others = {MissingKey, AccessDenied, BadRequest, ContextTooLong, Refused}
    assert all(kind.retryable for kind in retryable)
    assert not any(kind.retryable for kind in others)
    assert all(issubclass(kind, ModelError) for kind in retryable | others)
    assert issubclass(ModelError, AnabranchError)
    assert issubclass(TimedOut, TimeoutError)
    assert issubclass(ContextTooLong, BadRequest)


def test_an_error_says_who_what_and_what_to_do() -> None:
    error = RateLimited(
        "Slow down.", provider="openai", model="m-1", status=429, code="busy", request_id="req_1", retry_after=2.5
    )
    assert str(error) == "openai 'm-1': Slow down (429, busy, req_1); it asks to wait 2.5 s"
    assert str(ContextTooLong("Too long")) == "Too long; shorten the history or ask for fewer tokens"
    assert str(BadRequest("No.")) == "No; check the model's name, the options and the history"


@pytest.mark.parametrize("kind", [RateLimited, TimedOut, ContextTooLong])
def test_errors_survive_copying_and_pickling(kind: type[ModelError]) -> None:
    error = kind("x", provider="openai", model="m", status=400, code="c", request_id="r", retry_after=1.0)
    for other in (copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert type(other) is kind
        assert vars(other) == vars(error)
        assert str(other) == str(error)


def test_what_no_header_can_hold_is_a_bad_request_that_does_not_show_it() -> None:
    with pytest.raises(BadRequest, match="cannot be written") as caught, translating(ORIGIN):
        "hidden\u2026".encode("ascii")
    assert "hidden" not in str(caught.value)


def test_half_of_a_character_outside_of_the_messages_is_a_bad_request_too() -> None:
    with pytest.raises(BadRequest, match=r"it has half of a character, '\\udc00', behind 'a '"), translating(ORIGIN):
        "a \udc00".encode()
