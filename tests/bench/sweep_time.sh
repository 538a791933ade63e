#!/usr/bin/env bash
# Compares a sweep on generated images with PyTorch's time for the same steps.
#   PYTHON=~/venv/bin/python tests/bench/sweep_time.sh [DESCRIPTOR]    experiments/placements_gratings.json by default
# normlab's time is that of the whole `normlab run` into a new folder: data, training of all trials, evaluation, results
# on disk. PyTorch's time is that of the steps on an existing batch. Each row's network (timm, with its norms) is timed
# for SECONDS_EACH, and multiplied by the row's steps. It runs once in one process with all threads, and once in as many
# processes as threads, each with one; the faster counts.
# Settings: NORMLAB=build/normlab THREADS (all cores; also normlab's workers) SECONDS_EACH=8 TORCH_FLAGS="--compile"
#   OURS_SECONDS=222   normlab's time from an earlier run, to skip a run of minutes
#   LD_PRELOAD=libintel.so   for MKL's AVX-512 on AMD: see peers/torch_step.py
# DESCRIPTOR: generated data, explicit sizes and epochs, a sweep over placements.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

python=${PYTHON:-python3} normlab=${NORMLAB:-build/normlab}
threads=${THREADS:-$(nproc)} seconds=${SECONDS_EACH:-8}
descriptor=${1:-experiments/placements_gratings.json}
[ -x "$normlab" ] || { echo "$normlab is not there: run make, or set NORMLAB" >&2; exit 3; }
"$python" -c 'import timm, torch' 2>/dev/null || { echo "$python lacks torch or timm: set PYTHON" >&2; exit 3; }
for name in "${!OPENBLAS_@}"; do unset "$name"; done

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
sizes=$("$python" - "$descriptor" <<'END'
import json, sys
with open(sys.argv[1]) as file:
    descriptor = json.load(file)
try:
    data, model, train = (descriptor[key] for key in ("dataset", "model", "train"))
    if data["name"] not in ("shapes", "gratings") or "extends" in descriptor or set(descriptor["sweep"]) != {
            "model.placement"}:
        raise KeyError("generated data, no extends, a sweep over placements alone")
    steps = data["train_images"] // train["batch_size"] * train["epochs"] * descriptor["seeds"]
    options = (("patch", "patch_size"), ("width", "embed_dim"), ("depth", "depth"), ("heads", "num_heads"))
    print(steps, "--image 32 --classes 10 --batch", train["batch_size"],
          *(f"--{option} {model[key]}" for option, key in options), "--rows", *descriptor["sweep"]["model.placement"])
except KeyError as missing:
    sys.exit(f"{sys.argv[1]}: sweep_time.sh needs {missing}")
END
)
read -r steps sizes <<<"$sizes"
echo "$descriptor: $steps steps a row; $sizes" >&2

ours=${OURS_SECONDS:-}
if [ -z "$ours" ]; then
  begin=$(date +%s.%N)
  "$normlab" run "$descriptor" --workers "$threads" --out "$folder/results" >"$folder/table" 2>"$folder/log" ||
    { tail -5 "$folder/log" >&2; exit 1; }
  ours=$(awk -v a="$begin" -v b="$(date +%s.%N)" 'BEGIN { print b - a }')
fi
torch_steps() {  # THREADS FILE
  # shellcheck disable=SC2086 # flags are words
  "$python" tests/bench/peers/torch_rows.py $sizes --threads "$1" --seconds "$seconds" ${TORCH_FLAGS:-} >"$2"
}
echo "PyTorch, one process" >&2
torch_steps "$threads" "$folder/one.0"
echo "PyTorch, $threads processes" >&2
processes=()
for ((process = 0; process < threads; ++process)); do
  torch_steps 1 "$folder/many.$process" &
  processes+=($!)
done
for process in "${processes[@]}"; do wait "$process"; done

"$python" - "$ours" "$steps" "$threads" "${OURS_SECONDS:+as given}" "$folder" <<'END'
import json, pathlib, statistics, sys
ours, steps, threads, folder = float(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), pathlib.Path(sys.argv[5])
def runs(name):
    return [[json.loads(line) for line in path.open()] for path in folder.glob(name + ".*")]
def row(words, seconds, how):
    print(f"{words:30}{seconds:9.1f} s  {images / seconds:8.0f} images/s  {how}")
ways = {"one process": runs("one"), f"{threads} processes": runs("many")}
one = ways["one process"][0]
images = steps * len(one) * one[0]["batch"]
row("normlab run", ours, sys.argv[4] or "timed, with data and evaluation")
theirs = {}
for way, processes in ways.items():
    # Each process takes an equal share of a row's steps.
    theirs[way] = steps / len(processes) * sum(
        statistics.mean(run["mean_step_ms"] for run in same) for same in zip(*processes)) / 1000
    timed = sum(run["steps"] for process in processes for run in process)
    row(f"PyTorch {one[0]['torch']}, {way}", theirs[way], f"{timed} of {steps * len(one)} steps timed, multiplied")
best = min(theirs, key=theirs.get)
print(f"ours / theirs{ours / theirs[best]:26.2f}    ({best})")
busy = max(9 if run["load"] is None else run["load"] - len(processes) + 1
           for processes in ways.values() for process in processes for run in process)
if busy > 0.1:
    print(f"NOT WORTH PUBLISHING: beside PyTorch, other processes used up to {busy:.2f} cores")
END
