"""Seed 004, large prompts: `prompt_delivery: file` hands the model a file to read, outside the workspace."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from claude_lab import ClaudeLab, Session, prompt_of, says, script

from youbencha.events import Event
from youbencha.gateway.script import ScriptedModel

PROMPT = "/review this: 'quotes' $HOME 漢 🙂\nand a last line"
READ = {"tools": [{"name": "Read", "input": {"file_path": "${prompt_file}"}}]}


class FileDelivery:
    """The scripted model learns the file's name only from the first request, as a real one would."""

    def __init__(self, lab: ClaudeLab) -> None:
        self._lab = lab
        self._variables: dict[str, str] = {}
        self.bytes_while_running: bytes | None = None

    @property
    def path(self) -> Path:
        return Path(self._variables["prompt_file"])

    def learn(self, request: Any) -> None:
        if not self._variables and request.kind == "turn":
            found = re.search(r"Read the file (\S+) completely", prompt_of(request))
            assert found is not None
            self._variables["prompt_file"] = found[1]
            self.bytes_while_running = self.path.read_bytes()

    async def run(self, **config: Any) -> Session:
        events: list[Event] = []
        async with self._lab.model(script(says("Looking."), says("Done."))) as model:
            context = self._lab.context(
                model, on_event=events.append, config={"prompt": PROMPT, "prompt_delivery": "file", **config}
            )
            result = await self._lab.adapter().execute(context)
            return Session(result, self._lab.adapter().normalize_log(result, context), model.requests, events)


_ = (READ, ScriptedModel)
