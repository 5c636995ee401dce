# Changes are functions of any value here.
# pyright: basic
"""What a tracker tells of the changes of a value: folded, they are the value, and no larger than what is new."""

from __future__ import annotations

import copy
import dataclasses
import enum
from collections.abc import Callable
from typing import Annotated, Any, cast

import pytest
from annotated_types import MaxLen
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, PrivateAttr
from typing_extensions import TypedDict

from anabranch.compose._codec import Json, codec_for, dump, load
from anabranch.compose._codec_json import same
from anabranch.compose._tracker import Op, Tracker, apply
from anabranch.compose.errors import DamagedRecordError, UnsavableValueError
from anabranch.schema import Message

pytestmark = pytest.mark.timeout(600)  # for the thousands of examples of the nightly profile


class Mood(enum.StrEnum):
    GOOD = "good"


@dataclasses.dataclass
class Job:
    id: int
    notes: list[str] = dataclasses.field(default_factory=list)


class Inner(BaseModel):
    count: int | None = 0
    inner: Inner | None = None


class Keyed(TypedDict, total=False):
    one: int
    many: list[int]


class State(BaseModel):
    model_config = ConfigDict(extra="allow")

    messages: list[Message] = []
    past: tuple[Message, ...] = ()
    numbers: list[int | bool | float] = []
    words: dict[str, list[str]] = {}
    by_number: dict[int, Any] = {}
    jobs: list[Job] = []
    inner: Inner | None = None
    anything: Any = None
    names: set[str] = set()
    keyed: Keyed = {}
    limited: Annotated[list[int], MaxLen(50)] = []
    _hidden: list[int] = PrivateAttr(default_factory=list)


# -- changes -----------------------------------------------------------------------------------------------------------

Change = Callable[[State], object]
small = st.integers(-2, 3)
keys = st.sampled_from(["a", "b", "$is", "$dict", ""])
values: st.SearchStrategy[Any] = st.recursive(
    small | st.booleans() | st.sampled_from([1.0, 0.0, -0.0, None, "x", (1, 2), b"x"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=2),
    max_leaves=4,
)
texts = st.sampled_from(["", "one", "two"])
message = st.builds(Message.user, texts, extra=st.none() | st.dictionaries(keys, small, max_size=1))
loose_message = st.builds(lambda text: Message.user(text).model_copy(update={"extra": {"a": [1]}}), texts)
inner = st.recursive(
    st.builds(Inner, count=st.none() | small),
    lambda deeper: st.builds(Inner, inner=st.none() | deeper),
    max_leaves=3,
)


def setting(name: str, new: st.SearchStrategy[Any]) -> st.SearchStrategy[Change]:
    return new.map(lambda value: lambda state: setattr(state, name, copy.deepcopy(value)))


def put(found: Any, at: int, value: Any) -> None:
    """Change a list in place: somewhere in it, at its end, or what is in it."""
    if at < 0 or not found:
        found.append(value)
    elif at == 3:
        found.clear()
    elif at == 0:
        del found[0]
        found.append(value)
    elif at == 2:
        del found[len(found) // 2]
    else:
        found[at % len(found)] = value


def into(name: str, new: st.SearchStrategy[Any]) -> st.SearchStrategy[Change]:
    return st.builds(lambda at, value: lambda state: put(getattr(state, name), at, value), small, new)


def mutate_extra(state: State) -> None:
    for found in state.messages:
        if type(found.extra) is dict:
            found.extra["a"] = [*found.extra.get("a", ()), 2]


def set_key(name: str, new: st.SearchStrategy[Any], at: st.SearchStrategy[Any] = keys) -> st.SearchStrategy[Change]:
    return st.builds(lambda key, value: lambda state: getattr(state, name).__setitem__(key, value), at, new)


def pop_key(name: str, at: st.SearchStrategy[Any] = keys) -> st.SearchStrategy[Change]:
    return st.builds(lambda key: lambda state: getattr(state, name).pop(key, None), at)


def deepen(state: State) -> None:
    """Change what is inside of things."""
    for job in state.jobs[-1:]:
        job.notes.append("more")
        job.id += 1
    for found in list(state.words.values())[:1]:
        found.append("more")
    if state.inner is not None:
        state.inner.count = 7
    if isinstance(state.anything, list):
        put(state.anything, -1, 3)
    state.keyed.setdefault("many", []).append(1)
    state._hidden.append(1)


changes: st.SearchStrategy[Change] = st.one_of(
    into("messages", message | loose_message),
    into("numbers", small | st.booleans() | st.sampled_from([1.0, 0.0, -0.0])),
    into("jobs", st.builds(Job, small, st.lists(texts, max_size=1))),
    into("limited", small),
    setting("past", st.lists(message, max_size=3).map(tuple)),
    message.map(lambda new: lambda state: setattr(state, "past", (*state.past, new))),
    set_key("words", st.lists(texts, max_size=2)),
    pop_key("words"),
    set_key("by_number", values, small),
    pop_key("by_number", small),
    setting("inner", st.none() | inner),
    setting("anything", values | message),
    texts.map(lambda text: lambda state: state.names.symmetric_difference_update({text})),
    set_key("keyed", values, st.sampled_from(["else", "$is"])),
    pop_key("keyed", st.sampled_from(["else", "one", "many", "$is"])),
    values.map(lambda value: lambda state: setattr(state, "more", copy.deepcopy(value))),
    st.sampled_from([mutate_extra, deepen]),
)
steps = st.lists(st.tuples(st.lists(changes, max_size=3), st.booleans()), max_size=8)

STATE = codec_for(State)


def stored(ops: list[Op]) -> Any:
    found: Any = load(dump(cast("Json", ops)), 1 << 20)
    return found


@given(steps)
def test_what_changed_makes_of_what_was_stored_what_there_is(found: list[tuple[list[Change], bool]]) -> None:
    state = State()
    tracker = STATE.tracker()
    tree: Json = None
    for made, succeeds in found:
        for change in made:
            change(state)
        ops = stored(tracker.changes(state))
        assert same(ops, stored(tracker.changes(state)))  # looking changes nothing
        changed = apply(tree, ops)
        assert written_alike(changed, STATE.encode(state))
        if succeeds:
            tracker.commit()
            tree = changed
            assert tracker.changes(state) == []
        else:
            tracker.rollback()
            tracker.commit()
    assert STATE.decode(apply(tree, tracker.changes(state))) == state


def written_alike(one: Json, other: Json) -> bool:
    """Tell whether two trees are alike but for the order of a model's fields, of which some come and go."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(written_alike(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(written_alike, one, other))
    return same(one, other)


@given(st.lists(values, min_size=1, max_size=5))
def test_changes_of_untyped_values_are_found(found: list[Any]) -> None:
    codec = codec_for(Any)
    tracker = codec.tracker()
    tree: Json = None
    for value in found:
        tree = apply(tree, tracker.changes(value))
        tracker.commit()
        assert same(tree, codec.encode(value))


# -- what is written ---------------------------------------------------------------------------------------------------


def committed(form: Any, value: Any) -> Tracker:
    tracker = codec_for(form).tracker()
    tracker.changes(value)
    tracker.commit()
    return tracker


def drop_first_and_change_last(jobs: list[Job]) -> None:
    del jobs[0]
    jobs[-1].id = 7


@pytest.mark.parametrize(
    ("form", "value", "change", "ops"),
    [
        (State, State(), lambda state: state.messages.append(Message.user("x")),
         [["+", ["messages"], 0, [{"role": "user", "content": "x"}]]]),
        (State, State(numbers=[1, 2, 3]), lambda state: state.numbers.__setitem__(1, True),
         [["=", ["numbers", 1], True]]),
        (State, State(numbers=[1, 2, 3]), lambda state: state.numbers.pop(), [["+", ["numbers"], 2, []]]),
        (State, State(words={"a": ["x"]}), lambda state: state.words["a"].append("y"),
         [["+", ["words", "a"], 1, ["y"]]]),
        (State, State(words={"a": [], "b": []}), lambda state: state.words.pop("a"), [["-", ["words", "a"]]]),
        (State, State(jobs=[Job(1)]), lambda state: setattr(state.jobs[0], "id", 2), [["=", ["jobs", 0, "id"], 2]]),
        (State, State(inner=Inner()), lambda state: setattr(state.inner, "count", 2),
         [["=", ["inner", "count"], 2], ["+", ["inner", "$fields"], 0, ["count"]]]),
        (list[int], [1, 2], lambda found: found.insert(0, 0), [["~", [], 0, 0, [0]]]),
        (list[int], [1, 2, 3], lambda found: found.__delitem__(1), [["~", [], 1, 1, []]]),
        (list[int], [1, 2, 3], lambda found: found.reverse(), [["+", [], 0, [3, 2, 1]]]),
        (list[int], [], lambda found: found.append(1), [["+", [], 0, [1]]]),
        (list[Job], [Job(1), Job(2), Job(3)], drop_first_and_change_last,
         [["~", [], 0, 1, []], ["=", [1, "id"], 7]]),
        (dict[str, int], {"a": 1, "b": 2}, lambda found: found.update(a=found.pop("a")),
         [["=", [], {"b": 2, "a": 1}]]),
        (dict[str, int], {"a": 1}, lambda found: found.update(b=2), [["=", ["b"], 2]]),
        (Any, {"a": [1, {"b": [2]}]}, lambda found: found["a"][1]["b"].append(3), [["+", ["a", 1, "b"], 1, [3]]]),
        (Any, {"a": [Message.user("x")]}, lambda found: found["a"].append(1), [["+", ["a"], 1, [1]]]),
        (Any, {"a": []}, lambda found: found.update(a={}), [["=", ["a"], {}]]),
        (Any, {"a": 1}, lambda found: found.update(a="x"), [["=", ["a"], "x"]]),
        (Any, {"a": 1}, lambda found: found.update({2: 3}), [["=", [], {"$dict": [["a", 1], [2, 3]]}]]),
        (dict[str, Any], {"a": [1]}, lambda found: found["a"].append(found), None),
    ],
)  # fmt: skip
def test_what_is_written_is_what_changed(form: Any, value: Any, change: Any, ops: list[Op] | None) -> None:
    value = copy.deepcopy(value)
    tracker = committed(form, value)
    change(value)
    if ops is None:
        with pytest.raises(UnsavableValueError, match="contains itself"):
            tracker.changes(value)
    else:
        found = tracker.changes(value)
        assert [op for op in found if op[1] != ["$fields"]] == ops


def test_a_value_that_cannot_be_written_loses_nothing() -> None:
    state = State(messages=[Message.user("one")])
    tracker = committed(State, state)
    state.messages.append(Message.user("two"))
    state.anything = print
    with pytest.raises(UnsavableValueError, match="anything cannot be saved: it is of type"):
        tracker.changes(state)
    tracker.commit()
    state.anything = None
    assert ["+", ["messages"], 1, [{"role": "user", "content": "two"}]] in tracker.changes(state)


def test_what_is_too_deep_to_be_written_at_once_is_too_deep_in_parts_too() -> None:
    value: list[Any] = []
    tracker = committed(Any, value)
    innermost = value
    for _ in range(99):
        innermost.append([])
        innermost = innermost[0]
        tracker.changes(value)
        tracker.commit()
    innermost.append([])
    for found in (tracker, codec_for(Any).tracker()):
        with pytest.raises(UnsavableValueError, match="more than 100 levels"):
            found.changes(value)


def test_an_error_says_where_it_is() -> None:
    state = State(words={"a": ["x"]}, limited=[1])
    tracker = committed(State, state)
    state.words["a"].append(3)  # type: ignore[arg-type]
    with pytest.raises(UnsavableValueError) as caught:
        tracker.changes(state)
    assert caught.value.path == "words['a'][1]"
    state.words["a"].pop()
    state.limited *= 60
    with pytest.raises(UnsavableValueError, match="max_length=50") as caught:
        tracker.changes(state)
    assert caught.value.path == "limited"


def test_what_is_stored_grows_with_what_is_new_and_not_with_the_history() -> None:
    state = State()
    tracker = STATE.tracker()
    written = 0
    for turn in range(160):
        state.messages.append(Message.user(f"{turn:03}" + "x" * 997))
        written += len(dump(cast("Json", tracker.changes(state))))
        tracker.commit()
    assert written < 1.1 * 160 * 1000


def test_a_history_that_is_cut_or_summed_up_is_not_written_again() -> None:
    history = [Message.user(f"{turn:03}" + "x" * 997) for turn in range(100)]
    tracker = committed(list[Message], history)
    written = 0
    for turn in range(100):
        del history[1]
        history.append(Message.user(f"{turn:03}" + "x" * 97))
        if turn % 10 == 0:
            history[1:30] = [Message.assistant("a summary")]
            history += [Message.user("y")] * 28
        written += len(dump(cast("Json", tracker.changes(history))))
        tracker.commit()
    assert written < 100 * 100 + 10 * 28 * 33 + 100 * 150


# -- patches of anybody ------------------------------------------------------------------------------------------------


def test_patches_leave_what_they_are_applied_to_as_it_is() -> None:
    tree: Json = {"a": [1, {"b": 2}], "c": 3}
    before = copy.deepcopy(tree)
    ops: list[Op] = [["=", ["a", 1, "b"], []], ["+", ["a", 1, "b"], 0, [4]], ["-", ["c"]], ["+", ["a"], 2, [5]]]
    kept = copy.deepcopy(ops)
    assert apply(tree, ops) == {"a": [1, {"b": [4]}, 5]}
    assert (tree, ops) == (before, kept)


@pytest.mark.parametrize(
    "op",
    [
        None, 1, [], ["="], ["=", []], ["=", "a", 1], ["=", [], 1, 2], ["-", []], ["-", ["a"], 1], ["-", ["no"]],
        ["-", ["list", 0]], ["=", ["no", "a"], 1], ["=", ["list", 9], 1], ["=", ["list", -1], 1],
        ["=", ["list", "0"], 1],
        ["=", ["list", True], 1], ["=", [0], 1], ["=", ["text", 0], 1], ["=", [None], 1], ["=", [[]], 1],
        ["+", [], 0, []], ["+", ["no"], 0, []], ["+", ["list"], 3, []], ["+", ["list"], -1, []],
        ["+", ["list"], True, []], ["+", ["list"], 0.0, []], ["+", ["list"], 0, {}], ["+", ["text"], 0, []],
        ["+", ["list"], 0], ["~", ["list"], 0, 3, []],
        ["~", ["list"], 1, -1, []], ["~", ["list"], 1, True, []], ["~", ["list"], 1, 1], ["~", ["text"], 0, 0, []],
        ["?", [], 1], [["="], [], 1], {"=": 1},
    ],
)  # fmt: skip
def test_a_change_that_does_not_fit_is_told(op: Any) -> None:
    with pytest.raises(DamagedRecordError, match="change 0 is damaged"):
        apply({"list": [1, 2], "text": "abc"}, [op])


json = st.recursive(
    st.none() | st.booleans() | small | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=2),
    max_leaves=6,
)
paths = st.lists(keys | small, max_size=2)
ops_of_anybody = st.lists(
    json
    | st.tuples(st.just("="), paths, json).map(list)
    | st.tuples(st.just("-"), paths).map(list)
    | st.tuples(st.just("+"), paths, small, st.lists(json, max_size=2)).map(list)
    | st.tuples(st.just("~"), paths, small, small, st.lists(json, max_size=2)).map(list),
    max_size=4,
)


@given(json, ops_of_anybody)
def test_any_patch_is_applied_or_told_to_be_damaged(tree: Json, ops: list[Any]) -> None:
    try:
        found = apply(tree, ops)
    except DamagedRecordError:
        return
    assert load(dump(found), 1 << 20) == found
