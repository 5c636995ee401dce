"""How dates and times are written: as ISO 8601 says, and where that would lose the zone or the fold, with both."""

from __future__ import annotations

import os
import re
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from typing import Any, cast

from ._codec_json import Json
from ._codec_part import Part, Refused, wrong_tree, wrong_value
from ._codec_scalars import Plain, decode_str

_KEY = re.compile(r"[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*")
_MICROSECOND = timedelta(microseconds=1)
_MINUTE = 60_000_000
_NO_OFFSET: list[Any] = [0]
_packaged: frozenset[str] | None = None


def prepare() -> None:
    """Find the time zones where they are in no folder of the system; nothing is imported later, when reading."""
    global _packaged  # noqa: PLW0603  found once
    if _packaged is None:
        import zoneinfo

        there = any(os.path.isdir(folder) for folder in zoneinfo.TZPATH)
        _packaged = frozenset() if there else frozenset(zoneinfo.available_timezones())


def _zone_named(key: str) -> tzinfo:
    import zoneinfo

    if _KEY.fullmatch(key):
        files = (os.path.join(folder, *key.split("/")) for folder in zoneinfo.TZPATH)
        if key in (_packaged or ()) or any(map(os.path.isfile, files)):
            return zoneinfo.ZoneInfo(key)
    raise Refused(f"there is no time zone {key!r} on this system")


def _encode_zone(zone: tzinfo) -> Json:
    """Write a zone: its key, or its offset in microseconds and the name that it was given."""
    if type(zone) is timezone:
        return cast("Json", _offset(zone))
    key = getattr(zone, "key", None)
    if type(zone).__module__.partition(".")[0] == "zoneinfo" and type(key) is str and _zone_named(key) is zone:
        return key
    raise Refused(f"its time zone is a {type(zone).__name__}; use datetime.timezone, or ZoneInfo with a key")


def _offset(zone: timezone) -> list[Any]:
    """Give what a fixed offset was made from."""
    made_from: tuple[Any, ...] = zone.__getinitargs__()  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
    return [made_from[0] // _MICROSECOND, *made_from[1:]]


def _decode_zone(tree: Any) -> tzinfo:
    if type(tree) is str:
        return _zone_named(tree)
    if tree.__class__ is not list or len(tree) not in {1, 2} or type(tree[0]) is not int:
        raise wrong_tree(tree, "a time zone")
    offset = timedelta(microseconds=tree[0])
    return timezone(offset) if len(tree) == 1 else timezone(offset, decode_str(tree[1]))


def _is_plain(value: datetime | time) -> bool:
    """Tell whether the text alone gives it back: offsets with seconds are not all read as they are written."""
    zone = value.tzinfo
    if value.fold or not (zone is None or type(zone) is timezone):
        return False
    offset = _NO_OFFSET if zone is None else _offset(zone)
    return len(offset) == 1 and not offset[0] % _MINUTE


def _encode_clock(value: Any) -> Json:
    """Write a date with time, or a time."""
    if _is_plain(value):
        return cast("str", value.isoformat())
    zone = None if value.tzinfo is None else _encode_zone(value.tzinfo)
    return [value.replace(tzinfo=None, fold=0).isoformat(), zone, value.fold]


def _decode_clock(cls: type[Any], tree: Any) -> Any:
    if type(tree) is str:
        return cls.fromisoformat(tree)
    if tree.__class__ is not list or len(tree) != 3 or type(tree[2]) is not int:
        raise wrong_tree(tree, "a time with its zone and fold")
    zone = None if tree[1] is None else _decode_zone(tree[1])
    return cls.fromisoformat(decode_str(tree[0])).replace(tzinfo=zone, fold=tree[2])


def _encode_datetime(value: Any) -> Json:
    if type(value) is not datetime:
        raise wrong_value(value, "datetime")
    return _encode_clock(value)


def _encode_time(value: Any) -> Json:
    if type(value) is not time:
        raise wrong_value(value, "time")
    return _encode_clock(value)


def _encode_date(value: Any) -> Json:
    if type(value) is date:
        return value.isoformat()
    if type(value) is datetime:
        return {"$datetime": _encode_clock(value)}
    raise wrong_value(value, "date")


def _decode_date(tree: Any) -> date:
    if tree.__class__ is dict and tree.keys() == {"$datetime"}:
        return cast("datetime", _decode_clock(datetime, tree["$datetime"]))
    return date.fromisoformat(decode_str(tree))


def _encode_timedelta(value: Any) -> Json:
    if type(value) is not timedelta:
        raise wrong_value(value, "timedelta")
    return [value.days, value.seconds, value.microseconds]


def _decode_timedelta(tree: Any) -> timedelta:
    if tree.__class__ is not list or len(tree) != 3 or not all(type(number) is int for number in tree):
        raise wrong_tree(tree, "days, seconds and microseconds")
    return timedelta(*tree)


_CLOCK = frozenset({"str", "list"})
DATETIME = Part("datetime", _CLOCK, (datetime,), _encode_datetime, lambda tree: _decode_clock(datetime, tree))
TIME = Part("time", _CLOCK, (time,), _encode_time, lambda tree: _decode_clock(time, tree))
DATE = Part("date", frozenset({"str", "$datetime"}), (date, datetime), _encode_date, _decode_date)
_JUST_DATE = Part("date", frozenset({"str"}), (date,), _encode_date, lambda tree: date.fromisoformat(decode_str(tree)))
TIMEDELTA = Part("timedelta", frozenset({"list"}), (timedelta,), _encode_timedelta, _decode_timedelta)

TIMES = (
    Plain("$datetime", DATETIME),
    Plain("$date", _JUST_DATE),
    Plain("$time", TIME),
    Plain("$timedelta", TIMEDELTA),
)
