#!/usr/bin/env python3
"""tools/run_ctest and tools/test_report on tests that pass, fail, crash, are skipped, take too long or cannot be run."""
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
TESTS = r"""
add_test("check: good" sh -c "echo fine")
add_test("check: bad" sh -c "echo wrong answer; exit 3")
add_test("check: skipped" sh -c "exit 77")
set_tests_properties("check: skipped" PROPERTIES SKIP_RETURN_CODE 77)
add_test("check: slow" sh -c "echo begins; exec sleep 60")
set_tests_properties("check: slow" PROPERTIES TIMEOUT 1)
add_test("check: setup" sh -c "exit 1")
set_tests_properties("check: setup" PROPERTIES FIXTURES_SETUP data)
add_test("check: needs data" sh -c "exit 0")
set_tests_properties("check: needs data" PROPERTIES FIXTURES_REQUIRED data)
add_test("ops, fast 1 of 1" sh group.sh)
"""
GROUP = """cat <<'END'
[==========] Running 6 tests from 2 test suites.
[ RUN      ] Sum.OfTwo
[       OK ] Sum.OfTwo (1500 ms)
[ RUN      ] Sum.OfMany/0
two is not three
words without an end of line[  FAILED  ] Sum.OfMany/0, where GetParam() = 3 (7 ms)
[ RUN      ] Sum.OnAGpu
[  SKIPPED ] Sum.OnAGpu (1 ms)
[ RUN      ] Product.OfNone
about to crash
END
kill -SEGV $$
"""
WANTED = """
failed:
  check: bad (failed)
  check: needs data (Fixture dependency failed)
  check: setup (failed)
  check: slow (failed)
  ops: Product.OfNone (ops, fast 1 of 1 ended in it after 0 s)
  ops: Sum.OfMany/0
2 cases were not run, since the process that was to run them ended before.
2 passed, 6 failed, 2 skipped
"""


def main():
    with tempfile.TemporaryDirectory(prefix="freight-test-report-") as folder:
        folder = pathlib.Path(folder)
        (folder / "CTestTestfile.cmake").write_text(TESTS)
        (folder / "group.sh").write_text(GROUP)
        ran = subprocess.run([ROOT / "tools/run_ctest", folder], capture_output=True, text=True)
        assert ran.returncode != 0, ran
        head, end = ran.stdout.split("\nfailed:\n")
        lines = end.split("\n")
        got = "\nfailed:\n" + "\n".join(sorted(line for line in lines if line.startswith("  ")) +
                                         [line for line in lines if not line.startswith("  ")])
        assert got == WANTED, got
        for text in ("two is not three\n", "---- ops: Product.OfNone", "about to crash", "wrong answer", "begins",
                     "     1.5 s  ops: Sum.OfTwo\n"):
            assert text in head, f"{text!r} is not in {head}"

        ran = subprocess.run([ROOT / "tools/run_ctest", folder, "-R", "good"], capture_output=True, text=True)
        assert ran.returncode == 0 and ran.stdout.endswith("\n1 passed, 0 failed, 0 skipped\n"), ran


if __name__ == "__main__":
    sys.exit(main())
