"""A real container engine for tests, and a look at what is in it.

`scripts/docker-engine start` starts one, with the image that the tests run in. Without an engine these tests are
skipped, with the reason; YOUBENCHA_REQUIRE_DOCKER=1 makes that a failure, and so CI does.
"""

from __future__ import annotations

import http.client
import io
import json
import os
import socket
import tarfile
from pathlib import Path
from typing import Any, NamedTuple, NoReturn
from urllib.parse import quote, urlencode

import pytest

BASE_IMAGE = "youbencha/base:bookworm"
SOCKETS = ("/var/run/docker.sock",)
HOW = 'start one by `eval "$(scripts/docker-engine start)"`'
PATIENCE_S = 120.0


def unavailable(reason: str) -> NoReturn:
    if os.environ.get("YOUBENCHA_REQUIRE_DOCKER"):
        pytest.fail(reason)
    pytest.skip(reason)


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=PATIENCE_S)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class Engine(NamedTuple):
    """Asked directly, not through the code that is under test."""

    socket: str

    @property
    def host(self) -> str:
        return f"unix://{self.socket}"

    def get(self, path: str, **query: str) -> Any:
        """None for what is not there."""
        return self.call("GET", f"{path}?{urlencode(query)}")

    def build(self, name: str, dockerfile: str) -> None:
        context = io.BytesIO()
        with tarfile.open(fileobj=context, mode="w") as archive:
            entry = tarfile.TarInfo("Dockerfile")
            entry.size = len(dockerfile.encode())
            archive.addfile(entry, io.BytesIO(dockerfile.encode()))
        self.call("POST", f"/build?{urlencode({'t': name})}", context.getvalue())
        assert self.has_image(name)

    def call(self, method: str, path: str, body: bytes | None = None) -> Any:
        connection = _UnixConnection(self.socket)
        try:
            connection.request(method, path, body, {"Content-Type": "application/x-tar"} if body else {})
            answer = connection.getresponse()
            printed = answer.read()
        finally:
            connection.close()
        if answer.status == 404:
            return None
        assert answer.status in (200, 204), printed
        is_json = body is None and "json" in (answer.getheader("Content-Type") or "")
        return json.loads(printed) if is_json else printed

    def containers(self, *labels: str) -> list[str]:
        """The names of all containers, running or not, that carry these labels (`name` or `name=value`)."""
        found = self.get("/containers/json", all="1", filters=json.dumps({"label": list(labels)}))
        return sorted(each["Names"][0].removeprefix("/") for each in found)

    def has_image(self, name: str) -> bool:
        return self.get(f"/images/{quote(name)}/json") is not None


def the_engine() -> Engine:
    """The one that DOCKER_HOST names, or the system's own."""
    if not hasattr(socket, "AF_UNIX"):
        unavailable("no container engine can be reached here: there are no Unix sockets")
    host = os.environ.get("DOCKER_HOST")
    if host and not host.startswith("unix://"):
        unavailable(f"DOCKER_HOST={host} is not on this computer: {HOW}")
    paths = [host.removeprefix("unix://")] if host else [path for path in SOCKETS if Path(path).is_socket()]
    for path in paths:
        try:
            Engine(path).get("/_ping")
        except (OSError, http.client.HTTPException) as error:
            unavailable(f"the container engine at {path} does not answer ({error}): {HOW}")
        return Engine(path)
    unavailable(f"there is no container engine: {HOW}")


def containers_of(run_id: str) -> list[str]:
    """What is left of a run."""
    return the_engine().containers(f"youbencha.run={run_id}")


@pytest.fixture(scope="session")
def engine() -> Engine:
    return the_engine()


@pytest.fixture(scope="session")
def image(engine: Engine) -> str:
    """A small Debian with git and Python."""
    name = os.environ.get("YOUBENCHA_TEST_IMAGE") or BASE_IMAGE
    if not engine.has_image(name):
        unavailable(f"the engine at {engine.host} has no image {name}: {HOW}")
    return name
