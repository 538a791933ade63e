"""The paired difference of the trials that two archives of `normlab export` share.

    python3 tests/gpu/compare_results.py GPU.jsonl CPU.jsonl [CPU2.jsonl ...]

One line per row (trials that differ in nothing but the seed) and metric: both means, the difference of the first
archive from the others, and its 95% Student-t interval over seeds.
"""
import json
import statistics
import sys

T = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571, 7: 2.447, 8: 2.365, 9: 2.306, 10: 2.262}  # by seeds


def trials(paths):
    lines = [json.loads(line) for path in paths for line in open(path)]
    return {line["trial"]: line for line in lines if "trial" in line}


def main():
    ones, others = trials(sys.argv[1:2]), trials(sys.argv[2:])
    rows = {}
    for name in ones.keys() & others.keys():
        config = {key: value for key, value in ones[name]["config"].items() if key != "seed"}
        rows.setdefault(json.dumps(config, sort_keys=True), []).append(name)
    if not rows:
        sys.exit("the archives have no trial in common")
    for config, names in sorted(rows.items()):
        model = json.loads(config)["model"]
        for metric in ("eval/accuracy", "eval/loss"):
            pairs = [(ones[name]["result"]["metrics"][metric], others[name]["result"]["metrics"][metric])
                     for name in names]
            if len(pairs) not in T:
                sys.exit(f"{len(pairs)} seeds, but 2 to 10 are expected")
            differences = [a - b for a, b in pairs]
            half = T[len(pairs)] * statistics.stdev(differences) / len(pairs)**0.5
            print(f"patch {model['patch_size']}, width {model['embed_dim']}: {metric} "
                  f"{statistics.mean(a for a, _ in pairs):.4f}, {statistics.mean(b for _, b in pairs):.4f}, difference "
                  f"{statistics.mean(differences):+.4f} +-{half:.4f} ({len(pairs)} seeds)")


if __name__ == "__main__":
    main()
