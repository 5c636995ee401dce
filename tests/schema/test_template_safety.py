"""No template and no value reaches attributes, modules, files, or more memory than it should."""

from __future__ import annotations

import collections
from typing import Any

import pytest

from anabranch.schema._message import Message
from anabranch.schema._parts import ImagePart
from anabranch.schema._template import ChatTemplate, Placeholder, TemplateFormat
from anabranch.schema.errors import TemplateError

SECRET = "the secret of this module"


class Account:
    token = SECRET

    def __init__(self) -> None:
        self.password = SECRET
        self.touched: list[str] = []

    def reveal(self) -> str:
        return SECRET

    def __getattr__(self, name: str) -> str:
        self.touched.append(name)
        return SECRET

    def __str__(self) -> str:
        return "account"


def values() -> dict[str, Any]:
    return {
        "x": Account(),
        "f": Account.reveal,
        "d": {"k": "v", "_hidden": SECRET, "__class__": SECRET, "x": Account()},
        "l": [Account(), "s"],
        "s": "text",
        "n": 3,
        "c": collections.defaultdict(lambda: SECRET),
        "w": 99999999,
    }


F_STRING = [
    "{x.token}",
    "{x.password}",
    "{x.reveal}",
    "{x[token]}",
    "{x.__class__}",
    "{x.__init__.__globals__[SECRET]}",
    "{x[__class__]}",
    "{f.__globals__}",
    "{f.__globals__[SECRET]}",
    "{d._hidden}",
    "{d[_hidden]}",
    "{d.__class__}",
    "{d.x.token}",
    "{d.keys}",
    "{l.__len__}",
    "{l[0].token}",
    "{l[-1]}",
    "{s.upper}",
    "{s.__class__.__mro__[1].__subclasses__}",
    "{n.real}",
    "{n.__class__}",
    "{c.anything}",
    "{x!r}",
    "{x!s}",
    "{x!a}",
    "{s:{d}}",
    "{s:{x.token}}",
    "{s:>99999999}",
    "{s:>1001}",
    "{n:.99999999f}",
    "{n:0999999999d}",
    "{n:{w}}",
    "{s:" + "x" * 100 + "}",
    "{0.__class__}",
    "{__import__}",
    "{__builtins__}",
]

JINJA = [
    "{{ x.token }}",
    "{{ x['token'] }}",
    "{{ x.password }}",
    "{{ x.reveal() }}",
    "{{ x | attr('token') }}",
    "{{ f() }}",
    "{{ f.__globals__ }}",
    "{{ x.__class__ }}",
    "{{ x['__class__'] }}",
    "{{ ''['__class__'].__mro__ }}",
    "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "{{ d._hidden }}",
    "{{ d['_hidden'] }}",
    "{{ d.get.__self__ }}",
    "{{ d['__class__'] }}",
    "{{ l[0].token }}",
    "{{ l | map(attribute='token') | list }}",
    "{{ l | map('attr', 'token') | list }}",
    "{{ l | selectattr('token') | list }}",
    "{{ l | groupby('token') }}",
    "{{ l | sort(attribute='token') }}",
    "{{ l | sum(attribute='token') }}",
    "{{ l.append(1) }}",
    "{{ d.update(a=1) }}",
    "{{ d.pop('k') }}",
    "{% do d.clear() %}",
    "{{ '{0.__class__}'.format(x) }}",
    "{{ '{0.token}'.format(x) }}",
    "{{ '{a.token}'.format_map({'a': x}) }}",
    "{{ ('%' ~ 's').__mod__(x) }}",
    "{{ c.anything }}",
    "{{ c['anything'] }}",
    "{{ range(999999999) }}",
    "{{ lipsum.__globals__ }}",
    "{{ cycler.__init__.__globals__ }}",
    "{{ joiner.__init__.__globals__['os'] }}",
    "{{ namespace.__init__.__globals__ }}",
    "{{ self.__init__ }}",
    "{{ self._TemplateReference__context }}",
    "{% for i in l %}{{ loop.__class__ }}{% endfor %}",
    "{% macro m() %}{% endmacro %}{{ m.__globals__ }}",
    "{{ dict.__base__ }}",
    "{{ dict.fromkeys }}",
    "{{ s.encode() }}",
    "{{ s.translate({}) }}",
    "{{ s.center(999999999) }}",
    "{{ s.zfill(999999999) }}",
    "{{ s.ljust(999999999) }}",
    "{{ l | random }}",
    "{{ x | pprint }}",
    "{% include '/etc/passwd' %}",
    "{% extends '/etc/passwd' %}",
    "{% import 'os' as os %}",
    "{% from 'os' import system %}",
    "{{ '/etc/passwd' | file }}",
    "{{ '*' | fileset }}",
    "{{ config }}",
    "{{ request }}",
    "{{ __builtins__ }}",
]


@pytest.mark.parametrize(
    ("format", "source"), [*(("f-string", source) for source in F_STRING), *(("jinja2", source) for source in JINJA)]
)
def test_attacks_by_templates_end_in_a_template_error(format: TemplateFormat, source: str) -> None:
    given = values()
    with pytest.raises(TemplateError) as caught:
        ChatTemplate.of(Message.user(source), format=format).render(given)
    assert SECRET not in str(caught.value)
    assert given["x"].touched == []
    assert given["d"].keys() == values()["d"].keys()
    assert len(given["l"]) == 2
    assert not given["c"]


@pytest.mark.parametrize("keyword", ["include", "extends", "import", "from"])
def test_case_94_other_templates_are_refused_by_name(keyword: str) -> None:
    rest = {"import": " as x", "from": " import x"}.get(keyword, "")
    source = "{% " + keyword + " 'a'" + rest + " %}"
    with pytest.raises(TemplateError, match=f"line 1: '{keyword}' is not allowed"):
        ChatTemplate.of(Message.user(source), format="jinja2")


@pytest.mark.parametrize("name", ["file", "fileset", "attr"])
def test_case_94_filters_that_reach_out_do_not_exist(name: str) -> None:
    with pytest.raises(TemplateError, match=f"No filter named '{name}'"):
        ChatTemplate.of(Message.user("{{ s | " + name + " }}"), format="jinja2")


@pytest.mark.parametrize(
    "value",
    [
        "{x.token}",
        "{{ x.token }}",
        "{% include 'a' %}",
        "{__class__}",
        "%(x)s",
        "${x}",
        "{0}",
    ],
)
@pytest.mark.parametrize("format", ["f-string", "jinja2"])
def test_attacks_by_values_are_plain_text(format: TemplateFormat, value: str) -> None:
    source = {"f-string": "{v}", "jinja2": "{{ v }}"}[format]
    template = ChatTemplate.of(
        Message.user([source, ImagePart(url=source)]), Placeholder("history"), Message.user(source), format=format
    )
    history = [Message.user(value)]
    parts, past, plain = template.format(v=value, history=history)
    assert parts == Message.user([value, ImagePart(url=value)])
    assert past is history[0]
    assert plain.text == value


@pytest.mark.parametrize("format", ["f-string", "jinja2"])
def test_an_object_as_a_value_is_printed_and_nothing_else(format: TemplateFormat) -> None:
    account = Account()
    source = {"f-string": "{x} {x:}", "jinja2": "{{ x }} {{ x }}"}[format]
    assert ChatTemplate.of(Message.user(source), format=format).format(x=account)[0].text == "account account"
    assert account.touched == []
