"""The first files of a project: a test case to begin with, and the judge's definition for each agent."""

from youbencha.scaffold.agent_files import AGENT_FILES, install_agent_files
from youbencha.scaffold.files import FileResult
from youbencha.scaffold.project import TEST_CASE_FILE, begin_project

__all__ = ["AGENT_FILES", "TEST_CASE_FILE", "FileResult", "begin_project", "install_agent_files"]
