"""`yb suggest-testcase`: write a test case from an agent's work."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from youbencha.errors import YouBenchaError
from youbencha.text import plural

if TYPE_CHECKING:
    from youbencha.suggest.draft import UserAnswers
    from youbencha.suggest.facts import Facts, RepositoryInfo
    from youbencha.suggest.session import Suggestion


def suggest_testcase(
    agent: Annotated[str, typer.Option(metavar="TYPE", help="The agent that makes the suggestion, or `none`.")],
    output_dir: Annotated[Path, typer.Option(metavar="DIR", help="The folder in which an agent has worked.")],
    agent_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Your own instructions for the suggesting agent, in Markdown.")
    ] = None,
    save: Annotated[Path, typer.Option(metavar="FILE", help="Where to write the test case.")] = Path("testcase.yaml"),
    baseline: Annotated[
        str | None,
        typer.Option(metavar="REF", help="What the agent started from: a branch, tag or commit; else a repository."),
    ] = None,
    prompt: Annotated[str | None, typer.Option(metavar="TEXT", help="The prompt that the agent got.")] = None,
    model: Annotated[str | None, typer.Option(metavar="NAME", help="The model of the suggesting agent.")] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Save without asking.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
) -> int:
    """Write a test case from work that an agent has already done.

    Example: `yb suggest-testcase --agent claude-code --output-dir ../my-repo`
    """
    from youbencha.adapters import get_adapter
    from youbencha.cli.interrupts import run_async
    from youbencha.suggest.draft import DEFAULT_AGENT, UserAnswers
    from youbencha.suggest.facts import collect_facts, find_repository
    from youbencha.suggest.session import NO_AGENT

    if agent != NO_AGENT:
        get_adapter(agent)  # report a wrong name before asking anything
    directory = _directory(output_dir)
    instructions = _instructions(agent_file)
    asking = sys.stdin.isatty()
    if save.exists() and not force and not asking:
        raise YouBenchaError(
            "TESTCASE_EXISTS", f"{save} already exists.", hint="Name another file with --save, or give --force."
        )
    home = run_async(find_repository(directory))
    start = baseline or _ask_baseline(home, asking=asking)
    facts = run_async(collect_facts(directory, home, start if home else None))
    _show_facts(facts)
    wanted = UserAnswers(
        agent=DEFAULT_AGENT if agent == NO_AGENT else agent,
        prompt=prompt or _ask_prompt(asking=asking),
        repo=None if home else start,
        save_to=save,
    )
    suggestion = _suggest(facts, wanted, agent, instructions, model)
    typer.echo(suggestion.text, nl=False)
    if not _may_save(save, asking=asking, yes=yes, force=force):
        typer.echo("Not saved.", err=True)
        return 0
    save.parent.mkdir(parents=True, exist_ok=True)
    save.write_text(suggestion.text, encoding="utf-8", newline="\n")
    typer.echo(f"Saved as {save}. Next: yb validate -c {save}", err=True)
    return 0


def _suggest(facts: Facts, wanted: UserAnswers, agent: str, instructions: str | None, model: str | None) -> Suggestion:
    from youbencha.cli.display import choose_display
    from youbencha.cli.interrupts import run_async
    from youbencha.suggest.session import Suggester, suggest

    with choose_display(f"suggesting a test case · {agent}", quiet=agent == "none") as display:
        session = Suggester(facts=facts, wanted=wanted, instructions=instructions, model=model, on_event=display)
        suggestion = run_async(suggest(session, agent))
    if suggestion.why_not:
        typer.echo(f"warning: {agent} made no usable suggestion ({suggestion.why_not}); this is the draft.", err=True)
    return suggestion


def _directory(path: Path) -> Path:
    if not path.is_dir():
        raise YouBenchaError(
            "OUTPUT_DIR_NOT_FOUND",
            f"{path} is not a directory.",
            hint="--output-dir is the folder in which an agent has worked.",
        )
    return path.resolve()


def _instructions(file: Path | None) -> str | None:
    if file is None:
        return None
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise YouBenchaError("AGENT_FILE_UNREADABLE", f"--agent-file {file} cannot be read: {error}") from error
    if text.startswith("---\n"):  # a custom agent's header is for the CLI, not for the model
        text = text.partition("\n---\n")[2] or text
    return text.strip() or None


def _ask_baseline(home: RepositoryInfo | None, *, asking: bool) -> str:
    if not asking:
        raise _answers_missing("--baseline", "what the agent started from")
    if home is None:
        return str(typer.prompt("This folder is in no repository. Which one did the agent start from (URL or path)?"))
    return str(typer.prompt("What did the agent start from (branch, tag or commit)?", default=home.likely_baseline))


def _ask_prompt(*, asking: bool) -> str:
    if not asking:
        raise _answers_missing("--prompt", "the agent's prompt")
    return str(typer.prompt("What was the agent's prompt?"))


def _answers_missing(option: str, what: str) -> YouBenchaError:
    return YouBenchaError(
        "ANSWER_MISSING",
        f"{option} is missing ({what}), and there is no terminal to ask for it.",
        hint=f"Give {option}. In a script: --baseline, --prompt and --yes.",
    )


def _show_facts(facts: Facts) -> None:
    """Print the facts to stderr: stdout has only the test case."""
    if facts.home:
        added = sum(change.additions or 0 for change in facts.changes)
        removed = sum(change.deletions or 0 for change in facts.changes)
        changed = f"{plural(len(facts.changes), 'file')} changed, {plural(added, 'line')} added, {removed} removed"
        typer.echo(f"{facts.home.top}: {changed} since {(facts.baseline or '')[:12]}", err=True)
    if facts.tests:
        typer.echo(f"its tests: {facts.tests}", err=True)


def _may_save(save: Path, *, asking: bool, yes: bool, force: bool) -> bool:
    if save.exists() and not force:
        return asking and typer.confirm(f"{save} already exists. Overwrite it?", default=False, err=True)
    if yes or not asking:
        return yes
    return typer.confirm(f"Save it as {save}?", default=True, err=True)
