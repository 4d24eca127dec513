#!/usr/bin/env python3
"""bench/guard.py on commands that print times of our choice: it fails for a slower build, and names the step."""
import json
import os
import pathlib
import stat
import subprocess
import sys
import tempfile
import unittest

GUARD = pathlib.Path(__file__).resolve().parent.parent / "bench/guard.py"


def build(folder, name, ms, steps):
    """A command that takes as many milliseconds in each step, in f32; in bf16 always 1."""
    path = pathlib.Path(folder) / name
    results = {"step": {"ms_median": ms}, "profile": {"steps": [{"name": n, "ms": t} for n, t in steps.items()]}}
    path.write_text(f"#!{sys.executable}\nimport json, sys\nresults = json.loads({json.dumps(results)!r})\n"
                    "if sys.argv[1] == 'profile': print(json.dumps(results['profile']))\n"
                    "elif 'bf16' in sys.argv: print(json.dumps({'ms_median': 1.0}))\n"
                    "else: print(json.dumps(results['step']))\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


class Guard(unittest.TestCase):
    def guard(self, old_ms, new_ms, *more):
        with tempfile.TemporaryDirectory() as folder:
            old = build(folder, "old", old_ms, {"conv1 conv": 4, "fc matmul": 3})
            new = build(folder, "new", new_ms, {"conv1 conv": 4, "fc matmul": 3 + new_ms - old_ms})
            out = os.path.join(folder, "out.json")
            done = subprocess.run([sys.executable, GUARD, old, new, *(more or ["mlp_b64"]), "--steps", "3", "--limit", "1", "--out", out],
                                  capture_output=True, text=True, check=False)
            rows = json.loads(pathlib.Path(out).read_text())["rows"] if os.path.exists(out) else []
        return done, rows

    def test_a_build_that_is_as_fast_passes(self):
        done, rows = self.guard(10.0, 10.2)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("2 of 2 rows are not slower", done.stdout)
        self.assertEqual([r["precision"] for r in rows], ["fp32", "bf16"])

    def test_a_slower_build_fails_and_its_slower_step_is_named(self):
        done, rows = self.guard(10.0, 11.0)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn("SLOWER", done.stdout)
        self.assertIn("fc matmul", done.stdout)
        self.assertNotIn("conv1 conv", done.stdout)
        self.assertEqual(rows[0]["slower_steps"], [["fc matmul", 3, 4.0]])
        self.assertNotIn("slower_steps", rows[1])

    def test_an_unknown_workload_is_refused_by_name(self):
        done, _ = self.guard(1.0, 1.0, "mpl_b64")
        self.assertEqual(done.returncode, 2)
        self.assertIn("mpl_b64", done.stderr)


if __name__ == "__main__":
    unittest.main()
