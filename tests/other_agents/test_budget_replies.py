"""What the real CLIs do when a gateway says that the budget is spent: they end, and ask no more.

Measured: 402 ends each at its first, but for Codex, which asks five times more in six seconds; a 400 ends that, too.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from codex_bench import codex_bench
from copilot_bench import copilot_bench
from gemini_bench import gemini_bench
from opencode_bench import opencode_bench
from toolbox_agents import Bench, script

pytestmark = [pytest.mark.real_cli, pytest.mark.full]

MESSAGE = "youBencha: the budget is spent: 0.10 of 0.10 USD"


@pytest.mark.parametrize(
    ("make", "status", "code"),
    [
        (codex_bench, 400, "CODEX_MAX_BUDGET"),
        (copilot_bench, 402, "COPILOT_MAX_BUDGET"),
        (gemini_bench, 402, "GEMINI_MAX_BUDGET"),
        (opencode_bench, 402, "OPENCODE_MAX_BUDGET"),
    ],
)
async def test_a_spent_budget_ends_the_agent(
    make: Callable[[Path], Bench], status: int, code: str, tmp_path: Path
) -> None:
    headers = {"x-should-retry": "false"}
    spent = {"error": {"status": status, "message": MESSAGE, "headers": headers}, "times": "forever"}
    done = await make(tmp_path).run(script(spent))
    assert (done.result.status, done.codes()) == ("failed", [code])
    assert len([request for request in done.requests if request.kind == "turn"]) == 1
    assert (done.result.errors[0].context or {})["kind"] == "max_budget"


async def test_codex_also_ends_after_402(tmp_path: Path) -> None:
    spent = {"error": {"status": 402, "message": "none left"}, "times": "forever"}
    done = await codex_bench(tmp_path).run(script(spent))
    assert (done.result.status, done.codes()) == ("failed", ["CODEX_MAX_BUDGET"])
