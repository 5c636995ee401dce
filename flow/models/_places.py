"""Names of places as people say them, and the time zones that they mean.

Cities that the time zone database itself is named after (`Europe/Berlin`) are looked up there; this table has the
rest: countries with one zone in common use, large cities without an entry of their own, and usual abbreviations.
"""

from __future__ import annotations

_ZONES = """
UTC: utc, gmt, greenwich mean time, universal time, zulu
Africa/Cairo: egypt
Africa/Johannesburg: south africa, cape town, durban, pretoria
Africa/Lagos: nigeria, abuja
Africa/Nairobi: kenya
America/Argentina/Buenos_Aires: argentina
America/Bogota: colombia
America/Chicago: dallas, houston, austin, texas, minneapolis, new orleans, cst, cdt, central time
America/Denver: colorado, salt lake city, mst, mdt, mountain time
America/Los_Angeles: san francisco, seattle, san diego, california, silicon valley, las vegas, portland, pst, pdt,
    pacific time
America/Mexico_City: mexico
America/New_York: washington, washington dc, boston, philadelphia, miami, atlanta, nyc, est, edt, eastern time
America/Santiago: chile
America/Sao_Paulo: brazil, rio de janeiro, brasilia, são paulo
America/Toronto: ottawa, montreal
Asia/Bangkok: thailand
Asia/Dubai: abu dhabi, emirates, uae
Asia/Ho_Chi_Minh: vietnam, hanoi, saigon
Asia/Hong_Kong: hong kong
Asia/Jakarta: indonesia
Asia/Jerusalem: israel, tel aviv
Asia/Kathmandu: nepal
Asia/Kolkata: india, mumbai, bombay, delhi, new delhi, bangalore, bengaluru, chennai, hyderabad, calcutta, ist
Asia/Karachi: pakistan, lahore, islamabad
Asia/Manila: philippines
Asia/Riyadh: saudi arabia
Asia/Seoul: korea, south korea
Asia/Shanghai: china, beijing, shenzhen, guangzhou, hangzhou, chengdu
Asia/Singapore: singapore
Asia/Taipei: taiwan
Asia/Tehran: iran
Asia/Tokyo: japan, osaka, kyoto, jst
Australia/Melbourne: canberra
Australia/Sydney: sydney
Europe/Amsterdam: netherlands, the netherlands, holland, rotterdam
Europe/Athens: greece
Europe/Berlin: germany, munich, hamburg, cologne, frankfurt, stuttgart, leipzig, cet, cest
Europe/Brussels: belgium
Europe/Budapest: hungary
Europe/Copenhagen: denmark
Europe/Dublin: ireland
Europe/Helsinki: finland
Europe/Istanbul: turkey, ankara
Europe/Kyiv: ukraine, kiev
Europe/Lisbon: portugal, porto
Europe/London: england, uk, united kingdom, britain, great britain, scotland, wales, edinburgh, manchester, bst
Europe/Madrid: spain, barcelona
Europe/Oslo: norway
Europe/Paris: france, lyon, marseille
Europe/Prague: czechia, czech republic
Europe/Rome: italy, milan, naples
Europe/Stockholm: sweden, gothenburg
Europe/Vienna: austria, salzburg, graz
Europe/Warsaw: poland, krakow
Europe/Zurich: switzerland, geneva, bern, basel
Pacific/Auckland: new zealand, wellington
Pacific/Honolulu: hawaii
"""


def _read_table() -> dict[str, str]:
    """Turn the table round: from a place to its zone."""
    places: dict[str, str] = {}
    for line in _ZONES.strip().replace("\n    ", " ").splitlines():
        zone, _, names = line.partition(": ")
        places.update((name.strip(), zone) for name in names.split(","))
    return places


PLACES: dict[str, str] = _read_table()
"""From a place's name in small letters to its IANA time zone."""
