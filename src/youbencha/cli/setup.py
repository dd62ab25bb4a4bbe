"""`yb init`: write a first test case."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
from collections.abc import Callable, Sequence
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, NamedTuple

import typer
from pydantic import BaseModel
from rich.syntax import Syntax
from typer.completion import shell_complete

from youbencha.adapters import adapter_descriptions, get_adapter
from youbencha.cli import options
from youbencha.cli.display import choose_display
from youbencha.cli.interrupts import run_async
from youbencha.cli.loop_display import choose_loop_display
from youbencha.cli.options import settings_here
from youbencha.cli.run import show_partial_results, show_result
from youbencha.cli.terminal import StepPrinter, console_on, is_plain, terminal_width, wrap
from youbencha.demo import LOOP, TEST_CASE, prepare_demo, run_demo, run_loop_demo
from youbencha.engine.arena import load_arena
from youbencha.engine.arena import missing_prerequisites as missing_prerequisites_of_arena
from youbencha.errors import ConfigError, Problem, YouBenchaError
from youbencha.evaluators import evaluator_names, get_evaluator
from youbencha.events import ProgressNote
from youbencha.loop.plan import check_loop
from youbencha.scaffold import FileResult, begin_project, install_agent_files
from youbencha.spec.arena_loader import is_arena
from youbencha.spec.loader import LoadedCase, is_eval_config
from youbencha.spec.loop_loader import is_loop_file, load_loop_file
from youbencha.spec.schema import json_schema
from youbencha.spec.testcase import EvalConfig, TestCase
from youbencha.store.layout import DIFF_FILE
from youbencha.store.loops import EXIT_CODES
from youbencha.suggest.draft import DEFAULT_AGENT, UserAnswers
from youbencha.suggest.facts import Facts, RepositoryInfo, collect_facts, find_repository
from youbencha.suggest.session import NO_AGENT, Suggester, Suggestion, suggest
from youbencha.text import plural
from youbencha.trial.checks import lint_case
from youbencha.trial.evaluation import load_eval_plan
from youbencha.trial.plan import PlanOptions, load_case, missing_prerequisites, plan_loaded
from youbencha.workspace.checkpoints import Checkpoints

_NEXT = """
Next:
  yb doctor                       check that this machine has what a run needs
  yb validate -c testcase.yaml    check the test case
  yb run -c testcase.yaml         run it"""


def init(
    force: Annotated[bool, typer.Option("--force", help="Overwrite existing files.")] = False,
    directory: Annotated[Path, typer.Option("--dir", metavar="DIR", help="The directory to write to.")] = Path(),
) -> int:
    """Write a commented testcase.yaml, and the judge's definition for Claude Code and Copilot.

    Exit code 1 if a testcase.yaml exists; then nothing is written, unless you give --force.
    """
    return write_files(lambda: run_async(begin_project(directory, force=force)), "TESTCASE_EXISTS", _NEXT)


def write_files(write: Callable[[], Sequence[FileResult]], exists: str, what_next: str) -> int:
    """Write files, print what became of each, and return the exit code: 1 for an error with the code `exists`."""
    try:
        results = write()
    except YouBenchaError as error:
        if error.code != exists:
            raise
        typer.echo(f"error [{error.code}] {error.message}\nhint  {error.hint}", err=True)
        return 1
    code = show_files(results)
    if code == 0:
        typer.echo(what_next)
    return code


def show_files(results: Sequence[FileResult]) -> int:
    """Print one line for each file, and return the exit code."""
    for result in results:
        reason = f"  ({result.reason})" if result.reason else ""
        typer.echo(f"{result.action:<12} {result.path.as_posix()}{reason}", err=result.action == "error")
    return int(any(result.action == "error" for result in results))


def install_agents(
    force: Annotated[bool, typer.Option("--force", help="Overwrite existing files.")] = False,
    directory: Annotated[Path, typer.Option("--dir", metavar="DIR", help="The directory to write to.")] = Path(),
) -> int:
    """Write agentic-judge.md into .github/agents and .claude/agents.

    To install agent CLIs, use `yb agents install`. Exit code 1 if a file cannot be written.
    """
    return show_files(install_agent_files(directory, force=force))


_USAGE = """In a test case:

  agent:
    type: {agent}
    config:
      prompt: The task.
  evaluators:
    - name: git-diff
      config:
        assertions:
          max_files_changed: 3

Several judges: agentic-judge-NAME (or :NAME), each with its own assertions.
`yb doctor` shows which agents can run here."""


def list_all(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """List the evaluators and agents that a test case can use, including those of installed plugins.

    Example: `yb list --json`
    """
    evaluators: dict[str, str] = {}
    for name in evaluator_names():
        try:
            evaluators[name] = get_evaluator(name).description
        except YouBenchaError as error:  # a plugin that is broken
            evaluators[name] = f"{error.code}: {error.message}"
    agents = adapter_descriptions()
    if as_json:
        listed = [{"name": name, "description": text} for name, text in evaluators.items()]
        typer.echo(json.dumps({"evaluators": listed, "agents": list(agents)}, indent=2))
        return

    width, screen = max(len(name) for name in (*evaluators, *agents)), terminal_width(sys.stdout)
    for title, described in (("Evaluators", evaluators), ("Agents", agents)):
        typer.echo(title)
        for name, text in described.items():
            typer.echo(f"  {name:<{width}}  {wrap(text, screen, indent=width + 4)}".rstrip())
        typer.echo()
    typer.echo(_USAGE.format(agent="claude-code" if "claude-code" in agents else next(iter(agents))))


def validate(
    config: Annotated[
        Path, typer.Option("--config", "-c", help="A test case, an eval configuration, an arena or a loop.")
    ],
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Also show unusual but allowed settings.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    var: options.Var = None,
) -> int:
    """Check a test case (or an eval configuration, an arena, a loop), and everything it refers to. Runs nothing.

    Exit code 0: valid, perhaps with warnings · 2: invalid.

    Example: `yb validate -c testcase.yaml -v`
    """
    try:
        with options.add_hint(config):
            checked = _check(config, var, strict=verbose)
    except ConfigError as error:
        if as_json:
            problems = [_as_data(problem) for problem in error.problems]
            typer.echo(json.dumps({"valid": False, "problems": problems, "warnings": []}, indent=2))
            return 2
        raise
    if as_json:
        result = {"valid": True, "problems": [], "warnings": [_as_data(warning) for warning in checked.warnings]}
        typer.echo(json.dumps(result, indent=2))
        return 0
    for warning in checked.warnings:
        typer.echo(f"warning  {warning}", err=True)
    typer.echo(f"valid: {checked.summary}")
    return 0


class _Checked(NamedTuple):
    summary: str
    warnings: Sequence[Problem] = ()


def _check_arena(config: Path) -> _Checked:
    arena = load_arena(config, options.host_here(), resolve_env=False)
    parts = [plural(len(arena.spec.orchestrators), "orchestrator")]
    if variants := len(arena.entries) - len(arena.spec.orchestrators):
        parts.append(plural(variants, "variant"))
    summary = ", ".join([*parts, plural(len(arena.spec.tasks), "task")])
    return _Checked(summary, [*arena.notices, *missing_prerequisites_of_arena(arena)])


def _check(config: Path, var: list[str] | None, *, strict: bool) -> _Checked:
    if is_arena(config):
        return _check_arena(config)
    return _check_loop(config) if is_loop_file(config) else _check_case(config, var, strict=strict)


def _check_loop(config: Path) -> _Checked:
    file = load_loop_file(config)
    check_loop(file, options.host_here())
    parts = [
        f"the backend {file.spec.cli.backend}",
        plural(len(file.spec.hats), "hat"),
        plural(len(file.spec.gates), "gate"),
    ]
    return _Checked(", ".join(parts), file.warnings)


def _check_case(config: Path, var: list[str] | None, *, strict: bool) -> _Checked:
    host, variables = options.host_here(), options.variables_given(var)
    if is_eval_config(config):
        return _summarize(load_eval_plan(config, host, variables=variables).loaded, strict=strict)
    loaded = load_case(config, host, variables=variables)
    plan = plan_loaded(loaded, host, PlanOptions(resolve_env=False))
    return _summarize(loaded, run_async(missing_prerequisites(loaded, plan, host)), strict=strict)


def _summarize(
    loaded: LoadedCase[TestCase] | LoadedCase[EvalConfig], missing: Sequence[Problem] = (), *, strict: bool
) -> _Checked:
    evaluators = ", ".join(evaluator.name for evaluator in loaded.evaluators)
    return _Checked(f"{loaded.name} ({evaluators})", [*missing, *lint_case(loaded, strict=strict)])


def _as_data(problem: Problem) -> dict[str, object]:
    others = {key: value for key, value in vars(problem).items() if key not in ("keys", "file")}
    return {"path": problem.path, **others, "file": None if problem.file is None else str(problem.file)}


class Format(StrEnum):
    TESTCASE = "testcase"
    EVAL = "eval"
    EVALUATOR = "evaluator"
    SETTINGS = "settings"
    ARENA = "arena"
    LOOP = "loop"
    RESULTS = "results"
    META = "meta"
    LOG = "log"
    SCRIPT = "script"
    CLAUDE_CODE = "claude-code"


_MODELS = {
    Format.TESTCASE: ("youbencha.spec.testcase", "TestCase"),
    Format.EVAL: ("youbencha.spec.testcase", "EvalConfig"),
    Format.EVALUATOR: ("youbencha.spec.testcase", "EvaluatorFile"),
    Format.SETTINGS: ("youbencha.spec.settings", "Settings"),
    Format.ARENA: ("youbencha.spec.arena", "ArenaSpec"),
    Format.LOOP: ("youbencha.spec.loop", "LoopSpec"),
    Format.META: ("youbencha.store.arena", "TrialMeta"),
    Format.RESULTS: ("youbencha.store.bundle", "ResultsBundle"),
    Format.LOG: ("youbencha.log.model", "YouBenchaLog"),
    Format.SCRIPT: ("youbencha.scripted_model", "Script"),
    Format.CLAUDE_CODE: ("youbencha.adapters.claude_code", "ClaudeCodeConfig"),
}


def schema(
    name: Annotated[
        Format,
        typer.Argument(
            metavar="FORMAT",
            help="testcase, eval, evaluator (in a separate file), settings, arena (thunderdome.yaml), "
            "loop (ralph.yml), results, meta (meta.json), log, script, or claude-code (its agent.config).",
        ),
    ],
) -> None:
    """Print a JSON Schema.

    Example: `yb schema testcase > testcase.schema.json`
    """
    module, attribute = _MODELS[name]
    model: type[BaseModel] = getattr(import_module(module), attribute)
    typer.echo(json.dumps(json_schema(model), indent=2, ensure_ascii=False))


class Shell(StrEnum):
    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"
    POWERSHELL = "powershell"


def completion(
    context: typer.Context,
    shell: Annotated[Shell, typer.Argument(metavar="SHELL", help="bash, zsh, fish or powershell.")],
) -> None:
    """Print the completion script for a shell.

    Bash and zsh: `source <(yb completion bash)`. Fish: `yb completion fish | source`.

    `yb --install-completion` installs it for the current shell.
    """
    root = context.find_root()
    name = root.info_name or "yb"
    variable = f"_{name.replace('-', '_').upper()}_COMPLETE"
    shell_complete(root.command, {}, name, variable, f"source_{shell}")


def suggest_testcase(
    agent: Annotated[str, typer.Option(metavar="TYPE", help="The agent that writes the suggestion, or `none`.")],
    output_dir: Annotated[Path, typer.Option(metavar="DIR", help="The folder that the agent has worked in.")],
    agent_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Your own instructions for the suggesting agent, in Markdown.")
    ] = None,
    save: Annotated[Path, typer.Option(metavar="FILE", help="The file to write.")] = Path("testcase.yaml"),
    baseline: Annotated[
        str | None,
        typer.Option(metavar="REF", help="What the agent started from: a branch, tag, commit or repository."),
    ] = None,
    prompt: Annotated[str | None, typer.Option(metavar="TEXT", help="The prompt given to the agent.")] = None,
    model: Annotated[str | None, typer.Option(metavar="NAME", help="The model of the suggesting agent.")] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Save without asking.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
) -> int:
    """Write a test case from work that an agent has already done.

    Example: `yb suggest-testcase --agent claude-code --output-dir ../my-repo`
    """
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
            hint="--output-dir takes the directory that an agent has worked in.",
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
        return str(
            typer.prompt(
                "This directory is not in a repository. Which repository did the agent start from (URL or path)?"
            )
        )
    return str(typer.prompt("What did the agent start from (branch, tag or commit)?", default=home.likely_baseline))


def _ask_prompt(*, asking: bool) -> str:
    if not asking:
        raise _answers_missing("--prompt", "the agent's prompt")
    return str(typer.prompt("What was the agent's prompt?"))


def _answers_missing(option: str, what: str) -> YouBenchaError:
    return YouBenchaError(
        "ANSWER_MISSING",
        f"{option} is missing ({what}), and there is no terminal to ask for it.",
        hint=f"Give {option}. In a script: use --baseline, --prompt and --yes.",
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


def demo(
    workspace_dir: Annotated[
        Path | None, typer.Option(help="Store the run in this directory. Default: same as `yb run`.")
    ] = None,
    loop: Annotated[bool, typer.Option("--loop", help="Show a loop (`ralph run`) instead.")] = False,
) -> int:
    """Watch the real Claude Code CLI fix a bug, with a scripted model. Needs no API key.

    The first run downloads the CLI into the toolbox (about 160 MB).
    """
    if loop:
        return _demo_loop()

    root = workspace_dir or settings_here().workspace_dir
    with (
        TemporaryDirectory(prefix="youbencha-demo-", ignore_cleanup_errors=True) as temporary,
        show_partial_results(choose_display("demo · claude-code", quiet=False)) as display,
    ):
        progress = StepPrinter(lambda line: display(ProgressNote(text=line)))
        prepared = run_async(prepare_demo(Path(temporary).resolve(), progress=progress))
        finished = run_async(run_demo(prepared, root.resolve(), on_event=display))
    _show_diff((finished.directory.artifacts / DIFF_FILE).read_text(encoding="utf-8", errors="replace"))
    code = show_result(finished.bundle, finished.directory.artifacts, as_json=False, quiet=False)
    typer.echo(_what_next(TEST_CASE, workspace_dir))
    return code


def _demo_loop() -> int:
    """Run the loop in a temporary repository, and show what it changed."""
    with TemporaryDirectory(prefix="youbencha-demo-", ignore_cleanup_errors=True) as temporary:
        with choose_loop_display(as_json=False, quiet=False) as display:
            progress = StepPrinter(lambda line: display(ProgressNote(text=line)))
            prepared = run_async(prepare_demo(Path(temporary).resolve(), progress=progress))
            state = run_async(run_loop_demo(prepared, on_event=display))
        checkpoints = run_async(Checkpoints.open(prepared.repository, state.loop_id))
        typer.echo()
        _show_diff(run_async(checkpoints.diff(0)))
        checkpoints.close()
    typer.echo(
        f"The loop       {_from_here(LOOP)}\nYour own       {_as_typed('ralph')} init, then {_as_typed('ralph')} run"
    )
    assert state.outcome is not None
    return EXIT_CODES[state.outcome]


def _what_next(test_case: Path, workspace: Path | None) -> str:
    yb = _as_typed("yb")
    source = f" --from {shlex.quote(str(workspace))}" if workspace else ""
    return (
        f"\nThe test case  {_from_here(test_case)}"
        f"\nThe report     {yb} report{source} --format html --open"
        f"\nYour own       {yb} init, then {yb} run -c testcase.yaml"
    )


def _as_typed(command: str) -> str:
    """The command to type: after `make demo`, it is not on PATH."""
    here = Path(sys.argv[0]).absolute().with_name(command)
    return command if shutil.which(command) else shlex.quote(_from_here(here))


def _from_here(path: Path) -> str:
    """A relative path if possible: the full one takes two lines of a terminal."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def _show_diff(diff: str) -> None:
    if is_plain(sys.stdout):
        typer.echo(f"{diff.strip()}\n")
        return

    console_on(sys.stdout).print(Syntax(diff.strip(), "diff", theme="ansi_dark"), "")
