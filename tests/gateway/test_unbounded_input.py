"""Which requests make a provider read more than their body."""

from __future__ import annotations

from typing import Any

import pytest

from youbencha.gateway.bounds import has_unbounded_input

SAYS = {"role": "user", "content": "look at file_id and https://example.org"}


@pytest.mark.parametrize(
    "body",
    [
        {"previous_response_id": "resp_1", "input": "go on"},
        {"conversation": {"id": "conv_1"}, "input": "go on"},
        {"input": [{"role": "user", "content": [{"type": "input_file", "file_id": "file-1"}]}]},
        {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "https://a/b.png"}]}]},
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://a/b.png"}}]}]},
        {"messages": [{"content": [{"type": "document", "source": {"type": "url", "url": "https://a/b.pdf"}}]}]},
        {
            "messages": [
                {"content": [{"type": "tool_result", "content": [{"type": "image", "source": {"type": "url"}}]}]}
            ]
        },
        {"messages": [SAYS], "tools": [{"type": "web_search_20250305", "name": "web_search"}]},
        {"input": "x", "tools": [{"type": "mcp", "server_url": "https://a"}]},
        {"contents": [{"parts": [{"fileData": {"fileUri": "https://a"}}]}], "tools": []},
        {"cachedContent": "cachedContents/1", "contents": []},
        {"contents": [], "tools": [{"googleSearch": {}}]},
    ],
)
def test_requests_with_unbounded_input(body: dict[str, Any]) -> None:
    assert has_unbounded_input(body)


@pytest.mark.parametrize(
    "body",
    [
        None,
        "text",
        [],
        {"messages": [SAYS], "max_tokens": 10},
        {"previous_response_id": None, "input": "x"},
        {"messages": [{"content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]}]},
        {"tools": [{"name": "t", "input_schema": {"properties": {"file_id": {"type": "string"}}}}]},
        {"messages": [{"content": [{"type": "tool_use", "name": "t", "input": {"conversation": "c"}}]}]},
        {"tools": [{"type": "function", "function": {"name": "t", "parameters": {"container": 1}}}]},
    ],
)
def test_requests_without_unbounded_input(body: Any) -> None:
    assert not has_unbounded_input(body)


def test_deeply_nested_references() -> None:
    body: Any = {"file_id": "file-1"}
    for _ in range(100_000):
        body = [body]
    assert has_unbounded_input({"input": body})
