"""Ids in many spellings, and what each says: a plain evaluation of the rule, and doors that lead to it."""

from __future__ import annotations

import re

import pandas as pd

UUID = "0f8fad5b-d9cb-469f-a165-70867728950e"
BIG = 2**53
LONG = "1" + "0" * 40 + "7"
MARKS = [
    "", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN",
    "<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null",
]  # fmt: skip
BLANKS = " \t\r\n\u00a0\ufeff"

SAME = [
    ["7", "7.0", "07", " 7", "+7.00", "7.", "0.7e1", ".7E+1", "70e-1", "\u00a07\ufeff", "7\r\n", "\t7\t"],
    ["0", "-0", "+0.0", "000", "0e999999999", "0e-99999999999999999999999", "00.", ".0"],
    ["-12", "-12.000", "-012", " -1.2e1", "-1200E-2"],
    ["10000000000000000", "1e16", "1e+16", "1E016", "+10000000000000000.0"],
    ["9007199254740993", "9007199254740993.0", "09007199254740993"],
    ["9223372036854775807", "+9223372036854775807"],
    ["9223372036854775808", "9223372036854775808.00"],
    ["-9223372036854775809", "-09223372036854775809"],
    [LONG, f"0{LONG}.0", f"{LONG[:1]}.{LONG[1:]}e41"],
    ["1e400", "1" + "0" * 400, "0.1e401"],
    ["1e401", "1" + "0" * 401, "100e399"],
    ["3e999999999", "30e999999998", "3.0e+999999999", "003e0999999999"],
    ["-3e999999999", "-30e999999998"],
    ["5e999999999999999999", "50e999999999999999998"],
    ["5" + "0" * 20_000, "5e20000"],
    [
        UUID, UUID.upper(), f"{{{UUID}}}", f"{{{UUID.replace('-', '')}}}", f" {UUID}\n",
        "0f8f-ad5b-d9cb-469f-a165-7086-7728-950e", "0F8FAD5B-D9CB469F-A16570867728950e",
    ],
    ["12345678-1234-1234-1234-123456789012", "{12345678123412341234123456789012}"],
]  # fmt: skip
"""Each list is one person."""
ALONE = [
    # a cast would read these as numbers, or as the UUID without dashes
    "0x1F", "1_000", "1,000", "1 000", "7e", "e7", "7e1.0", "--7", "+-7", "7.0.0", ".", "+", "-", "+.e1",
    "\u0667", "\uff17", "7\u2009", "1e1000000000000000000", "1e1000000000000000001", "7f", "7d", "7L", "$7",
    UUID.replace("-", ""), UUID.replace("-", "").upper(), f"{{{UUID}", f"{UUID}}}", f"{UUID[:-1]}",
    f"{UUID}0", UUID.replace("-", "--"), "12345678123412341234123456789012", f"g{UUID[1:]}",
    "a", "A", "a b", "a\u00a0b", "a'b\"c\\d;--", "nA", "NONE", "Null", "nano", "-inf1", "infinite", "True", "TRUE",
    "\u00e4", "a\u0308", "\u2603", "x" * 10_000, "2024-01-01",
]  # fmt: skip
"""Each is a person of its own."""
NOBODY = [
    *MARKS, " NA ", "\ufeff", " \t\r\n\u00a0", "7.5", ".5", "1e-1", "12.3e-1", "5e-999999999", "1e-99999999999999999999",
    "7.00000000000000000001", "0.1", "inf", "-Inf", "+INFINITY", "Infinity", " inf", "123456789012345678901234567890.5",
]  # fmt: skip
"""None is a person."""
SPELLINGS = [*(text for person in SAME for text in person), *ALONE, *NOBODY]

_NUMBER = re.compile(r"([+-]?)([0-9]*)\.?([0-9]*)(?:e([+-]?[0-9]+))?", re.IGNORECASE)


def said(text: str | None) -> object:
    """What a text says by the rule, evaluated plainly: equal results are one person, None is nobody."""
    if text is None:
        return None
    text = text.strip(BLANKS)
    if text in MARKS or re.fullmatch(r"[+-]?inf(inity)?", text, re.IGNORECASE):
        return None
    number = _NUMBER.fullmatch(text)
    if number and (number[2] or number[3]):
        digits, exponent = number[2] + number[3], (number[4] or "0").lstrip("+")
        power = int(exponent) if len(exponent.lstrip("-0")) <= 18 else None
        significant = digits.strip("0")
        if not significant:
            return 0
        if power is None:
            return None if exponent.startswith("-") else text
        power += len(digits) - len(digits.rstrip("0")) - len(number[3])
        return None if power < 0 else (number[1] == "-", significant, power)
    fours = re.fullmatch(r"(\{?)((?:[0-9a-f]{4}-?){7}[0-9a-f]{4})(\}?)", text.lower())
    if fours and bool(fours[1]) == bool(fours[3]) and len(text) > 32:
        return "uuid", fours[2].replace("-", "")
    return text


def plain(text: str) -> str | None:
    """What a text says where ids are texts."""
    text = text.strip(BLANKS)
    return None if text in MARKS else text


def picked(text: str) -> object:
    """What a text says where pandas picks the type of its column: the number or truth that it would be."""
    text = text.strip(BLANKS)
    if text.lower() in ("true", "false"):
        return text.capitalize()
    if not _NUMBER.fullmatch(text) or not re.search("[0-9]", text.lower().partition("e")[0]):
        return said(text)
    number = float(text)
    return int(number) if number.is_integer() and abs(number) < BIG else None


def people(spellings, read):
    """Partition of positions into people, by what ``read`` says of each; nobody's are left out."""
    groups: dict[object, list[int]] = {}
    for place, spelling in enumerate(spellings):
        person = read(spelling)
        if person is not None:
            groups.setdefault(person, []).append(place)
    return sorted(groups.values())


def numbers_of(spellings) -> pd.DataFrame:
    """A table of ids and of the position of each."""
    return pd.DataFrame({"id": pd.Series(spellings, dtype="string"), "n": range(len(spellings))})
