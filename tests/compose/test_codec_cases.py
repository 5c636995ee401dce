"""What is known to go wrong elsewhere when values are stored, one test for each, named after its number."""

from __future__ import annotations

import collections
import dataclasses
import datetime as dt
import enum
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from pydantic import BaseModel

from anabranch.compose._codec import Json, codec_for, dump, load
from anabranch.compose.errors import DamagedRecordError, UnsavableTypeError, UnsavableValueError
from anabranch.schema import Message


class Mood(enum.Enum):
    GOOD = "good"


class Tone(enum.StrEnum):
    WARM = "warm"


class Outer:
    class Inner(enum.Enum):
        ONE = 1


@dataclasses.dataclass
class Step:
    mood: Mood
    inner: Outer.Inner = Outer.Inner.ONE
    seen: list[int] = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        self.seen = [1]


class Animal(BaseModel):
    name: str


class Dog(Animal):
    tricks: tuple[str, ...] = ()


class State(BaseModel):
    a: int = 0
    steps: list[Step] = []
    tone: Tone | str = Tone.WARM
    animal: Animal = Animal(name="Tom")
    at: dt.datetime | None = None
    groups: collections.defaultdict[str, list[int]] = collections.defaultdict(list)
    counts: collections.Counter[str] = collections.Counter()
    anything: Any = None


STATE = codec_for(State)


def there_and_back(state: State) -> State:
    found: State = STATE.decode(load(dump(STATE.encode(state)), 10_000))
    return found


def test_k1_a_nested_enum_or_dataclass_comes_back_as_what_it_was_with_fields_that_no_init_takes() -> None:
    step = Step(Mood.GOOD)
    step.seen.append(2)
    assert there_and_back(State(steps=[step])).steps == [step]


def test_k2_values_that_are_like_enums_keep_their_type() -> None:
    for tone in (Tone.WARM, "warm"):
        found = there_and_back(State.model_construct(tone=tone)).tone
        assert found == tone
        assert type(found) is type(tone)


def test_k3_no_value_comes_back_as_another_one_that_is_like_it() -> None:
    state = State(animal=Dog(name="Rex", tricks=("sit",)))
    state.at = dt.datetime(2020, 10, 25, 2, 30, tzinfo=ZoneInfo("Europe/Paris"), fold=1)
    state.groups["a"].append(1)
    state.counts["a"] += 1
    found = there_and_back(state)
    assert found == state
    assert isinstance(found.animal, Dog)
    assert found.animal.tricks == ("sit",)
    assert found.at is not None
    assert (found.at.tzinfo, found.at.fold) == (ZoneInfo("Europe/Paris"), 1)
    assert (type(found.groups), found.groups.default_factory) == (collections.defaultdict, list)
    assert type(found.counts) is collections.Counter
    with pytest.raises(UnsavableValueError, match="anything cannot be saved: it is of type ValueError"):
        STATE.encode(State(anything=ValueError("no")))


@pytest.mark.parametrize("value", [1 << 64, -(1 << 200), 10**5000, 1 + 2j], ids=["a", "b", "c", "d"])
def test_k4_large_and_complex_numbers_are_saved(value: object) -> None:
    assert there_and_back(State(anything=value)).anything == value


def test_k4_what_cannot_be_saved_is_told_with_its_place() -> None:
    with pytest.raises(UnsavableValueError) as caught:
        STATE.encode(State(anything={"rows": [1, range(3)]}))
    assert caught.value.path == "anything['rows'][1]"


def test_k5_a_value_that_the_model_would_not_take_is_told_when_it_is_saved() -> None:
    with pytest.raises(UnsavableValueError, match="a cannot be saved: it is of type str, not int as declared"):
        STATE.encode(State.model_construct(a="foo"))


def test_k17_a_type_that_cannot_be_saved_is_told_from_its_declaration() -> None:
    class Holder(BaseModel):
        handlers: dict[str, type[Animal]]

    with pytest.raises(UnsavableTypeError, match=r"Holder cannot be saved: handlers\[\]: values of type\[Animal\]"):
        codec_for(Holder)


def test_x1_a_record_cannot_name_something_to_be_called() -> None:
    calls: list[Json] = [
        {"lc": 2, "type": "constructor", "id": ["os", "system"], "kwargs": {"command": "true"}},
        {"$is": ["os:system", ["true"]]},
        {"$value": ["system", {"command": "true"}]},
    ]
    assert codec_for(Any).decode(calls[0]) == calls[0]  # data, as any other
    for call in calls[1:]:
        for form in (Any, Animal, Message):
            with pytest.raises(DamagedRecordError):
                codec_for(form).decode(call)


def test_x2_there_is_one_format_also_for_text_that_is_no_unicode() -> None:
    for text in ("\ud800", "\ud83d" + "\ude00", "\udc00\ud800"):
        assert there_and_back(State(anything={text: text})).anything == {text: text}


def test_x7_values_that_look_alike_are_written_apart() -> None:
    values: list[Any] = [1, True, 1.0, "1", b"1", (1,), [1], {1}, frozenset({1}), {"1": 1}, {1: 1}, None, "null"]
    written = [dump(codec_for(Any).encode(value)) for value in values]
    assert len(set(written)) == len(values)


def test_x8_data_that_look_like_the_format_stay_data() -> None:
    values: list[Json] = [{"$is": ["os:system", "true"]}, {"$dict": [[1, 2]]}, {"$of": ["Dog", {}]}, {"$tuple": [1]}]
    for value in values:
        assert there_and_back(State(anything=value)).anything == value
