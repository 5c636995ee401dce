"""Field mappings: a node's input put together from parts of its senders' outputs, checked when compiled.

A *path* is a list of names; each step is a key of a mapping, or a field of a model, a dataclass or a ``TypedDict``.
All target paths of one node form one tree, so two that touch each other are found in whatever order they were said.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from dataclasses import field as dataclass_field
from types import NoneType, UnionType
from typing import Any, Union, cast, get_args, get_origin, is_typeddict

from pydantic import BaseModel

from ..schema import NO_VALUE, StreamReader, merge
from ._merge import as_mapping
from ._types import Fit, checker, fits, resolve_hints, type_name, value_type_name

Path = tuple[str, ...]
Missing = object()


class MappingError(ValueError):
    """A field mapping that was fine when compiled meets a value that it does not fit."""


@dataclass(frozen=True, slots=True)
class FieldMapping:
    """One mapping, as :func:`field` makes it: from a path of the sender's output to a path of the node's input."""

    source: Path = ()
    to: Path = ()
    extract: Callable[[Any], Any] | None = dataclass_field(default=None, compare=False)

    def __str__(self) -> str:
        return f"{_shown(self.source)} -> {_shown(self.to)}"


def field(
    source: str | Sequence[str] = (), *, to: str | Sequence[str] = (), extract: Callable[[Any], Any] | None = None
) -> FieldMapping:
    """Say which part of a sender's output becomes which part of a node's input.

    Args:
        source: The path in the sender's output, ``"user.name"``, or a list of names where a name holds a dot. Left
            out, it is the whole output.
        to: The path in the node's input. Left out, it is the whole input.
        extract: A function of the whole output, in place of ``source``.

    Returns:
        The mapping, for :meth:`WorkflowNode.input`.

    Raises:
        ValueError: If both ``source`` and ``extract`` are given, or a name is empty.

    Example:
        >>> print(field("user.name", to="name"))
        user.name -> name
    """
    if extract is not None and source:
        raise ValueError("field(): give source or extract, not both")
    return FieldMapping(_path(source), _path(to), extract)


def _path(given: str | Sequence[str]) -> Path:
    path = tuple(given.split(".")) if isinstance(given, str) else tuple(given)
    if any(not name for name in path):
        raise ValueError(f"{given!r} has an empty name; write names joined by dots, or a list of names")
    return path


def _shown(path: Path) -> str:
    return ".".join(path) or "(all)"


class Assembly:
    """Makes a node's input by its mappings and static values; what :class:`~._spec.Assembler` asks for."""

    def __init__(self) -> None:
        self.mappings: dict[str, list[FieldMapping]] = {}
        """By sender; an empty list is the whole output as the whole input."""
        self.static: dict[Path, Any] = {}
        self._target: Any = Any
        self._checks: dict[tuple[str, Path], tuple[Callable[[object], bool], str]] = {}

    @property
    def is_needed(self) -> bool:
        """Whether the input is more than what the senders send, merged."""
        return bool(self.static) or any(self.mappings.values())

    def copy(self) -> Assembly:
        """Make an independent one, for a compiled graph."""
        made = Assembly()
        made.mappings = {sender: list(found) for sender, found in self.mappings.items()}
        made.static = dict(self.static)
        return made

    def _all(self) -> Iterator[tuple[str, FieldMapping]]:
        for sender, mappings in self.mappings.items():
            yield from ((sender, m) for m in mappings or [FieldMapping()])

    # -- when compiled -----------------------------------------------------------------------------------------

    def problems(self, sources: Mapping[str, Any], target: Any) -> Sequence[str]:
        """Say what cannot work, and get ready to assemble."""
        self._target = target
        found = list(self._conflicts())
        for sender, mapping in self._all():
            if sender in sources:
                found += self._types(sender, mapping, sources[sender], target)
        for path, value in self.static.items():
            found += self._static_type(path, value, target)
        if not found:
            found += _unfilled(target, self._filled(), ())
        return found

    def _filled(self) -> dict[Path, str]:
        filled = {m.to: f"{sender!r} ({m})" for sender, m in self._all()}
        return filled | {path: f"the static value at {_shown(path)}" for path in self.static}

    def _conflicts(self) -> Iterator[str]:
        said = [(m.to, f"{sender!r} ({m})") for sender, m in self._all()]
        said += [(path, f"the static value at {_shown(path)}") for path in self.static]
        for i, (path, who) in enumerate(said):
            for other, whom in said[i + 1 :]:
                shorter = min(len(path), len(other))
                if path[:shorter] == other[:shorter]:
                    where = _shown(path if len(path) <= len(other) else other)
                    yield f"{who} and {whom} both fill {where} of the input; map them to different fields"

    def _types(self, sender: str, mapping: FieldMapping, source: Any, target: Any) -> Iterator[str]:
        wanted, fault = _walk(target, mapping.to)
        if fault:
            yield f"{sender!r} ({mapping}): the input is {type_name(target)}, and {fault}"
            return
        if mapping.extract is not None:
            given: Any = Any
        else:
            given, fault = _walk(source, mapping.source)
            if fault:
                yield f"{sender!r} ({mapping}): {sender!r} gives {type_name(source)}, and {fault}"
                return
        fit = fits(given, wanted)
        if fit is Fit.NEVER:
            yield f"{sender!r} ({mapping}): it gives {type_name(given)}, and {type_name(wanted)} is wanted there"
        elif fit is Fit.MAY:
            self._checks[sender, mapping.to] = checker(wanted), type_name(wanted)

    def _static_type(self, path: Path, value: Any, target: Any) -> Iterator[str]:
        wanted, fault = _walk(target, path)
        if fault:
            yield f"the static value at {_shown(path)}: the input is {type_name(target)}, and {fault}"
        elif not checker(wanted)(value):
            got = value_type_name(value)
            yield f"the static value at {_shown(path)} is {got}, and {type_name(wanted)} is wanted there"

    # -- in a run ----------------------------------------------------------------------------------------------

    def assemble(self, values: Mapping[str, Any]) -> Any:
        """Make the input from the senders' values; senders that were skipped are absent."""
        tree: dict[str, Any] = {}
        for sender, mapping in self._all():
            if sender not in values:
                continue
            part = self._take(sender, mapping, values[sender])
            if not mapping.to:
                return part  # the compiler sees to it that nothing else fills the input then
            _plant(tree, mapping.to, part)
        for path, value in self.static.items():
            _plant(tree, path, value)
        return build(self._target, tree)

    def _take(self, sender: str, mapping: FieldMapping, value: Any) -> Any:
        part = mapping.extract(value) if mapping.extract is not None else _extract(sender, mapping, value)
        check = self._checks.get((sender, mapping.to))
        if check is not None and not check[0](part):
            raise MappingError(f"{sender!r} ({mapping}): wanted {check[1]}, got {value_type_name(part)}")
        return part

    def assemble_stream(self, readers: Mapping[str, StreamReader[Any]]) -> StreamReader[Any] | None:
        """Assemble chunk by chunk where that gives the same; else say so by None.

        It does where the input is a dict whose keys are filled from whole outputs or from keys of dicts, unchecked.
        """
        mappings = [m for _, m in self._all()]
        simple = all(m.extract is None and len(m.to) == 1 and len(m.source) <= 1 for m in mappings)
        simple = simple and not self._checks and all(len(path) == 1 for path in self.static)
        if not simple or not _takes_dict(self._target):
            return None
        parts: list[StreamReader[Any]] = []
        if self.static:
            parts.append(StreamReader.of({path[0]: value for path, value in self.static.items()}))
        for sender, reader in readers.items():
            parts.append(self._live(sender, reader))
        return merge(parts)

    def _live(self, sender: str, reader: StreamReader[Any]) -> StreamReader[Any]:
        mappings = self.mappings[sender]
        missing = {m.source[0] for m in mappings if m.source}

        def take(chunk: Any) -> Any:
            made: dict[str, Any] = {}
            for mapping in mappings:
                if not mapping.source:
                    made[mapping.to[0]] = chunk
                elif isinstance(chunk, Mapping) and mapping.source[0] in chunk:
                    missing.discard(mapping.source[0])
                    made[mapping.to[0]] = chunk[mapping.source[0]]
                elif not isinstance(chunk, Mapping):
                    made[mapping.to[0]] = _extract(sender, mapping, chunk)
                    missing.discard(mapping.source[0])
            return made or NO_VALUE

        def ended() -> Any:
            if missing:
                mapping = next(m for m in mappings if m.source and m.source[0] in missing)
                raise MappingError(f"{sender!r} ({mapping}): what came has no {mapping.source[0]!r}")
            return NO_VALUE

        return reader.convert(take, on_end=ended)


def _takes_dict(target: Any) -> bool:
    origin = get_origin(target) or target
    return target is Any or target is object or (isinstance(origin, type) and issubclass(origin, Mapping))


def _plant(tree: dict[str, Any], path: Path, value: Any) -> None:
    for name in path[:-1]:
        tree = tree.setdefault(name, {})
    tree[path[-1]] = value


def _extract(sender: str, mapping: FieldMapping, value: Any) -> Any:
    for depth, name in enumerate(mapping.source):
        where = f"{sender!r} ({mapping})"
        keyed = as_mapping(value)
        if keyed is not None:
            if name not in keyed:
                there = ", ".join(map(repr, list(keyed)[:5])) or "nothing"
                raise MappingError(f"{where}: {_shown(mapping.source[:depth])} has no {name!r}; there is {there}")
            value = keyed[name]
        elif value is None or name.startswith("_") or not hasattr(value, name):
            got = value_type_name(value)
            raise MappingError(f"{where}: {_shown(mapping.source[:depth])} is {got} and has no {name!r}")
        else:
            value = getattr(value, name)
    return value


# -- types of fields -------------------------------------------------------------------------------------------


def _walk(form: Any, path: Path) -> tuple[Any, str]:
    """Give the type at a path, and what is wrong with the path (``""``: nothing)."""
    for depth, name in enumerate(path):
        form, fault = _step(form, name)
        if fault:
            return Any, f"at {_shown(path[: depth + 1])}, {fault}"
    return form, ""


def _step(form: Any, name: str) -> tuple[Any, str]:
    form = _without_none(form)
    origin = get_origin(form) or form
    if form is Any or form is object or not isinstance(origin, type):
        return Any, ""
    known = fields_of(form)
    if known is not None:
        if name in known:
            return known[name], ""
        return Any, f"{type_name(form)} has no field {name!r}; it has {', '.join(map(repr, known)) or 'none'}"
    if issubclass(origin, Mapping):
        arguments = get_args(form)
        return (arguments[1] if len(arguments) == 2 else Any), ""
    return Any, f"{type_name(form)} has no fields"


def fields_of(form: Any) -> dict[str, Any] | None:
    """Give the fields of a model, dataclass or ``TypedDict`` with their types, or None for anything else."""
    origin = get_origin(form) or form
    if is_typeddict(origin) or is_dataclass(origin):
        return {k: v for k, v in resolve_hints(origin).items() if k != "return"}
    if isinstance(origin, type) and issubclass(origin, BaseModel):
        return {name: info.annotation for name, info in origin.model_fields.items()}
    return None


def _without_none(form: Any) -> Any:
    if get_origin(form) in (Union, UnionType):
        rest = [a for a in get_args(form) if a is not NoneType]
        return rest[0] if len(rest) == 1 else Any
    return form


def _required(form: Any) -> set[str]:
    origin = get_origin(form) or form
    if is_typeddict(origin):
        return set(origin.__required_keys__)
    if is_dataclass(origin):
        plain = [f for f in fields(origin) if f.default is MISSING and f.default_factory is MISSING and f.init]
        return {f.name for f in plain}
    if isinstance(origin, type) and issubclass(origin, BaseModel):
        return {name for name, info in origin.model_fields.items() if info.is_required()}
    return set()


def _unfilled(form: Any, filled: Mapping[Path, str], at: Path) -> Iterator[str]:
    """Name required fields that nothing fills, where some of their siblings are filled."""
    if at in filled:
        return
    inside = {path[len(at)] for path in filled if path[: len(at)] == at and len(path) > len(at)}
    if not inside and at:
        return
    form = _without_none(form)
    for name in sorted(_required(form) - inside):
        yield f"nothing fills {_shown((*at, name))} of the input ({type_name(form)}), which is required"
    known = fields_of(form) or {}
    for name in sorted(inside & set(known)):
        yield from _unfilled(known[name], filled, (*at, name))


def build(form: Any, tree: Any) -> Any:
    """Make a value of a type from nested dicts whose leaves are the values of fields."""
    form = _without_none(form)
    origin = get_origin(form) or form
    if not isinstance(tree, dict) or not isinstance(origin, type):
        return tree  # pyright: ignore[reportUnknownVariableType]
    known = fields_of(form)
    if known is None or isinstance(tree, origin if not is_typeddict(origin) else ()):
        return tree  # pyright: ignore[reportUnknownVariableType]
    parts = {name: build(known.get(name, Any), part) for name, part in cast("dict[str, Any]", tree).items()}
    if is_typeddict(origin):
        return parts
    missing = sorted(_required(form) - parts.keys())
    if missing:
        raise MappingError(f"{type_name(form)} needs {missing[0]!r}, and nothing that ran has filled it")
    return form(**parts)
