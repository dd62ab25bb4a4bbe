"""Run programs without a shell, with bounded output, an enforced deadline, and no process left behind."""

from youbencha.process.model import (
    OUTPUT_LIMIT_BYTES,
    Command,
    Exit,
    Input,
    LimitHit,
    Limits,
    OutputSource,
    ProcessResult,
    Running,
    RunOptions,
    Started,
    System,
)
from youbencha.process.output import TRUNCATION_MARK, LineSink, OutputEnd, Stream
from youbencha.process.program import ProcessStartError, find_executable
from youbencha.process.redact import RedactedStream, Redactor
from youbencha.process.run import run, warm_up

__all__ = [
    "OUTPUT_LIMIT_BYTES",
    "TRUNCATION_MARK",
    "Command",
    "Exit",
    "Input",
    "LimitHit",
    "Limits",
    "LineSink",
    "OutputEnd",
    "OutputSource",
    "ProcessResult",
    "ProcessStartError",
    "RedactedStream",
    "Redactor",
    "RunOptions",
    "Running",
    "Started",
    "Stream",
    "System",
    "find_executable",
    "run",
    "warm_up",
]
