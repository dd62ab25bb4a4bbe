"""What happened in a run, in order: its events are recorded in a file, and folded into entries.

- `recording.py` writes events to `transcript.jsonl` (of a loop: `recording.jsonl`) as they happen, and reads them.
- `model.py` and `session.py` fold events into a `Transcript`: sessions, and in them a `TranscriptEntry` for each
  text, tool call, model call, wait …, with its time and a stable id.
- `reader.py` reads a transcript from its file, follows it, and loads long texts when they are needed.
"""
