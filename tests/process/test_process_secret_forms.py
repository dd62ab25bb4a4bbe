"""A secret is masked in every form in which programs print it."""

from __future__ import annotations

import base64
import json

import pytest

from youbencha.process import Redactor

SECRETS = [
    "hunter2-distinct-aaaa",
    'pa"ss\\w/ö rd-bbbb',
    "line one\nline two\nline three",
    "20-characters-long-x",
    "x" * 22,
]


def printed(secret: str) -> dict[str, str]:
    raw = secret.encode()
    return {
        "plain": secret,
        "json": json.dumps({"k": secret}),
        "json, not ascii": json.dumps({"k": secret}, ensure_ascii=False),
        "json in json": json.dumps({"content": json.dumps({"k": secret})}),
        "repr": repr({"k": secret}),
        "repr in json": json.dumps(repr({"k": secret})),
        "base64": base64.b64encode(raw).decode(),
        "base64 without padding": base64.b64encode(raw).decode().rstrip("="),
        "base64 with a line end": base64.b64encode(raw + b"\n").decode(),
        "basic auth": base64.b64encode(b"user:" + raw).decode(),
        "url-safe base64": base64.urlsafe_b64encode(b"xy" + raw + b"zz").decode(),
        "hex": raw.hex(),
        "HEX": raw.hex().upper(),
    }


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("form", list(printed("")))
def test_masked(secret: str, form: str) -> None:
    text = f"before {printed(secret)[form]} after"
    masked = Redactor([secret]).text(text)
    assert "[REDACTED]" in masked
    assert masked.startswith("before ")
    assert masked.endswith(" after")
    longest_left = max(masked.replace("[REDACTED]", " ").split(), key=len)
    assert len(longest_left) < 16, masked


@pytest.mark.parametrize(
    ("name", "value", "secret"),
    [
        ("GITHUB_PAT", "abcdefgh", "abcdefgh"),
        ("PGPASS", "abcdefgh", "abcdefgh"),
        ("PGPASSWORD", "abcdefgh", "abcdefgh"),
        ("OPENAI_APIKEY", "abcdefgh", "abcdefgh"),
        ("AWS_SECRET_ACCESS_KEY", "abcdefgh", "abcdefgh"),
        ("npm_config__authToken", "abcdefgh", "abcdefgh"),
        ("GITHUBTOKEN2", "abcdefgh", "abcdefgh"),
        ("ANTHROPIC_CUSTOM_HEADERS", "x-me: abcdefgh", "x-me: abcdefgh"),
        ("SLACK_WEBHOOK", "https://hooks/T0/B0/xyz", "https://hooks/T0/B0/xyz"),
        ("STRIPE_SK", "abcdefgh", "abcdefgh"),
        ("DATABASE_URL", "postgres://user:letmein99@db/x", "letmein99"),
    ],
)
def test_names_and_urls_with_secrets(name: str, value: str, secret: str) -> None:
    assert secret not in Redactor.for_env({name: value}).text(f"it is {secret}!")


NOT_SECRET = {
    "KEYBOARD": "us-intl",
    "KEYBOARD_LAYOUT": "english",
    "GIT_CONFIG_KEY_0": "safe.directory",
    "SSH_AUTH_SOCK": "/run/user/1000/agent",
    "POSTGRES_PASSWORD_FILE": "/run/secrets/db",
    "TOKENIZERS_PARALLELISM": "disabled",
    "XAUTHORITY": "/home/me/.Xauthority",
    "SSH_ASKPASS": "/usr/bin/askpass",
    **dict.fromkeys(("PATH", "COMPASS", "SKIP", "PATTERN", "DESK_SIZE", "GIT_AUTHOR_NAME", "MONKEY"), "ordinary-value"),
}


@pytest.mark.parametrize("name", NOT_SECRET)
def test_names_without_secrets(name: str) -> None:
    value = NOT_SECRET[name]
    assert Redactor.for_env({name: value}).text(f"it is {value} here") == f"it is {value} here"
