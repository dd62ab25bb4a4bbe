"""The command `ralph` for agents in containers: a script that asks the loop, which answers on the host.

The container has no youBencha, and perhaps no Python: the script needs a POSIX shell and coreutils. It writes its
arguments to a file in the workspace, and waits for another file with the answer. Whatever is found there was written by
the agent: only `emit` and `tools` of `agent_commands` are run, for this loop's own files.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

from youbencha.files import NoFollowDirectory, nofollow_directory
from youbencha.loop.agent_commands import Answer, Place, answer
from youbencha.loop.directory import make_directory, writing
from youbencha.sandbox.base import Sandbox

REQUESTS_VARIABLE = "RALPH_REQUESTS"
_REQUESTS = ".ralph/requests"
_SCRIPT_NAME = "ralph"
_POLL_S = 0.02
_RECENT_NS = 2_000_000_000
_MAX_NAMES = 1000
_MAX_REQUEST = 256 * 1024
_MAX_ANSWER = 1024 * 1024
_REQUEST = re.compile(r"([0-9a-f]{16})\.request")

_SCRIPT = f"""\
#!/bin/sh
# Passes its arguments to the loop outside of this container, and prints the answer.
[ -d "${{{REQUESTS_VARIABLE}:-}}" ] || {{ echo "error no loop is running" >&2; exit 2; }}
id=$(od -An -N8 -tx1 /dev/urandom | tr -d ' \\n')
file="${REQUESTS_VARIABLE}/$id"
printf '%s\\0' "$@" > "$file.part" && mv "$file.part" "$file.request" || exit 2
waited=0
while [ ! -f "$file.answer" ]; do
  if [ "$waited" -ge 3000 ]; then
    rm -f "$file.request"
    echo "error the loop did not answer" >&2
    exit 2
  fi
  waited=$((waited + 1))
  sleep 0.02
done
read -r code < "$file.answer"
if [ "$code" = 0 ]; then tail -n +2 "$file.answer"; else tail -n +2 "$file.answer" >&2; fi
rm -f "$file.answer"
exit "$code"
"""


class ContainerTools:
    """`ralph` in one sandbox."""

    def __init__(self, sandbox: Sandbox, place: Place, scripts: Path) -> None:
        """Write the script to `scripts`, a new directory outside of the workspace, and share it, read-only."""
        self._place = place
        scripts.mkdir(mode=0o755)
        script = scripts / _SCRIPT_NAME
        script.write_text(_SCRIPT, encoding="utf-8")
        script.chmod(0o755)
        sandbox.share(scripts)
        directory = sandbox.inside(scripts)
        path = sandbox.environment({}).get("PATH") or "/usr/local/bin:/usr/bin:/bin"
        self.variables: Mapping[str, str] = {
            "RALPH_BIN": f"{directory}/{_SCRIPT_NAME}",
            "PATH": f"{directory}:{path}",
            REQUESTS_VARIABLE: sandbox.inside(place.project / _REQUESTS),
        }
        """What the agent's environment needs."""

    @contextlib.asynccontextmanager
    async def answering(self) -> AsyncIterator[None]:
        """Answer requests until the end of the block."""
        requests = self._place.project / _REQUESTS
        with writing(requests):
            for directory in (requests.parent, requests):
                make_directory(directory)
        task = asyncio.create_task(self._answer_all())
        try:
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def _answer_all(self) -> None:
        listed = 0
        while True:
            with contextlib.suppress(OSError):  # the agent replaced a directory by something else
                changed = os.lstat(self._place.project / _REQUESTS).st_mtime_ns
                if changed != listed or time.time_ns() - changed < _RECENT_NS:  # as fine as the file system's clock is
                    listed = changed
                    await asyncio.to_thread(self._answer_waiting)
            await asyncio.sleep(_POLL_S)

    def _answer_waiting(self) -> None:
        with nofollow_directory(self._place.project, _REQUESTS) as directory:
            for name in directory.names(_MAX_NAMES):
                if found := _REQUEST.fullmatch(name):
                    with contextlib.suppress(OSError):
                        self._answer(directory, name, found[1])

    def _answer(self, directory: NoFollowDirectory, name: str, request_id: str) -> None:
        done = _answered(directory.take(name, _MAX_REQUEST + 1), self._place)
        text = done.text.encode("utf-8", "replace")[:_MAX_ANSWER]
        directory.replace(f"{request_id}.answer", b"%d\n%b\n" % (done.code, text))


def _answered(request: bytes, place: Place) -> Answer:
    if len(request) > _MAX_REQUEST:
        return Answer(f"error the arguments are longer than {_MAX_REQUEST:,} bytes", 2)
    arguments = request.removesuffix(b"\0").decode("utf-8", "replace").split("\0")
    return answer(arguments, place)
