"""Run programs: no shell, bounded output, a deadline that holds, and no process left behind."""

from youbencha.process.capture import TRUNCATION_MARK
from youbencha.process.errors import ProcessStartError
from youbencha.process.input import Input
from youbencha.process.lines import LineSink, Stream
from youbencha.process.lookup import find_executable
from youbencha.process.model import OUTPUT_LIMIT_BYTES, Command, Exit, Limits, ProcessResult, Started
from youbencha.process.options import RunOptions
from youbencha.process.redact import RedactedStream, Redactor
from youbencha.process.run import get_ready, run
from youbencha.process.systems.base import Running, Source, System

__all__ = [
    "OUTPUT_LIMIT_BYTES",
    "TRUNCATION_MARK",
    "Command",
    "Exit",
    "Input",
    "Limits",
    "LineSink",
    "ProcessResult",
    "ProcessStartError",
    "RedactedStream",
    "Redactor",
    "RunOptions",
    "Running",
    "Source",
    "Started",
    "Stream",
    "System",
    "find_executable",
    "get_ready",
    "run",
]
