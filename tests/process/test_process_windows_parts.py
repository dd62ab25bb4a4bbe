"""The parts of the Windows system that need no Windows: quoting for batch files, sizes of structures."""

from __future__ import annotations

import ctypes

import pytest
from hypothesis import given
from hypothesis import strategies as st

from youbencha.process import windows_kernel
from youbencha.process.windows import batch_command_line, is_batch_file


@pytest.mark.parametrize(
    ("argument", "quoted"),
    [
        ("", '""'),
        ("plain-1.txt", "plain-1.txt"),
        ("two words", '"two words"'),
        ("a&b|c<d>e^f", '"a&b|c<d>e^f"'),
        ("%PATH%", '"%%cd:~,%PATH%%cd:~,%"'),
        ('"', '""""'),
        (r"dir" + "\\", r'"dir\\"'),
        (r"a\b", r"a\b"),
        (r"\\" + '"', '"' + "\\" * 4 + '"""'),
        ("é", '"é"'),
    ],
)
def test_quoting_of_batch_file_arguments(argument: str, quoted: str) -> None:
    assert batch_command_line("cmd", ["x.bat", argument]) == f'"cmd" /e:ON /v:OFF /d /c ""x.bat" {quoted}"'


@given(st.text(st.sampled_from('ab"\\% &'), max_size=12))
def test_quotes_of_a_batch_argument_always_balance(argument: str) -> None:
    """Outside quotes `&` would begin a second command."""
    line = (
        batch_command_line("cmd", ["x.bat", argument])
        .removeprefix('"cmd" /e:ON /v:OFF /d /c ""x.bat" ')
        .removesuffix('"')
    )
    inside = False
    for character in line:
        inside ^= character == '"'
        assert inside or character not in "& "
    assert not inside


def test_which_files_are_batch_files() -> None:
    assert [name for name in ("a.cmd", "A.BAT", "a.bat. .", "a.exe", "cmd", "a.cmd.exe") if is_batch_file(name)] == [
        "a.cmd",
        "A.BAT",
        "a.bat. .",
    ]


def test_the_structures_have_the_sizes_that_windows_expects() -> None:
    assert ctypes.sizeof(windows_kernel._BasicLimits) == 64
    assert ctypes.sizeof(windows_kernel._ExtendedLimits) == 144
    assert ctypes.sizeof(windows_kernel._Accounting) == 48
    assert windows_kernel._ProcessIds.ProcessIdList.offset == 8
