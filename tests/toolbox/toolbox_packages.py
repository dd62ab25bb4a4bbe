"""Build tiny wheels and npm packages, and serve the latter."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import shutil
import sys
import tarfile
import zipfile
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from types import TracebackType
from urllib.parse import unquote

import pytest

from youbencha.sandbox.toolbox.installed import InstalledAgent, file_sha256, write_manifest
from youbencha.sandbox.toolbox.toolbox import Toolbox

SDK = "claude_agent_sdk"

posix = pytest.mark.skipif(sys.platform == "win32", reason="the tiny CLIs are shell scripts")
needs_npm = pytest.mark.skipif(shutil.which("npm") is None, reason="needs npm")


def says(version: str) -> str:
    return f"#!/bin/sh\necho '{version} (Claude Code)'\n"


def node_says(version: str) -> str:
    return f"#!/usr/bin/env node\nconsole.log('{version} (Claude Code)')\n"


def plant(toolbox: Toolbox, version: str) -> InstalledAgent:
    """Put a version of claude-code into the toolbox without the seconds that pip takes."""
    directory = toolbox.root / "claude-code" / version
    directory.mkdir(parents=True)
    executable = directory / "claude"
    executable.write_text(says(version))
    executable.chmod(0o755)
    planted = InstalledAgent(
        agent="claude-code",
        version=version,
        executable=executable,
        sha256=file_sha256(executable),
        source="pypi",
        package="claude-agent-sdk==0.0.0",
        size_bytes=executable.stat().st_size,
        installed_at="2026-01-02T03:04:05.000Z",
    )
    write_manifest(planted, directory)
    have = toolbox.find("claude-code", version)
    assert have is not None
    return have


class WheelHouse:
    """A directory of wheels."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir()

    def sdk(self, release: str, cli: str, *, binary: str | None = None) -> Path:
        """A `claude-agent-sdk` that carries `cli`."""
        files = {
            f"{SDK}/_cli_version.py": f'__cli_version__ = "{cli}"\n',
            f"{SDK}/_bundled/claude": says(cli) if binary is None else binary,
        }
        return self.add(SDK, release, files)

    def add(self, name: str, release: str, files: Mapping[str, str], *, needs: str = "") -> Path:
        """`needs` is a line of its metadata."""
        path = self.directory / f"{name}-{release}-py3-none-any.whl"
        info = f"{name}-{release}.dist-info"
        metadata = {
            f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: {release}\n{needs}\n",
            f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        }
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for member, text in {**files, **metadata}.items():
                archive.writestr(member, text)
            record = "".join(f"{member},,\n" for member in [*files, *metadata, f"{info}/RECORD"])
            archive.writestr(f"{info}/RECORD", record)
        return path


class Registry:
    """As much of an npm registry as `npm view` and `npm install` ask for."""

    def __init__(self) -> None:
        self._versions: dict[str, dict[str, dict[str, object]]] = {}
        self._archives: dict[str, bytes] = {}
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/"

    def __enter__(self) -> Registry:
        self._thread = Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def add(self, name: str, version: str, files: Mapping[str, str], **fields: object) -> None:
        """`fields` go into package.json."""
        package = {"name": name, "version": version, **fields}
        archive = _tarball({"package.json": json.dumps(package), **files})
        place = f"archives/{name.replace('/', '-')}-{version}.tgz"
        self._archives[place] = archive
        digest = base64.b64encode(hashlib.sha512(archive).digest()).decode()
        dist = {"tarball": self.url + place, "integrity": f"sha512-{digest}"}
        self._versions.setdefault(name, {})[version] = {**package, "dist": dist}

    def _answer(self, path: str) -> bytes | None:
        if path in self._archives:
            return self._archives[path]
        versions = self._versions.get(path)
        if versions is None:
            return None
        document = {"name": path, "dist-tags": {"latest": list(versions)[-1]}, "versions": versions}
        return json.dumps(document).encode()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = registry._answer(unquote(self.path).lstrip("/"))
                self.send_response(404 if body is None else 200)
                self.send_header("Content-Length", str(len(body or b"{}")))
                self.end_headers()
                self.wfile.write(body or b"{}")

            def log_message(self, *_: object) -> None: ...

        return Handler


def _tarball(files: Mapping[str, str]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, text in files.items():
            entry = tarfile.TarInfo(f"package/{name}")
            data = text.encode()
            entry.size, entry.mode = len(data), 0o644
            archive.addfile(entry, io.BytesIO(data))
    return buffer.getvalue()


class Lines(list[str]):
    """Give `lines.add` as the progress callback."""

    def add(self, step: str, detail: str = "", /) -> None:
        self.append(f"{step} ... {detail}" if detail else step)
