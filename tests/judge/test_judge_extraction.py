"""JSON objects in a judge's text."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from youbencha.evaluators.judge.session import SEARCHED_CHARS, find_objects

VERDICT = {"assertions": {"a": {"score": 1, "reason": 'it says }{ "here" and \\'}}}


KEYS = ("assertions", "n", "m", "a", "value")


def first(text: str) -> object:
    return next(find_objects(text, KEYS), None)


@pytest.mark.parametrize(
    "around",
    [
        "{}",
        "```json\n{}\n```",
        "```\n{}\n```\nThat is all.",
        "Here is my verdict: {} I hope it helps.",
        'The 5" disk: {}',
        "It's a set {{1, 2}}, and {}",
        "an open brace {{ in words\n{}",
        "a closing }} one\n{}",
        'if (x) {{ say("hi }}\n{}',
        '{{"draft": 1}}\n{}',
        '{{broken: "}}\n{}',
    ],
)
def test_an_object_is_found_with_anything_around_it(around: str) -> None:
    text = around.replace("{{", "\x01").replace("}}", "\x02").replace("{}", json.dumps(VERDICT))
    assert first(text.replace("\x01", "{").replace("\x02", "}")) == VERDICT


def test_pretty_printed() -> None:
    assert first(json.dumps(VERDICT, indent=4)) == VERDICT


def test_order_of_the_objects() -> None:
    found = list(find_objects('{"n": 1} {"else": {"n": 5}} {"n": {"m": 2}} {"no": "n"}', KEYS))
    assert found == [{"n": {"m": 2}}, {"m": 2}, {"n": 5}, {"n": 1}]


def test_an_object_inside_invalid_json() -> None:
    assert first('{verdict: {"n": 1}}') == {"n": 1}


def test_trailing_commas_are_forgiven_but_not_in_strings() -> None:
    assert first('{"a": [1, 2,], "b": ",}", \n}') == {"a": [1, 2], "b": ",}"}


@pytest.mark.parametrize("text", ["", "no json", "[1, 2]", "{'a': 1}", "{", "}", '{"a": }', '"{}"x' + "{"])
def test_no_object_is_found_in_other_text(text: str) -> None:
    assert list(find_objects(text, KEYS)) == []


@pytest.mark.parametrize(
    "piece",
    ["{", "}", '{"a":', '{"a":[', '"', '\\"', '{"', "{}", '{"a":1}', '{"a":"\\', ",", "{,", '{"a":1,', "[", "{\n"],
)
def test_a_large_hostile_text_is_searched_in_bounded_time(piece: str) -> None:
    """With anything that grows faster than the text, these would take minutes."""
    text = piece * (300_000 // len(piece))
    started = time.process_time()
    assert sum(1 for _ in find_objects(text, KEYS)) < SEARCHED_CHARS
    assert first('{"n": 1}\n' + text + '\n{"n": 2}') == {"n": 2}
    assert time.process_time() - started < 5


def test_deep_lists_do_not_crash() -> None:
    assert first('{"a": ' + "[" * 100_000 + "]" * 100_000 + "}") is None


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
        max_leaves=10,
    ),
    st.text(alphabet=st.characters(exclude_characters='{}"')),
    st.text(alphabet=st.characters(exclude_characters="{}")),
)
def test_every_object_is_found(value: object, before: str, after: str) -> None:
    assert first(f"{before}{json.dumps({'value': value})}{after}") == {"value": value}
