"""`yb demo`: see the whole thing work, without a key."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from youbencha.demo import DemoOutcome


def demo(
    workspace: Annotated[Path, typer.Option(help="Where the demo's workspace is made.", show_default=True)] = Path(
        ".youbencha-workspace"
    ),
) -> int:
    """Let the real Claude Code CLI mend a bug, with a scripted model behind it. Needs no API key.

    The first time, the CLI is fetched into the toolbox (about 160 MB).
    """
    import asyncio

    from rich.console import Console

    from youbencha.cli.live import LineDisplay
    from youbencha.demo import run_demo

    console = Console(highlight=False, soft_wrap=True)
    directory = workspace.resolve() / f"demo-{datetime.now():%Y-%m-%d-%H%M%S-%f}"
    display = LineDisplay(console, inside=directory / "src-modified")
    outcome = asyncio.run(run_demo(directory, progress=display.note, on_event=display))
    _show(outcome, console)
    return 0 if outcome.passed else 1


def _show(outcome: DemoOutcome, console: Console) -> None:
    from rich.syntax import Syntax
    from rich.text import Text

    console.print()
    console.print(Syntax(outcome.diff.strip(), "diff", theme="ansi_dark"))
    console.print()
    for name, value in _rows(outcome):
        # Never markup: a model may be called "opus[1m]". And never a table, which cuts a path that is too long.
        console.print(Text.assemble((f"{name:<9}", "dim"), value))
    verdict = "[bold green]passed[/bold green]" if outcome.passed else "[bold red]failed[/bold red]"
    console.print(f"\n{verdict}: the agent {'mended' if outcome.passed else 'did not mend'} the bug")


def _rows(outcome: DemoOutcome) -> list[tuple[str, str]]:
    log = outcome.log
    usage = log.usage
    tokens = f"{usage.input_tokens} in, {usage.output_tokens} out" if usage else "unknown"
    return [
        ("agent", f"{log.agent_info.name} {log.agent_info.version}, model {log.model_info.name} (scripted)"),
        ("status", f"{log.execution.status} in {log.execution.duration_ms / 1000:.1f} s"),
        ("tools", ", ".join(call.name for call in log.tool_calls) or "none"),
        ("tokens", tokens),
        ("tests", f"{_word(outcome.tests_passed_before)} before, {_word(outcome.tests_passed)} after"),
        ("results", str(outcome.artifacts)),
    ]


def _word(passed: bool) -> str:
    return "passed" if passed else "failed"
