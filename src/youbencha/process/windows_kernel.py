"""Windows calls that Python does not offer: job objects, and files opened only for appending.

A job contains every process that a program starts, detached or not, and closing its last handle ends them all: so the
tree ends with the harness, however that ended.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

_KILL_ON_JOB_CLOSE = 0x2000
_BASIC_ACCOUNTING, _PROCESS_IDS, _EXTENDED_LIMITS = 1, 3, 9
_MOST_PROCESS_IDS = 1024
_MORE_DATA = 234
_CREATE_SUSPENDED, _CREATE_NEW_PROCESS_GROUP, _CREATE_NO_WINDOW = 0x4, 0x200, 0x0800_0000
_SET_QUOTA_TERMINATE = 0x0100 | 0x0001
_APPEND_DATA, _SYNCHRONIZE, _DELETE = 0x0004, 0x0010_0000, 0x0001_0000
_SHARE_ALL, _OPEN_EXISTING, _DELETE_ON_CLOSE = 0x7, 3, 0x0400_0000
_INVALID_HANDLE = ctypes.c_void_p(-1).value
_TICKS_PER_SECOND = 10_000_000

ENDED_BY_US = 1
"""The exit code of the processes of a job that we ended."""


@dataclass(frozen=True, slots=True)
class JobUsage:
    active: int
    cpu_s: float
    peak_bytes: int


class Kernel(Protocol):
    def create_job(self) -> int:
        """A job whose processes end when its last handle is closed."""
        ...

    def start_suspended(
        self, argv: Sequence[str] | str, *, cwd: str, env: dict[str, str], stdin: int, stdout: int, stderr: int
    ) -> subprocess.Popen[bytes]: ...

    def process_handle(self, process: subprocess.Popen[bytes]) -> int:
        """Return the handle, which `process` still owns."""
        ...

    def open_process(self, pid: int) -> int: ...

    def assign(self, job: int, process: int) -> None: ...

    def resume(self, process: int) -> None: ...

    def usage(self, job: int) -> JobUsage: ...

    def processes(self, job: int) -> list[int]:
        """The ids of the processes in the job; the first thousand or so, if there are more."""
        ...

    def terminate(self, job: int) -> None: ...

    def close(self, handle: int) -> None: ...

    def open_to_append(self, path: str) -> int:
        """Return a descriptor that always appends to the file, which is deleted when its last handle is closed."""
        ...


class _BasicLimits(ctypes.Structure):
    _fields_ = (
        ("PerProcessUserTimeLimit", ctypes.c_int64),
        ("PerJobUserTimeLimit", ctypes.c_int64),
        ("LimitFlags", ctypes.c_uint32),
        ("MinimumWorkingSetSize", ctypes.c_size_t),
        ("MaximumWorkingSetSize", ctypes.c_size_t),
        ("ActiveProcessLimit", ctypes.c_uint32),
        ("Affinity", ctypes.c_size_t),
        ("PriorityClass", ctypes.c_uint32),
        ("SchedulingClass", ctypes.c_uint32),
    )


class _ExtendedLimits(ctypes.Structure):
    _fields_ = (
        ("BasicLimitInformation", _BasicLimits),
        ("IoInfo", ctypes.c_uint64 * 6),
        ("ProcessMemoryLimit", ctypes.c_size_t),
        ("JobMemoryLimit", ctypes.c_size_t),
        ("PeakProcessMemoryUsed", ctypes.c_size_t),
        ("PeakJobMemoryUsed", ctypes.c_size_t),
    )


class _Accounting(ctypes.Structure):
    _fields_ = (
        ("TotalUserTime", ctypes.c_int64),
        ("TotalKernelTime", ctypes.c_int64),
        ("ThisPeriodTotalUserTime", ctypes.c_int64),
        ("ThisPeriodTotalKernelTime", ctypes.c_int64),
        ("TotalPageFaultCount", ctypes.c_uint32),
        ("TotalProcesses", ctypes.c_uint32),
        ("ActiveProcesses", ctypes.c_uint32),
        ("TotalTerminatedProcesses", ctypes.c_uint32),
    )


class _ProcessIds(ctypes.Structure):
    _fields_ = (
        ("NumberOfAssignedProcesses", ctypes.c_uint32),
        ("NumberOfProcessIdsInList", ctypes.c_uint32),
        ("ProcessIdList", ctypes.c_size_t * _MOST_PROCESS_IDS),
    )


_WINDOWS_ONLY = "only on Windows; tests on other systems use a fake kernel"


def _library(name: str) -> Any:
    if sys.platform != "win32":
        raise NotImplementedError(_WINDOWS_ONLY)
    return ctypes.WinDLL(name, use_last_error=True)


def _last_error() -> OSError:
    if sys.platform != "win32":
        raise NotImplementedError(_WINDOWS_ONLY)
    return ctypes.WinError(ctypes.get_last_error())


def _as_descriptor(handle: int) -> int:
    if sys.platform != "win32":
        raise NotImplementedError(_WINDOWS_ONLY)
    import msvcrt

    return msvcrt.open_osfhandle(handle, os.O_APPEND)


class WindowsKernel:
    def __init__(self) -> None:
        self._kernel32 = _library("kernel32")
        self._ntdll = _library("ntdll")
        handle, dword, pointer = ctypes.c_void_p, ctypes.c_uint32, ctypes.c_void_p
        self._declare("CreateJobObjectW", handle, pointer, ctypes.c_wchar_p)
        self._declare("SetInformationJobObject", ctypes.c_int, handle, ctypes.c_int, pointer, dword)
        self._declare("QueryInformationJobObject", ctypes.c_int, handle, ctypes.c_int, pointer, dword, pointer)
        self._declare("AssignProcessToJobObject", ctypes.c_int, handle, handle)
        self._declare("TerminateJobObject", ctypes.c_int, handle, dword)
        self._declare("OpenProcess", handle, dword, ctypes.c_int, dword)
        self._declare("CloseHandle", ctypes.c_int, handle)
        self._declare("CreateFileW", handle, ctypes.c_wchar_p, dword, dword, pointer, dword, dword, handle)
        self._ntdll.NtResumeProcess.argtypes = (handle,)
        self._ntdll.NtResumeProcess.restype = ctypes.c_int32

    def create_job(self) -> int:
        job: int = self._call("CreateJobObjectW", None, None)
        limits = _ExtendedLimits()
        limits.BasicLimitInformation.LimitFlags = _KILL_ON_JOB_CLOSE
        try:
            size = ctypes.sizeof(limits)
            self._call("SetInformationJobObject", job, _EXTENDED_LIMITS, ctypes.byref(limits), size)
        except OSError:
            self.close(job)
            raise
        return job

    def start_suspended(
        self, argv: Sequence[str] | str, *, cwd: str, env: dict[str, str], stdin: int, stdout: int, stderr: int
    ) -> subprocess.Popen[bytes]:
        # Suspended, so that it cannot start anything before it is in the job. No window: a console program that is
        # started by a harness without a console would open one.
        return subprocess.Popen(
            argv,
            cwd=cwd,
            env=env,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            creationflags=_CREATE_SUSPENDED | _CREATE_NEW_PROCESS_GROUP | _CREATE_NO_WINDOW,
        )

    def process_handle(self, process: subprocess.Popen[bytes]) -> int:
        # The documented OpenProcess takes an id, which another process may have by now.
        return int(vars(process)["_handle"])

    def open_process(self, pid: int) -> int:
        handle: int = self._call("OpenProcess", _SET_QUOTA_TERMINATE, 0, pid)
        return handle

    def assign(self, job: int, process: int) -> None:
        self._call("AssignProcessToJobObject", job, process)

    def resume(self, process: int) -> None:
        status = self._ntdll.NtResumeProcess(process)
        if status < 0:
            raise OSError(f"NtResumeProcess failed with status {status & 0xFFFF_FFFF:#010x}")

    def usage(self, job: int) -> JobUsage:
        accounting: Any = self._query(job, _BASIC_ACCOUNTING, _Accounting())
        limits: Any = self._query(job, _EXTENDED_LIMITS, _ExtendedLimits())
        ticks = accounting.TotalUserTime + accounting.TotalKernelTime
        return JobUsage(accounting.ActiveProcesses, ticks / _TICKS_PER_SECOND, limits.PeakProcessMemoryUsed)

    def processes(self, job: int) -> list[int]:
        ids = _ProcessIds()
        try:
            self._query(job, _PROCESS_IDS, ids)
        except OSError as error:
            if getattr(error, "winerror", None) != _MORE_DATA:  # the list is then as full as it can be
                raise
        return list(ids.ProcessIdList[: ids.NumberOfProcessIdsInList])

    def terminate(self, job: int) -> None:
        self._call("TerminateJobObject", job, ENDED_BY_US)

    def close(self, handle: int) -> None:
        self._call("CloseHandle", handle)

    def open_to_append(self, path: str) -> int:
        # The C library's O_APPEND applies only to that process; append-only access also to processes that inherit it.
        access = _APPEND_DATA | _SYNCHRONIZE | _DELETE
        handle = self._call("CreateFileW", path, access, _SHARE_ALL, None, _OPEN_EXISTING, _DELETE_ON_CLOSE, None)
        if handle == _INVALID_HANDLE:
            raise _last_error()
        return _as_descriptor(handle)

    def _query(self, job: int, kind: int, answer: ctypes.Structure) -> ctypes.Structure:
        self._call("QueryInformationJobObject", job, kind, ctypes.byref(answer), ctypes.sizeof(answer), None)
        return answer

    def _call(self, name: str, *arguments: Any) -> Any:
        result = getattr(self._kernel32, name)(*arguments)
        if not result:
            raise _last_error()
        return result

    def _declare(self, name: str, result: Any, *arguments: Any) -> None:
        function = getattr(self._kernel32, name)
        function.restype = result
        function.argtypes = arguments
