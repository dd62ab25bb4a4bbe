"""An agent that changes files beside its tree changes no verdict and loses no run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from run_bench import RunBench

EDIT = "echo 'TAX = 0.2' > src/prices.py"


async def test_a_planted_reference_is_not_used(runs: RunBench) -> None:
    runs.commit({"src/prices.py": "something else entirely\n"}, branch="solution")
    plant = (
        "mkdir -p ../src-expected; for i in 1 2 3 4 5 6 7 8 9; do echo $i > f$i; echo $i > ../src-expected/f$i; done"
    )
    evaluators = [{"name": "expected-diff", "config": {"threshold": 0.9}}]
    done = await runs.run(runs.tampering(f"{EDIT}; {plant}"), evaluators=evaluators, expected="solution")
    assert done.done.code == 1
    assert done.bundle.evaluators[0].metrics["files_added"] == 9


async def test_a_forged_result_is_replaced(runs: RunBench) -> None:
    forged = runs.root / "forged.json"
    good = await runs.run(runs.program(EDIT))
    forged.write_bytes((good.artifacts / "results.json").read_bytes())
    forge = f"cp '{forged}' ../artifacts/results.json; exit 3"
    done = await runs.run(runs.tampering(forge))
    assert done.done.code == 1, done.done.err
    assert done.bundle.summary.overall_status == "failed"
    assert done.bundle.agent is not None
    assert done.bundle.agent.exit_code == 3


@pytest.mark.parametrize(
    "harm",
    [
        "rm -rf ../artifacts",
        "rm -rf ../artifacts; ln -s {victim} ../artifacts",
        "ln -s {victim}/file ../artifacts/git-diff.patch",
        "rm -rf ../.youbencha ../.lock",
        "chmod 000 ../artifacts ..",
        "cd /; rm -rf {run}",
    ],
)
async def test_damage_beside_the_tree_loses_no_result(runs: RunBench, harm: str) -> None:
    victim = runs.root / "victim"
    victim.mkdir()
    (victim / "file").write_text("precious")
    script = harm.replace("{victim}", str(victim)).replace("{run}", '"$RUN"')
    done = await runs.run(runs.tampering(f"RUN=$(cd ..; pwd); {EDIT}; {script}; exit 0"))
    assert done.done.code in (0, 1), done.done.err
    assert done.bundle.execution.complete
    assert done.bundle.agent is not None
    assert done.bundle.agent.status == "success"
    assert [path.name for path in victim.iterdir()] == ["file"]
    assert (victim / "file").read_text() == "precious"


async def test_new_ignore_rules_hide_nothing(runs: RunBench) -> None:
    hide = "echo '*' > .gitignore; find .. -name .gitignore -newer README.md; echo hidden > hidden.txt"
    strict = [{"name": "git-diff", "config": {"max_files_changed": 0}}]
    done = await runs.run(runs.program(hide), evaluators=strict)
    assert done.done.code == 1
    assert done.bundle.evaluators[0].metrics["files_changed"] == 2


async def test_none_of_our_files_are_beside_the_tree(runs: RunBench) -> None:
    done = await runs.run(runs.program("ls -A .. > beside.txt"))
    assert set((done.tree / "beside.txt").read_text().split()) <= {"artifacts", "src-modified", ".lock"}
    assert not list((runs.home / "cache/youbencha/runs").glob("*"))  # and nothing is left of it


async def test_a_planted_copy_is_not_judged(runs: RunBench) -> None:
    plant = "mkdir -p ../.youbencha/scratch/command/tree; touch ../.youbencha/scratch/command/tree/planted"
    check = [{"name": "command", "config": {"command": ["/bin/sh", "-c", "test ! -e planted"]}}]
    done = await runs.run(runs.tampering(plant), evaluators=check)
    assert done.done.code == 0, done.done.err


async def test_reports_come_from_our_own_results(runs: RunBench) -> None:
    await runs.run(runs.tampering("echo '{}' > ../artifacts/results.json; exit 1"))
    done = await runs.yb("report", "--from", str(runs.workspace), "--format", "json", "--output", "-")
    assert done.code == 0, done.err
    assert json.loads(done.out)["summary"]["overall_status"] == "failed"
    assert Path(runs.workspace).is_dir()


async def test_removed_directories_are_reported(runs: RunBench) -> None:
    done = await runs.run(runs.tampering(f"{EDIT}; rm -rf ../artifacts"))
    assert done.done.code == 0, done.done.err
    assert done.bundle.agent is not None
    assert "WORKSPACE_TAMPERED" in [warning.code for warning in done.bundle.agent.warnings]


async def test_files_of_hooks_beside_the_results_are_kept(runs: RunBench) -> None:
    before = {"name": "script", "config": {"command": "/bin/sh", "args": ["-c", "echo mine > $ARTIFACTS_DIR/mine.txt"]}}
    done = await runs.run(runs.program(EDIT), pre_execution=[before])
    assert done.done.code == 0, done.done.err
    assert (done.artifacts / "mine.txt").read_text() == "mine\n"
    assert done.bundle.agent is not None
    assert done.bundle.agent.warnings == ()
