"""Keys, servers and clients: what a model needs before it can be asked."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import anyio
import anyio.to_thread
import openai
import pytest

from anabranch.flow.models import AnthropicChat, MissingKey, OfflineModel, OpenAIChat, OpenAIResponses, model_named
from anabranch.schema import ChatModel, Message, ModelOptions
from anabranch.schema.errors import MissingExtraError

Model = OpenAIChat | OpenAIResponses | AnthropicChat
KINDS = [OpenAIChat, OpenAIResponses, AnthropicChat]
VARIABLES = [
    *("OPENAI_API_KEY", "OPENAI_ADMIN_KEY", "OPENAI_BASE_URL"),
    *("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "ANTHROPIC_PROFILE"),
]
ANSWER = {"choices": [{"index": 0, "message": {"content": "ok"}, "finish_reason": "stop"}]}


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """Take away what the machine may have of keys."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ANTHROPIC_CONFIG_DIR", str(tmp_path))


@pytest.mark.parametrize("kind", KINDS)
def test_without_a_key_one_line_says_where_to_put_it(kind: type[Model]) -> None:
    with pytest.raises(MissingKey, match=f"{kind.__name__} has no key: set .*_API_KEY") as caught:
        kind("some-model")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", KINDS)
def test_an_empty_key_is_no_key(kind: type[Model], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "")
    with pytest.raises(MissingKey):
        kind("some-model")


@pytest.mark.anyio
@pytest.mark.parametrize("kind", [OpenAIChat, AnthropicChat])
async def test_a_server_of_ones_own_needs_no_key(kind: type[Model], serve: Any) -> None:
    answer: Any = ANSWER if kind is OpenAIChat else {"content": [], "stop_reason": "end_turn"}
    async with serve(answer) as wire:
        await wire.generated(kind, api_key=None)
        assert wire.seen[-1].headers["authorization"] == "Bearer none"


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("name", "kind"),
    [("openai:m-1", OpenAIChat), ("openai-responses:m-1", OpenAIResponses), ("anthropic:m-1", AnthropicChat)],
)
async def test_a_name_makes_a_model_with_key_and_server_of_the_environment(
    name: str, kind: type[Model], mock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    monkeypatch.setenv("OPENAI_BASE_URL", mock.base_url + "/v1")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", mock.base_url)
    model = model_named(name)
    assert isinstance(model, kind)
    async with model:
        assert (await model.generate([Message.user("say hello")])).text.startswith("Hello")
        assert model.model == "m-1"


def test_a_name_keeps_the_colons_of_the_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
    assert repr(model_named("openai:qwen3:8b")) == "OpenAIChat('qwen3:8b')"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("gpt-5", "there is no model 'gpt-5'; there is: 'offline', 'openai:NAME'"),
        ("opnai:gpt-5", "did you mean 'openai'"),
        ("offlin", "did you mean 'offline'"),
        ("openai", "names no model; write openai:NAME"),
        ("anthropic:", "names no model; write anthropic:NAME"),
    ],
)
def test_a_name_that_is_none_says_what_there_is(name: str, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        model_named(name)


def test_the_offline_model_has_a_name_too() -> None:
    assert isinstance(model_named("offline"), OfflineModel)


@pytest.mark.parametrize("kind", KINDS)
def test_every_adapter_is_a_chat_model(kind: type[Model]) -> None:
    model = kind("m", api_key="k", tool_calls_first=True)
    assert isinstance(model, ChatModel)
    assert model.tool_calls_first
    assert model.with_tools([]).tool_calls_first


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_has_a_name(kind: type[Model]) -> None:
    with pytest.raises(ValueError, match="needs the name of a model"):
        kind("", api_key="k")


@pytest.mark.parametrize(("kind", "package"), [(OpenAIChat, "openai"), (AnthropicChat, "anthropic")])
def test_a_missing_client_names_the_extra(kind: type[Model], package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=rf"anabranch\[{package}\]"):
        kind("m", api_key="k")


def test_importing_the_models_loads_no_client() -> None:
    program = (
        "import sys, anabranch.flow.models as m; m.OpenAIChat, m.OpenAIResponses, m.AnthropicChat, m.model_named;"
        "print({'openai', 'anthropic', 'httpx2'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


@pytest.mark.anyio
async def test_openai_itself_gets_the_new_name_of_a_limit(serve: Any) -> None:
    async with serve(ANSWER) as wire:
        hosts = {
            "https://api.openai.com/v1": "max_completion_tokens",
            "https://eu.api.openai.com/v1": "max_completion_tokens",
            "https://me.openai.azure.com/openai/v1": "max_completion_tokens",
            "https://api.deepseek.com": "max_tokens",
            "https://openai.com.example.org/v1": "max_tokens",
        }
        for host, name in hosts.items():
            model: Any = OpenAIChat("m", api_key="k", base_url=host)
            assert name in model._request([Message.user("hi")], ModelOptions(max_tokens=5)), host
        assert wire.seen == []


@pytest.mark.anyio
async def test_a_client_of_ones_own_is_used_and_stays_open(serve: Any) -> None:
    async with (
        serve(ANSWER) as wire,
        openai.AsyncOpenAI(api_key="mine", base_url=wire.base_url, max_retries=0) as client,
    ):
        async with OpenAIChat("m", client=client, timeout=5) as model:
            await model.generate([Message.user("hi")])
        assert wire.seen[-1].headers["authorization"] == "Bearer mine"
        assert wire.seen[-1].headers["x-stainless-read-timeout"] == "5"
        await OpenAIChat("m", client=client).generate([Message.user("hi")])


@pytest.mark.anyio
async def test_a_closed_model_can_be_used_again(serve: Any) -> None:
    async with serve(ANSWER) as wire, wire.model(OpenAIChat) as model:
        for _ in range(2):
            await model.generate([Message.user("hi")])
            await model.aclose()


@pytest.mark.parametrize("kind", KINDS)
def test_one_model_serves_many_event_loops(mock: Any, kind: type[Model]) -> None:
    model = mock.model(kind)

    async def ask() -> str:
        async with model:
            return str((await model.generate([Message.user("say hello")])).text)

    for backend in ("asyncio", "trio", "asyncio"):
        assert anyio.run(ask, backend=backend).startswith("Hello")

    async def in_threads() -> None:
        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(in_thread)

    async def in_thread() -> None:
        assert (await anyio.to_thread.run_sync(anyio.run, ask)).startswith("Hello")

    anyio.run(in_threads)
