"""Test cases and eval configurations: repository, agent, evaluators, hooks."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import Field, model_validator

from youbencha.spec.agent_files import AgentFiles, Without
from youbencha.spec.base import Line, Milliseconds, ShortForm, StrictModel
from youbencha.spec.gateway import Gateway
from youbencha.spec.problems import ProblemAt
from youbencha.spec.sandbox import Sandbox


class EvaluatorEntry(StrictModel):
    """An evaluator of a test case: `{name, config}`, `{file}`, or just the name."""

    name: Line | None = None
    config: dict[str, Any] = Field(default_factory=dict)
    file: Line | None = None

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
    """A file with an evaluator that several test cases share."""

    name: Line
    description: str = ""
    config: dict[str, Any] = Field(default_factory=dict)


class ScriptConfig(StrictModel):
    """A program with its arguments, or a line for the system's shell."""

    command: Line
    args: Annotated[tuple[str, ...], Field(strict=False)] = ()
    env: dict[str, str] = Field(default_factory=dict)
    timeout_ms: Milliseconds = 30_000
    working_dir: Line | None = None
    """Before the agent: relative to the workspace, which is the default. After it: relative to the test case's file."""
    shell: bool = False
    """True: `command` is a line for the system's shell, and `args` are its $1, $2 … False: it is one program. If not
    given, a `command` of several words is such a line, and `args` are added to its end."""


class WebhookConfig(StrictModel):
    url: Annotated[str, Field(min_length=1)]
    method: Literal["POST", "PUT", "PATCH"] = "POST"
    headers: dict[str, str] = Field(default_factory=dict)
    include_artifacts: bool = False
    """Also send the texts of the reports, the diff, the agent's log and the evaluators' artifacts."""
    retry_on_failure: bool = True
    """Three attempts, 1 s and 2 s apart, if there is no response or its status is 408, 425, 429 or 5xx."""
    timeout_ms: Milliseconds = 5_000


class DatabaseConfig(StrictModel):
    type: Literal["json-file", "sqlite"]
    output_path: Line
    include_full_bundle: bool = True
    append: bool = True
    """False: replace the contents with this result."""
    table: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")] = "results"
    """SQLite only."""


class ScriptHook(StrictModel):
    name: Literal["script"]
    config: ScriptConfig


class WebhookHook(StrictModel):
    name: Literal["webhook"]
    config: WebhookConfig


class DatabaseHook(StrictModel):
    name: Literal["database"]
    config: DatabaseConfig


PostHook = Annotated[ScriptHook | WebhookHook | DatabaseHook, Field(discriminator="name")]
PostHooks = Annotated[tuple[PostHook, ...], Field(strict=False)]


Name = Annotated[str, Field(min_length=1, max_length=200)]
Description = Annotated[str, Field(max_length=1000)]


class AgentSpec(AgentFiles):
    """The agent that does the work. Changing `type` alone changes the agent."""

    type: Line
    agent_name: Line | None = None
    model: Annotated[Line, Field(pattern=r"^[^-\s]\S*$")] | None = None
    """Any name: only the provider knows whether it exists."""
    version: Line | None = None
    """Version of the agent's CLI, from the toolbox."""
    config: dict[str, Any] = Field(default_factory=dict)
    """Options of the adapter, including `prompt` or `prompt_file`."""
    without: Without = ()
    """Files of the repository, such as `CLAUDE.md` and `.claude`, that the agent does not get. They are never in its
    diff."""
    env: dict[str, str] = Field(default_factory=dict)
    """Environment variables of the agent. `${NAME}` comes from the environment if the settings do not define it."""


class TestCase(StrictModel):
    """A test case (`testcase.yaml`)."""

    __test__ = False  # its name makes pytest collect it

    name: Name | None = None
    """Defaults to the file's name."""
    description: Description = ""
    repo: Line
    """An https, ssh or file URL, or a path relative to this file."""
    branch: Line | None = None
    commit: Annotated[str, Field(pattern=r"^[0-9a-fA-F]{4,64}$")] | None = None
    """A commit of any branch. With `branch`, the commit is checked out under that branch's name."""
    agent: AgentSpec
    gateway: Gateway | None = None
    """How the agent reaches its model. Defaults to the settings' gateway, then to `auto`."""
    sandbox: Sandbox | None = None
    """Where the agent runs. Defaults to the settings' sandbox, then to `local`."""
    expected_source: Literal["branch", "commit", "tag"] | None = None
    expected: Line | None = None
    """The branch, tag or commit with the expected result."""
    evaluators: Evaluators
    pre_execution: Annotated[tuple[ScriptHook, ...], Field(strict=False)] = ()
    post_evaluation: PostHooks = ()
    workspace_dir: Line | None = None
    workspace_name: Annotated[str, Field(max_length=100, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")] | None = None
    timeout: Milliseconds | None = None
    """The agent's timeout in milliseconds."""

    @model_validator(mode="after")
    def _expected_is_whole(self) -> Self:
        if self.expected_source is not None and self.expected is None:
            raise ProblemAt("expected_source", "requires `expected`: the name of the branch, tag or commit")
        return self


class EvalConfig(StrictModel):
    """An eval configuration (`yb eval`): evaluate a directory without running an agent."""

    name: Name | None = None
    description: Description = ""
    directory: Line
    expected_directory: Line | None = None
    evaluators: Evaluators
    post_evaluation: PostHooks = ()
    output_dir: Line | None = None


class AgentOverride(NamedTuple):
    """Another agent or model for a test case. What is None stays as in the file."""

    type: str | None = None
    version: str | None = None
    """Of the agent's CLI. The version in the file is only valid for the agent in the file."""
    model: str | None = None

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
