"""Run `ralph emit` and `ralph tools`, which agents call often: nothing else of the command line is loaded."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from youbencha.loop.agent_commands import Answer, Place, answer
from youbencha.loop.topics import LOOP_VARIABLE, events_of_project, find_project


def call(arguments: Sequence[str]) -> int:
    """Run the command, print its answer, and return its exit code."""
    try:
        project = find_project(os.environ, Path.cwd())
        place = Place(project, events_of_project(os.environ, project), os.environ.get(LOOP_VARIABLE))
        done = answer(arguments, place)
    except OSError as error:  # the current directory is gone
        done = Answer(f"error {error}", 2)
    if done.text:
        with suppress(BrokenPipeError):
            print(done.text, file=sys.stderr if done.code else sys.stdout, flush=True)
    return done.code
