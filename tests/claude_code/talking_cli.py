"""A small program that speaks Claude Code's side of the control protocol, for what real ones do too rarely."""

from __future__ import annotations

from pathlib import Path

from systems import PLAIN_PYTHON

_PROGRAM = """\
#!{python} -S
import json, sys, time

if sys.argv[1:] == ["--version"]:
    print("{version} (Claude Code)")
    sys.exit()

def say(**message):
    print(json.dumps(message), flush=True)

def hear():
    line = sys.stdin.readline()
    return json.loads(line) if line else sys.exit(0)

def welcomed():
    asked = hear()
    say(type="control_response", response=dict(subtype="success", request_id=asked["request_id"], response={{}}))
    say(type="system", subtype="init", session_id="s-1", model="claude-x")
    return hear()["message"]["content"][0]["text"]

def text(words, **more):
    message = dict(id=words, model="claude-x", role="assistant", content=[dict(type="text", text=words)])
    say(type="assistant", message=dict(message, usage=dict(input_tokens=30, output_tokens=5)), **more)

def call(name, id):
    content = [dict(type="tool_use", id=id, name=name, input=dict(command="make"))]
    say(type="assistant", message=dict(id="m" + id, model="claude-x", role="assistant", content=content))

def result(subtype="success", **more):
    more = dict(modelUsage={{"claude-x": dict(inputTokens=30, outputTokens=5)}}) | more
    say(type="result", subtype=subtype, is_error=False, result="ok", num_turns=1, **more)

{rest}
"""


def talking_cli(path: Path, rest: str, *, version: str = "2.1.325") -> Path:
    path.write_text(_PROGRAM.format(python=PLAIN_PYTHON, version=version, rest=rest))
    path.chmod(0o755)
    return path
