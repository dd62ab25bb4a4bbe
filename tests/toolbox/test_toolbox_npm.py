from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from platform import machine

import pytest
from toolbox_packages import Registry, needs_npm, node_says, posix, says

from youbencha.errors import YouBenchaError
from youbencha.sandbox.toolbox.installed import command_for, require_node
from youbencha.sandbox.toolbox.toolbox import Toolbox

pytestmark = [posix, needs_npm]

CLAUDE = "@anthropic-ai/claude-code"
TRAP = "require('fs').writeFileSync(process.env.TRAP, '')"


def add_native(registry: Registry, version: str, binaries: dict[str, str]) -> None:
    """As the real package is built: a placeholder, a postinstall script, a package for each platform."""
    for platform, text in binaries.items():
        registry.add(f"{CLAUDE}-{platform}", version, {"claude": text})
    files = {"bin/claude.exe": "exit 1\n", "install.cjs": TRAP}
    registry.add(
        CLAUDE,
        version,
        files,
        bin={"claude": "bin/claude.exe"},
        scripts={"postinstall": "node install.cjs"},
        optionalDependencies={f"{CLAUDE}-{platform}": version for platform in binaries},
    )


async def test_a_script_is_its_own_executable(toolbox: Toolbox, registry: Registry) -> None:
    registry.add(CLAUDE, "1.0.128", {"cli.js": node_says("1.0.128")}, bin={"claude": "cli.js"})
    have = await toolbox.install("claude-code", "1.0.128")
    assert (have.version, have.source, have.package) == ("1.0.128", "npm", f"{CLAUDE}@1.0.128")
    assert have.executable.name == "cli.js"
    assert have.needs_node
    assert subprocess.run(have.command, capture_output=True, text=True).stdout == "1.0.128 (Claude Code)\n"
    toolbox.verify(have)


async def test_the_native_binary_is_preferred_and_no_script_runs(
    toolbox: Toolbox, registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even if the user omits optional packages, as that of the binary is."""
    trap = tmp_path / "a script ran"
    monkeypatch.setenv("npm_config_omit", "optional")
    monkeypatch.setenv("TRAP", str(trap))
    add_native(registry, "2.1.200", {"linux-x64": says("2.1.200")})
    have = await toolbox.install("claude-code", "2.1.200")
    assert have.executable.parent.name == "claude-code-linux-x64"
    assert not have.needs_node
    assert not trap.exists()


async def test_the_first_of_several_builds_that_runs_is_used(toolbox: Toolbox, registry: Registry) -> None:
    add_native(registry, "2.1.200", {"linux-x64": "#!/no/such/loader\n", "linux-x64-musl": says("2.1.200")})
    have = await toolbox.install("claude-code", "2.1.200")
    assert have.executable.parent.name == "claude-code-linux-x64-musl"


async def test_without_a_version_it_is_the_latest(toolbox: Toolbox, registry: Registry) -> None:
    for version in ("0.9.0", "0.10.0"):
        registry.add("@openai/codex", version, {"codex.js": node_says(version)}, bin="codex.js")
    assert (await toolbox.install("codex", "latest")).version == "0.10.0"


async def test_a_version_that_does_not_exist(toolbox: Toolbox, registry: Registry) -> None:
    registry.add("@openai/codex", "0.9.0", {"codex.js": node_says("0.9.0")}, bin="codex.js")
    with pytest.raises(YouBenchaError) as caught:
        await toolbox.install("codex", "0.9.1")
    assert caught.value.code == "AGENT_VERSION_NOT_FOUND"
    assert "0.9.1" in caught.value.message
    assert "npm view @openai/codex versions" in str(caught.value)
    assert toolbox.installed() == []


async def test_part_of_a_version_does_not_match(toolbox: Toolbox, registry: Registry) -> None:
    for version in ("0.9.0", "0.9.1"):
        registry.add("@openai/codex", version, {"codex.js": node_says(version)}, bin="codex.js")
    with pytest.raises(YouBenchaError) as caught:
        await toolbox.install("codex", "0.9")
    assert caught.value.code == "AGENT_VERSION_NOT_FOUND"


@pytest.mark.parametrize("needed", ["absent", "@scope/absent", "present", "@scope/present"])
async def test_a_missing_dependency_is_not_a_missing_version(needed: str, toolbox: Toolbox, registry: Registry) -> None:
    for name in ("present", "@scope/present"):
        registry.add(name, "1.0.0", {})
    fields = {"bin": "codex.js", "dependencies": {needed: "^2.1.0"}}
    registry.add("@openai/codex", "0.9.0", {"codex.js": node_says("0.9.0")}, **fields)
    with pytest.raises(YouBenchaError) as caught:
        await toolbox.install("codex", "0.9.0")
    assert caught.value.code == "AGENT_DEPENDENCY_NOT_FOUND"
    assert f"@openai/codex: it needs {needed}@^2.1.0, which cannot be found" in caught.value.message
    assert "Try another version" in (caught.value.hint or "")


async def test_a_missing_program_for_this_platform(toolbox: Toolbox, registry: Registry) -> None:
    """npm installs the package without it, and says nothing."""
    systems = [f"{system}-{cpu}" for system in ("linux", "darwin", "win32") for cpu in ("x64", "arm64")]
    optional = {f"{CLAUDE}-{system}": "2.1.200" for system in systems}
    files = {"bin/claude.exe": "echo 'install scripts did not run'; exit 1\n"}
    registry.add(CLAUDE, "2.1.200", files, bin={"claude": "bin/claude.exe"}, optionalDependencies=optional)
    with pytest.raises(YouBenchaError) as caught:
        await toolbox.install("claude-code", "2.1.200", source="npm")
    assert caught.value.code == "AGENT_DEPENDENCY_NOT_FOUND"
    here = f"{CLAUDE}-{sys.platform}-{'x64' if machine() in ('x86_64', 'AMD64') else 'arm64'}@2.1.200"
    assert f"{CLAUDE}@2.1.200 needs {here}, which npm could not find" in caught.value.message
    assert toolbox.installed() == []


async def test_an_unreachable_registry(toolbox: Toolbox, registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("npm_config_registry", "http://127.0.0.1:9/")
    with pytest.raises(YouBenchaError) as caught:
        await toolbox.install("codex")
    assert caught.value.code == "TOOLBOX_NETWORK"


async def test_a_computer_without_npm(toolbox: Toolbox, only_programs: Path) -> None:
    with pytest.raises(YouBenchaError) as caught:
        await toolbox.install("codex")
    assert caught.value.code == "NPM_NOT_FOUND"
    assert "Node.js" in str(caught.value)
    assert "`npm`" in str(caught.value)


def test_a_computer_without_node(only_programs: Path) -> None:
    with pytest.raises(YouBenchaError) as caught:
        require_node("this version of codex")
    assert caught.value.code == "NODE_NOT_FOUND"
    (only_programs / "node").symlink_to("/bin/sh")
    assert require_node("this version of codex") == only_programs / "node"


def test_on_windows_node_is_started_by_its_full_path(tmp_path: Path) -> None:
    script, node = tmp_path / "cli.js", tmp_path / "node.exe"
    with pytest.raises(YouBenchaError, match=r"cli\.js is a JavaScript program"):
        command_for(script, {"PATH": str(tmp_path)}, "win32")
    node.touch()
    assert command_for(script, {"Path": str(tmp_path)}, "win32") == (str(node), str(script))
    assert command_for(script, {}, "linux") == (str(script),)
    assert command_for(tmp_path / "codex.exe", {}, "win32") == (str(tmp_path / "codex.exe"),)


async def test_npms_global_configuration_is_used_but_no_projects(
    toolbox: Toolbox, registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a company's registry is set for everybody; what a project around the toolbox says does not."""
    (tmp_path / "package.json").write_text('{"name": "theirs"}')
    (tmp_path / ".npmrc").write_text("registry=http://127.0.0.1:9/\n")
    monkeypatch.delenv("npm_config_registry")
    monkeypatch.setenv("npm_config_prefix", str(tmp_path / "prefix"))
    (tmp_path / "prefix" / "etc").mkdir(parents=True)
    (tmp_path / "prefix" / "etc" / "npmrc").write_text(f"registry={registry.url}\n")
    registry.add("@openai/codex", "0.0.1", {"codex.js": node_says("0.0.1")}, bin="codex.js")
    have = await toolbox.install("codex")
    assert have.version == "0.0.1"
    assert toolbox.root in have.executable.parents
    assert (tmp_path / "package.json").read_text() == '{"name": "theirs"}'
    assert not (tmp_path / "node_modules").exists()
