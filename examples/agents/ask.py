"""An agent in thirty lines: it sends a file to a model, and replaces the file with the answer.

The harness sets PROXY_URL, the address of the gateway, and ANTHROPIC_API_KEY, a key for this run only.
"""

import json
import os
import sys
import urllib.request
from pathlib import Path

FILE = Path("shop/cart.py")


def ask(prompt: str) -> str:
    body = {"model": "claude-sonnet-4-5", "max_tokens": 1000, "messages": [{"role": "user", "content": prompt}]}
    headers = {
        "content-type": "application/json",
        "anthropic-version": "2023-06-01",
        "x-api-key": os.environ["ANTHROPIC_API_KEY"],
    }
    request = urllib.request.Request(f"{os.environ['PROXY_URL']}/v1/messages", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request) as response:
        answer = json.load(response)
    return "".join(block["text"] for block in answer["content"] if block["type"] == "text")


task = sys.argv[1]
answer = ask(f"{task}\nAnswer with the whole new file and nothing else.\n\n{FILE}:\n{FILE.read_text()}")
FILE.write_text(answer.strip("\n") + "\n")
