"""LoadedCase into Aider's process as `sitecustomize`, before Aider itself, to do what no flag of Aider can do (0.86.2).

A repository may contain `.aider.conf.yml`, `.env` and `.aider.model.settings.yml`. Aider reads them even if others are
given, and they can name commands to run, and the address that the key is sent to. Aider also writes into the user's
home, which only HOME changes, and the commands that it runs need the real one. And it keeps its map of the repository
in the repository.

No other module imports this one: it runs with Aider's Python and Aider's packages. If it fails, Aider does not start.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

WIDTH = 1_000_000
"""The width of a terminal that wraps no line: a key on two lines would not be found, and so not be masked."""
NOT_GUARDED = 78
"""Exit code of a start that was abandoned (EX_CONFIG)."""
IDENTITY = {"user.name": "Aider", "user.email": "aider@localhost"}


def guard(directory: Path) -> None:
    """Patch Aider. `directory` is removed after the run."""
    use_private_home(directory / "home")
    set_identity()
    from aider import io, main, models, repomap  # type: ignore[import-not-found]

    ignore_found_files(main)
    widen_console(io)
    repomap.RepoMap.TAGS_CACHE_DIR = str(directory / "tags")  # an absolute path replaces the root before it
    record_calls(models, directory / "calls.jsonl")
    (directory / "guarded").touch()


def use_private_home(home: Path) -> None:
    """Move Aider's files there. Also keep it from opening a browser, as it does for an address in an error text."""
    import webbrowser

    Path.home = classmethod(lambda cls: cls(home))  # type: ignore[method-assign,assignment]
    webbrowser.open = lambda *_, **__: False


def set_identity() -> None:
    """Give git an identity if it has none: Aider would write one into the repository's configuration."""
    for key, value in IDENTITY.items():
        if subprocess.run(["git", "config", "--get", key], capture_output=True, check=False).returncode == 1:  # noqa: S607
            count = int(os.environ.get("GIT_CONFIG_COUNT") or 0)
            entry = {"GIT_CONFIG_COUNT": str(count + 1), f"GIT_CONFIG_KEY_{count}": key}
            os.environ.update(entry, **{f"GIT_CONFIG_VALUE_{count}": value})


def ignore_found_files(main: Any) -> None:
    """Make Aider read only the settings files that the command line names, not those that it finds."""
    get_parser, _ = main.get_parser, main.generate_search_path_list
    main.get_parser = lambda _, git_root: get_parser([], git_root)
    main.generate_search_path_list = lambda _, __, named: [str(named)] if named else []


def widen_console(io: Any) -> None:
    console = io.Console
    io.Console = lambda *args, **options: console(*args, **{**options, "width": WIDTH})


def record_calls(models: Any, file: Path) -> None:
    """Write down the API's token counts. Aider's own sums leave out some calls, and cached tokens."""
    send = models.Model.send_completion

    def recorded(self: Any, *args: Any, **options: Any) -> Any:
        sent = send(self, *args, **options)
        usage = getattr(sent[1], "usage", None)  # a streamed answer has none yet
        line = json.dumps({"model": self.name, "usage": usage.model_dump() if usage else None}, default=str)
        with file.open("a", encoding="utf-8") as log:
            log.write(line + "\n")
        return sent

    models.Model.send_completion = recorded


def leave_python_path() -> Path:
    """Remove this module's directory from PYTHONPATH, for the programs that Aider starts, and return it."""
    own, _, others = os.environ["PYTHONPATH"].partition(os.pathsep)
    if others:
        os.environ["PYTHONPATH"] = others
    else:
        del os.environ["PYTHONPATH"]
    sys.path[:] = [path for path in sys.path if path != own]
    return Path(own)


def run_next_sitecustomize() -> None:
    """Run the `sitecustomize` that this one hides."""
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    spec = PathFinder.find_spec("sitecustomize", sys.path)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(module_from_spec(spec))


if __name__ == "sitecustomize":
    try:
        guard(leave_python_path())
    except BaseException as error:  # noqa: BLE001  # Aider must not start without it
        print(f"youBencha cannot keep this Aider from the repository's settings: {error!r}", flush=True)
        os._exit(NOT_GUARDED)
    run_next_sitecustomize()
