#!/usr/bin/env python3
"""Writes sklearn_scores.json: what scikit-learn says of 1,000 random cases, which sklearn_scores_test.cpp makes as well.

Usage: sklearn_scores.py, with scikit-learn 1.9. A case has classes (two to seven) or values, equal answers, weights in
every second one, and in some only one class, or answers for one class alone.
"""
import json
import pathlib
import warnings

import numpy as np
from sklearn import metrics as m

CASES = 1000


class Draws:
    """The generator of both sides: Knuth's MMIX multiplier and increment, upper 31 bits."""

    def __init__(self, seed):
        self.state = seed

    def below(self, n):
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) % 2**64
        return (self.state >> 33) % n


def case_of(number):
    d = Draws(number)
    n = 2 + d.below(38)
    kind = d.below(10)
    k = 2 if kind < 5 else 3 + d.below(5) if kind < 9 else 0
    one_class, one_answer = d.below(12) == 0, d.below(12) == 0
    answers, labels, weights = [], [], []
    for _ in range(n):
        if k == 0:
            answers.append([np.float32(d.below(40)) / np.float32(4)])
            labels.append(np.float32(d.below(40)) / np.float32(4))
        else:
            row = np.array([1 + d.below(6) for _ in range(k)], np.float32)
            if one_answer:
                row[0] = 50
            answers.append(row / row.sum(dtype=np.float32))
            labels.append(0 if one_class else d.below(k))
        weights.append(np.float32(1 + d.below(8)) / np.float32(4) if number % 2 else np.float32(1))
    return k, np.array(answers, np.float64), np.array(labels), np.array(weights, np.float64)


def figures(k, p, y, w):
    if k == 0:
        of = {"rmse": m.root_mean_squared_error(y, p[:, 0], sample_weight=w),
              "mae": m.mean_absolute_error(y, p[:, 0], sample_weight=w)}
        if len(set(y)) > 1:
            of["r2"] = m.r2_score(y, p[:, 0], sample_weight=w)
        return of
    told = p.argmax(1)
    of = {"accuracy": m.accuracy_score(y, told, sample_weight=w),
          "balanced_accuracy": m.balanced_accuracy_score(y, told, sample_weight=w),
          "mcc": m.matthews_corrcoef(y, told, sample_weight=w),
          "log_loss": m.log_loss(y, p, sample_weight=w, labels=list(range(k)))}
    if k > 2:
        of["macro_f1"] = m.f1_score(y, told, average="macro", sample_weight=w, zero_division=0)
        of["top5"] = m.top_k_accuracy_score(y, p, k=5, sample_weight=w, labels=list(range(k))) if k > 5 else 1.0
        return of
    if (y == 1).any() or (told == 1).any():
        of["f1"] = m.f1_score(y, told, sample_weight=w, zero_division=0)
    of["precision"] = m.precision_score(y, told, sample_weight=w, zero_division=0)
    if (y == 1).any():
        of["recall"] = m.recall_score(y, told, sample_weight=w)
        of["average_precision"] = m.average_precision_score(y, p[:, 1], sample_weight=w)
    if len(set(y)) > 1:
        of["auc"] = m.roc_auc_score(y, p[:, 1], sample_weight=w)
    return of


def main():
    warnings.simplefilter("ignore")
    rows = []
    for number in range(CASES):
        of = figures(*case_of(number))
        rows.append(json.dumps({name: float(f"{value:.12g}") for name, value in of.items()}, separators=(",", ":")))
    path = pathlib.Path(__file__).with_name("sklearn_scores.json")
    path.write_text("[\n" + ",\n".join(rows) + "\n]\n")


if __name__ == "__main__":
    main()
