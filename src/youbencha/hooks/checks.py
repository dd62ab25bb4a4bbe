"""What is wrong with hooks, as far as it can be known before anything runs: after a long run it is too late.

What holds a `${NAME}` that the settings do not define is only known then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from youbencha.errors import Problem
from youbencha.hooks.program import NO_PROGRAM_HINT, SEVERAL_WORDS_HINT, is_path


def hook_problems(hooks: Sequence[Any], config_dir: Path) -> list[Problem]:
    """Every problem, with paths that start at the list: `0.config.command`.

    Takes models or what a person wrote; what is of the wrong kind there is passed over, since the models say so.
    """
    found: list[Problem] = []
    for index, hook in enumerate(hooks):
        written = hook.model_dump() if isinstance(hook, BaseModel) else hook
        name = written.get("name") if isinstance(written, Mapping) else None
        config = written.get("config") if isinstance(written, Mapping) else None
        if isinstance(name, str) and isinstance(config, Mapping) and name in _CHECKS:
            problems = _CHECKS[name](config, config_dir)
            found += [Problem(f"{index}.config.{each.path}", each.message, each.hint) for each in problems]
    return found


def _script_problems(config: Mapping[str, Any], config_dir: Path) -> Iterator[Problem]:
    command = config.get("command")
    if not isinstance(command, str) or config.get("shell") or "${" in command or not is_path(command.strip()):
        return
    if not _is_file(config_dir, command.strip()):
        hint = SEVERAL_WORDS_HINT if len(command.split()) > 1 else NO_PROGRAM_HINT
        yield Problem("command", f"there is no file {command.strip()}", hint)


def _is_file(config_dir: Path, name: str) -> bool:
    try:
        return (config_dir / Path(name).expanduser()).is_file()
    except (OSError, ValueError, RuntimeError):  # too long a name, a NUL in it, a home of nobody
        return False


def _webhook_problems(config: Mapping[str, Any], config_dir: Path) -> Iterator[Problem]:
    from youbencha.hooks.address import holds_credentials, may_become_an_address

    url, headers = config.get("url"), config.get("headers")
    if not isinstance(url, str):
        return
    if not may_become_an_address(url):
        yield Problem("url", "must be an http or https address, with a host")
    names = [name for name in headers if isinstance(name, str)] if isinstance(headers, Mapping) else []
    if holds_credentials(url):
        for name in names:
            if name.strip().lower() == "authorization":
                message = "must not stand beside a user and password in `url`: one of them says who you are"
                yield Problem(f"headers.{name}", message)


_CHECKS: Mapping[str, Callable[[Mapping[str, Any], Path], Iterator[Problem]]] = {
    "script": _script_problems,
    "webhook": _webhook_problems,
}
