"""JSON from other programs: what is kept, what is replaced, and what counts as unknown."""

from __future__ import annotations

import math
from typing import Any

import pytest

from youbencha.json_lines import (
    as_amount,
    as_count,
    as_mapping,
    as_records,
    as_str,
    as_strs,
    canonical,
    decode,
    decode_event,
    dumps,
    encode,
    loads,
    loads_lossy,
)

HALF = rb'{"type": "x", "a": "cut \ud83d"}'
DEEP = b'{"a":' * 100_000 + b'"\\ud83d"' + b"}" * 100_000
HUGE = 10**30


@pytest.mark.parametrize("value", [None, True, False, -1, 1.0, "1", [], {}])
def test_invalid_counts(value: object) -> None:
    assert as_count(value) is None


def test_counts_have_a_bound_if_one_is_given() -> None:
    assert (as_count(0), as_count(HUGE), as_count(5, 5), as_count(6, 5)) == (0, HUGE, 5, None)


@pytest.mark.parametrize("value", [None, True, -0.5, "1", math.inf, math.nan, 10**400])
def test_invalid_amounts(value: object) -> None:
    assert as_amount(value) is None


def test_amounts_are_floats() -> None:
    assert [as_amount(0), as_amount(2), as_amount(0.25)] == [0.0, 2.0, 0.25]
    assert isinstance(as_amount(2), float)


def test_a_field_of_another_type_is_none_or_empty() -> None:
    assert (as_str(1), as_str(""), as_mapping([]), as_mapping(None)) == (None, "", {}, {})
    assert as_records([{"a": 1}, 2, None, {}]) == [{"a": 1}, {}]
    assert as_strs(["a", 1, None, ""]) == ("a", "")
    assert (as_records({}), as_strs("ab")) == ([], ())


def test_a_lone_surrogate_is_kept() -> None:
    assert loads(HALF)["a"] == "cut \ud83d"
    assert loads_lossy(HALF)["a"] == "cut \ud83d"
    assert decode(HALF) == {"type": "x", "a": "cut \ud83d"}


def test_in_an_event_a_lone_surrogate_is_replaced() -> None:
    assert decode_event(HALF) == {"type": "x", "a": "cut ?"}


@pytest.mark.parametrize("data", [b"", b"{", b"no json", b'{"a": }', DEEP])
def test_invalid_json(data: bytes) -> None:
    with pytest.raises(ValueError, match=r".*"):
        loads(data)
    assert loads_lossy(data) is None
    assert decode(data) is None
    assert isinstance(decode_event(data), str) or data == b""


def test_bytes_that_are_not_utf8() -> None:
    broken = b'{"type": "x", "a": "\xff"}'
    assert decode(broken) is None  # what a control message holds is executed
    assert loads_lossy(broken)["a"] == "\N{REPLACEMENT CHARACTER}"
    assert decode_event(broken) == {"type": "x", "a": "\N{REPLACEMENT CHARACTER}"}


@pytest.mark.parametrize("data", [b"[1]", b"null", b"3", b'"x"'])
def test_a_line_that_is_not_an_object(data: bytes) -> None:
    assert decode(data) is None
    assert decode_event(data) == data.decode()


def test_an_event_names_its_type() -> None:
    assert decode(b'{"a": 1}') == {"a": 1}
    assert decode_event(b'{"a": 1}') == '{"a": 1}'


@pytest.mark.parametrize("value", [{"a": "\ud83d"}, {"a": ["ä", 1.5, None]}, [], "x"])
def test_written_values_can_be_read(value: Any) -> None:
    assert loads(dumps(value)) == value
    assert loads(canonical(value)) == value
    assert "\n" not in dumps(value)


def test_a_number_of_more_than_64_bits_is_written_exactly() -> None:
    assert dumps({"a": HUGE}) == canonical({"a": HUGE}).decode() == f'{{"a":{HUGE}}}'
    assert loads(dumps({"a": HUGE})) == {"a": float(HUGE)}


@pytest.mark.parametrize("last", [1, HUGE, "\ud83d"])
def test_canonical_is_the_same_however_keys_are_ordered(last: object) -> None:
    assert canonical({"b": 1, "a": {"d": 2, "c": last}}) == canonical({"a": {"c": last, "d": 2}, "b": 1})


def test_a_control_message_is_encoded_losslessly() -> None:
    line = encode({"a": "cut \ud83d, ä"})
    assert line == '{"a": "cut \\ud83d, \\u00e4"}\n'
    assert decode(line) == {"a": "cut \ud83d, ä"}
