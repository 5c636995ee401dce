"""``ToolsNode``: what cannot be part of it, or its input, is refused with words that say what to do."""

from __future__ import annotations

from collections.abc import Awaitable
from functools import partial
from typing import Any

import pytest

from anabranch.compose import (
    NextCall,
    RepairArguments,
    ToolsNode,
    ToolsOptions,
    limit_rate,
    limit_time,
    retry_calls,
    tell_errors,
    truncate_results,
)
from anabranch.flow.tools import confirm_risky
from anabranch.schema import MessageError, ToolCall, ToolDefinitionError, ToolOutput, tool

pytestmark = pytest.mark.anyio


@tool
async def echo(text: str = "") -> str:
    """Say it again."""
    return text


class Around:
    """A middleware that is an object."""

    async def __call__(self, call: ToolCall, next: NextCall) -> ToolOutput:
        return await next(call)


async def around(call: ToolCall, next: NextCall) -> ToolOutput:
    return await next(call)


async def with_more(prefix: str, call: ToolCall, next: NextCall) -> ToolOutput:
    return await next(call)


async def takes_one(call: ToolCall) -> ToolOutput:
    return call


FACTORIES = [confirm_risky, limit_rate, limit_time, retry_calls, tell_errors, truncate_results]


def named(value: object) -> str:
    """Name a parameter in the same way in every process."""
    return str(getattr(value, "__name__", None) or type(value).__name__)


@pytest.mark.parametrize("wrong", [object(), "around", None, Around, RepairArguments, takes_one, *FACTORIES], ids=named)
def test_what_is_no_middleware_is_refused_with_its_place(wrong: Any) -> None:
    with pytest.raises(ToolDefinitionError, match=r"middlewares\[1\]"):
        ToolsNode([echo], middlewares=[around, wrong])
    with pytest.raises(ToolDefinitionError, match=r"middlewares\[0\]"):
        ToolsNode([echo]).with_middlewares(wrong)


@pytest.mark.parametrize("factory", FACTORIES)
def test_a_factory_that_was_not_called_is_told_so(factory: Any) -> None:
    with pytest.raises(ToolDefinitionError, match=rf"call it: {factory.__name__}\("):
        ToolsNode([echo], middlewares=[factory])


def test_every_sort_of_middleware_is_taken() -> None:
    def plain(call: ToolCall, next: NextCall) -> Awaitable[ToolOutput]:
        return next(call)

    made: list[Any] = [
        around,
        Around(),
        plain,
        partial(with_more, "x"),
        RepairArguments(),
        confirm_risky(),
        limit_time(1),
    ]
    ToolsNode([echo], middlewares=made)
    ToolsNode([echo]).with_middlewares(*made)


@pytest.mark.parametrize("wrong", [echo, around, 5, None, "echo"], ids=named)
def test_one_tool_in_place_of_a_list_is_refused(wrong: Any) -> None:
    with pytest.raises(ToolDefinitionError, match="tools is a list of tools"):
        ToolsNode(wrong)
    with pytest.raises(ToolDefinitionError, match="middlewares is a list of middlewares"):
        ToolsNode([], middlewares=5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def test_one_tool_in_the_options_of_a_run_is_refused() -> None:
    with pytest.raises(ToolDefinitionError, match="tools is a list of tools"):
        ToolsNode([]).with_options(ToolsOptions(tools=echo))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("wrong", ["text", None, [], {"role": "assistant"}])
async def test_what_is_no_message_is_refused(wrong: Any) -> None:
    node = ToolsNode([echo])
    with pytest.raises(MessageError, match="answers a Message"):
        await node.invoke(wrong)
    with pytest.raises(MessageError, match="answers a Message"):
        async for _ in node.stream(wrong):
            pass
