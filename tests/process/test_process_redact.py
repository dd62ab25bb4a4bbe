"""Secrets are removed from the output in any chunking; everything else passes unchanged."""

from __future__ import annotations

import base64
import json
import tracemalloc
from itertools import pairwise
from urllib.parse import quote

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from youbencha.process import Redactor
from youbencha.process.redact import MASK, secret_values

SECRET = st.text(st.sampled_from('abcXYZ019-_=./+"\\ é漢\n'), min_size=6, max_size=20)
FILLER = st.one_of(
    st.text(st.sampled_from("abcXYZ019-_=./ \n"), max_size=10),
    st.sampled_from(
        ["sk-ant-", "sk-", "ghp_", "eyJ", "AKIA", "AKIA0123456789ABCDEF", "sk-ant-api03-abcdefgh", "\\n", "x"]
    ),
)
FORMS = [
    str,
    lambda s: json.dumps(s)[1:-1],
    lambda s: json.dumps(s, ensure_ascii=False)[1:-1],
    lambda s: quote(s, safe=""),
    lambda s: base64.b64encode(s.encode()).decode(),
]


def in_chunks(redactor: Redactor, data: bytes, cuts: list[int]) -> bytes:
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    stream = redactor.stream()
    pieces = [stream.feed(data[start:end]) for start, end in pairwise(edges)]
    return b"".join(pieces) + stream.finish()


@st.composite
def secrets_in_text(draw: st.DrawFn) -> tuple[list[str], bytes]:
    secrets = draw(st.lists(SECRET, max_size=3))
    assume(not any(MASK.decode() in secret or secret in MASK.decode() for secret in secrets))
    parts = []
    for _ in range(draw(st.integers(0, 6))):
        parts.append(draw(FILLER))
        if secrets:
            secret = draw(st.sampled_from(secrets))
            form = draw(st.sampled_from(FORMS))(secret)
            parts.append(form[: draw(st.integers(0, 40))])  # whole, as a rule; sometimes only its beginning
    return secrets, "".join(parts).encode()


@given(secrets_in_text(), st.lists(st.integers(0, 500), max_size=8))
def test_chunking_makes_no_difference_and_no_secret_remains(case: tuple[list[str], bytes], cuts: list[int]) -> None:
    secrets, data = case
    redactor = Redactor(secrets)
    at_once = in_chunks(redactor, data, [])
    assert in_chunks(redactor, data, cuts) == at_once
    assert in_chunks(redactor, data, list(range(len(data)))) == at_once
    remaining = at_once.split(MASK)  # a secret made of a mask and its neighbours would be none
    for secret in secrets:
        for form in FORMS:
            assert not any(form(secret).encode() in piece for piece in remaining)


@given(secrets_in_text())
def test_the_same_is_masked_in_a_long_text(case: tuple[list[str], bytes]) -> None:
    """Long texts are searched in another way."""
    secrets, data = case
    redactor, text = Redactor(secrets), data.decode()
    assert redactor.text("\n" * 300 + text) == "\n" * 300 + redactor.text(text)


@given(st.binary(max_size=200), st.lists(st.integers(0, 200), max_size=5))
@example(b"sk-", [1])
@example(b"class AKIA eyJ ghp", [3])
def test_data_without_secrets_passes_unchanged(data: bytes, cuts: list[int]) -> None:
    assert in_chunks(Redactor(["never-there-0"]), data, cuts) == data


def test_ordinary_lines_are_not_held_back() -> None:
    stream = Redactor(["secret-value"]).stream()
    for line in (b'{"type": "assistant"}\n', b"done s\n", "漢字\n".encode(), b"sk-\n", b"secret\n"):
        assert stream.feed(line) == line


KEYS = {
    "Anthropic": "sk-ant-api03-Ab1_cD2-eF3gH4iJ5kL6",
    "OpenAI": "sk-proj-1234567890abcdefghijklmn",
    "GitHub": "ghp_" + "a1B2" * 9,
    "GitHub, fine-grained": "github_pat_11ABCDEFG0abcdefghijkl_mnopqrstuv",
    "GitLab": "glpat-abcdefghij0123456789",
    "AWS": "AKIAIOSFODNN7EXAMPLE",
    "Google": "AIzaSyA1234567890abcdefghijklmnopqrstuv",
    "Slack": "xoxb-123456789012-abcdef",
    "npm": "npm_" + "a" * 36,
    "Hugging Face": "hf_" + "b" * 34,
    "JWT": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U",
}
PLACES = [
    "{}",
    "key={} ",
    '"{}",',
    "https://x/?k={}&b=1",
    "Bearer {}\n",
    '{{"a":"x\\n{}\\n"}}',
    "\x1b[31m{}\x1b[0m",
    "k%3D{}%20",
]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", KEYS)
def test_known_key_formats_are_masked_anywhere(kind: str, place: str) -> None:
    data = place.format(KEYS[kind]).encode()
    for cuts in ([], [3], list(range(len(data)))):
        assert in_chunks(Redactor(), data, cuts) == place.format(MASK.decode()).encode()


@pytest.mark.parametrize(
    "text",
    [
        "risk-assessment-framework-2026",
        "task-1234567890-abcdefghijklmnop",
        "sk-learn and sk-short1",
        "src/hf_hub/npm_config ghp_short",
        "eyJust a word.eyJ",
        "MAKIAVELLI AKIA",
    ],
)
def test_similar_words_are_not_masked(text: str) -> None:
    assert Redactor().text(text) == text


def test_an_endless_key_uses_bounded_memory() -> None:
    chunk = b"a1" * 32_768
    for begin in (b"sk-ant-", b"eyJ", b"sk-"):
        stream = Redactor(["other-secret"]).stream()
        tracemalloc.start()
        out = stream.feed(begin)
        for _ in range(160):
            out = (out + stream.feed(chunk))[:100]
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 2_000_000
        assert begin == b"eyJ" or out == MASK
        assert stream.feed(b" and then\n").endswith(b" and then\n")


@given(
    st.integers(3_900, 4_300), st.sampled_from(["sk-ant-", "sk-", "eyJ"]), st.lists(st.integers(0, 9_000), max_size=4)
)
def test_chunking_of_long_tokens_makes_no_difference(length: int, begin: str, cuts: list[int]) -> None:
    data = f"a {begin}{'b1' * (length // 2)}.eyJ{'c' * 30} sk-ant-{'d' * 20} end".encode()
    redactor = Redactor()
    assert in_chunks(redactor, data, cuts) == in_chunks(redactor, data, [])


@given(SECRET, st.lists(FILLER), st.lists(st.integers(0, 300), max_size=4))
def test_json_stays_json(secret: str, texts: list[str], cuts: list[int]) -> None:
    assume(secret not in '{"text": ""}' and not secret.isdigit())
    document = {"text": [*texts, secret, f"key={secret};", KEYS["Anthropic"]]}
    for data in (json.dumps(document), json.dumps(document, ensure_ascii=False)):
        assume(not any(secret in part for part in ('", "', '{"text": ["', '"]}')))
        redacted = in_chunks(Redactor([secret]), data.encode(), cuts)
        assert json.loads(redacted)["text"][-1] == MASK.decode()


def test_which_values_of_an_environment_are_secret() -> None:
    env = {
        "ANTHROPIC_API_KEY": "value-1",
        "gh_token": "value-2",
        "DB_PASSWORD": "value-3",
        "AUTHORIZATION": "value-4",
        "SENTRY_DSN": "value-5",
        "ANTHROPIC_CUSTOM_HEADERS": "value-6",
        "API_TOKENS": "value-7,value-8",
        "SHORT_KEY": "12345",
        "EMPTY_SECRET": "",
        "PATH": "/usr/bin",
        "PWD": "/home/somebody",
        "GIT_AUTHOR_NAME": "Somebody Else",
        "MAX_THINKING_TOKENS": "128000",
        "COMPASS_DIRECTION": "northwest",
    }
    assert secret_values(env) == {env[name] for name in list(env)[:7]}


def test_the_longer_of_two_secrets_wins() -> None:
    assert Redactor(["abcdef", "abcdefghi"]).text("abcdefghi abcdef abcdefgh") == "[REDACTED] [REDACTED] [REDACTED]gh"


def test_text_keeps_invalid_bytes() -> None:
    assert Redactor(["secret-1"]).text("a\udcffsecret-1\udc80") == "a\udcff[REDACTED]\udc80"
