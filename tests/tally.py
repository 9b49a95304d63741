#!/usr/bin/env python3
"""Runs tests and ends with "N passed, N failed", counting test cases.

  tally.py ctest BUILD_DIR       ctest; each GoogleTest case counts
  tally.py unittest DIR [PATH]   test_*.py below DIR; PATH is added to sys.path
"""

import os
import pathlib
import shutil
import subprocess
import sys
import unittest
import xml.etree.ElementTree as xml


def _gtest_counts(report):
    """(passed, failed) of one GoogleTest XML report. Says what failed, and, in
    unittest's words, what was skipped, which is neither."""
    suites = xml.parse(report).getroot()
    total = int(suites.get("tests", 0)) - int(suites.get("disabled", 0))
    failed = int(suites.get("failures", 0)) + int(suites.get("errors", 0))
    skipped = 0
    for case in suites.iter("testcase"):
        for failure in case.iter("failure"):
            print(f"{case.get('classname')}.{case.get('name')} failed: "
                  f"{failure.get('message')}")
        reason = case.find("skipped")
        if reason is not None:
            skipped += 1
            # The first line says where.
            text = reason.get("message", "").partition("\n")[2]
            print(f"{case.get('classname')}.{case.get('name')} ... "
                  f"skipped {text!r}")
    return total - failed - skipped, failed


def _longest_s(build):
    """That a test program may take: instrumented ones are slow."""
    cache = (pathlib.Path(build) / "CMakeCache.txt").read_text("utf-8")
    return "300" if "GEMMD_SANITIZE:STRING=\n" in cache else "1200"


def run_ctest(build):
    """A test without a report, or one that crashed, counts as one case."""
    reports = pathlib.Path(build).resolve() / "test-reports"
    shutil.rmtree(reports, ignore_errors=True)
    reports.mkdir()
    summary = reports / "ctest.xml"
    subprocess.run(
        ["ctest", "--test-dir", build, "--output-on-failure", "--timeout",
         _longest_s(build), "-j", "2", "--output-junit", summary],
        env={**os.environ, "GTEST_OUTPUT": f"xml:{reports}/"}, check=False)
    passed = failed = 0
    for case in xml.parse(summary).getroot().iter("testcase"):
        ok = case.get("status") == "run"
        report = reports / f"{case.get('name')}.xml"
        good, bad = _gtest_counts(report) if report.exists() else (int(ok), 0)
        passed += good
        failed += bad if ok or bad else 1
    return passed, failed


def run_unittest(folder, *paths):
    sys.path[:0] = [*paths, folder]
    top = folder
    if (pathlib.Path(folder) / "__init__.py").exists():
        top = os.path.dirname(os.path.abspath(folder))
    tests = unittest.defaultTestLoader.discover(folder, top_level_dir=top)
    result = unittest.TextTestRunner(stream=sys.stdout, verbosity=2).run(tests)
    wrong = (result.failures + result.errors
             + [(test, "") for test in result.unexpectedSuccesses])
    # Subtests of one test count as one.
    failed = len({getattr(test, "test_case", test).id() for test, _ in wrong})
    return result.testsRun - failed - len(result.skipped), failed


def main():
    kind, *arguments = sys.argv[1:]
    run = {"ctest": run_ctest, "unittest": run_unittest}[kind]
    passed, failed = run(*arguments)
    print(f"{passed} passed, {failed} failed", flush=True)
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
