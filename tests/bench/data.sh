#!/usr/bin/env bash
# Times the way from photographs to a network's input in normlab and torchvision, in turns: images per core second.
#   PYTHON=python tests/bench/data.sh FOLDER       PYTHON must have torch and torchvision
# Settings: NORMLAB=build/normlab SECONDS_EACH=2 ROUNDS=3
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

python=${PYTHON:-python3} normlab=${NORMLAB:-build/normlab} seconds=${SECONDS_EACH:-2} rounds=${ROUNDS:-3}
[ $# = 1 ] || { echo "data.sh: give one folder of photographs" >&2; exit 2; }
[ -x "$normlab" ] || { echo "$normlab is not there: run make, or set NORMLAB" >&2; exit 3; }
"$python" -c 'import torchvision' 2>/dev/null || { echo "$python lacks torchvision: set PYTHON" >&2; exit 3; }

runs=$(mktemp -d)
trap 'rm -rf "$runs"' EXIT
for ((round = 0; round < rounds; ++round)); do
  "$normlab" bench data "$1" --seconds "$seconds" --format json >"$runs/normlab.$round.json"
  "$python" tests/bench/peers/torch_data.py "$1" --seconds "$seconds" --format json >"$runs/torchvision.$round.json"
done
"$python" - "$runs" <<'END'
import json, pathlib, statistics, sys

speeds, load = {}, 0.0
for path in sorted(pathlib.Path(sys.argv[1]).glob("*.json")):
    run = json.loads(path.read_text())
    load = max(load, run["load"] or 0.0)
    for stage in run["stages"]:
        speeds.setdefault(stage["stage"], {}).setdefault(path.name.split(".")[0], []).append(stage["images_per_second"])
print(f"{'images a second of one core':34}{'normlab':>10}{'torchvision':>13}{'ratio':>8}")
for stage, programs in speeds.items():
    ours = statistics.median(programs["normlab"])
    line = f"{stage:34}{ours:10.0f}"
    if "torchvision" in programs:
        theirs = statistics.median(programs["torchvision"])
        line += f"{theirs:13.0f}{ours / theirs:8.2f}"
    print(line)
if load > 0.1:
    print(f"NOT WORTH PUBLISHING: other processes used up to {load} cores")
END
