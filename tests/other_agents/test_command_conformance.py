"""A small program through the conformance kit."""

from __future__ import annotations

import pytest
from command_bench import CommandAgent

from youbencha.testing import AdapterContract, Agent


class TestCommand(AdapterContract):
    @pytest.fixture
    def agent(self) -> Agent:
        return CommandAgent()
