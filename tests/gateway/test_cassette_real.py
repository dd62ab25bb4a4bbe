"""The real Claude Code, recorded in one directory and replayed in another: the same files, and no model asked."""

from __future__ import annotations

import subprocess
from pathlib import Path

from cassette_helpers import Proxy, everything_in, proxied

from agent_clis import NEWEST, OLD
from claude_bench import API_KEY, ClaudeBench, Session, bash, full, says, script, versions
from youbencha.gateway.cassette.cassette import Cassette
from youbencha.gateway.cassette.matching import Places
from youbencha.sandbox.toolbox.installed import InstalledAgent
from youbencha.scripted_model import ScriptedModel

GIT = ("git", "-c", "user.name=Test", "-c", "user.email=test@example.org", "-c", "commit.gpgsign=false")
ANSWERS = script(
    {
        "thinking": "I look first.",
        "text": "I write into ${workspace}.",
        "tools": [
            {
                "name": "Write",
                "input": {"file_path": "${workspace}/new.txt", "content": "from ${workspace}\n{{workspace}}\n"},
            },
            {"name": "Bash", "input": {"command": "ls -la; date; pwd; git log -3; mktemp", "description": "a look"}},
        ],
    },
    {"tools": [{"name": "Read", "input": {"file_path": "${workspace}/new.txt"}}]},
    bash("seq 1 20000; git commit -qam done; git log --oneline"),
    says("Done, in ${workspace}."),
)


def prepared(cli: InstalledAgent, directory: Path) -> ClaudeBench:
    """A repository with a commit of its own: another hash, another date."""
    claude = ClaudeBench(cli, directory)
    (claude.workspace / "README.md").write_text("# Shop\n")
    for arguments in (("init", "-q", "-b", "main"), ("add", "-A"), ("commit", "-q", "-m", "first")):
        subprocess.run([*GIT, *arguments], cwd=claude.workspace, check=True)
    return claude


def places(claude: ClaudeBench) -> Places:
    return Places((("workspace", claude.workspace), ("home", claude.home)))


async def run(claude: ClaudeBench, proxy: Proxy, unused: ScriptedModel) -> Session:
    result = await claude.adapter().execute(context := claude.context(unused, env={"ANTHROPIC_BASE_URL": proxy.url}))
    return Session(result, claude.adapter().normalize_log(result, context), list(unused.requests), [])


@versions(NEWEST, full(OLD))
async def test_record_in_one_directory_and_replay_in_another(claude_cli: InstalledAgent, tmp_path: Path) -> None:
    cassette = tmp_path / "cassette"
    here = prepared(claude_cli, tmp_path / "here")
    async with here.model(ANSWERS) as model, proxied(Cassette(cassette, "record"), places(here), model.url) as proxy:
        recorded = await run(here, proxy, model)
    assert recorded.result.status == "success", recorded.result
    assert len(recorded.main_requests) == 4

    there = prepared(claude_cli, tmp_path / "else where" / "deeper.dir")
    replaying = Cassette(cassette, "replay")
    async with there.model(script(says("Never asked."))) as model, proxied(replaying, places(there)) as proxy:
        replayed = await run(there, proxy, model)
    assert proxy.unmatched == []
    assert replayed.result.status == "success", replayed.result
    assert replayed.requests == [], "no model was asked"
    assert (there.workspace / "new.txt").read_text() == f"from {there.workspace}\n{{{{workspace}}}}\n"
    assert [call.name for call in replayed.log.tool_calls] == [call.name for call in recorded.log.tool_calls]
    assert replayed.log.usage == recorded.log.usage
    assert f"Done, in {there.workspace}." in replayed.result.output

    everything = everything_in(cassette)
    assert API_KEY.encode() not in everything
    assert str(tmp_path).encode() not in everything
    assert len(everything) < 400_000
