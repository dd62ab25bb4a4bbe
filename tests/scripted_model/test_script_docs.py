"""The scripts in docs/scripted-model.md can be used unchanged."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from talking import ask, scripted
from youbencha.scripted_model import Script, Turn, parse_script

PAGE = (Path(__file__).parents[2] / "docs" / "scripted-model.md").read_text(encoding="utf-8")
SCRIPTS = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("script", SCRIPTS)
def test_every_script_on_the_page_loads(script: str) -> None:
    assert parse_script(script, variables={}).turns


def test_every_key_is_on_the_page() -> None:
    shown = set(re.findall(r"^\| `([a-z_]+)", PAGE, re.MULTILINE))
    assert shown == set(Script.model_fields) | set(Turn.model_fields)


async def test_the_first_script_does_what_the_page_says() -> None:
    async with scripted(SCRIPTS[0]) as model:
        first = await ask(model, system="Working directory: /w")
        second = await ask(model)
    assert first.message["content"][1]["input"] == {"file_path": "/w/hello.txt", "content": "Hello.\n"}
    assert second.text == "Done."
