"""Rules of JSON values: what fits passes, what does not is named with its place, and nothing is converted."""

import pytest

from diffor.files.schema import (
    Either,
    Figure,
    Flag,
    ListOf,
    MapOf,
    MisfitError,
    Nothing,
    Number,
    Record,
    Text,
    Whole,
    optional,
)

RULE = Record(
    {"n": Whole(1, 5), "share": Number(0, 1), "on": Flag()},
    {"names": ListOf(Text(3), 1, 2), "more": MapOf(optional(Figure())), "kind": Text(known=("a", "b"))},
)
GOOD = {"n": 5, "share": 0.5, "on": True}


@pytest.mark.parametrize(
    "value",
    [
        GOOD, GOOD | {"share": 1}, GOOD | {"names": ["abc"]}, GOOD | {"names": ("a", "b")}, GOOD | {"kind": "b"},
        GOOD | {"more": {"x": None, "y": float("nan"), "z": 2}},
    ],
)  # fmt: skip
def test_what_fits_passes(value):
    RULE.check(value, "")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([], "must be an object with n, share, on, but is a list of 0"),
        ({"n": 1}, "share must be there, but is missing"),
        (GOOD | {"n": 6}, "n must be a whole number from 1 to 5, but is 6"),
        (GOOD | {"n": 2.0}, "n must be a whole number from 1 to 5, but is 2.0"),
        (GOOD | {"n": True}, "n must be a whole number from 1 to 5, but is True"),
        (GOOD | {"n": 10**400}, "n must be a whole number from 1 to 5, but is a number of very many digits"),
        (GOOD | {"share": float("nan")}, "share must be a number from 0 to 1, but is nan"),
        (GOOD | {"share": "0.5"}, "share must be a number from 0 to 1, but is '0.5'"),
        (GOOD | {"on": 1}, "on must be true or false, but is 1"),
        (GOOD | {"names": []}, "names must be a list of 1 to 2 values, but is a list of 0"),
        (GOOD | {"names": ["abcd"]}, r"names\[0\] must be text of at most 3 characters, but is 'abcd'"),
        (GOOD | {"names": "ab"}, "names must be a list of 1 to 2 values, but is 'ab'"),
        (GOOD | {"kind": "c"}, "kind must be one of a, b, but is 'c'"),
        (GOOD | {"more": {"x": []}}, "more.x must be a number or null, but is a list of 0"),
        (GOOD | {"other": "A" * 1000}, "other is not known here, but is 'AAA"),
    ],
)
def test_what_does_not_fit_is_named(value, message):
    with pytest.raises(MisfitError, match=message) as caught:
        RULE.check(value, "")
    assert len(str(caught.value)) < 200


def test_one_of_several_rules_is_checked_to_the_bottom():
    rule = Either((ListOf(Whole(0, 1)), Nothing()))
    rule.check(None, "x")
    with pytest.raises(MisfitError, match=r"x\[1\] must be a whole number from 0 to 1, but is 2"):
        rule.check([0, 2], "x")
    with pytest.raises(MisfitError, match="x must be a list of 0 to 100000000 values or null, but is 3"):
        rule.check(3, "x")


def test_patterns_fit_whole_texts_only():
    rule = Text(pattern="[a-z]+")
    rule.check("abc", "x")
    with pytest.raises(MisfitError, match=r"x must be text like \[a-z\]\+, but is 'abc\\n'"):
        rule.check("abc\n", "x")
