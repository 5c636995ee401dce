"""Chains: the numbered cases of Eino's chain, parallel and chain branch, and what builders owe their users."""

from __future__ import annotations

import typing
from collections.abc import AsyncIterator, Callable
from enum import Enum
from typing import Any, Literal, cast

import pytest
import typing_extensions
from hypothesis import given
from hypothesis import strategies as st

from anabranch.compose import (
    END,
    START,
    Chain,
    Graph,
    GraphCompileError,
    NodeError,
    RunOptions,
    UnknownTargetError,
    Workflow,
    current_state,
    draw_mermaid,
    field,
)
from anabranch.compose.testing import ScriptedModel, assert_paradigms_agree
from anabranch.schema import Message, ModelOptions, StreamReader

pytestmark = pytest.mark.anyio


def add(text: str) -> Callable[[str], str]:
    def node(given: str) -> str:
        return given + text

    return node


async def letters(text: str) -> AsyncIterator[str]:
    for letter in text:
        yield letter


async def doubled(reader: StreamReader[str]) -> AsyncIterator[str]:
    async for chunk in reader:
        yield chunk * 2


async def swapped(reader: StreamReader[str]) -> AsyncIterator[str]:
    async for chunk in reader:
        yield chunk.swapcase()


def shown(given: dict[str, Any]) -> str:
    return " ".join(f"{key}={given[key]}" for key in sorted(given))


def problems(chain: Chain[Any, Any]) -> list[str]:
    with pytest.raises(GraphCompileError) as caught:
        chain.compile()
    return [problem.text for problem in caught.value.problems]


# -- the numbered cases --------------------------------------------------------------------------------------------


async def test_case_58_a_parallel_stretch_may_come_first_and_gives_a_dict_of_all_outputs() -> None:
    chain = Chain[str, dict[str, str]]().parallel({"p": add("p"), "q": add("q")})
    assert await assert_paradigms_agree(chain.compile(), "i", chunks=["", "i"]) == {"p": "ip", "q": "iq"}


async def test_case_58_in_stream_mode_every_branch_gets_every_chunk() -> None:
    chain = Chain[str, dict[str, str]]().parallel({"once": letters, "twice": doubled})
    async with chain.compile().transform(["a", "b"]) as reader:
        chunks = [chunk async for chunk in reader]
    assert [chunk["once"] for chunk in chunks if "once" in chunk] == ["a", "b"]
    assert [chunk["twice"] for chunk in chunks if "twice" in chunk] == ["aa", "bb"]


WRONG_STRETCHES: list[tuple[Callable[[Chain[str, Any]], Chain[str, Any]], str]] = [
    (lambda c: c.parallel({"a": add("a")}), "parallel at node_0: it takes at least two nodes; use append for one"),
    (lambda c: c.parallel({}), "parallel at node_0: it takes at least two nodes; use append for one"),
    (
        lambda c: c.parallel(cast("Any", {1: add("a"), "b": add("b")})),
        "parallel at node_0: its keys become those of a dict",
    ),
    (lambda c: c.parallel({"a": add("a"), "b": None}), "node 'node_0_parallel_1': NoneType is neither a function"),
    (lambda c: c.branch(str.strip, {"x": add("x")}), "branch 'strip' at node_0: it takes at least two nodes"),
    (lambda c: c.branch(str.strip, {}), "branch 'strip' at node_0: it takes at least two nodes"),
    (lambda c: c.branch(str.strip, {"x": add("x"), "y": None}), "node 'node_0_branch_y': NoneType is neither"),
    (lambda c: c.branch(str.strip, {1: add("x"), "1": add("y")}), "node 'node_0_branch_1' was added twice"),
    (lambda c: c.append(None), "node 'node_0': NoneType is neither a function"),
]


@pytest.mark.parametrize(("build", "text"), WRONG_STRETCHES)
async def test_case_59_what_is_wrong_with_a_stretch_is_reported_when_compiled(
    build: Callable[[Chain[str, Any]], Chain[str, Any]], text: str
) -> None:
    found = problems(build(Chain[str, Any]()))
    assert [problem for problem in found if problem.startswith(text)], found


async def test_case_59_what_is_no_dict_of_nodes_is_refused_at_once() -> None:
    nothing: Any = None
    with pytest.raises(TypeError, match="parallel: wanted a dict of nodes, got NoneType"):
        Chain[str, Any]().parallel(nothing)
    with pytest.raises(TypeError, match="branch 'strip': wanted a dict of nodes, got NoneType"):
        Chain[str, Any]().branch(str.strip, nothing)


async def test_case_61_a_branch_may_come_first_and_its_condition_returns_names() -> None:
    def choose(text: str) -> Any:
        return {"i": "x", "u": "y"}.get(text, text)

    chain = Chain[str, str]().branch(choose, {"x": add("x"), "y": add("y")})
    app = chain.compile()
    assert await assert_paradigms_agree(app, "i") == "ix"
    assert await assert_paradigms_agree(app, "u") == "uy"
    for wrong in ("zz", "end", "node_0_branch_x"):
        with pytest.raises(UnknownTargetError, match=f"branch 'choose' of node 'start' chose '{wrong}'") as caught:
            await app.invoke(wrong)
        assert caught.value.ends == ("x", "y")
        with pytest.raises(UnknownTargetError):
            await app.collect([wrong])


@pytest.mark.parametrize("base", [typing.TypedDict, typing_extensions.TypedDict], ids=["typing", "extensions"])
async def test_a_parallel_stretch_may_lead_to_a_node_that_takes_a_typed_dict(base: Any) -> None:
    both = base("Both", {"p": str, "q": str})
    wrong = base("Wrong", {"p": str, "q": int})
    other = base("Other", {"p": str, "r": str})
    app = Chain[str, str]().parallel({"p": letters, "q": swapped}).append(shown, input=both).compile()
    assert await assert_paradigms_agree(app, "ab", chunks=["a", "b"]) == "p=ab q=AB"
    for form, keys in ((wrong, ["1"]), (other, ["1"])):
        found = problems(Chain[str, str]().parallel({"p": letters, "q": swapped}).append(shown, input=form))
        assert [text.split(":")[0] for text in found] == [f"edge 'node_0_parallel_{key}' -> 'node_1'" for key in keys]


@pytest.mark.parametrize(
    "chain",
    [Chain[str, str](), Chain[str, str]().append(Chain[str, str]())],
    ids=["a chain", "an item"],
)
async def test_case_62_an_empty_chain_is_an_error(chain: Chain[str, str]) -> None:
    assert any("the chain is empty; append at least one node" in text for text in problems(chain))


async def test_case_64_a_wrong_type_names_the_item_of_the_stretch() -> None:
    def count(number: int) -> int:
        return number

    chain = Chain[str, Any]().append(add("a"), key="first").parallel({"p": add("p"), "q": count})
    (text,) = problems(chain)
    assert text.startswith("edge 'first' -> 'node_1_parallel_1': 'first' gives str, 'node_1_parallel_1' takes int;")


async def test_case_65_branches_with_different_types_in_front_of_a_node_name_the_one_that_does_not_fit() -> None:
    def choose(text: str) -> Literal["x", "y"]:
        return "x"

    def size(text: str) -> int:
        return len(text)

    chain = Chain[str, str]().branch(choose, {"x": add("x"), "y": size}).append(add("z"))
    (text,) = problems(chain)
    assert text.startswith("edge 'node_0_branch_y' -> 'node_1': 'node_0_branch_y' gives int, 'node_1' takes str;")


async def test_case_67_a_chain_has_no_trigger_and_no_bound_on_steps() -> None:
    chain = Chain[str, str]().append(add("a"))
    with pytest.raises(GraphCompileError, match='a chain always has trigger="all"; leave it out'):
        chain.compile(trigger="any")
    with pytest.raises(GraphCompileError, match="max_steps bounds the loops"):
        chain.compile(max_steps=3)


async def test_case_68_a_passthrough_in_a_stretch_keeps_the_original() -> None:
    chain = Chain[str, dict[str, Any]]().parallel({"orig": Chain[str, str]().passthrough(), "q": add("q")})
    chain.passthrough()
    assert await assert_paradigms_agree(chain.compile(), "i", chunks=["i", ""]) == {"orig": "i", "q": "iq"}


async def test_a_branch_does_not_change_the_type_of_the_passthrough_it_follows() -> None:
    """W-5."""

    def choose(number: int) -> Literal["x", "y"]:
        return "x"

    chain = Chain[str, str]().passthrough().branch(choose, {"x": add("x"), "y": add("y")})
    (text,) = problems(chain)
    assert "'node_0' gives str, the condition takes int" in text


# -- the builder ---------------------------------------------------------------------------------------------------


async def test_all_problems_come_at_once_and_none_is_the_consequence_of_another() -> None:
    def two(one: str, other: str) -> str:
        return one + other

    chain = Chain[str, Any]()
    chain.append(two).append(add("x"), key="end").append(add("y"), key="a/b").parallel({}).branch(str.strip, {})
    assert [text.split(":")[0] for text in problems(chain)] == [
        "node 'node_0'",
        "node key 'end' is reserved; choose another one",
        "node key 'a/b' is empty or holds '/', which separates the keys of a path; choose another one",
        "parallel at node_3",
        "branch 'strip' at node_4",
    ]


async def test_stretches_do_not_follow_each_other_without_a_passthrough_between() -> None:
    both = {"a": add("a"), "b": add("b")}
    chain = Chain[str, Any]().parallel(both).parallel({"x": shown, "y": shown}).append(shown)
    assert "parallel at node_1: it cannot follow several open ends; put passthrough() in between" in problems(chain)
    chain = Chain[str, Any]().parallel(both).branch(shown, {"x": shown, "y": shown})
    assert "branch 'shown' at node_1: it cannot follow several open ends; put passthrough() in between" in problems(
        chain
    )
    chain = Chain[str, Any]().parallel(both).passthrough().parallel({"x": shown, "y": shown}).append(shown)
    assert await assert_paradigms_agree(chain.compile(), "i") == "x=a=ia b=ib y=a=ia b=ib"


async def test_a_branch_after_a_branch_goes_through_a_passthrough() -> None:
    def choose(text: str) -> Literal["x", "y"]:
        return "x" if len(text) % 2 else "y"

    nodes = {"x": add("x"), "y": add("yy")}
    chain = Chain[str, str]().branch(choose, nodes).passthrough().branch(choose, nodes).append(add("."))
    assert await assert_paradigms_agree(chain.compile(), "i") == "ixyy."
    assert await assert_paradigms_agree(chain.compile(), "ii", chunks=["i", "i"]) == "iiyyyy."


async def test_a_condition_that_returns_several_names_merges_what_they_give() -> None:
    def choose(text: str) -> list[Literal["x", "y", "z"]]:
        return ["z", "x"]

    nodes = {key: Chain[str, dict[str, str]]().append(add(key), output_key=key) for key in ("x", "y", "z")}
    app = Chain[str, str]().branch(choose, nodes).append(shown).compile()
    assert await assert_paradigms_agree(app, "i") == "x=ix z=iz"


async def test_a_condition_may_return_members_of_an_enum_and_read_the_stream() -> None:
    class Way(Enum):
        short = "s"
        long = "l"

    async def choose(reader: StreamReader[str]) -> Way:
        return Way.short if await reader.receive() == "a" else Way.long

    for names in ({"s": add("s"), "l": add("l")}, {Way.short: add("s"), Way.long: add("l")}):
        app = Chain[str, str]().branch(choose, names).append(add(".")).compile()
        assert await assert_paradigms_agree(app, "a") == "as."
        assert await app.collect(["b", "a"]) == "bal."


@pytest.mark.parametrize(
    ("returns", "text"),
    [
        (Literal["x", "z"], "the condition may return 'z', and its nodes are 'x', 'y'"),
        (Literal["x", "y", "end"], "the condition may return 'end', and its nodes are 'x', 'y'"),
        (Literal["x"], "the condition never returns 'y'; let it, or leave that node out"),
    ],
)
async def test_what_a_condition_declares_and_the_names_of_its_nodes_must_agree(returns: Any, text: str) -> None:
    def choose(text: str) -> Any:
        return "x"

    choose.__annotations__["return"] = returns
    assert problems(Chain[str, str]().branch(choose, {"x": add("x"), "y": add("y")})) == [
        f"branch 'choose' at node_0: {text}"
    ]


async def test_own_keys_are_seen_in_edges_errors_and_drawings_and_do_not_change_the_others() -> None:
    chain = Chain[str, str]().append(add("a")).append(add("b"), key="second", name="the second").append(add("c"))
    info = chain.compile().graph_info()
    assert [node.key for node in info.nodes] == ["node_0", "second", "node_2"]
    assert info.node("second").name == "the second"
    assert '["the second"]' in draw_mermaid(chain.compile())
    assert "node key '' is empty or holds '/'" in problems(Chain[str, str]().append(add("a"), key=""))[0]
    doubled_key = Chain[str, str]().append(add("a"), key="node_1").append(add("b"))
    assert problems(doubled_key) == ["node 'node_1' was added twice; each node needs a key of its own"]


async def test_appending_after_a_compile_changes_the_builder_and_no_compiled_graph() -> None:
    inner = Chain[str, str]().append(add("a"))
    outer = Chain[str, str]().append(inner).append(add("!"))
    first, around = inner.compile(), outer.compile()
    inner.append(add("b"))
    assert await first.invoke("i") == "ia"
    assert await around.invoke("i") == "ia!"
    assert await inner.compile().invoke("i") == "iab"
    assert await outer.compile().invoke("i") == "iab!"
    assert first.graph_info() == first.graph_info() != inner.compile().graph_info()


async def test_a_problem_after_a_compile_is_reported_by_the_next_one() -> None:
    chain = Chain[str, str]().append(add("a"))
    chain.compile()
    chain.append(None)
    assert len(problems(chain)) == 1
    assert len(problems(chain)) == 1


# -- | -------------------------------------------------------------------------------------------------------------


def texts(prefix: str) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from([f"{prefix}{i}" for i in range(3)]), max_size=4)


@given(texts("a"), texts("b"), texts("c"))
async def test_the_pipe_operator_never_changes_its_left_side(
    before: list[str], one: list[str], other: list[str]
) -> None:
    def longer(chain: Chain[str, str], parts: list[str]) -> Chain[str, str]:
        for part in parts:
            chain = chain | add(part)
        return chain

    base = longer(Chain[str, str]().append(add("|")), before)
    info = base.compile().graph_info()
    left, right = longer(base, one), longer(base, other)
    assert await left.compile().invoke("") == "|" + "".join(before + one)
    assert await right.compile().invoke("") == "|" + "".join(before + other)
    assert base.compile().graph_info() == info


async def test_the_pipe_operator_takes_whatever_append_takes_and_knows_the_new_output() -> None:
    def measure(text: str) -> int:
        return len(text)

    def up(number: int) -> int:
        return number + 1

    base = Chain[str, str]() | add("a")
    graph = Graph[str, str]()
    graph.add_edge(START, graph.add_node("b", add("b")))
    graph.add_edge("b", END)
    chain = base | graph | graph.compile() | (Chain[str, str]() | add("c")) | measure | up
    app = chain.compile()
    assert app.output_type is int
    assert await assert_paradigms_agree(app, "i") == 6
    both = (base | {"x": measure, "y": add("y")}).compile()
    assert both.output_type == dict[str, Any]
    assert await assert_paradigms_agree(both, "i") == {"x": 2, "y": "iay"}
    assert base.compile().output_type is str


async def test_a_wrong_type_on_the_right_side_is_found_when_compiled() -> None:
    def up(number: int) -> int:
        return number + 1

    wrong: Any = up
    assert "takes int" in problems(Chain[str, str]() | add("a") | wrong)[0]


async def test_a_chain_that_declares_its_output_keeps_it_whatever_is_appended() -> None:
    def measure(text: str) -> int:
        return len(text)

    chain = Chain[str, str]().append(measure)
    (text,) = problems(chain)
    assert text.startswith("edge 'node_0' -> 'end': 'node_0' gives int, the graph's output is str;")


# -- items of all kinds --------------------------------------------------------------------------------------------


async def test_items_may_be_graphs_chains_workflows_and_compiled_graphs_and_nest() -> None:
    def greet(x: dict[str, str]) -> str:
        return f"{x['word']}, {x['name']}"

    workflow = Workflow[str, str]()
    workflow.add_node("greet", greet).input(START, field(to="name")).static("word", "Ahoy")
    workflow.end.input("greet")
    inner = Chain[str, str](name="inner").append(letters).append(swapped)
    chain = Chain[str, str]().append(inner).append(workflow).append(inner.compile()).append(add("!"))
    assert await assert_paradigms_agree(chain.compile(), "ab", chunks=["a", "b"]) == "aHOY, ab!"
    kinds = [node.component for node in chain.compile().graph_info().nodes]
    assert kinds == ["chain", "workflow", "chain", "function"]


async def test_a_stretch_of_nested_chains_and_branches() -> None:
    def choose(text: str) -> Literal["x", "y"]:
        return "x" if text < "m" else "y"

    inner = Chain[str, str]().branch(choose, {"x": add("x"), "y": add("y")})
    chain = Chain[str, str]().parallel({"left": inner, "right": Chain[str, str]().append(inner)}).append(shown)
    assert await assert_paradigms_agree(chain.compile(), "a") == "left=ax right=ax"
    assert await assert_paradigms_agree(chain.compile(), "z", chunks=["", "z"]) == "left=zy right=zy"


async def test_options_and_errors_find_the_nodes_of_a_chain_by_their_keys() -> None:
    model = ScriptedModel([Message.assistant("yes")])

    def ask(text: str) -> list[Message]:
        return [Message.user(text)]

    def fail(message: Message) -> str:
        raise ValueError(message.text)

    inner = Chain[str, str]().append(ask).append(model, key="chat").append(fail)
    app = Chain[str, str]().append(inner, key="inner").compile()
    options = RunOptions(at={"inner/chat": ModelOptions(temperature=0.5)})
    with pytest.raises(NodeError, match=r"node 'inner/node_2' failed: ValueError: yes"):
        await app.invoke("well?", options)
    assert model.calls[0].options.temperature == 0.5


async def test_handlers_and_nodes_share_the_state_of_the_chain_they_are_in() -> None:
    class Notes:
        def __init__(self) -> None:
            self.lines: list[str] = []

    def before(text: str, notes: Notes) -> str:
        notes.lines.append(f"pre {text}")
        return text + "."

    async def after(text: str, notes: Notes) -> str:
        notes.lines.append(f"post {text}")
        return text + ";"

    def look(text: str) -> str:
        with current_state(Notes) as notes:
            return text + "|".join(notes.lines)

    inner = Chain[str, str]().append(look)
    chain = Chain[str, str](state=Notes).append(add("a"), pre=before, post=after).append(inner)
    app = chain.compile()
    assert await assert_paradigms_agree(app, "i") == "i.a;pre i|post i.a"
    assert await app.invoke("j") == "j.a;pre j|post j.a"  # each run has a state of its own


async def test_streams_flow_through_a_chain_chunk_by_chunk() -> None:
    taken: list[str] = []

    async def source() -> AsyncIterator[str]:
        for letter in "abc":
            taken.append(letter)
            yield letter

    chain = Chain[str, str]().append(doubled).append(Chain[str, str]().append(doubled)).passthrough()
    async with chain.compile().transform(source()) as reader:
        assert await reader.receive() == "aaaa"
        assert taken == ["a"]
        assert [chunk async for chunk in reader] == ["bbbb", "cccc"]
