#!/usr/bin/env bash
# A sweep of 60 micro trials on one device: `normlab run` with several workers, then PyTorch trial by trial.
#   DEVICE=cuda PYTHON=~/venv/bin/python tests/bench/peers/many_trials.sh [DESCRIPTOR]    experiments/micro_trials.json
#   DEVICE=cpu DRY=1 PYTHON=... tests/bench/peers/many_trials.sh          checks the script: trials of two steps
# normlab's time is that of the whole command: data, training, evaluation, results on disk. PyTorch's side is
# torch_trials.py, which makes no data, writes no results and is not charged for compiling; TIMED of its trials run, and
# their mean counts for all.
# Settings: NORMLAB=build/normlab WORKERS=8 (cpu: all cores) TIMED=3 PRECISION=fp32|bf16 MODES="eager compiled"
# DESCRIPTOR: `shapes`, with explicit sizes, epochs and batch size, as in micro_trials.json.
# Prints one line of JSON per run, then a table.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."

python=${PYTHON:-python3} normlab=${NORMLAB:-build/normlab} device=${DEVICE:-cuda} timed=${TIMED:-3}
precision=${PRECISION:-fp32} modes=${MODES:-eager compiled}
descriptor=${1:-experiments/micro_trials.json}
case $device in
  cuda) workers=${WORKERS:-8} ;;
  cpu) workers=${WORKERS:-$(nproc)} ;;
  *) echo "DEVICE: cuda or cpu, not $device" >&2; exit 2 ;;
esac
case $precision in fp32 | bf16) ;; *) echo "PRECISION: fp32 or bf16, not $precision" >&2; exit 2 ;; esac
[ -x "$normlab" ] || { echo "$normlab is not there: run make, or set NORMLAB" >&2; exit 3; }

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
settings=(--set "train.precision=$precision")
if [ -n "${DRY:-}" ]; then
  settings+=(--set train.epochs=1 --set train.schedule.warmup_epochs=0 --set dataset.train_images=128
    --set dataset.eval_images=64)
  timed=1
fi
trials=$("$normlab" check "$descriptor" "${settings[@]}" | sed -n 's/.* \([0-9]*\) trials.*/\1/p')
sizes=$("$python" - "$descriptor" "${DRY:-}" <<'END'
import json, sys
with open(sys.argv[1]) as file:
    descriptor = json.load(file)
try:
    data, model, train = (descriptor[key] for key in ("dataset", "model", "train"))
    if data["name"] != "shapes" or "extends" in descriptor:
        raise KeyError("dataset shapes and no extends")
    epochs, images, unseen = (1, 128, 64) if sys.argv[2] else (train["epochs"], data["train_images"],
                                                               data["eval_images"])
    print("--image 32 --classes 10 --batch", train["batch_size"], "--epochs", epochs, "--train-images", images,
          "--eval-images", unseen, *(f"--{option} {model[key]}" for option, key in (
              ("patch", "patch_size"), ("width", "embed_dim"), ("depth", "depth"), ("heads", "num_heads"))))
except KeyError as missing:
    sys.exit(f"{sys.argv[1]}: many_trials.sh needs {missing}")
END
)

begin=$(date +%s.%N)
"$normlab" run "$descriptor" "${settings[@]}" --device "$device" --workers "$workers" --out "$folder/results" \
  >"$folder/table" 2>"$folder/log" || { tail -5 "$folder/log" >&2; exit 1; }
ours=$(awk -v a="$begin" -v b="$(date +%s.%N)" 'BEGIN { print b - a }')
echo "{\"program\": \"normlab run\", \"device\": \"$device\", \"precision\": \"$precision\", \"workers\": $workers," \
  "\"trials\": $trials, \"seconds\": $ours}"

if "$python" -c 'import torch, timm' 2>/dev/null; then
  for mode in $modes; do
    flags=()
    [ "$mode" = compiled ] && flags=(--compile)
    # shellcheck disable=SC2086 # sizes are words
    "$python" tests/bench/peers/torch_trials.py $sizes --trials "$trials" --timed "$timed" --device "$device" \
      --precision "$precision" --threads "$(nproc)" "${flags[@]}" >"$folder/torch.$mode"
    cat "$folder/torch.$mode"
  done
else
  echo "PyTorch not run: $python lacks torch or timm" >&2
fi
"$python" - "$ours" "$trials" "$workers" "$folder" <<'END'
import json, pathlib, sys
ours, trials, workers, folder = float(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
print(f"{trials} trials            seconds  theirs/ours")
print(f"normlab, {workers} workers{ours:12.1f}")
for path in sorted(pathlib.Path(folder).glob("torch.*"), reverse=True):
    run = json.loads(path.read_text())
    how = f"{run['timed']} of {run['trials']} timed"
    print(f"PyTorch {'compiled' if run['compiled'] else 'eager':9}{run['seconds']:13.1f}{run['seconds'] / ours:10.1f}"
          f"  {how}; warm-up {run['warm_seconds']:.0f} s not in it")
END
