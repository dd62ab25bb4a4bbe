"""Two hats, played by the real Claude Code CLI: its Bash tool calls the real `ralph`."""

from __future__ import annotations

from claude_loop import ClaudeLoop

from agent_clis import NEWEST
from claude_bench import ClaudeBench, bash, prompt_of, says, script, versions
from systems import posix_only
from youbencha.events import IterationStarted, TopicPublished, WarningRaised
from youbencha.loop.tasks import TaskList

HATS = {
    "builder": {
        "triggers": ["work.start", "review.rejected"],
        "publishes": ["build.done"],
        "instructions": "Make one change.",
    },
    "reviewer": {
        "triggers": ["build.done"],
        "publishes": ["review.rejected", "SHIP_IT"],
        "instructions": "Read the change.",
    },
}
TASK = 'id=$(ralph tools task ensure "Make it" --key it --format quiet)'


@posix_only("a console of Windows changes what a program prints")
@versions(NEWEST)
async def test_claude_wears_two_hats(claude: ClaudeBench) -> None:
    loop = ClaudeLoop(claude)
    loop.configure(
        event_loop={
            "starting_event": "work.start",
            "completion_promise": "SHIP_IT",
            "required_events": ["build.done"],
            "checkpoint_interval": 0,
        },
        hats=HATS,
    )
    done = await loop.run_script(
        script(
            bash(f'{TASK}; ralph tools task start "$id"; "$RALPH_BIN" emit build.done --json \'{{"files": 2}}\''),
            says("I say SHIP_IT once a reviewer has seen it."),
            bash(f'{TASK}; ralph tools task close "$id"; ralph emit SHIP_IT "both are there"'),
            says("The work is done."),
        )
    )
    assert done.state.outcome == "completed", done.reasons
    assert [event.hat for event in done.of(IterationStarted)] == ["builder", "reviewer"]
    published = [(event.topic, event.payload) for event in done.of(TopicPublished)]
    assert published == [("build.done", '{"files":2}'), ("SHIP_IT", "both are there")]
    builder, reviewer = (prompt_of(request) for request in done.requests[::2])
    assert ("Make one change." in builder, "Make one change." in reviewer) == (True, False)
    assert '{"files":2}' in reviewer
    assert [(task.title, task.status) for task in TaskList(loop.tree).all()] == [("Make it", "closed")]
    assert done.of(WarningRaised) == []
