#!/usr/bin/env bash
# The default sweep here, against the same number of steps in PyTorch as installed, one trial after another.
#   PYTHON=~/venv/bin/python tests/bench/sweep_time.sh [DESCRIPTOR]        experiments/placements_gratings.json by default
# Ours is `normlab run` from beginning to end: data, training of all trials, evaluation, results on disk. PyTorch's side
# is steps alone on a batch that is there already, all of the Pre-LN network (timm): a slice is timed and multiplied.
# Settings: NORMLAB=build/normlab THREADS=2 SECONDS_EACH=10 ROUNDS=3 (of the slice), TORCH_FLAGS="--compile"
#   OURS_SECONDS=222   ours as measured before, in place of a run of minutes
# DESCRIPTOR: `shapes`, sizes and epochs written out, as the default sweep has them.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

python=${PYTHON:-python3} normlab=${NORMLAB:-build/normlab}
threads=${THREADS:-2} seconds=${SECONDS_EACH:-10} rounds=${ROUNDS:-3}
descriptor=${1:-experiments/placements_gratings.json}
[ -x "$normlab" ] || { echo "$normlab is not there: run make, or set NORMLAB" >&2; exit 3; }
"$python" -c 'import timm, torch' 2>/dev/null || { echo "$python lacks torch or timm: set PYTHON" >&2; exit 3; }
for name in "${!OPENBLAS_@}"; do unset "$name"; done

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trials=$("$normlab" plan "$descriptor" --out "$folder/none" | sed -n 's/^[0-9]* rows, \([0-9]*\) trials.*/\1/p')
sizes=$("$python" - "$descriptor" <<'END'
import json, sys
with open(sys.argv[1]) as file:
    descriptor = json.load(file)
try:
    data, model, train = (descriptor[key] for key in ("dataset", "model", "train"))
    if data["name"] != "shapes" or "extends" in descriptor or set(descriptor["sweep"]) != {"model.placement"}:
        raise KeyError("dataset shapes, no extends, a sweep over placements alone")
    steps = data["train_images"] // train["batch_size"] * train["epochs"]
    print(steps, train["batch_size"], "--image 32 --classes 10", *(f"--{option} {model[key]}" for option, key in (
        ("patch", "patch_size"), ("width", "embed_dim"), ("depth", "depth"), ("heads", "num_heads"))))
except KeyError as missing:
    sys.exit(f"{sys.argv[1]}: sweep_time.sh needs {missing}")
END
)
read -r steps batch sizes <<<"$sizes"
echo "$descriptor: $trials trials of $steps steps of $batch images; $sizes" >&2

ours=${OURS_SECONDS:-}
if [ -z "$ours" ]; then
  begin=$(date +%s.%N)
  "$normlab" run "$descriptor" --out "$folder/results" >"$folder/table" 2>"$folder/log" ||
    { tail -5 "$folder/log" >&2; exit 1; }
  ours=$(awk -v a="$begin" -v b="$(date +%s.%N)" 'BEGIN { print b - a }')
fi
for ((round = 0; round < rounds; ++round)); do
  # shellcheck disable=SC2086 # flags are words
  "$python" tests/bench/peers/torch_step.py $sizes --batch "$batch" --threads "$threads" --seconds "$seconds" \
    --format json ${TORCH_FLAGS:-} >"$folder/torch.$round"
done

"$python" - "$ours" "$trials" "$steps" "$batch" "$threads" "${OURS_SECONDS:+as given}" "$folder"/torch.* <<'END'
import json, pathlib, statistics, sys
ours, trials, steps, batch, threads = float(sys.argv[1]), *map(int, sys.argv[2:6])
runs = [json.loads(pathlib.Path(path).read_text()) for path in sys.argv[7:]]
step = statistics.median(run["mean_step_ms"] for run in runs) / 1000
timed, theirs = sum(run["steps"] for run in runs), step * steps * trials
images = steps * trials * batch
how = sys.argv[6] or "timed, with data and evaluation"
print(f"normlab run             {ours:9.1f} s  {images / ours:8.0f} images/s  {how}")
print(f"PyTorch {runs[0]['torch']:15} {theirs:9.1f} s  {batch / step:8.0f} images/s  "
      f"{timed} of {steps * trials} steps timed, multiplied")
print(f"ours / theirs           {ours / theirs:9.2f}    at most a third: {'yes' if ours <= theirs / 3 else 'NO'}")
busy = max(run["load"] if run["load"] is not None else 9 for run in runs)
if busy > 0.1:
    print(f"NOT WORTH PUBLISHING: beside PyTorch, other processes used up to {busy:.2f} cores")
END
