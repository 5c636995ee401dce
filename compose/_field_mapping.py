"""Field mappings: a node's input put together from parts of its senders' outputs, checked when compiled.

A *path* is a list of names; :mod:`._fields` says where it leads. All target paths of one node form one tree of
:class:`Place` s, so two that touch each other are found in whatever order they were said.

In stream mode the input is assembled chunk by chunk where that gives the same as assembling the whole: where all that
is read and all that is made on the way are dicts, whose chunks concatenate key by key. Everything else (an extractor, a
model, a dataclass) needs whole values first; then the engine concatenates each sender's stream.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from typing import Any

from ..schema import NO_VALUE, StreamReader, concat, merge
from ._body import ShapeError, is_async_callable, shape_of
from ._empty import empty_value
from ._fields import FieldError, Maker, Path, maker_of, read_form, read_value, reads_by_key, shown
from ._flows import check_for
from ._merge import class_of
from ._plan import Check
from ._types import Fit, checker, fits, type_name, value_type_name

_NOTHING = object()


class MappingError(ValueError):
    """A field mapping that was fine when compiled meets a value that it does not fit."""


@dataclass(frozen=True, slots=True)
class FieldMapping:
    """One mapping, as :func:`field` makes it: from a path of the sender's output to a path of the node's input."""

    source: Path = ()
    to: Path = ()
    extract: Callable[[Any], Any] | None = None

    def __str__(self) -> str:
        taken = shown(self.source) if self.extract is None else f"{_name_of(self.extract)}(…)"
        return f"{taken} -> {shown(self.to)}"


def _name_of(function: Callable[..., Any]) -> str:
    return str(getattr(function, "__name__", None) or type(function).__name__)


def field(
    source: str | Sequence[str] = (), *, to: str | Sequence[str] = (), extract: Callable[[Any], Any] | None = None
) -> FieldMapping:
    """Say which part of a sender's output becomes which part of a node's input.

    Args:
        source: The path in the sender's output, ``"user.name"``, or a list of names where a name holds a dot. Left
            out, it is the whole output.
        to: The path in the node's input. Left out, it is the whole input.
        extract: A plain function of the whole output, in place of ``source``.

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
    return FieldMapping(path_of(source), path_of(to), extract)


def path_of(given: str | Sequence[str]) -> Path:
    """Read a path: names joined by dots, or a list of names.

    Raises:
        ValueError: If a name is empty.
        TypeError: If a name is no text.
    """
    path = tuple(given.split(".")) if isinstance(given, str) else tuple(given)
    for name in path:
        if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"{given!r}: the names of a path are strings, got {type(name).__name__}")
        if not name:
            raise ValueError(f"{given!r} has an empty name; write names joined by dots, or a list of names")
    return path


@dataclass(slots=True, eq=False)
class Entry:
    """One thing that was said about a node's input: a mapping from a sender, or (sender None) a static value."""

    sender: str | None
    mapping: FieldMapping
    value: Any = None
    check: Check | None = None
    """The test of what the sender gives, where it only may fit."""

    def __str__(self) -> str:
        if self.sender is None:
            return f"the static value at {shown(self.mapping.to)}"
        return f"{self.sender!r} ({self.mapping})"


@dataclass(slots=True, eq=False)
class Place:
    """A place in a node's input: what fills it as a whole, and what fills parts of it."""

    path: Path
    entries: list[Entry] = dataclass_field(default_factory=list[Entry])
    parts: dict[str, Place] = dataclass_field(default_factory=dict[str, "Place"])
    maker: Maker | None = None
    """Makes it of its parts; set when compiled."""

    def part(self, path: Path) -> Place:
        """Give a place inside; it is made if it is not there yet."""
        place = self
        for name in path:
            place = place.parts.setdefault(name, Place((*place.path, name)))
        return place

    def all_entries(self) -> Iterator[Entry]:
        """Give what fills this place or a part of it."""
        yield from self.entries
        for part in self.parts.values():
            yield from part.all_entries()

    def conflicts(self) -> Iterator[str]:
        """Name the places that more than one thing fills; the words do not depend on the order of declaration."""
        if self.entries and (len(self.entries) > 1 or self.parts):
            who = sorted(map(str, self.all_entries()))
            all_of_them = "both" if len(who) == 2 else "all"
            where = f"{shown(self.path)} of the input"
            yield f"{' and '.join(who)} {all_of_them} fill {where}; map them to different fields"
            return
        for part in self.parts.values():
            yield from part.conflicts()


class Assembly:
    """Makes a node's input by its mappings and static values; what :class:`~._spec.Assembler` asks for."""

    def __init__(self, entries: Sequence[Entry] = ()) -> None:
        self.entries = [Entry(e.sender, e.mapping, _fresh(e.value)) for e in entries]
        """What was said, in that order."""
        self._root = Place(())
        self._empty: Callable[[], Any] | None = None
        self._live = False
        self._neutral: dict[str, Callable[[], Any] | None] = {}

    def add(self, sender: str, mappings: Sequence[FieldMapping]) -> None:
        """Take parts of a sender's output; without mappings, the whole as the whole input."""
        self.entries += [Entry(sender, mapping) for mapping in mappings or [FieldMapping()]]

    def add_static(self, path: Path, value: Any) -> None:
        """Fill a part with the same value in every run."""
        self.entries.append(Entry(None, FieldMapping(to=path), value))

    @property
    def is_needed(self) -> bool:
        """Whether the input is more than what the senders send, merged."""
        plain = [e for e in self.entries if e.sender is not None and e.mapping == FieldMapping()]
        return len(plain) < len(self.entries) or len({e.sender for e in plain}) < len(plain)

    def form(self, sources: Mapping[str, Any]) -> Any:
        """Give the type of what is put together, where no node says what it takes."""
        if all(entry.mapping.to for entry in self.entries):
            return dict[str, Any]
        entry = self.entries[0]
        try:
            return Any if entry.sender is None else _taken_form(entry, sources.get(entry.sender, Any))
        except FieldError:
            return Any

    def copy(self) -> Assembly:
        """Make an independent one, for a compiled graph."""
        return Assembly(self.entries)

    # -- when compiled -----------------------------------------------------------------------------------------

    def problems(self, sources: Mapping[str, Any], target: Any) -> Sequence[str]:
        """Say what cannot work, and get ready to assemble."""
        self._root = Place(())
        for entry in self.entries:
            self._root.part(entry.mapping.to).entries.append(entry)
        self._empty = empty_value(target)
        self._neutral = {sender: empty_value(form) for sender, form in sources.items()}
        found = [*self._root.conflicts(), *self._faults(self._root, target, sources)]
        self._live = not found and self._can_be_live(sources)
        return found

    def _faults(self, place: Place, form: Any, sources: Mapping[str, Any]) -> Iterator[str]:
        for entry in place.entries:
            yield from self._entry_faults(entry, form, sources)
        if not place.parts:
            return
        forms = dict[str, Any]()
        try:
            place.maker = maker_of(form, place.parts)
            forms.update(place.maker.part_forms)
        except FieldError:
            yield from self._part_faults(place, form, forms)
        if not place.entries:
            yield from _unfilled(place, form)
        for name, part in place.parts.items():
            yield from self._faults(part, forms.get(name, Any), sources)

    def _part_faults(self, place: Place, form: Any, forms: dict[str, Any]) -> Iterator[str]:
        """Say which parts cannot be filled, or that they cannot be together; note the types of those that can."""
        at = f"the input at {shown(place.path)}" if place.path else "the input"
        for name, part in place.parts.items():
            try:
                forms.update(maker_of(form, [name]).part_forms)
            except FieldError as error:
                for entry in part.all_entries():
                    yield f"{entry}: {at} is {type_name(form)}, and at {shown(part.path)}, {error}"
        if len(forms) == len(place.parts):
            who = " and ".join(sorted(map(str, place.all_entries())))
            yield f"{who}: {at} is {type_name(form)}, of which no member has all of these fields"

    def _entry_faults(self, entry: Entry, wanted: Any, sources: Mapping[str, Any]) -> Iterator[str]:
        if entry.sender is None:
            if not checker(wanted)(entry.value):
                yield f"{entry} is {value_type_name(entry.value)}, and {type_name(wanted)} is wanted there"
            return
        if entry.sender not in sources:
            return  # there is no such node, which is said elsewhere
        try:
            given = _taken_form(entry, sources[entry.sender])
        except FieldError as error:
            yield f"{entry}: {error}"
            return
        fit = fits(given, wanted)
        if fit is Fit.NEVER:
            yield f"{entry}: it gives {type_name(given)}, and {type_name(wanted)} is wanted there"
        entry.check = check_for(str(entry), wanted) if fit is Fit.MAY else None

    def _can_be_live(self, sources: Mapping[str, Any]) -> bool:
        for entry in self.entries:
            if entry.mapping.extract is not None:
                return False
            if entry.sender is not None and not reads_by_key(sources.get(entry.sender, Any), entry.mapping.source):
                return False
        return _makes_dicts(self._root)

    # -- in a run ----------------------------------------------------------------------------------------------

    def assemble(self, values: Mapping[str, Any]) -> Any:
        """Make the input from the senders' values; senders that were skipped are absent."""
        parts: dict[Path, Any] = {}
        for entry in self.entries:
            if entry.sender is None:
                parts[entry.mapping.to] = _fresh(entry.value)
            elif entry.sender in values:
                parts[entry.mapping.to] = _take(entry, values[entry.sender])
        _check_required(self._root, parts)
        return self._made(parts)

    def _made(self, parts: Mapping[Path, Any]) -> Any:
        made = _made(self._root, parts)
        if made is not _NOTHING:
            return made
        if self._empty is None:
            raise MappingError("nothing that ran has filled the input, and its type has no empty value")
        return self._empty()

    def assemble_stream(
        self, readers: Mapping[str, StreamReader[Any]], locate: Callable[[Exception], Exception]
    ) -> StreamReader[Any] | None:
        """Assemble chunk by chunk where that gives the same; else say so by None.

        Args:
            readers: The senders' streams.
            locate: Makes the error of the stream of one that a mapping has met.
        """
        if not self._live or not self._will_be_whole(readers):
            return None
        static = {e.mapping.to: _fresh(e.value) for e in self.entries if e.sender is None}
        parts = [StreamReader.of(_made(self._root, static))] if static else list[StreamReader[Any]]()
        parts += [self._live_part(sender, reader, locate) for sender, reader in readers.items()]
        return parts[0] if len(parts) == 1 else merge(parts)

    def _will_be_whole(self, readers: Mapping[str, Any]) -> bool:
        """Tell whether something comes, and all that is required; what is wrong with whole values, they say best."""
        coming = {e.mapping.to: None for e in self.entries if e.sender is None or e.sender in readers}
        try:
            return _check_required(self._root, coming)
        except MappingError:
            return False

    def _live_part(
        self, sender: str, reader: StreamReader[Any], locate: Callable[[Exception], Exception]
    ) -> StreamReader[Any]:
        takers = [_LiveEntry(entry) for entry in self.entries if entry.sender == sender]
        neutral = self._neutral.get(sender)
        seen = False

        def located(call: Callable[[], dict[Path, Any]]) -> Any:
            try:
                parts = call()
            except (MappingError, FieldError) as error:
                raise locate(error) from error
            return _made(self._root, parts) if parts else NO_VALUE

        def take(chunk: Any) -> Any:
            nonlocal seen
            seen = True
            return located(lambda: {t.to: part for t in takers if (part := t.take(chunk)) is not _NOTHING})

        def finish() -> dict[Path, Any]:
            parts: dict[Path, Any] = {}
            if not seen:  # as if the whole had come, which is empty
                whole = None if neutral is None else neutral()
                if whole is None:
                    raise MappingError(f"the stream of {sender!r} ended without a chunk")
                parts = {t.to: part for t in takers if (part := t.take(whole)) is not _NOTHING}
            for taker in takers:
                taker.finish()
            return parts

        return reader.convert(take, on_end=lambda: located(finish))


def _taken_form(entry: Entry, source: Any) -> Any:
    """Give the type of what an entry takes from its sender's output."""
    extract = entry.mapping.extract
    if extract is None:
        try:
            return read_form(source, entry.mapping.source)
        except FieldError as error:
            raise FieldError(f"{entry.sender!r} gives {type_name(source)}; {error}") from None
    try:
        shape = shape_of(extract)
    except ShapeError as error:
        raise FieldError(f"the extractor cannot be called: {error}") from None
    if shape.paradigm != "invoke" or is_async_callable(extract):
        raise FieldError("an extractor is a plain function that returns a value; put anything else into a node")
    if fits(source, shape.input) is Fit.NEVER:
        raise FieldError(f"{entry.sender!r} gives {type_name(source)}, the extractor takes {type_name(shape.input)}")
    return shape.output


def _take(entry: Entry, value: Any) -> Any:
    mapping = entry.mapping
    try:
        part = read_value(value, mapping.source) if mapping.extract is None else mapping.extract(value)
    except FieldError as error:
        raise MappingError(f"{entry}: {error}") from None
    if entry.check is not None and not entry.check.accepts(part):
        raise MappingError(_misfit(entry, entry.check, part))
    return part


def _misfit(entry: Entry, check: Check, part: Any) -> str:
    return f"{entry}: wanted {check.wanted}, got {value_type_name(part)}"


class _LiveEntry:
    """Takes one entry's part of each chunk of its sender."""

    def __init__(self, entry: Entry) -> None:
        self.to = entry.mapping.to
        self._entry = entry
        self._missing: FieldError | None = None
        self._found = False
        self._something = False
        """Whether any part was more than None, which changes nothing of the whole."""
        self._parts: list[Any] = []
        """The parts, where the whole has to be tested."""

    def take(self, chunk: Any) -> Any:
        """Give the part that a chunk has, or nothing."""
        try:
            part = read_value(chunk, self._entry.mapping.source)
        except FieldError as error:
            self._missing = error
            return _NOTHING
        self._found = True
        check = self._entry.check
        if part is not None and check is not None:
            self._something = True
            if not check.accepts_chunk(part):
                raise MappingError(_misfit(self._entry, check, part))
            if check.whole:
                self._parts.append(part)
        return part

    def finish(self) -> None:
        """Test what can be known at the end of the stream only."""
        if not self._found:
            raise MappingError(f"{self._entry}: {self._missing}")
        check = self._entry.check
        if check is not None and (check.whole or not self._something):
            whole = concat(self._parts) if self._parts else None
            if not check.accepts(whole):
                raise MappingError(_misfit(self._entry, check, whole))


def _makes_dicts(place: Place) -> bool:
    if not place.parts:
        return True
    return place.maker is not None and place.maker.merges and all(map(_makes_dicts, place.parts.values()))


def _made(place: Place, given: Mapping[Path, Any]) -> Any:
    """Make what is at a place of the parts that are given by path."""
    if place.maker is None:
        return given.get(place.path, _NOTHING)
    parts = {name: made for name, part in place.parts.items() if (made := _made(part, given)) is not _NOTHING}
    if not parts and place.path:
        return _NOTHING
    return place.maker.make(parts)


def _check_required(place: Place, given: Mapping[Path, Any]) -> bool:
    """Tell whether anything of a place is given; where something is, all that is required must be."""
    if place.maker is None:
        return place.path in given
    there = {name for name, part in place.parts.items() if _check_required(part, given)}
    if there or not place.path:
        for name in place.maker.required:
            if name not in there:
                wanted = f"{type_name(place.maker.form)} needs {shown((*place.path, name))}"
                raise MappingError(f"{wanted}, and nothing that ran has filled it")
    return bool(there)


def _unfilled(place: Place, form: Any) -> Iterator[str]:
    try:
        maker = place.maker or maker_of(form, ())
    except FieldError:
        return
    for name in maker.required:
        if name not in place.parts:
            where = shown((*place.path, name))
            yield f"nothing fills {where} of the input ({type_name(maker.form)}), which is required"


def _fresh(value: Any) -> Any:
    """Copy the plain containers in a static value, so that no run sees what another one has done to them."""
    kind = class_of(value)
    if kind is dict:
        return {key: _fresh(item) for key, item in value.items()}
    if kind is list:
        return [_fresh(item) for item in value]
    if kind is tuple:
        return tuple(_fresh(item) for item in value)
    return set[Any](value) if kind is set else value
