from __future__ import annotations

import zoneinfo
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.flow.tools import UnknownTimezoneError, clock_tool, current_time
from anabranch.flow.tools._clock import find_timezone, find_zones_of_city

MOMENT = datetime(2026, 11, 29, 20, 35, 12, 999_999, tzinfo=UTC)
clock = clock_tool(now=lambda: MOMENT)


@pytest.mark.parametrize(
    ("zone", "told"),
    [
        ("UTC", "Sunday, 29 November 2026, 20:35:12 UTC (UTC, UTC+00:00), 2026-11-29T20:35:12+00:00"),
        (
            "Europe/Berlin",
            "Sunday, 29 November 2026, 21:35:12 CET (Europe/Berlin, UTC+01:00), 2026-11-29T21:35:12+01:00",
        ),
        (
            "asia/tokyo",
            "Monday, 30 November 2026, 05:35:12 JST (Asia/Tokyo, UTC+09:00), 2026-11-30T05:35:12+09:00",
        ),
        (
            "america/new york",
            "Sunday, 29 November 2026, 15:35:12 EST (America/New_York, UTC-05:00), 2026-11-29T15:35:12-05:00",
        ),
        (
            "Asia/Kathmandu",
            "Monday, 30 November 2026, 02:20:12 +0545 (Asia/Kathmandu, UTC+05:45), 2026-11-30T02:20:12+05:45",
        ),
    ],
)
def test_it_tells_the_moment_in_a_zone(zone: str, told: str) -> None:
    assert clock(zone) == told


def test_it_tells_utc_when_no_zone_is_given() -> None:
    assert "(UTC, UTC+00:00)" in clock()


@pytest.mark.parametrize("name", ["UTC", "utc", "", "  ", "Z", "GMT", "Etc/UTC"])
def test_utc_needs_no_zone_data(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anabranch.flow.tools._clock.ZoneInfo", None)
    assert find_timezone(name) == ("UTC", UTC)


@pytest.mark.parametrize(
    ("name", "suggestion"),
    [
        ("Europe/Berlim", "did you mean 'Europe/Berlin'"),
        ("Berlin", "did you mean 'Europe/Berlin'"),
        ("new york", "did you mean 'America/New_York'"),
        ("Europe/Tokyo", "did you mean 'Asia/Tokyo'"),
        ("tokio", "did you mean 'Asia/Tokyo'"),
        ("Xyzzy", "use an IANA name such as 'Europe/Berlin', or 'UTC'"),
        ("Europe", "no time zone 'Europe'"),
        ("../../etc/passwd", "no time zone"),
        ("/etc/localtime", "no time zone"),
        ("a\0b", "no time zone"),
        ("x" * 5000, "no time zone"),
    ],
)
def test_an_unknown_zone_is_an_error_that_suggests_one(name: str, suggestion: str) -> None:
    with pytest.raises(UnknownTimezoneError, match=suggestion):
        clock(name)


def test_without_zone_data_the_error_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise zoneinfo.ZoneInfoNotFoundError(name)

    monkeypatch.setattr("anabranch.flow.tools._clock.ZoneInfo", missing)
    monkeypatch.setattr("anabranch.flow.tools._clock.available_timezones", set[str])
    with pytest.raises(UnknownTimezoneError, match="pip install tzdata"):
        clock("Europe/Berlin")


def test_a_clock_without_a_time_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="time zone"):
        clock_tool(now=lambda: datetime(2026, 1, 1))("UTC")


def test_the_default_clock_is_the_system_s() -> None:
    told = datetime.fromisoformat(current_time("UTC").rsplit(", ", 1)[1])
    assert abs(told - datetime.now(UTC)) < timedelta(minutes=1)


def test_a_city_gives_its_zones() -> None:
    assert find_zones_of_city("tokyo") == ["Asia/Tokyo"]
    assert find_zones_of_city("new york") == ["America/New_York"]
    assert find_zones_of_city("nowhere") == []


@given(
    st.sampled_from(sorted(zoneinfo.available_timezones() - {"Factory"})),
    st.datetimes(datetime(1975, 1, 1), datetime(2037, 1, 1)),
)
def test_what_it_tells_is_the_same_moment_in_every_zone(zone: str, naive: datetime) -> None:
    moment = naive.replace(tzinfo=UTC, microsecond=0)
    told = clock_tool(now=lambda: moment)(zone)
    assert datetime.fromisoformat(told.rsplit(", ", 1)[1]) == moment
