"""NFR-1: 10 MiB of output without a second copy of it in memory. How long it takes is measured by `make bench`."""

from __future__ import annotations

import json
import tracemalloc

from stream_samples import INIT, RESULT, log_of

from youbencha.adapters.claude_code.options import ClaudeCode
from youbencha.adapters.claude_code.stream import ClaudeStreamReader
from youbencha.adapters.cli_agent.stream import OutputReader

USAGE = {"input_tokens": 1000, "cache_creation_input_tokens": 50, "cache_read_input_tokens": 700, "output_tokens": 1}
WORDS = 'def run(self):\n    return "value"  # path/to/file.py\n'
REST = {"session_id": "7d5f1d1e-1111-2222-3333-444444444444", "parent_tool_use_id": None, "uuid": "u" * 36}


def compact(**record) -> str:
    return json.dumps(record, separators=(",", ":"))


def turn(number: int) -> list[str]:
    """One call to the model with partial messages: many short lines, three long ones."""
    said = WORDS * (4, 20, 60, 160)[number % 4]
    seen = WORDS * (2, 200, 20, 100)[number % 4]
    head = {"id": f"msg_{number}", "role": "assistant", "model": "claude-x", "usage": USAGE, "stop_reason": None}

    def partial(**event):
        return compact(type="stream_event", event=event, **REST)

    def block(**content):
        return compact(type="assistant", message={**head, "content": [content]}, **REST)

    pieces = (said[at : at + 40] for at in range(0, len(said), 40))
    deltas = [partial(type="content_block_delta", delta={"type": "text_delta", "text": piece}) for piece in pieces]
    result = {"type": "tool_result", "tool_use_id": f"t{number}", "content": seen}
    return [
        partial(type="message_start", message=head),
        *deltas,
        block(type="text", text=said),
        block(type="tool_use", id=f"t{number}", name="Bash", input={"command": WORDS}),
        partial(type="message_delta", usage={"output_tokens": 25}),
        compact(type="user", message={"content": [result]}, tool_use_result={"stdout": seen}, **REST),
    ]


def stream(size: int) -> tuple[str, int]:
    parts, length, turns = [compact(**INIT)], 0, 0
    while length < size:
        added = turn(turns)
        turns += 1
        length += sum(map(len, added))
        parts += added
    return "\n".join([*parts, compact(**RESULT), ""]), turns


def test_a_long_session_is_normalized_completely():
    output, turns = stream(10_000_000)
    log = log_of(output)
    assert (len(log.messages), len(log.tool_calls)) == (turns, turns)
    assert all(call.result for call in log.tool_calls)


def test_the_end_of_an_endless_text_is_kept():
    reader = OutputReader(ClaudeCode, ClaudeStreamReader())
    tracemalloc.start()
    for piece in [*["x" * 1_000_000] * 100, "the end"]:
        delta = {"type": "content_block_delta", "delta": {"type": "text_delta", "text": piece}}
        reader.line(compact(type="stream_event", event=delta, **REST))
    reader.finish()
    session = reader.session()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    (message,) = session.messages
    assert message.content.startswith("[80,")
    assert message.content.endswith("the end")
    assert session.left_out.characters
    assert peak < 80_000_000


def test_nfr_1_memory():
    output, _ = stream(10_000_000)
    log_of(output[:100_000])
    tracemalloc.start()
    log = log_of(output)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert log.messages
    assert peak < 20_000_000
