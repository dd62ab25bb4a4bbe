"""Loaded into Aider's own process, as `sitecustomize`, before Aider itself: what no flag of Aider's can do (0.86.2).

A repository may bring `.aider.conf.yml`, `.env` and `.aider.model.settings.yml`. Aider reads them even where others are
given, and they can name commands to run, and the address that the key is sent to. It writes into the person's home,
which no variable changes but HOME, and that the commands that it runs need as it is. And it keeps its map of the
repository in the repository.

Imported by nothing of ours: it runs with Aider's Python and Aider's packages. Where it cannot do its work, Aider does
not start.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

WIDTH = 1_000_000
"""Of a terminal that breaks no line: a key that lies across two lines would not be found, and so not be masked."""
NOT_GUARDED = 78
"""Exit code of a start that was abandoned (EX_CONFIG)."""
IDENTITY = {"user.name": "Aider", "user.email": "aider@localhost"}


def guard(directory: Path) -> None:
    """`directory` is ours, and gone after the run."""
    own_home(directory / "home")
    lend_identity()
    from aider import io, main, models, repomap  # type: ignore[import-not-found]

    no_files_of_others(main)
    unbroken_lines(io)
    repomap.RepoMap.TAGS_CACHE_DIR = str(directory / "tags")  # an absolute path wins over the root before it
    note_calls(models, directory / "calls.jsonl")
    (directory / "guarded").touch()


def own_home(home: Path) -> None:
    """For Aider's files only. Nor does it open a browser: it would, for an address in an error text."""
    import webbrowser

    Path.home = classmethod(lambda cls: cls(home))  # type: ignore[method-assign,assignment]
    webbrowser.open = lambda *_, **__: False


def lend_identity() -> None:
    """Where there is none, Aider writes one into the repository's configuration."""
    for key, value in IDENTITY.items():
        if subprocess.run(["git", "config", "--get", key], capture_output=True, check=False).returncode == 1:  # noqa: S607
            count = int(os.environ.get("GIT_CONFIG_COUNT") or 0)
            lent = {"GIT_CONFIG_COUNT": str(count + 1), f"GIT_CONFIG_KEY_{count}": key}
            os.environ.update(lent, **{f"GIT_CONFIG_VALUE_{count}": value})


def no_files_of_others(main: Any) -> None:
    """Only the files that the command line names, not those that lie around."""
    get_parser, _ = main.get_parser, main.generate_search_path_list
    main.get_parser = lambda _, git_root: get_parser([], git_root)
    main.generate_search_path_list = lambda _, __, named: [str(named)] if named else []


def unbroken_lines(io: Any) -> None:
    console = io.Console
    io.Console = lambda *args, **options: console(*args, **{**options, "width": WIDTH})


def note_calls(models: Any, file: Path) -> None:
    """Tokens as the API counted them. Aider's own sums leave out some calls, and what was cached."""
    send = models.Model.send_completion

    def noted(self: Any, *args: Any, **options: Any) -> Any:
        sent = send(self, *args, **options)
        usage = getattr(sent[1], "usage", None)  # an answer that comes in pieces has none yet
        line = json.dumps({"model": self.name, "usage": usage.model_dump() if usage else None}, default=str)
        with file.open("a", encoding="utf-8") as log:
            log.write(line + "\n")
        return sent

    models.Model.send_completion = noted


def leave_environment() -> Path:
    """Out of PYTHONPATH, for what Aider starts; says where we lay."""
    own, _, others = os.environ["PYTHONPATH"].partition(os.pathsep)
    if others:
        os.environ["PYTHONPATH"] = others
    else:
        del os.environ["PYTHONPATH"]
    sys.path[:] = [path for path in sys.path if path != own]
    return Path(own)


def make_way() -> None:
    """For the `sitecustomize` that this one stood before."""
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    spec = PathFinder.find_spec("sitecustomize", sys.path)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(module_from_spec(spec))


if __name__ == "sitecustomize":
    try:
        guard(leave_environment())
    except BaseException as error:  # noqa: BLE001  # a start without it is no option
        print(f"youBencha cannot keep this Aider from the repository's settings: {error!r}", flush=True)
        os._exit(NOT_GUARDED)
    make_way()
