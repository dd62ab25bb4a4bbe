"""One trial from its repository to its verdict: plan, agent, evaluation, results.

host = Host(os.environ, load_settings(Path.cwd(), Path.home()))  # one per process
plan = load_plan(Path("testcase.yaml"), host)  # or plan_trial(case, host, directory=...), without a file
result = await run_trial(plan, host, directory=Path("runs/one"), on_event=print)

To run only a part: `open_trial` with `run_agent`, and `evaluate_all`.
"""
