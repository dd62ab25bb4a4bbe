"""Test cases and eval configurations: repository, agent, evaluators, hooks."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import Field, model_validator

from youbencha.spec.agent_files import AgentFiles, Without
from youbencha.spec.base import Line, Milliseconds, ShortForm, StrictModel, added
from youbencha.spec.gateway import Gateway
from youbencha.spec.problems import ProblemAt
from youbencha.spec.sandbox import Sandbox


class EvaluatorEntry(StrictModel):
    """An evaluator: `{name, config}`, `{file}`, or just its name."""

    name: Line | None = None
    """The evaluator: `git-diff`, `expected-diff`, `command`, `agentic-judge`, or one from a plugin. A suffix tells
    several apart: `command:lint`."""
    config: dict[str, Any] = Field(default_factory=dict)
    """Options of the evaluator."""
    file: Line | None = None
    """A YAML file with `name` and `config`, relative to this file, to share an evaluator between test cases."""

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if self.file is not None:
            for key in ("name", "config"):
                if key in self.model_fields_set:
                    raise ProblemAt(key, "cannot be combined with `file`, which contains it")
        elif self.name is None:
            raise ValueError("requires a `name` or a `file`")
        return self


Evaluators = Annotated[
    tuple[Annotated[EvaluatorEntry, ShortForm("name", {"minLength": 1})], ...], Field(min_length=1, strict=False)
]


class EvaluatorFile(StrictModel):
    """An evaluator in a separate file, shared by several test cases."""

    name: Line
    """The evaluator, such as `agentic-judge`."""
    description: str = ""
    """A note for readers of the file; it has no effect."""
    config: dict[str, Any] = Field(default_factory=dict)
    """Options of the evaluator."""


class ScriptConfig(StrictModel):
    """A program with its arguments, or a line for the system's shell."""

    command: Line
    """One program, or a line for the system's shell."""
    args: Annotated[tuple[str, ...], Field(strict=False)] = ()
    """Arguments, passed to the program unchanged."""
    env: dict[str, str] = Field(default_factory=dict)
    """Additional environment variables."""
    timeout_ms: Milliseconds = 30_000
    """Time limit in milliseconds. After that, the script and every process it started are killed."""
    working_dir: Line | None = None
    """The directory to run in: relative to the workspace before the agent runs, and to the test case afterwards.
    Defaults to that directory."""
    shell: bool = False
    """True: `command` is a line for the system's shell, and `args` are its $1, $2, … False: it is one program. If not
    given, a `command` of several words is a line for the shell, and `args` are appended to it."""

    @property
    def timeout_s(self) -> float:
        return self.timeout_ms / 1000


class WebhookConfig(StrictModel):
    """An HTTP request with the results."""

    url: Annotated[str, Field(min_length=1)]
    """The http or https address that receives the results."""
    method: Literal["POST", "PUT", "PATCH"] = "POST"
    """The HTTP method."""
    headers: dict[str, str] = Field(default_factory=dict)
    """HTTP headers. Their values are never shown or stored."""
    include_artifacts: bool = False
    """Also send the text of the reports, the diff, the agent's log and the evaluators' artifacts."""
    retry_on_failure: bool = True
    """Try three times, 1 s and 2 s apart, if there is no response or its status is 408, 425, 429 or 5xx."""
    timeout_ms: Milliseconds = 5_000
    """Time limit of each attempt, in milliseconds."""

    @property
    def timeout_s(self) -> float:
        return self.timeout_ms / 1000


class DatabaseConfig(StrictModel):
    """A file or a SQLite database that collects results."""

    type: Literal["json-file", "sqlite"]
    """The format: `json-file` writes one line of JSON per run, `sqlite` one row per run."""
    output_path: Line
    """The file to write, relative to the test case."""
    include_full_bundle: bool = True
    """Store the whole results. False omits the evaluators' assertions, artifacts and errors."""
    append: bool = True
    """Add this result to the file. False replaces its contents."""
    table: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")] = "results"
    """The name of the SQLite table."""


class ScriptHook(StrictModel):
    """A hook that runs a script."""

    name: Literal["script"]
    """Runs a script."""
    config: ScriptConfig
    """Options of the script."""


class WebhookHook(StrictModel):
    """A hook that sends the results to a URL."""

    name: Literal["webhook"]
    """Sends the results to a URL."""
    config: WebhookConfig
    """Options of the webhook."""


class DatabaseHook(StrictModel):
    """A hook that stores the results."""

    name: Literal["database"]
    """Adds the results to a file or a SQLite database."""
    config: DatabaseConfig
    """Options of the database."""


PostHook = Annotated[ScriptHook | WebhookHook | DatabaseHook, Field(discriminator="name")]
PostHooks = Annotated[tuple[PostHook, ...], Field(strict=False)]


Name = Annotated[str, Field(min_length=1, max_length=200)]
Description = Annotated[str, Field(max_length=1000)]


class AgentSpec(AgentFiles):
    """The agent that does the work. To try another agent, change `type` alone."""

    type: Line
    """The agent, such as `claude-code`. `yb list` shows all of them."""
    agent_name: Line | None = None
    """A custom agent, if the agent's CLI supports them."""
    model: Annotated[Line, Field(pattern=r"^[^-\s]\S*$")] | None = None
    """The model, under any name: only the provider knows whether it exists. Defaults to `agent.model` in the settings,
    then to the agent's own default."""
    version: Line | None = None
    """The version of the agent's CLI. Defaults to the one on PATH, then to the newest in the toolbox."""
    config: dict[str, Any] = Field(default_factory=dict)
    """Options of the agent, including exactly one of `prompt` and `prompt_file`."""
    without: Without = added(())
    """Repository files that the agent does not get, such as `CLAUDE.md` and `.claude`. They never show up in its
    diff."""
    env: dict[str, str] = Field(default_factory=dict)
    """Environment variables for the agent. `${NAME}` comes from your environment if the settings do not define it."""


class TestCase(StrictModel):
    """A test case (`testcase.yaml`)."""

    __test__ = False  # its name makes pytest collect it

    name: Name | None = None
    """The name shown in results. Defaults to the file's name."""
    description: Description = ""
    """A description of the test case, shown in reports."""
    repo: Line
    """The repository: an https, ssh or file URL, or a path relative to this file."""
    branch: Line | None = None
    """The branch to start from. Defaults to the repository's default branch."""
    commit: Annotated[str, Field(pattern=r"^[0-9a-fA-F]{4,64}$")] | None = None
    """The commit to start from, on any branch. With `branch`, it is checked out under that branch's name."""
    agent: AgentSpec
    """The agent that does the task."""
    gateway: Gateway | None = None
    """How the agent reaches its model. Defaults to the gateway in the settings, then to `auto`."""
    sandbox: Sandbox | None = None
    """Where the agent runs. Defaults to the sandbox in the settings, then to `local`."""
    expected_source: Literal["branch", "commit", "tag"] | None = None
    """The kind of `expected`. Defaults to `branch`."""
    expected: Line | None = None
    """The branch, tag or commit with the expected result."""
    evaluators: Evaluators
    """How the result is judged; at least one evaluator."""
    pre_execution: Annotated[tuple[ScriptHook, ...], Field(strict=False)] = ()
    """Hooks that run before the agent."""
    post_evaluation: PostHooks = ()
    """Hooks that run after the evaluation."""
    workspace_dir: Line | None = None
    """Where runs are stored, relative to this file. Defaults to `workspace_dir` in the settings."""
    workspace_name: Annotated[str, Field(max_length=100, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")] | None = None
    """The prefix of the run directory's name."""
    timeout: Milliseconds | None = None
    """The agent's time limit in milliseconds. Defaults to the settings' limit."""

    @property
    def timeout_s(self) -> float | None:
        return self.timeout / 1000 if self.timeout is not None else None

    @model_validator(mode="after")
    def _expected_is_whole(self) -> Self:
        if self.expected_source is not None and self.expected is None:
            raise ProblemAt("expected_source", "requires `expected`: the name of the branch, tag or commit")
        return self


class EvalConfig(StrictModel):
    """An eval configuration (`yb eval`): evaluate a directory without running an agent."""

    name: Name | None = None
    """The name shown in results. Defaults to the file's name."""
    description: Description = ""
    """A description of what is evaluated, shown in reports."""
    directory: Line
    """The directory to evaluate, relative to this file."""
    expected_directory: Line | None = None
    """A directory with the expected result."""
    evaluators: Evaluators
    """How the directory is judged; at least one evaluator."""
    post_evaluation: PostHooks = ()
    """Hooks that run after the evaluation."""
    output_dir: Line | None = None
    """Where results are written, relative to this file. Defaults to `output_dir` in the settings."""


class AgentOverride(NamedTuple):
    """Another agent or model for a test case. None keeps what the file says."""

    type: str | None = None
    """The agent's type."""
    version: str | None = None
    """The version of the agent's CLI. The version in the file is only valid for the agent in the file."""
    model: str | None = None
    """The model."""

    def merged_over(self, data: Any) -> Any:
        """The data of a test case with these values instead of its own."""
        agent = data.get("agent") if isinstance(data, Mapping) else None
        if not isinstance(agent, Mapping):
            return data
        merged = dict(agent)
        if self.type is not None:
            if self.type != agent.get("type"):
                merged = _without(merged, "version")
            merged["type"] = self.type
        if self.version is not None:
            merged = _without(merged, "version") | {"version": self.version}
        if self.model is not None:
            merged = _without(merged, "model") | {"model": self.model}
        return {**data, "agent": merged}


def _without(agent: dict[str, Any], name: str) -> dict[str, Any]:
    """Remove a key, which may be next to `config` or in it."""
    rest = {key: value for key, value in agent.items() if key != name}
    config = rest.get("config")
    if isinstance(config, Mapping) and name in config:
        rest["config"] = {key: value for key, value in config.items() if key != name}
    return rest
