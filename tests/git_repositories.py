"""Real repositories, and real servers for them."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from youbencha.events import step_text
from youbencha.workspace import Repository, open_repository

IDENTITY = {
    "GIT_AUTHOR_NAME": "a person",
    "GIT_AUTHOR_EMAIL": "person@localhost",
    "GIT_COMMITTER_NAME": "a person",
    "GIT_COMMITTER_EMAIL": "person@localhost",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
}


def git(directory: Path, *arguments: str, stdin: bytes | None = None) -> str:
    done = subprocess.run(
        ["git", "-c", "init.defaultBranch=main", *arguments],
        cwd=directory,
        input=stdin if stdin is not None else b"",
        capture_output=True,
        check=False,
        timeout=60,
        env={**os.environ, **IDENTITY},
    )
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    return done.stdout.decode(errors="replace").strip()


def commit(directory: Path, files: dict[str, str], message: str = "change") -> str:
    for name, text in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
    git(directory, "add", "--all")
    git(directory, "commit", "--quiet", "--allow-empty", "-m", message)
    return git(directory, "rev-parse", "HEAD")


def commit_many(directory: Path, count: int) -> str:
    """Straight into a pack: thousands of files need not be written first."""
    stream = bytearray(b"commit refs/heads/main\ncommitter a <a@b> 1 +0000\ndata 4\nmany\nfrom refs/heads/main^0\n")
    for number in range(count):
        text = f"file {number}\n".encode()
        stream += b"M 100644 inline %s\ndata %d\n%s\n" % (many_name(number).encode(), len(text), text)
    git(directory, "fast-import", "--quiet", stdin=bytes(stream))
    return head(directory, "main")


def many_name(number: int) -> str:
    return f"d{number % 50}/e{number % 7}/f{number}.txt"


def new_repository(path: Path) -> Path:
    """Two commits on `main`; a branch `solution` and the tags `v1` (annotated), `light`; all different."""
    path.mkdir(parents=True)
    git(path, "init", "--quiet")
    commit(path, {"README.md": "first\n", "src/code.py": "print(1)\n"}, "first")
    git(path, "tag", "-a", "v1", "-m", "one")
    commit(path, {"README.md": "second\n"}, "second")
    git(path, "tag", "light")
    git(path, "switch", "--quiet", "-c", "solution")
    commit(path, {"src/code.py": "print(42)\n", "SOLUTION": "the secret answer\n"}, "solve it")
    git(path, "switch", "--quiet", "main")
    commit(path, {"README.md": "third\n"}, "third")
    return path


def head(repository: Path, name: str = "HEAD") -> str:
    return git(repository, "rev-parse", f"{name}^{{commit}}")


def files(directory: Path) -> dict[str, str]:
    """All files but those of git, with what is in them."""
    found = sorted(path for path in directory.rglob("*") if ".git" not in path.relative_to(directory).parts)
    return {path.relative_to(directory).as_posix(): path.read_text() for path in found if path.is_file()}


class Opener:
    """`open_repository` with what every test has."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.cache_dir = base / "cache"
        self.said: list[str] = []

    async def __call__(self, source: str | Path, **about: str) -> Repository:
        return await open_repository(
            str(source), base=self.base, cache_dir=self.cache_dir, progress=self._note, **about
        )

    def _note(self, step: str, detail: str = "", /) -> None:
        self.said.append(step_text(step, detail))

    async def checked_out(self, source: str | Path, **about: str) -> Path:
        directory = self.base / "run" / "src-modified"
        directory.mkdir(parents=True)
        await (await self(source, **about)).check_out(directory)
        return directory


@contextmanager
def served(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class HttpBackend(BaseHTTPRequestHandler):
    """git's own server program over HTTP. `requests` are the paths that were asked for."""

    root: Path
    requests: list[str]
    authorization: str | None = None
    """What a client must send; others get 401."""

    @classmethod
    def of(cls, root: Path, authorization: str | None = None) -> type[HttpBackend]:
        return type("Backend", (cls,), {"root": root, "requests": [], "authorization": authorization})

    def do_GET(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def log_message(self, *_: object) -> None:
        pass

    def _serve(self) -> None:
        self.requests.append(self.path)
        if self.authorization is not None and self.headers.get("Authorization") != self.authorization:
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="x"')
            self.end_headers()
            return
        path, _, query = self.path.partition("?")
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        done = subprocess.run(
            ["git", "-c", "safe.directory=*", "http-backend"],
            input=body,
            capture_output=True,
            check=False,
            env={
                **os.environ,
                "GIT_PROJECT_ROOT": str(self.root),
                "GIT_HTTP_EXPORT_ALL": "1",
                "REQUEST_METHOD": self.command,
                "PATH_INFO": path,
                "QUERY_STRING": query,
                "CONTENT_TYPE": self.headers.get("Content-Type", ""),
                "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
                "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
            },
        )
        lines, _, content = done.stdout.partition(b"\r\n\r\n")
        headers = [line.split(": ", 1) for line in lines.decode().split("\r\n")]
        status = next((value for name, value in headers if name == "Status"), "200 OK")
        self.send_response(int(status.split()[0]))
        for name, value in headers:
            if name != "Status":
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


class PlainFiles(SimpleHTTPRequestHandler):
    """A server that knows nothing of git."""

    def log_message(self, *_: object) -> None:
        pass
