"""Lets unittest and pytest report each test to a file, and unittest leave out files in which no test counts.

Every Python of a test command loads this module first: that of the task, of any version from 3.6 on.
`$YOUBENCHA_TEST_REPORT` is the beginning of the report's path, and `$YOUBENCHA_LEFT_OUT` a JSON file with paths.
"""

import importlib.machinery
import json
import os
import sys

_RESULTS = {
    "addSuccess": "passed",
    "addFailure": "failures",
    "addError": "errors",
    "addSkip": "skipped",
    "addExpectedFailure": "skipped",
    "addUnexpectedSuccess": "failures",
}


def _report(test, result):
    module = sys.modules.get(type(test).__module__)
    path = getattr(module, "__file__", None)
    line = {"name": test.id(), "file": os.path.abspath(path) if path else None, "result": result}
    try:
        report = os.open(os.environ["YOUBENCHA_TEST_REPORT"] + "unittest.jsonl", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(report, json.dumps(line).encode() + b"\n")
        os.close(report)
    except (KeyError, OSError):  # the environment was changed, or another user runs the tests: they go on
        pass


def _reporting(method, result):
    def report(self, test, *arguments):
        _report(test, result)
        return method(self, test, *arguments)

    return report


def _reporting_subtest(method):
    def report(self, test, subtest, error):
        if error is not None:
            _report(test, "failures")
        return method(self, test, subtest, error)

    return report


def _separate_reports_of_pytest():
    """Let each pytest of a test command write a report of its own, and those that tests start write to the same."""
    report = os.environ.get("YOUBENCHA_TEST_REPORT", "") + "pytest"
    own = f"{report}-{os.getpid()}.xml"
    options = os.environ.get("PYTEST_ADDOPTS", "")
    if report + ".xml" in options:
        os.environ["PYTEST_ADDOPTS"] = options.replace(report + ".xml", own)
        try:
            with open(own + ".directory", "w", encoding="utf-8") as file:
                file.write(os.getcwd())
        except OSError:  # another user runs the tests: they go on
            pass


def _report_each_test(module):
    for name, result in _RESULTS.items():
        setattr(module.TestResult, name, _reporting(getattr(module.TestResult, name), result))
    module.TestResult.addSubTest = _reporting_subtest(module.TestResult.addSubTest)


def _leave_out_files(module):
    """Change the method that discovery asks for each file, and that is there to be overridden."""
    path = os.environ.get("YOUBENCHA_LEFT_OUT")
    if not path:
        return
    with open(path, encoding="utf-8") as file:
        left_out = set(json.load(file))
    matches = module.TestLoader._match_path

    def match_path(self, name, full_path, pattern):
        return os.path.realpath(full_path) not in left_out and matches(self, name, full_path, pattern)

    module.TestLoader._match_path = match_path


_CHANGES = {"unittest.result": _report_each_test, "unittest.loader": _leave_out_files}


class _Loader:
    def __init__(self, loader, change):
        self._loader, self._change = loader, change

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        self._loader.exec_module(module)
        self._change(module)


class _Finder:
    @staticmethod
    def find_spec(name, path=None, _target=None):
        if name == "_pytest":
            _separate_reports_of_pytest()
        if name not in _CHANGES:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is not None:
            spec.loader = _Loader(spec.loader, _CHANGES[name])
        return spec


if "YOUBENCHA_TEST_REPORT" in os.environ:
    sys.meta_path.insert(0, _Finder)

# The module that this one hides, if there is one.
_here = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [path for path in sys.path if os.path.abspath(path) != _here]
_this = sys.modules.pop("sitecustomize")
try:
    import sitecustomize  # noqa: F401
except ImportError:
    sys.modules["sitecustomize"] = _this
