"""The container that an agent runs in: `docker inspect` while it runs."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from golden_files import KEYS, Golden, GoldenBench, tidy, wait_for

from docker_engine import Engine

WAIT = ["/bin/sh", "-c", "until [ -e go ]; do sleep 0.05; done"]
CASES: Mapping[str, Mapping[str, Any]] = {
    "default": {},
    "all options": {"network": "open", "cpus": 1, "memory": "512m", "pids": 100, "disk": "1g", "writable": True},
}
OF_THE_ENGINE = {
    "Config": {"AttachStderr", "AttachStdout", "Hostname"},
    "HostConfig": {"CgroupnsMode", "ConsoleSize", "MaskedPaths", "Mounts", "ReadonlyPaths", "Runtime"},
}
"""What it decides by itself, and differently from version to version; or says twice."""
OF_THE_USER = ("/etc/passwd", "/etc/group")
"""Mounted for users whom the image does not know."""
VARIABLE = ("Image", "User", "nofile", "youbencha.owner", "youbencha.run", "youbencha.sandbox")


def test_container(golden: Golden, bench: GoldenBench, engine: Engine, image: str) -> None:
    bench.setenv(**KEYS)
    bench.make_repository({"README.md": "# Shop\n"})
    golden.check_json("container.json", {name: inspected(bench, engine, image, case) for name, case in CASES.items()})


def inspected(bench: GoldenBench, engine: Engine, image: str, sandbox: Mapping[str, Any]) -> dict[str, Any]:
    before, found = bench.runs(), list[tuple[Path, Any]]()

    def look() -> None:
        directory = wait_for(lambda: next(iter(bench.runs() - before), None))
        label = f"youbencha.run={directory.name}"
        found.append((directory, wait_for(lambda: running(engine, label))))
        (directory / "src-modified" / "go").touch()

    looking = threading.Thread(target=look)
    looking.start()
    agent = {"type": "command", "config": {"command": WAIT, "prompt_by": "none"}, "env": {"SECRET": "of-the-task"}}
    where = {"type": "docker", "image": image, **sandbox}
    bench.run(agent=agent, gateway="builtin", sandbox=where, timeout=60_000)
    looking.join()
    ((directory, container),) = found
    return shown(bench, directory, container, engine.get(f"/images/{image}/json"))


def running(engine: Engine, label: str) -> Any:
    for name in engine.containers(label):
        container = engine.get(f"/containers/{name}/json")
        if container and container["State"]["Running"]:
            return container
    return None


def shown(bench: GoldenBench, directory: Path, container: Any, image: Any) -> dict[str, Any]:
    config, host, brought = container["Config"], container["HostConfig"], image["Config"]
    labels = brought["Labels"] or {}
    config["Env"] = [each for each in config["Env"] if each not in brought["Env"]]
    config["Labels"] = {name: value for name, value in config["Labels"].items() if name not in labels}
    host["Ulimits"] = {each["Name"]: each["Hard"] for each in host["Ulimits"] if each["Hard"] == each["Soft"]}
    mounts = [each for each in container["Mounts"] if each["Destination"] not in OF_THE_USER]
    names = {
        str(directory): "run directory",
        str(bench.root): "root",
        config["Labels"]["youbencha.socket-dir"]: "socket directory",
    }
    return {
        "Config": tidy(said(config, OF_THE_ENGINE["Config"]), names, VARIABLE),
        "HostConfig": tidy(said(host, OF_THE_ENGINE["HostConfig"]), names, VARIABLE),
        "Mounts": sorted(tidy(mounts, names), key=lambda each: str(each["Destination"])),
        "Networks": sorted(container["NetworkSettings"]["Networks"]),
    }


def said(settings: Mapping[str, Any], by_engine: set[str]) -> dict[str, Any]:
    """Without what is empty (newer engines have more such settings) or the engine's own."""
    return {name: value for name, value in settings.items() if value and name not in by_engine}
