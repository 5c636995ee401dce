"""The tool that knows what time it is, in any time zone."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, tzinfo
from difflib import get_close_matches
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from ...schema import FunctionTool, tool
from .errors import UnknownTimezoneError

_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)


def clock_tool(now: Callable[[], datetime] | None = None) -> FunctionTool[..., str]:
    """Make the tool `current_time` with a clock of your own.

    Args:
        now: Gives the present moment as a datetime with a time zone; the system's clock by default.

    Returns:
        The tool.

    Raises:
        ValueError: When the tool runs, if `now` gives a datetime without a time zone.

    Note:
        Zone names come from the system, or from the package `tzdata` where the system has none (Windows, slim
        containers); `UTC` works everywhere.

    Example:
        >>> moment = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
        >>> clock_tool(now=lambda: moment).info.name
        'current_time'
    """
    read_clock = now or _system_clock

    @tool(in_thread=False)
    def current_time(timezone: str = "UTC") -> str:
        """Tell the current date, weekday and time in a time zone.

        Args:
            timezone: An IANA time zone name, for example Europe/Berlin, Asia/Tokyo or UTC.

        Returns:
            The moment in words and in ISO 8601.

        Raises:
            UnknownTimezoneError: If there is no such time zone.
        """
        name, zone = find_timezone(timezone)
        moment = read_clock()
        if moment.tzinfo is None:
            raise ValueError("the clock given to clock_tool(now=...) must return datetimes with a time zone")
        return describe_moment(moment.astimezone(zone), name)

    return current_time


def find_timezone(name: str) -> tuple[str, tzinfo]:
    """Find a time zone by its IANA name, in any case of letters and with spaces for underscores.

    Args:
        name: The name, or an empty text for UTC.

    Returns:
        The proper name and the zone.

    Raises:
        UnknownTimezoneError: If there is none; the text suggests the nearest names.
    """
    wanted = name.strip().replace(" ", "_")
    if wanted.casefold() in {"", "utc", "z", "gmt", "etc/utc"}:
        return "UTC", UTC
    try:
        return wanted, ZoneInfo(wanted)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        known = available_timezones()
    if not known:
        raise UnknownTimezoneError(
            f"time zone {name!r} cannot be looked up, because this system has no time zone data: "
            "run pip install tzdata, or use 'UTC'"
        )
    for candidate in sorted(known):
        if candidate.casefold() == wanted.casefold():
            return candidate, ZoneInfo(candidate)
    raise UnknownTimezoneError(f"there is no time zone {name!r}{_suggest(wanted, known)}")


def find_zones_of_city(city: str) -> list[str]:
    """Find the IANA names whose last part is this city.

    Args:
        city: A city, in any case of letters.

    Returns:
        The matching names in alphabetical order, without the historic aliases where others exist.
    """
    wanted = city.strip().replace(" ", "_").casefold()
    found = sorted(zone for zone in available_timezones() if zone.rsplit("/", 1)[-1].casefold() == wanted)
    regional = [zone for zone in found if "/" in zone and not zone.startswith(("Etc/", "SystemV/", "posix/"))]
    return regional or found


def describe_moment(moment: datetime, zone: str) -> str:
    """Write a moment for a reader and for a program, in English whatever the locale.

    Args:
        moment: The moment, already in its zone.
        zone: The zone's name.

    Returns:
        Weekday, date, time and zone in words, then the same in ISO 8601.
    """
    offset = moment.utcoffset() or timedelta()
    sign, minutes = "-" if offset < timedelta() else "+", abs(offset) // timedelta(minutes=1)
    utc = f"UTC{sign}{minutes // 60:02}:{minutes % 60:02}"
    day = f"{_DAYS[moment.weekday()]}, {moment.day} {_MONTHS[moment.month - 1]} {moment.year}"
    abbreviation = moment.tzname() or utc
    iso = moment.isoformat(timespec="seconds")
    return f"{day}, {moment:%H:%M:%S} {abbreviation} ({zone}, {utc}), {iso}"


def _suggest(wanted: str, known: set[str]) -> str:
    """Name zones that were perhaps meant: by city first, then by likeness."""
    cities = find_zones_of_city(wanted.rsplit("/", 1)[-1])
    near = cities or get_close_matches(wanted, sorted(known), n=3)
    if not near:
        by_city = {zone.rsplit("/", 1)[-1]: zone for zone in sorted(known)}
        near = [by_city[city] for city in get_close_matches(wanted.title(), by_city, n=3)]
    if not near:
        return "; use an IANA name such as 'Europe/Berlin', or 'UTC'"
    return f"; did you mean {' or '.join(repr(zone) for zone in near[:3])}?"


def _system_clock() -> datetime:
    return datetime.now(UTC)


current_time: FunctionTool[..., str] = clock_tool()
