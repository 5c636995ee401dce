"""Prompt templates. Numbers are those of the reference's cases."""

from __future__ import annotations

from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.schema._document import Document
from anabranch.schema._message import Message, ToolCall
from anabranch.schema._parts import FilePart, ImagePart, ReasoningPart, TextPart
from anabranch.schema._template import ChatTemplate, Placeholder, TemplateFormat
from anabranch.schema.errors import TemplateError

FORMATS: list[TemplateFormat] = ["f-string", "jinja2"]
both = pytest.mark.parametrize("format", FORMATS)


def text(source: str, format: TemplateFormat = "f-string", /, **values: Any) -> str:
    (message,) = ChatTemplate.of(Message.user(source), format=format).format(**values)
    return message.text


def test_messages_are_filled_in_and_placeholders_are_replaced_in_order() -> None:
    template = ChatTemplate.of(
        Message.system("You are {role}."), Placeholder("history"), Message.user("{question}, {role}?")
    )
    history = [Message.user("Hi {role}"), Message.assistant("Ho")]
    expected = [Message.system("You are a poet."), *history, Message.user("Tides, a poet?")]
    assert template.format(role="a poet", history=history, question="Tides") == expected
    assert template.render({"role": "a poet", "history": tuple(history), "question": "Tides"}) == expected
    assert template({"role": "a poet", "history": history, "question": "Tides", "spare": 1}) == expected


def test_variables_are_listed_in_order_of_appearance() -> None:
    template = ChatTemplate.of(
        Message.system("{b} {a} {b:>3} {c.d}"), Placeholder("h", optional=True), Placeholder("g"), Message.user("{h}")
    )
    assert template.required == ("b", "a", "c", "g", "h")
    assert template.optional == ()
    assert ChatTemplate.of(Placeholder("h", optional=True), Message.user("{a}")).variables == ("a", "h")
    assert ChatTemplate.of(Message.user("plain")).variables == ()


@both
def test_case_88_a_missing_variable_is_an_error_that_names_it(format: TemplateFormat) -> None:
    source = {"f-string": "{role} {question}", "jinja2": "{{ role }} {{ question }}"}[format]
    template = ChatTemplate.of(Message.user(source), Placeholder("history", optional=True), format=format)
    with pytest.raises(TemplateError, match="no value for 'question'; the template needs role, question; history may"):
        template.format(role="x")
    with pytest.raises(TemplateError, match=r"no value for 'role', 'question' \(there is 'rolle'\)"):
        template.render({"rolle": "x"})


def test_case_88_jinja_is_strict_inside_too() -> None:
    with pytest.raises(TemplateError, match=r"item 0 \(user message\): rendering failed: .*has no attribute 'name'"):
        text("{{ user.name }}", "jinja2", user={"nom": 1})
    with pytest.raises(TemplateError, match="no value for 'user'"):
        text("{{ user.name }}", "jinja2")


@pytest.mark.parametrize(
    "source",
    [
        '{"a": 1}',
        '{ "a": [1, {"b": {}}], "c": {"d": "e"}}',
        "{}",
        "[{}, {}]",
        "{\n  'a': 1\n}",
        "{1, 2}",
        "{1: 'a'} {1.5}",
        "x = [1, 2]",
    ],
)
def test_case_89_json_may_stand_as_it_is(source: str) -> None:
    assert text(source) == source


@pytest.mark.parametrize(
    ("source", "result"),
    [
        ("{{name}}", "{name}"),
        ("{{{name}}}", "{Ann}"),
        ('{{"a": {{"b": "{name}"}}}}', '{"a": {"b": "Ann"}}'),
        ('{"a": {"b": "{name}"}}', '{"a": {"b": "Ann"}}'),
        ('{"a": {"b": {name}}}', '{"a": {"b": Ann}}'),
        ('{"a": {{name}}}', '{"a": {name}}'),
        ("a}}b{{c", "a}b{c"),
        ("{name}{name}", "AnnAnn"),
    ],
)
def test_case_89_doubled_braces_are_braces(source: str, result: str) -> None:
    template = ChatTemplate.of(Message.user(source))
    assert template.render({"name": "Ann"})[0].text == result


@pytest.mark.parametrize(
    ("source", "result"),
    [
        ("{n:05d}", "00003"),
        ("{n:>5}|{n:<5}|{n:^5}", "    3|3    |  3  "),
        ("{f:.3f}", "2.500"),
        ("{big:,}", "1,234,567"),
        ("{m.k}", "v"),
        ("{m[k]}", "v"),
        ("{m.deep.l[1].x}", "y"),
        ("{l[1]}", "b"),
        ("{l.0}", "a"),
        ("{m[odd key]}", "o"),
        ("{by_number.7}", "seven"),
        ("{nothing} {yes}", "None True"),
    ],
)
def test_case_91_specifications_and_reaching_into_mappings_and_lists(source: str, result: str) -> None:
    values = {
        "n": 3,
        "f": 2.5,
        "big": 1234567,
        "m": {"k": "v", "odd key": "o", "deep": {"l": [0, {"x": "y"}]}},
        "l": ["a", "b"],
        "by_number": {7: "seven"},
        "nothing": None,
        "yes": True,
    }
    assert ChatTemplate.of(Message.user(source)).render(values)[0].text == result


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("{name!r}", r"line 1, at '\{name!r\}': a field is"),
        ("{ name }", "a field is"),
        ("{name }", "a field is"),
        ("{name", "a field is"),
        ("{name:{width}}", "a field is"),
        ("{0}", "fields have names, not numbers"),
        ("}", "it closes nothing"),
        ("a\nb }", r"line 2, at '\}': it closes nothing"),
        ('{"a": 1', "it is never closed"),
        ("{name[}", "a field is"),
        ("{name[]}", "'' is not a public name"),
        ("{_name}", "'_name' is not a public name"),
    ],
)
def test_case_92_malformed_fields_are_errors_and_never_text(source: str, message: str) -> None:
    with pytest.raises(TemplateError, match=message) as caught:
        ChatTemplate.of(Message.system("fine"), Message.user(source))
    assert str(caught.value).startswith("item 1 (user message): ")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("{m.x}", "field 'm.x': 'm' has no key 'x'"),
        ("{l[5]}", "field 'l\\[5\\]': 'l' has no position 5, only 1 items"),
        ("{m.k.z}", "field 'm.k.z': 'm.k' is of type str; only keys"),
        ("{m:d}", "field 'm:d': a value of type dict does not format"),
        ("{l[k]}", "'l' is of type list; only keys of mappings and positions of lists"),
    ],
)
def test_values_that_do_not_fit_a_field_are_errors_that_name_it(source: str, message: str) -> None:
    with pytest.raises(TemplateError, match=message):
        ChatTemplate.of(Message.user(source)).render({"m": {"k": "v"}, "l": [1]})


@pytest.mark.parametrize("missing", [{}, {"history": None}])
def test_case_95_a_placeholder_may_be_missing_where_it_is_optional(missing: dict[str, Any]) -> None:
    assert ChatTemplate.of(Placeholder("history", optional=True)).format(**missing) == []
    with pytest.raises(TemplateError, match="history"):
        ChatTemplate.of(Placeholder("history")).format(**missing)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (Message.user("x"), "takes a list of messages, not a value of type Message"),
        ("x", "takes a list of messages, not a value of type str"),
        ([Message.user("x"), "y"], "takes messages; item 1 is of type str"),
        ([None], "takes messages; item 0 is of type NoneType"),
    ],
)
def test_a_placeholder_takes_messages_only(value: Any, message: str) -> None:
    with pytest.raises(TemplateError, match=f"placeholder 'history' {message}"):
        ChatTemplate.of(Placeholder("history", optional=True)).format(history=value)
    with pytest.raises(TemplateError, match=f"placeholder 'history' {message}"):
        ChatTemplate.of(Placeholder("history", optional=True)).partial(history=value)


def test_case_97_media_parts_are_filled_in_on_copies() -> None:
    image = ImagePart(url="https://example.org/{u}.png", extra={"kept": "{u}"})
    file = FilePart(url="{u}", name="{u}.pdf", mime_type="{u}")
    source = Message.user(["look: {u}", image, file])
    template = ChatTemplate.of(source)
    first, second = (template.format(u=u)[0] for u in "AB")
    assert first == Message.user(
        [
            "look: A",
            ImagePart(url="https://example.org/A.png", extra={"kept": "{u}"}),
            FilePart(url="A", name="A.pdf", mime_type="{u}"),
        ]
    )
    assert second.parts[1] == ImagePart(url="https://example.org/B.png", extra={"kept": "{u}"})
    assert source.parts[1] is image
    assert image.url == "https://example.org/{u}.png"
    assert template == ChatTemplate.of(source)


def test_case_98_tool_calls_reasoning_and_extra_are_untouched() -> None:
    call = ToolCall(id="1", name="f", arguments='{"a": "{x}"}')
    source = Message.assistant("{x}", tool_calls=[call], extra={"e": "{x}"})
    (message,) = ChatTemplate.of(source).format(x=1)
    assert message == Message.assistant("1", tool_calls=[call], extra={"e": "{x}"})
    thought = Message.assistant([ReasoningPart(text="{y}"), TextPart("{x}")])
    assert ChatTemplate.of(thought).format(x=1) == [Message.assistant([ReasoningPart(text="{y}"), TextPart("1")])]


def test_messages_in_which_nothing_varies_are_shared() -> None:
    plain, history = Message.system("plain"), [Message.user("{x}")]
    made = ChatTemplate.of(plain, Placeholder("h"), Message.user("{x}")).format(h=history, x=1)
    assert made[0] is plain
    assert made[1] is history[0]


def test_partial_fills_in_some_and_leaves_the_template_as_it_is() -> None:
    template = ChatTemplate.of(Message.system("{a} {b}"), Placeholder("h", optional=True))
    history = [Message.user("hi")]
    some = template.partial(a="A").partial(h=history)
    history.append(Message.user("too late"))
    assert (template.required, template.optional) == (("a", "b"), ("h",))
    assert (some.required, some.optional) == (("b",), ())
    assert some.format(b="B") == [Message.system("A B"), Message.user("hi")]
    assert some.format(a="other", b="B")[0].text == "other B"
    assert some.render({"b": "B", "h": None}) == [Message.system("A B")]


def test_names_that_a_template_does_not_have_are_errors_where_they_are_written_as_arguments() -> None:
    template = ChatTemplate.of(Message.user("{question}"), Placeholder("history", optional=True))
    with pytest.raises(TemplateError, match="no variable 'hisotry', did you mean 'history'"):
        template.format(question="x", hisotry=[])
    with pytest.raises(TemplateError, match="no variable 'zzz'; there are question, history"):
        template.partial(zzz=1)
    assert template.render({"question": "x", "hisotry": []})[0].text == "x"


def test_any_name_may_be_a_variable() -> None:
    template = ChatTemplate.of(Message.user("{self} {format} {values} {élan}"))
    assert template.format(self=1, format=2, values=3, élan=4)[0].text == "1 2 3 4"


def test_templates_cannot_be_changed_and_compare_by_what_they_are_made_of() -> None:
    items = (Message.user("{a}"), Placeholder("h", optional=True))
    template = ChatTemplate.of(*items)
    for name in ("required", "_entries", "anything"):
        with pytest.raises(AttributeError, match="a template cannot be changed"):
            setattr(template, name, ())
        with pytest.raises(AttributeError):
            delattr(template, name)
    assert template == ChatTemplate.of(*items)
    assert hash(template) == hash(ChatTemplate.of(*items))
    assert template != template.partial(a=1)
    assert template != ChatTemplate.of(items[0])
    assert repr(template) == "<ChatTemplate of 2 items, variables: a, h>"


def test_what_a_template_cannot_be_made_of_is_an_error() -> None:
    with pytest.raises(TemplateError, match="item 0 is of type str; a template is made of Message and Placeholder"):
        ChatTemplate.of(cast("Any", "text"))
    with pytest.raises(TemplateError, match="there is no format 'mustache'; use 'f-string' or 'jinja2'"):
        ChatTemplate.of(Message.user("{x}"), format=cast("Any", "mustache"))


# --- jinja2


@pytest.mark.parametrize(
    ("source", "result"),
    [
        ("{{ name }}", "Ann"),
        ("{% for k, v in m.items() %}{{ loop.index }}{{ k }}{{ v }};{% endfor %}", "1av;"),
        ("{{ m.a }}{{ m['a'] }}{{ l[0] }}{{ l[-1] }}", "vv12"),
        ("{{ name.upper() }} {{ name | lower }}", "ANN ann"),
        ("{{ l | join(', ') }}{% if nothing %}no{% endif %}\n", "1, 2\n"),
        ("{{ m | tojson }} <b>'&'</b>", '{"a": "v"} <b>\'&\'</b>'),
        ("{{ missing | default('d') }}{% if other is defined %}{{ other }}{% endif %}", "d"),
        ("{% macro f(x) %}[{{ x }}]{% endmacro %}{{ f(name) }}", "[Ann]"),
        ("{% set ns = namespace(n=0) %}{% for x in l %}{% set ns.n = ns.n + x %}{% endfor %}{{ ns.n }}", "3"),
        ("{{ people | map(attribute='n') | join }}", "12"),
        ("{% raw %}{{ x }}{% endraw %}{'a': 1}", "{{ x }}{'a': 1}"),
        ("{# note #}{{ nothing }}", "None"),
    ],
)
def test_jinja_templates_work_on_plain_data(source: str, result: str) -> None:
    values: dict[str, Any] = {
        "name": "Ann",
        "m": {"a": "v"},
        "l": [1, 2],
        "nothing": None,
        "people": [{"n": 1}, {"n": 2}],
    }
    assert ChatTemplate.of(Message.user(source), format="jinja2").render(values)[0].text == result


def test_jinja_variables_with_a_default_are_optional() -> None:
    source = "{{ a }}{{ b | default('x') }}{% if c is defined %}{{ c }}{% endif %}{% for d in e %}{{ d }}{% endfor %}"
    template = ChatTemplate.of(Message.user(source), format="jinja2")
    assert (template.required, template.optional) == (("a", "e"), ("b", "c"))


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("{{ a", "unexpected end of template"),
        ("{{", "unexpected 'end of template'"),
        ("{% if %}", "Expected an expression"),
        ("x\n{% endfor %}", "line 2: it is no Jinja2 template"),
        ("{{ a | nope }}", "No filter named 'nope'"),
    ],
)
def test_malformed_jinja_is_an_error_at_once(source: str, message: str) -> None:
    with pytest.raises(TemplateError, match=message):
        ChatTemplate.of(Message.user(source), format="jinja2")


@pytest.mark.parametrize("source", ["{{ 1 / 0 }}", "{{ a + 1 }}", "{{ a.upper(1) }}", "{{ a | round }}"])
def test_what_goes_wrong_in_an_expression_is_a_template_error(source: str) -> None:
    with pytest.raises(TemplateError, match="rendering failed"):
        ChatTemplate.of(Message.user(source), Message.user("{{ a }}"), format="jinja2").render({"a": "x"})


@both
def test_a_document_as_a_value_is_its_content(format: TemplateFormat) -> None:
    document = Document(id="d", content="Tides {x}", metadata={"year": 1})
    assert text({"f-string": "<{d}>", "jinja2": "<{{ d }}>"}[format], format, d=document) == "<Tides {x}>"
    assert text("{{ ds | join(', ') }}", "jinja2", ds=[document, document]) == "Tides {x}, Tides {x}"


# --- laws


@given(st.text())
def test_values_are_never_read_as_templates(value: str) -> None:
    assert text("<{x}>", x=value) == f"<{value}>"
    assert text("<{{ x }}>", "jinja2", x=value) == f"<{value}>"


@given(st.text())
def test_any_text_with_its_braces_doubled_is_itself(source: str) -> None:
    assert text(source.replace("{", "{{").replace("}", "}}")) == source


@given(st.text(st.sampled_from('{}ab:![]._" 0')))
def test_any_text_is_a_template_or_a_template_error(source: str) -> None:
    def judged() -> str:
        try:
            template = ChatTemplate.of(Message.user(source))
            return template.render(dict.fromkeys(template.required, "v"))[0].text
        except TemplateError as error:
            return str(error)

    assert isinstance(judged(), str)
