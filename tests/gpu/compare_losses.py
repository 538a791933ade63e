"""Losses of the same trials in two folders of results, step by step.

    python3 tests/gpu/compare_losses.py results-gpu results-cpu

A line a placement with the largest relative difference and its step; the last line is the largest of all. Exit code 1
where that is beyond the bound of docs/gpu.md.
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
    one, other = (Path(folder) / "trials" for folder in sys.argv[1:3])
    trials = sorted(trial.name for trial in one.iterdir())
    if not trials or trials != sorted(trial.name for trial in other.iterdir()):
        print("the folders hold other trials")
        sys.exit(2)
    worst = 0.0
    for trial in trials:
        a, b = losses(one / trial), losses(other / trial)
        name = json.loads((one / trial / "config.json").read_text())["model"]["placement"]
        if a.keys() != b.keys() or not a:
            print(f"{name}: other steps")
            sys.exit(2)
        difference, step = max((abs(a[s] - b[s]) / abs(b[s]), s) for s in a)
        worst = max(worst, difference)
        print(f"{str(name)[:40]}: {difference:.1e} at step {step} of {max(a)}, loss {a[max(a)]:.4f}")
    print(f"{len(trials)} networks, largest relative difference {worst:.1e}, bound {BOUND:.0e}")
    sys.exit(0 if worst <= BOUND else 1)


if __name__ == "__main__":
    main()
