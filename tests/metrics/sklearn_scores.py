#!/usr/bin/env python3
"""Writes sklearn_scores.json: what scikit-learn says of 1,200 random cases, which sklearn_scores_test.cpp makes as well.

Usage: sklearn_scores.py, with scikit-learn 1.9. One of the first 1,000 cases has classes (two to seven) or values, equal
answers, weights in every second one, and in some only one class, or answers for one class alone. One of the other 200 has
two to five labels per sample, or several values. scikit-learn has no expected calibration error: it is computed here by
its definition (Guo et al., On calibration of modern neural networks, ICML 2017), over ten bins of equal width.
"""
import json
import pathlib
import warnings

import numpy as np
from sklearn import metrics as m

CASES = 1000
SEVERAL = 200


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


def case_of_several(number):
    d = Draws(number)
    n, k, labels = 8 + d.below(32), 2 + d.below(4), d.below(2) == 0
    rare = d.below(6)
    answers, truths, weights = [], [], []
    for _ in range(n):
        if labels:
            answers.append([(1 + d.below(62)) / 64 for _ in range(k)])
            truths.append([d.below(3) == 0 and c != rare for c in range(k)])
        else:
            answers.append([d.below(40) / 4 for _ in range(k)])
            truths.append([d.below(40) / 4 for _ in range(k)])
        weights.append((1 + d.below(8)) / 4 if number % 2 else 1.0)
    return labels, np.array(answers), np.array(truths, np.float64), np.array(weights)


def calibration_error(p, right, w):
    """Sum over bins of their share of the weight times the distance of accuracy and mean confidence."""
    bins = np.digitize(p, np.linspace(0, 1, 11)[1:-1])
    error = 0
    for b in np.unique(bins):
        of = bins == b
        error += w[of].sum() / w.sum() * abs(np.average(right[of], weights=w[of]) - np.average(p[of], weights=w[of]))
    return error


def figures_of_several(labels, p, y, w):
    if not labels:
        return {"rmse": m.root_mean_squared_error(y, p, sample_weight=w),
                "mae": m.mean_absolute_error(y, p, sample_weight=w), "r2": m.r2_score(y, p, sample_weight=w)}
    y, told, columns = y.astype(int), (p > 0.5).astype(int), range(y.shape[1])
    of = {"macro_f1": m.f1_score(y, told, average="macro", sample_weight=w, zero_division=0),
          "micro_f1": m.f1_score(y, told, average="micro", sample_weight=w, zero_division=0),
          "subset_accuracy": m.accuracy_score(y, told, sample_weight=w),
          "log_loss": np.mean([m.log_loss(y[:, c], p[:, c], sample_weight=w, labels=[0, 1]) for c in columns])}
    there = [c for c in columns if y[:, c].any()]
    if there:
        of["average_precision"] = np.mean([m.average_precision_score(y[:, c], p[:, c], sample_weight=w) for c in there])
    both = [c for c in there if not y[:, c].all()]
    if both:
        of["auc"] = np.mean([m.roc_auc_score(y[:, c], p[:, c], sample_weight=w) for c in both])
    return of


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
          "log_loss": m.log_loss(y, p, sample_weight=w, labels=list(range(k))),
          "ece": calibration_error(p[:, 1], y == 1, w) if k == 2 else calibration_error(p.max(1), y == told, w)}
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
    for number in range(CASES + SEVERAL):
        of = figures(*case_of(number)) if number < CASES else figures_of_several(*case_of_several(number))
        rows.append(json.dumps({name: float(f"{value:.12g}") for name, value in of.items()}, separators=(",", ":")))
    path = pathlib.Path(__file__).with_name("sklearn_scores.json")
    path.write_text("[\n" + ",\n".join(rows) + "\n]\n")


if __name__ == "__main__":
    main()
