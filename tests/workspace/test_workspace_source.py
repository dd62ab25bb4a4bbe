"""The spellings of a repository's address."""

from __future__ import annotations

from pathlib import Path

import pytest

from youbencha.errors import YouBenchaError
from youbencha.workspace import public_url
from youbencha.workspace.source import RemoteUrl, read_source

BASE = Path("/base").absolute()


def remote(written: str) -> RemoteUrl:
    place = read_source(written, BASE)
    assert isinstance(place, RemoteUrl)
    return place


@pytest.mark.parametrize(
    ("written", "public"),
    [
        ("https://host/a/b.git", "https://host/a/b.git"),
        ("https://me:secret@host/a", "https://host/a"),
        ("https://ghp_secret@host:8443/a", "https://host:8443/a"),
        ("https://host/a?token=secret#secret", "https://host/a"),
        ("ssh://git@host:22/a", "ssh://git@host:22/a"),
        ("ssh://git:secret@host/a", "ssh://git@host/a"),
        ("git@host:a/b.git", "git@host:a/b.git"),
        ("git@[::1]:a", "git@[::1]:a"),
        ("host:a", "host:a"),
        ("HTTPS://Host/A", "https://Host/A"),
    ],
)
def test_remote_urls(written: str, public: str) -> None:
    place = remote(written)
    assert place.public_url == public_url(written) == public
    assert place.url == written
    assert "secret" not in place.public_url + place.key


def test_secrets_in_a_url() -> None:
    assert remote("https://me:p%40ss@host/a").secrets == ("me", "p%40ss", "p@ss")
    assert remote("ssh://git@host/a").secrets == ()


@pytest.mark.parametrize(
    "written", ["https://host/a/b", "https://HOST/a/b.git", "https://me:x@host:443/a/b/", "https://host/a/b.git/"]
)
def test_spellings_of_one_url(written: str) -> None:
    assert remote(written).key == "https://host/a/b"


def test_different_urls() -> None:
    written = ["https://host/a", "http://host/a", "https://host/A", "https://host:8443/a", "ssh://host/a", "host:a"]
    assert len({remote(each).key for each in written}) == len(written)


@pytest.mark.parametrize(
    ("written", "path"),
    [
        ("/some/where", "/some/where"),
        ("rel/ative", "/base/rel/ative"),
        (".", "/base"),
        ("./host:x", "/base/host:x"),
        ("file:///a/b%20c", "/a/b c"),
        ("file:///a/b c", "/a/b c"),
        ("file://localhost/a", "/a"),
    ],
)
def test_local_paths(written: str, path: str) -> None:
    assert read_source(written, BASE) == Path(path)


@pytest.mark.parametrize(
    "written",
    [
        "",
        " ",
        "-uxyz",
        "--upload-pack=touch /tmp/x",
        "ext::sh -c touch%20x",
        "fd::17",
        "ftp://host/a",
        "javascript://x",
        "file://other-host/a",
        "https://",
        "https://host:port/a",
        "ssh://-oProxyCommand=x/a",
        "ssh://-oProxyCommand=x@host/a",
        "-oProxyCommand=x:a",
        "git@-oProxyCommand=x:a",
        "git@host:-a",
        "https://host/a\nb",
        "a\0b",
    ],
)
def test_invalid_sources(written: str) -> None:
    with pytest.raises(YouBenchaError) as caught:
        read_source(written, BASE)
    assert caught.value.code == "REPO_INVALID"
    assert caught.value.hint


def test_a_refusal_shows_no_secret() -> None:
    with pytest.raises(YouBenchaError) as caught:
        read_source("https://me:secret@host:port/a", BASE)
    assert "secret" not in str(caught.value)
