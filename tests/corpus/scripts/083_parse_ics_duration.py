# task: Read the ISO durations and return the minutes; unknown ones as null.
# expects: {"PT45M": 45, "PT1H30M": 90, "P1DT2H": 1560, "P2W": 20160, "tomorrow": null}
import re

DURATION = re.compile(
    r"""
    ^P
    (?:(?P<weeks>\d+)W)?
    (?:(?P<days>\d+)D)?
    (?:T
        (?:(?P<hours>\d+)H)?
        (?:(?P<minutes>\d+)M)?
    )?
    $
    """,
    re.VERBOSE,
)
FACTORS = {"weeks": 7 * 24 * 60, "days": 24 * 60, "hours": 60, "minutes": 1}


def minutes(text: str) -> int | None:
    if not (match := DURATION.match(text)):
        return None
    return sum(int(value) * FACTORS[unit] for unit, value in match.groupdict().items() if value)


{text: minutes(text) for text in ["PT45M", "PT1H30M", "P1DT2H", "P2W", "tomorrow"]}
