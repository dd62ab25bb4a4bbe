"""`yb run`: one test case, from its repository to a verdict."""

from __future__ import annotations

from youbencha.cli import run_options as options


def run(
    config: options.Config,
    delete_workspace: options.DeleteWorkspace = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
    dry_run: options.DryRun = False,
    var: options.Var = None,
    agent: options.Agent = None,
    model: options.Model = None,
    sandbox: options.Sandbox = None,
    image: options.Image = None,
    network: options.Network = None,
    gateway: options.Gateway = None,
    budget: options.Budget = None,
    record: options.Record = None,
    replay: options.Replay = None,
    cassette: options.Cassette = None,
    workspace_dir: options.WorkspaceDir = None,
) -> int:
    """Run an agent on a repository as a test case says, and judge what it leaves behind.

    Exit code 0: passed · 1: ran, but not passed · 2: could not run · 130: interrupted.

    Example: `yb run -c testcase.yaml`
    """
    from youbencha.process import get_ready

    if not dry_run:
        get_ready()  # while we read the test case and fetch the repository
    from youbencha.cli.agent_options import agent_choice
    from youbencha.cli.asynchronous import run_async
    from youbencha.cli.concluding import conclude, telling_where
    from youbencha.cli.display import choose_display
    from youbencha.cli.mistakes import advising
    from youbencha.cli.model_options import gateway_options
    from youbencha.cli.sandbox_options import sandbox_option
    from youbencha.cli.settings import settings_here, variables_given
    from youbencha.trial import make_plan, run_test_case

    settings = settings_here()
    with advising(config):
        plan = make_plan(
            config,
            settings,
            variables=variables_given(var),
            workspace_dir=workspace_dir,
            gateway=gateway_options(gateway, budget, record=record, replay=replay, auto=cassette),
            sandbox=sandbox_option(sandbox, image, network),
            agent=agent_choice(agent, model),
        )
    if dry_run:
        from youbencha.cli.dry_run import show_plan

        show_plan(plan, as_json=as_json)
        return 0
    quiet = quiet or settings.settings.log_level in ("warn", "error")
    delete = not settings.settings.keep_workspace if delete_workspace is None else delete_workspace
    title = f"{plan.loaded.name} · {plan.case.agent.type}"
    with telling_where(choose_display(title, quiet=quiet)) as display:
        finished = run_async(run_test_case(plan, on_event=display, delete_workspace=delete))
    return conclude(finished.bundle, finished.directory.artifacts, as_json=as_json, quiet=quiet)
