"""Output in the format of Claude Code, in any size: mostly partial messages, some long tool results."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterator, Mapping

_SESSION = "5d0c2b9e-0000-4000-8000-000000000000"
_WORDS = ("the", "agent", "reads", "a", "file", "and", "writes", "another", "then", "runs", "every", "test", "again")


def stream_json(size: int) -> str:
    """A whole session of about `size` bytes."""
    rng = random.Random(20)
    lines = [_line("system", subtype="init", model="claude-sonnet-4-5", tools=["Bash"], claude_code_version="2.1.325")]
    total = 0
    for turn in itertools.count():
        for line in _turn(turn, rng):
            lines.append(line)
            total += len(line) + 1
        if total >= size - 2_000:
            break
    lines.append(_result(turn))
    return "\n".join(lines) + "\n"


EVENTS_OF_A_TURN = 50


def many_events(number: int) -> Iterator[str]:
    """A session of so many small messages, and its result; 50,000 are below the limit of what is read of an agent."""
    rng = random.Random(20)
    yield _line("system", subtype="init", model="claude-sonnet-4-5", tools=["Bash"], claude_code_version="2.1.325")
    for turn in range(number // EVENTS_OF_A_TURN):
        pieces = [" ".join(rng.choices(_WORDS, k=4)) + " " for _ in range(EVENTS_OF_A_TURN - 3)]
        for piece in pieces:
            delta = {"type": "text_delta", "text": piece}
            yield _short_line("stream_event", event={"type": "content_block_delta", "delta": delta})
        call = {"type": "tool_use", "id": f"toolu_{turn}", "name": "Bash", "input": {"command": f"cat file-{turn}.py"}}
        yield _short_line("assistant", message=_message(turn, {"type": "text", "text": "".join(pieces)}))
        yield _short_line("assistant", message=_message(turn, call))
        answer = {"type": "tool_result", "tool_use_id": f"toolu_{turn}", "content": "def main():\n    pass\n" * 10}
        yield _short_line("user", message={"role": "user", "content": [answer]})
    yield _result(number // EVENTS_OF_A_TURN)


def _turn(turn: int, rng: random.Random) -> list[str]:
    text = " ".join(rng.choices(_WORDS, k=rng.randrange(20, 400)))
    pieces = [text[i : i + 40] for i in range(0, len(text), 40)]
    partial = [
        _line("stream_event", event={"type": "content_block_delta", "delta": {"type": "text_delta", "text": piece}})
        for piece in pieces
    ]
    call = {"type": "tool_use", "id": f"toolu_{turn}", "name": "Bash", "input": {"command": f"cat file-{turn}.py"}}
    output = "\n".join(" ".join(rng.choices(_WORDS, k=12)) for _ in range(rng.randrange(10, 250)))
    answer = {"type": "tool_result", "tool_use_id": f"toolu_{turn}", "content": output}
    return [
        *partial,
        _line("assistant", message=_message(turn, {"type": "text", "text": text})),
        _line("assistant", message=_message(turn, call)),
        _line("user", message={"role": "user", "content": [answer]}),
    ]


def _message(turn: int, block: Mapping[str, object]) -> dict[str, object]:
    usage = {"input_tokens": 900, "output_tokens": 1, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0}
    return {"id": f"msg_{turn}", "role": "assistant", "model": "claude-sonnet-4-5", "content": [block], "usage": usage}


def _result(turns: int) -> str:
    usage = {"inputTokens": 900, "outputTokens": 90, "cacheReadInputTokens": 0, "cacheCreationInputTokens": 0}
    return _line(
        "result",
        subtype="success",
        is_error=False,
        num_turns=turns,
        result="done",
        total_cost_usd=0.1,
        modelUsage={"claude-sonnet-4-5": usage},
    )


def _line(kind: str, **fields: object) -> str:
    return _short_line(kind, **fields, session_id=_SESSION)


def _short_line(kind: str, **fields: object) -> str:
    return json.dumps({"type": kind, **fields}, separators=(",", ":"))
