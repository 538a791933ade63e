"""Compares the losses of the same trials in two results folders, step by step.

    python3 tests/gpu/compare_losses.py results-gpu results-cpu

One line per placement with the largest relative difference and its step; the last line has the overall maximum. Exit
code 1 if it exceeds the bound in docs/gpu.md.
"""
import json
import sys
from pathlib import Path

BOUND = 1e-3


def losses(trial):
    lines = [json.loads(line) for path in sorted(trial.glob("attempt-*/metrics.jsonl"))
             for line in path.read_text().splitlines()]
    return {line["step"]: line["train/loss"] for line in lines if "train/loss" in line}


def main():
    one, other = map(Path, sys.argv[1:3])
    plan = json.loads(next(one.glob("experiments/*/plan.json")).read_text())
    rows = [(row["label"], trial["id"]) for row in plan["rows"] for trial in row["trials"]]
    worst = 0.0
    for label, trial in rows:
        a, b = (losses(folder / "trials" / trial) for folder in (one, other))
        if a.keys() != b.keys() or not a:
            print(f"{label}: other steps")
            sys.exit(2)
        difference, step = max((abs(a[s] - b[s]) / abs(b[s]), s) for s in a)
        worst = max(worst, difference)
        print(f"{label}: {difference:.1e} at step {step} of {max(a)}, loss {a[max(a)]:.4f}")
    print(f"{len(rows)} networks, largest relative difference {worst:.1e}, bound {BOUND:.0e}")
    sys.exit(0 if worst <= BOUND else 1)


if __name__ == "__main__":
    main()
