"""A test case: a repository, an agent with a task, and how to judge what it leaves behind."""

from typing import Annotated, Any, Literal, Self

from pydantic import AliasChoices, Field, model_validator

from youbencha.spec.base import Line, Milliseconds, Seldom, Written
from youbencha.spec.evaluators import Evaluators
from youbencha.spec.gateway import Gateway
from youbencha.spec.hooks import PostHook, ScriptHook
from youbencha.spec.problems import ProblemAt
from youbencha.spec.sandbox import Sandbox

Name = Annotated[str, Field(min_length=1, max_length=200)]
Description = Annotated[str, Field(max_length=1000)]


class AgentSpec(Written):
    """Who does the work. Changing `type` alone changes the agent."""

    type: Line
    agent_name: Line | None = None
    model: Annotated[Line, Field(pattern=r"^[^-\s]\S*$")] | None = None
    """Any name: whether there is such a model, only its provider knows."""
    version: Line | None = None
    """Of the agent's CLI, from the toolbox."""
    config: dict[str, Any] = Field(default_factory=dict)
    """The adapter's own options, `prompt` or `prompt_file` among them."""
    env: dict[str, str] = Field(default_factory=dict)
    """Given to the agent. `${NAME}` is taken from the environment where the settings do not define it."""


class TestCase(Written):
    """`testcase.yaml`."""

    __test__ = False  # not a class of tests, whatever pytest thinks of its name

    version: Any = None
    """Of the format. Older files carry it; it is not looked at."""
    name: Name | None = None
    """Without one, the file's name is the test case's."""
    description: Description = ""
    repo: Line
    """https, ssh, file URL, or a path (relative to this file)."""
    branch: Line | None = None
    commit: Annotated[str, Field(pattern=r"^[0-9a-fA-F]{4,64}$")] | None = None
    """On any branch. Together with `branch`: the commit is taken, the branch is only its name."""
    agent: AgentSpec
    gateway: Annotated[Gateway | None, Seldom()] = None
    """How the agent reaches its model. Without one, as the settings say, and by default `auto`."""
    sandbox: Annotated[Sandbox | None, Seldom()] = None
    """Where the agent runs. Without one, as the settings say, and by default `local`."""
    expected_source: Literal["branch", "commit", "tag"] | None = None
    expected: Line | None = None
    """The branch (or tag, or commit) that holds how it should be."""
    evaluators: Evaluators
    pre_execution: Annotated[tuple[ScriptHook, ...], Seldom()] = ()
    post_evaluation: Annotated[
        tuple[PostHook, ...],
        Seldom(),
        Field(validation_alias=AliasChoices("post_evaluation", "post_evaluators")),
    ] = ()
    workspace_dir: Line | None = None
    workspace_name: Annotated[str, Field(max_length=100, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")] | None = None
    timeout: Milliseconds | None = None
    """Of the agent, in milliseconds."""

    @model_validator(mode="after")
    def _expected_is_whole(self) -> Self:
        if self.expected_source is not None and self.expected is None:
            raise ProblemAt("expected_source", "needs `expected` beside it: the name of that branch, tag or commit")
        return self


class EvalConfig(Written):
    """`yb eval`: judge a directory as it is, without running an agent."""

    version: Any = None
    name: Name | None = None
    description: Description = ""
    directory: Line
    expected_directory: Line | None = None
    evaluators: Evaluators
    post_evaluation: Annotated[
        tuple[PostHook, ...],
        Seldom(),
        Field(validation_alias=AliasChoices("post_evaluation", "post_evaluators")),
    ] = ()
    output_dir: Line | None = None
