#!/usr/bin/env python3
"""Random tables as `freight data info` reads them, beside pandas' read_csv and read_json.

usage: tests/tables_readers_peers.py BUILD_DIR [--tables N] [--seed S] [--keep DIR]

A table has columns of several types, in CSV of any separator, quoting, encoding, byte order mark and line end, with a header or
without, or in JSON lines; its cells have missing values in the spellings of pandas, R, SQL and Excel, thousands separators, decimal
commas, two-digit years, identifiers of 19 digits. Of each column the kind, the missing and the different cells, the least and the
greatest number, the mean, and the most frequent category are compared with pandas'. Each difference must have a note of the column or
of the table that says how it was read, or an error that names the file. Ends with 77 where pandas is not there.
"""
import argparse
import collections
import json
import math
import pathlib
import random
import re
import subprocess
import sys
import tempfile

SKIPPED = 77
USUAL_MISSING = ("", "NA", "NaN", "None", "null", "NULL", "n/a", "#N/A", "<NA>")  # of pandas
OTHER_MISSING = ("?", "\\N", "#DIV/0!", "(null)", "NaT", ".", "-", "--", "none")
WORDS = ("red", "green", "blue", "New York", "a,b", 'say "no"', "x;y", "Zoë", "naïve", "東京", "-x", "1st", "B-12", "None of it")


class Column:
    """Cells as texts, by a kind."""

    def __init__(self, random_, rows, decimal):
        self.random = random_
        self.kind = random_.choice(("integer", "number", "number", "word", "word", "yesno", "date", "big", "thousands", "exponent", "nearly",
                                    "short year", "padded"))
        made = getattr(self, "_" + self.kind.replace(" ", "_"))
        order = random_.choice(("mdy", "dmy"))
        self.cells = [made(decimal, order) for _ in range(rows)]
        words = random_.sample(WORDS, 4)
        if self.kind == "word":
            self.cells = [random_.choice(words) for _ in range(rows)]
        if self.kind == "nearly":
            for i in range(rows):
                if random_.random() < 0.1:
                    self.cells[i] = random_.choice(("wide", "12 m", "ca. 3"))
        if random_.random() < 0.5:
            spellings = random_.sample(USUAL_MISSING, 2) + (random_.sample(OTHER_MISSING, 1) if random_.random() < 0.4 else [])
            for i in range(rows):
                if random_.random() < 0.15:
                    self.cells[i] = random_.choice(spellings)

    def _integer(self, decimal, order):
        return str(self.random.randint(-50, 1000))

    def _number(self, decimal, order):
        return f"{self.random.gauss(0, 30):.{self.random.choice((1, 2, 4))}f}".replace(".", decimal)

    def _exponent(self, decimal, order):
        return f"{self.random.gauss(0, 1):.3e}".replace(".", decimal)

    def _nearly(self, decimal, order):
        return str(self.random.randint(0, 9))

    def _padded(self, decimal, order):
        return f"{self.random.randint(0, 999):05d}"

    def _word(self, decimal, order):
        return ""

    def _yesno(self, decimal, order):
        return self.random.choice(("True", "False"))

    def _date(self, decimal, order):
        return f"2024-{self.random.randint(1, 12):02d}-{self.random.randint(1, 28):02d}"

    def _short_year(self, decimal, order):
        day, month, year = self.random.randint(1, 28), self.random.randint(1, 12), self.random.randint(10, 29)
        return f"{day}/{month}/{year}" if order == "dmy" else f"{month}/{day}/{year}"

    def _big(self, decimal, order):
        return str(10**18 + self.random.randrange(10**17))

    def _thousands(self, decimal, order):
        text = f"{self.random.uniform(0, 3e6):,.2f}"
        return text if decimal == "." else text.replace(",", " ").replace(".", ",").replace(" ", ".")


class Table:
    def __init__(self, seed):
        r = self.random = random.Random(seed)
        self.rows = r.randint(25, 120)
        self.form = "jsonl" if r.random() < 0.12 else "csv"
        self.separator = r.choice((",", ",", ";", "\t", "|"))
        self.decimal = "," if self.separator == ";" and r.random() < 0.5 else "."
        self.columns = [Column(r, self.rows, self.decimal) for _ in range(r.randint(2, 6))]
        self.header = r.choice(("words", "words", "words", "places", "years", "none", "index", "odd words"))
        self.encoding = r.choice(("utf-8", "utf-8", "utf-8-sig", "utf-16", "latin-1"))
        if self.form == "jsonl":
            self.header, self.encoding = "words", "utf-8"
        width = len(self.columns)
        self.names = [f"c{i}" for i in range(width)]
        if self.header == "places":
            self.names = [str(i) for i in range(width)]
        elif self.header == "years":
            self.names = ["region", *(str(2018 + i) for i in range(1, width))]
        elif self.header == "odd words":
            self.names = [f"{r.choice(('size (m)', 'Größe', 'a b', 'x,y', 'is 3', 'ID#'))} {i}" for i in range(width)]
        self.index = self.header == "index"

    def field(self, text):
        quote = self.quoting == "all" or any(c in text for c in (self.separator, '"', "\n")) or (self.quoting == "some" and self.random.random() < 0.2)
        return '"' + text.replace('"', '""') + '"' if quote else text

    def write(self, folder):
        self.quoting = self.random.choice(("needed", "some", "all"))
        lines = []
        if self.form == "jsonl":
            for i in range(self.rows):
                row = {}
                for name, column in zip(self.names, self.columns):
                    cell = column.cells[i]
                    plain = column.kind in ("integer", "number", "big") and cell.lstrip("-").replace(".", "").isdigit()
                    row[name] = (json.loads(cell) if plain else cell)
                lines.append(json.dumps(row, ensure_ascii=self.random.random() < 0.5))
            path = pathlib.Path(folder) / "t.jsonl"
        else:
            if self.header != "none":
                lines.append(self.separator.join([""] * self.index + [self.field(n) for n in self.names]))
            order = list(range(self.rows))
            self.random.shuffle(order)
            for i in range(self.rows):
                lines.append(self.separator.join([str(order[i])] * self.index + [self.field(c.cells[i]) for c in self.columns]))
            path = pathlib.Path(folder) / "t.csv"
        end = self.random.choice(("\n", "\n", "\r\n"))
        text = end.join(lines) + self.random.choice((end, end, ""))
        path.write_bytes(text.encode(self.encoding, "replace"))
        return path


def pandas_columns(table, path, pandas):
    """By pandas with nothing said but the form: what a reader who knows the file would type."""
    if table.form == "jsonl":
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]
        texts = pandas.DataFrame(rows)
        kept = {}
        for name in texts:
            cells = [None if v is None or v in USUAL_MISSING else v for v in texts[name].tolist()]
            kept[name] = pandas.Series(cells, dtype=object)
        frame = pandas.DataFrame(kept)
    else:
        frame = pandas.read_csv(path, sep=table.separator, header=None if table.header == "none" else 0, encoding=table.encoding,
                                index_col=None, dtype=str, keep_default_na=True, skip_blank_lines=True)
    out = []
    for name in frame:
        present = frame[name].dropna()
        numbers = pandas.to_numeric(present, errors="coerce") if len(present) else present
        out.append((str(name), present, None if len(present) and numbers.isna().any() else numbers, int(frame[name].isna().sum())))
    return out


def differences(told, name, present, numbers, missing):
    """What pandas has otherwise."""
    kind, found = told["kind"], []
    if told["missing"] != missing:
        found.append(f"missing {told['missing']}, pandas {missing}")
    is_number = numbers is not None and len(numbers) > 0
    by_value = "mean" in told and told["mean"] is not None
    if by_value != is_number:
        whole = is_number and kind in ("identifier", "category") and all(len(str(v).lstrip("-")) >= 16 for v in present)
        if not (whole and told["different"] == present.nunique()):
            found.append(f"read as {kind}, {'numbers' if is_number else 'words'} to pandas")
        return found
    if is_number:
        if told["different"] != numbers.nunique():
            found.append(f"different {told['different']}, pandas {numbers.nunique()}")
        mean = float(numbers.astype(float).mean())
        if not math.isclose(told["mean"], mean, rel_tol=1e-9, abs_tol=1e-12):
            found.append(f"mean {told['mean']}, pandas {mean}")
        ends = [float(v) for v in told["values"].split(" to ")]
        if ends[0] != float(numbers.min()) or ends[-1] != float(numbers.max()):
            found.append(f"values {told['values']}, pandas {numbers.min()} to {numbers.max()}")
    elif kind != "datetime" and len(present):
        counts = collections.Counter(str(v).strip() for v in present)
        if told["different"] != len(counts):
            found.append(f"different {told['different']}, pandas {len(counts)}")
        most = max(counts.values())
        if most > 1 and kind in ("category", "yesno", "constant") and f"({most})" not in told["values"].split(", ")[0] and len(told["values"]) < 60:
            if not any(f"({most})" in part for part in told["values"].split(", ")):
                found.append(f"{told['values']}, pandas {most} of the most frequent")
    return found


def check(table, path, program, pandas):
    """None, or the silent differences of a table; and what became of it."""
    done = subprocess.run([str(program), "data", "info", str(path), "--target", "1" if table.header == "none" else table.names[-1], "--json"],
                          capture_output=True, text=True, check=False)
    if done.returncode != 0:
        error = done.stderr.strip().splitlines()[-1] if done.stderr.strip() else ""
        return ([] if str(path) in error or path.name in error else [f"exit {done.returncode} without the file's name: {error}"]), "refused", error
    said = json.loads(done.stdout)
    theirs = pandas_columns(table, path, pandas)
    if said["header"] != (table.header != "none"):
        return [f"header {said['header']}, the file has {table.header}"] if not said.get("note") else [], "header", said.get("note", "")
    if len(said["columns"]) != len(theirs):
        return [f"{len(said['columns'])} columns, pandas {len(theirs)}"], "columns", ""
    silent, noted = [], 0
    skipped = re.search(r"(\d+) rows? without any value skipped", said.get("note") or "")
    for told, (name, present, numbers, missing) in zip(said["columns"], theirs):
        unlike = differences(told, name, present, numbers, missing - (int(skipped[1]) if skipped else 0))
        if unlike and told["note"]:
            noted += 1
        elif unlike:
            silent.append(f"column {name}: {'; '.join(unlike)}")
    return silent, "noted" if noted else "equal", ""


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("build")
    p.add_argument("--tables", type=int, default=60)
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--keep", help="where tables with silent differences are kept")
    arguments = p.parse_args()
    try:
        import pandas
    except ImportError:
        print("skipped: there is no pandas")
        return SKIPPED
    program = pathlib.Path(arguments.build) / "bin" / "freight"
    became, failed = collections.Counter(), 0
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(arguments.seed, arguments.seed + arguments.tables):
            table = Table(seed)
            path = table.write(folder)
            silent, what, error = check(table, path, program, pandas)
            became[what] += 1
            if error:
                print(f"table {seed}: {what}: {error}")
            for line in silent:
                print(f"table {seed} ({table.form} '{table.separator}' {table.header} {table.encoding}): SILENT: {line}", flush=True)
            failed += bool(silent)
            if silent and arguments.keep:
                pathlib.Path(arguments.keep, f"{seed}{path.suffix}").write_bytes(path.read_bytes())
    print(f"{arguments.tables} tables: " + ", ".join(f"{n} {what}" for what, n in became.most_common()) + f"; {failed} with silent differences")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
