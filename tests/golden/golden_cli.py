"""A stand-in for an agent's CLI: answers `--version`, writes down what it was started with, and ends.

The file `version` beside it holds the answer to `--version`; it writes `started.json` there. It speaks Claude Code's
control protocol until it has its prompt.
"""

import json
import os
import sys
from pathlib import Path

HERE = Path(sys.argv[0]).parent


def say(**message: object) -> None:
    print(json.dumps(message), flush=True)


def conversation() -> list[object]:
    """Everything that the host says, to the end of its input."""
    initialize = json.loads(sys.stdin.readline())
    request_id = initialize["request_id"]
    say(type="control_response", response={"subtype": "success", "request_id": request_id, "response": {}})
    prompt = json.loads(sys.stdin.readline())
    say(type="system", subtype="init", session_id="s-1", model="claude-golden")
    say(type="result", subtype="success", is_error=False, result="Done.", num_turns=1)
    return [initialize, prompt, *map(json.loads, sys.stdin)]


def files() -> dict[str, str]:
    """The files outside the workspace that arguments and environment name."""
    named = [argument.rpartition("=")[2] for argument in sys.argv[1:]]
    named += [f"{os.environ.get('GEMINI_CLI_HOME', '')}/.gemini/settings.json"]
    found = [path for path in map(Path, named) if path.is_absolute() and path.is_file()]
    return {str(path): path.read_text(encoding="utf-8") for path in found}


if sys.argv[1:] == ["--version"]:
    print((HERE / "version").read_text())
    sys.exit()
by_stdio = "--input-format" in sys.argv and "--sdk-url" not in sys.argv
started = {"argv": sys.argv[1:], "env": dict(os.environ), "files": files()}
started["stdin"] = conversation() if by_stdio else sys.stdin.read()
(HERE / "started.json").write_text(json.dumps(started))
