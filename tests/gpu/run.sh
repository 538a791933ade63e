#!/usr/bin/env bash
# Runs all checks on a GPU in at most 12 minutes, with a table at the end.
#   tests/gpu/run.sh                on the GPU of this machine
#   DEVICE=cpu tests/gpu/run.sh     the same parts on the CPU, to check the script
# Settings: BINARY and TESTS, existing programs (build/normlab and
# build/tests/run of `make build-all CUDA=1`); PYTHON=python3, preferably with
# torch and timm; PARTS="tests bits ..." for some parts; LIMIT=700, seconds for
# all of them; LOGS=folder.
# Each part has a time limit, and a failure does not stop the others. With at
# least 8 cores, the parts before the first timed one run side by side. Exit
# code 1 if a part failed.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 3

export DEVICE=${DEVICE:-cuda} PYTHON=${PYTHON:-python3}
export BINARY=${BINARY:-} TESTS=${TESTS:-} LOGS=${LOGS:-}
case $DEVICE in
  cuda | cpu) ;;
  *) echo "DEVICE: cuda or cpu, not $DEVICE" >&2; exit 2 ;;
esac

# NAME SECONDS, in the order of execution. Where the sum exceeds the limit, the
# last parts get the remaining time.
parts=(gpu 20 build 280 tests 100 bits 60 resume 60 losses 60 sanitizer 100
  ours 60 profile 20 formulas 60 muon 30 tune 90 peers 60 stack 120 trials 90 claims 150 torch 240 autotune 400)
untimed=" tests bits resume losses sanitizer "
whole=${LIMIT:-700}
# A dry run on a busy machine may take three times as long.
slower=1
[ "$DEVICE" = cuda ] || slower=3

# --- results of parts --------------------------------------------------------
say() { echo "$*" >"$LOGS/$part.result"; }                     # in one line
not_run() { say "not run: $*"; exit 0; }
fail() { say "FAILED: $*"; exit 1; }

gpu_is_there() { [ "$DEVICE" = cuda ]; }
# A descriptor of micro networks on generated images. $1: file, $2: placements
# as JSON, $3: steps, $4: further keys of "train".
descriptor() {
  cat >"$1" <<JSON
{"about": "tests/gpu/run.sh",
 "dataset": {"name": "shapes", "train_images": 6400, "eval_images": 64},
 "model": {"patch_size": 4, "embed_dim": 64, "depth": 4, "num_heads": 2},
 "train": {"steps": $3, "batch_size": 64, "schedule": {"warmup_epochs": 0.1}${4:+, $4}},
 "sweep": {"model.placement": $2}, "seeds": 1}
JSON
}
# Runs a descriptor. $1: descriptor, $2: folder, $3: device, $4: workers (1),
# then further options
train() {
  "$BINARY" run "$1" --out "$2" --device "$3" --workers "${4:-1}" "${@:5}"
}
# The files of a run that must be equal to the bit, without attempt numbers.
traces() { (cd "$1" && cat trials/*/attempt-*/"$2" | sort -u); }

# --- parts -------------------------------------------------------------------
part_gpu() {
  if ! gpu_is_there; then
    say "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1), a dry run"
    return
  fi
  command -v nvidia-smi >/dev/null || fail "nvidia-smi is not there"
  nvidia-smi || fail "nvidia-smi does not work: $LOGS/gpu.log"
  say "$(nvidia-smi --query-gpu=name,driver_version,memory.total,compute_cap \
    --format=csv,noheader | head -1)"
}

part_build() {
  if [ -n "$BINARY" ] && [ -n "$TESTS" ]; then
    say "prebuilt"
    return
  fi
  local with=(CUDA=0 BUILD=build)
  if gpu_is_there; then
    command -v nvcc >/dev/null || fail "no nvcc: set BINARY and TESTS"
    local arch
    arch=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -1)
    with=(CUDA=1 "CUDA_ARCH=${arch//./}" BUILD=build-gpu)
  fi
  make -j"$(nproc)" build-all "${with[@]}" || fail "see $LOGS/build.log"
  say "${with[*]}"
}

part_tests() {
  # The CPU is tested too, for comparisons with the GPU. Several processes: an
  # error that ends one's use of the GPU then fails few tests.
  export NORMLAB_TEST_DEVICES=cuda REFERENCE_DIR=tests/reference/fixtures
  gpu_is_there || NORMLAB_TEST_DEVICES=""
  export NORMLAB_BINARY=$BINARY
  export FILTER="attention*,tensor_core*,ops*,norms:*,layer_norm*,linear*,losses*,moved tokens*,resample*,lane tree*,\
fused*,short forms*,cuda: *formula*,engine*,optimizer*,muon*,probes*,nonfinite*,devices*,NCCL on*,reference:*"
  local d=$LOGS/tests count each=7 failed sum
  mkdir -p "$d"
  export WITHOUT="nonfinite: a checkpoint*,nonfinite: no command*"  # long, on the CPU alone
  count=$("$TESTS" --count -tc="$FILTER" -tce="$WITHOUT" | sed -n 's/.*filters: //p')
  [ -n "$count" ] || fail "the test program does not run: $LOGS/tests.log"
  seq 1 "$each" "$count" | D=$d EACH=$each xargs -P "$((($(nproc) + 1) / 2))" -I{} bash -c \
    'timeout -k 5 60 "$TESTS" --no-colors --duration=true -tc="$FILTER" -tce="$WITHOUT" -f={} -l=$(({} + EACH - 1)) \
      >"$D/{}.log" 2>&1 || echo "{}: ended with code $?" >>"$D/failed"'
  # doctest's own sum counts the tests of all processes in each.
  failed=$(sed -n 's/^\[doctest\] test cases:.* \([0-9]*\) failed.*/\1/p' "$d"/*.log |
    awk '{ n += $1 } END { print n }')
  sum="$(cat "$d"/*.log | grep -c '^[0-9.]* s: ') of $count tests ended, $failed failed"
  sed -n 's/^devices: //p' "$d/1.log"
  failed=$(wc -l 2>/dev/null <"$d/failed")
  if [ -n "$failed" ]; then
    cat "$d/failed"
    grep -h '^TEST CASE' "$d"/*.log | sort | uniq -c | head -40
    fail "$sum; $failed processes failed: $d"
  fi
  say "$sum ($(sed -n 's/^devices: //p' "$d/1.log"))"
}

part_bits() {
  local d=$LOGS/bits
  mkdir -p "$d"
  descriptor "$d/d.json" '["pre_pre", "bn_ffnbn"]' 100 ""
  local out
  for out in one two; do
    train "$d/d.json" "$d/$out" "$DEVICE" || fail "training: $LOGS/bits.log"
  done
  local what
  for what in metrics.jsonl states.jsonl; do
    cmp <(traces "$d/one" "$what") <(traces "$d/two" "$what") || fail "$what differs"
  done
  say "2 networks, 100 steps twice: losses and $(traces "$d/one" states.jsonl |
    wc -l) states equal"
}

part_resume() {
  local d=$LOGS/resume run
  mkdir -p "$d"
  local steps=400
  gpu_is_there || steps=100
  descriptor "$d/d.json" '["pre_pre"]' "$steps" ""
  sed -i '$ s/}$/, "checkpoint": {"steps": 20}}/' "$d/d.json"
  train "$d/d.json" "$d/whole" "$DEVICE" || fail "training: $LOGS/resume.log"
  setsid "$BINARY" run "$d/d.json" --out "$d/killed" --device "$DEVICE" \
    --workers 1 &
  run=$!
  trap 'kill -KILL -- "-$run" 2>/dev/null' EXIT
  trap 'exit 1' TERM
  while kill -0 "$run" 2>/dev/null && ! compgen -G \
    "$d/killed/trials/*/attempt-1/checkpoint*" >/dev/null; do sleep 0.02; done
  kill -KILL -- "-$run"
  wait "$run" 2>/dev/null
  compgen -G "$d/killed/trials/*/result.json" >/dev/null &&
    fail "it ended before it was killed"
  train "$d/d.json" "$d/killed" "$DEVICE" ||
    fail "going on: $LOGS/resume.log"
  grep -q '"resumed": 1' "$d"/killed/trials/*/result.json || fail "did not go on"
  local last
  last=$(traces "$d/whole" metrics.jsonl)
  [ "$last" = "$(traces "$d/killed" metrics.jsonl)" ] || fail "metrics differ"
  [ "$(traces "$d/whole" states.jsonl | grep "\"step\":$steps,")" = \
    "$(traces "$d/killed" states.jsonl | grep "\"step\":$steps,")" ] ||
    fail "the last state differs"
  say "killed and resumed: equal after $steps steps"
}

part_losses() {
  local d=$LOGS/losses steps=100
  gpu_is_there || steps=15
  mkdir -p "$d"
  # An evaluation after each step, which also writes that step's loss.
  descriptor "$d/d.json" '["pre_pre", "post_post", "dpn", "bn_ffnbn", "dyt"]' \
    "$steps" '"eval_every_epochs": 0.01'
  train "$d/d.json" "$d/one" "$DEVICE" || fail "training: $LOGS/losses.log"
  train "$d/d.json" "$d/cpu" cpu "$(nproc)" ||
    fail "training on the CPU: $LOGS/losses.log"
  "$PYTHON" tests/gpu/compare_losses.py "$d/one" "$d/cpu" >"$d/table" ||
    fail "$(tail -1 "$d/table")"
  cat "$d/table"
  say "$(tail -1 "$d/table")"
}

torch_is_there() { "$PYTHON" -c 'import torch, timm' 2>/dev/null; }
# The part's remaining time for its last command. $1: seconds to keep
left() { echo $((PART_LIMIT - SECONDS - ${1:-5})); }

part_ours() {
  local cases="small:256 tiny:128 micro:64" types="bf16 fp32 tf32" word type
  local seconds=0.5 failed=0
  gpu_is_there || cases="micro:8" types="fp32" seconds=0.1
  for type in $types; do
    for word in $cases; do
      "$BINARY" bench step --device "$DEVICE" --shape "${word%:*}" --batch "${word#*:}" \
        --precision "$type" --seconds "$seconds" --format json || failed=1
    done
  done >"$LOGS/speed.ours.jsonl"
  "$PYTHON" tests/gpu/speed_table.py "$LOGS/speed.ours.jsonl" /dev/null | tee "$LOGS/ours.table"
  [ "$failed" = 0 ] || fail "a step: $LOGS/ours.log"
  say "$(wc -l <"$LOGS/speed.ours.jsonl") cases, table above"
}

part_torch() {
  torch_is_there || not_run "$PYTHON lacks torch or timm"
  local torch=(--seconds 1) why=""
  gpu_is_there || torch=(--cases micro:8:fp32:eager --steps 2)
  # In one process; the table has what it finishes in time.
  timeout -k 5 "$(left 5)" "$PYTHON" tests/bench/peers/torch_steps.py \
    --device "$DEVICE" --threads "$(nproc)" --limit "$(left 25)" "${torch[@]}" \
    >"$LOGS/speed.torch.jsonl" || why="; PyTorch ended early: $LOGS/torch.log"
  "$PYTHON" tests/gpu/speed_table.py "$LOGS/speed.ours.jsonl" \
    "$LOGS/speed.torch.jsonl" | tee "$LOGS/torch.table" || fail "see $LOGS/torch.log"
  say "$(tail -1 "$LOGS/torch.table")$why"
}

part_profile() {
  local shape of
  for shape in s16 tiny; do
    of=(--shape "$shape" --precision bf16)
    gpu_is_there || of=(--shape micro --batch 8 --roofline)
    "$BINARY" bench profile --device "$DEVICE" "${of[@]}" --seconds 0.5 |
      tee -a "$LOGS/profile.table" || fail "see $LOGS/profile.log"
  done
  say "tables above"
}

# Formulas beside the kinds of norm that they describe, activations beside GELU,
# and networks with them, trained twice to equal bits.
part_formulas() {
  local type d=$LOGS/formulas of=(--shape 4096x4096 8320x192 --seconds 0.1) smaller=() ops=(--shape s16 --seconds 0.1)
  gpu_is_there || of=(--shape 65x192 --seconds 0.02) smaller=(--set train.steps=20 --set train.precision=fp32) \
    ops=(--shape micro --seconds 0.02)
  for type in fp32 bf16; do
    gpu_is_there || [ "$type" = fp32 ] || break
    "$BINARY" bench norms --device "$DEVICE" --precision "$type" "${of[@]}" --norm rms_norm layer_norm dyt l2 \
      --formula "gamma * x / rms(x)" "gamma * (x - mean(x)) / std(x) + beta" "gamma * x / norm(x)" \
      '{"formula": "gamma * tanh(alpha * x) + beta", "parameters": {"alpha": 0.5}}' || fail "see $LOGS/formulas.log"
    "$BINARY" bench ops --device "$DEVICE" --precision "$type" "${ops[@]}" \
      --op gelu "relu(x)^2" "silu(x)" "silu(x) * g" "gelu(x) * g" || fail "see $LOGS/formulas.log"
  done | tee "$LOGS/formulas.table"
  for type in one two; do
    "$BINARY" run tests/gpu/formulas.json --out "$d/$type" --device "$DEVICE" --workers 1 "${smaller[@]}" ||
      fail "training: $LOGS/formulas.log"
  done
  for type in metrics.jsonl states.jsonl; do
    cmp <(traces "$d/one" "$type") <(traces "$d/two" "$type") || fail "$type differs"
  done
  say "tables above; 8 networks with equal losses and states: $(speeds "$d/one")"
}
speeds() {
  "$PYTHON" -c 'import glob, json, sys
print(*(round(json.load(open(f))["images_per_second"]) for f in sorted(glob.glob(sys.argv[1] + "/trials/*/result.json"))),
      "images/s")' "$1"
}

part_muon() {
  local smaller=()
  gpu_is_there || smaller=(--set train.steps=5)
  "$BINARY" run tests/gpu/optimizers.json --out "$LOGS/muon" --device "$DEVICE" --workers 1 "${smaller[@]}" ||
    fail "see $LOGS/muon.log"
  "$PYTHON" -c 'import glob, json, sys
for f in glob.glob(sys.argv[1] + "/trials/*/"):
    print(json.load(open(f + "config.json"))["train"]["optimizer"]["name"],
          round(json.load(open(f + "result.json"))["images_per_second"]), "images/s", end="  ")' "$LOGS/muon" >"$LOGS/muon.words"
  say "$(cat "$LOGS/muon.words")"
}

# The algorithms of products that are faster than cuBLASLt's first choice, and
# steps with and without them in turns.
part_tune() {
  gpu_is_there || not_run "DEVICE=cpu"
  local shape round of
  for shape in s16 tiny micro; do
    of=(--device cuda --shape "$shape" --precision bf16)
    "$BINARY" bench gemm "${of[@]}" --seconds 0.03 --tune "$LOGS/$shape.algorithms" || fail "see $LOGS/tune.log"
    for round in 1 2 3; do
      "$BINARY" bench step "${of[@]}" --seconds 0.5 --format json | step_words "$shape: cuBLASLt's first" &&
        "$BINARY" bench step "${of[@]}" --seconds 0.5 --gpu-algorithms "$LOGS/$shape.algorithms" --format json |
        step_words "$shape: tuned" || fail "see $LOGS/tune.log"
    done
  done | tee "$LOGS/tune.table" || fail "see $LOGS/tune.log"
  say "tables above"
}
step_words() { "$PYTHON" -c 'import json, sys; print(sys.argv[1], json.load(sys.stdin)["step_ms"], "ms")' "$1"; }

# Attention and a large product in PyTorch and here.
part_peers() {
  local here=(--shape s16 --precision bf16 --seconds 0.5) there=()
  gpu_is_there || here=(--shape micro --batch 2 --seconds 0.05) there=(--device cpu)
  "$BINARY" bench ops --device "$DEVICE" --op attention "${here[@]}" | tee "$LOGS/peers.table" || fail "see $LOGS/peers.log"
  "$PYTHON" -c 'import torch' 2>/dev/null || not_run "$PYTHON lacks torch; ours above"
  timeout -k 5 "$(left 5)" "$PYTHON" tests/gpu/peers.py "${there[@]}" | tee "$LOGS/peers.jsonl" ||
    fail "see $LOGS/peers.log"
  "$PYTHON" -c 'import json, sys
for line in map(json.loads, sys.stdin):
    print(*(line.get(key, "") for key in ("op", "by", "direction")), "deterministic" * line.get("deterministic", False),
          line.get("skipped") or "%g ms, %g GFLOP/s" % (line["ms"], line["gflops"]))' \
    <"$LOGS/peers.jsonl" | tee -a "$LOGS/peers.table"
  say "$(wc -l <"$LOGS/peers.jsonl") lines of PyTorch above"
}

# torch.compile in its mode max-autotune, which compiles for minutes.
part_autotune() {
  torch_is_there || not_run "$PYTHON lacks torch or timm"
  gpu_is_there || not_run "DEVICE=cpu"
  timeout -k 5 "$(left 5)" "$PYTHON" tests/bench/peers/torch_steps.py --device cuda --threads "$(nproc)" \
    --cases small:256:bf16:tuned --seconds 1 >"$LOGS/autotune.jsonl" || not_run "not compiled within $(left 0) s"
  say "$(cat "$LOGS/autotune.jsonl")"
}

# The repetitions of the claims that compare times, one line each, until the
# time is up, as `normlab claims --run --device cuda` writes them.
part_claims() {
  local d=$LOGS/claims round name
  mkdir -p "$d"
  local on=(--device "$DEVICE" --format json)
  local models=(--models swin_t --seconds 0.2)
  gpu_is_there || models=(--models swin_t --image 64 --batch 2 --seconds 0.1)
  for round in 1 2 3 4 5; do
    [ "$(left 8)" -gt $((round > 1 ? SECONDS / (round - 1) : 0)) ] || break
    "$BINARY" bench norms "${on[@]}" --table batch_norm --seconds 0.02 | compact >>"$d/23-batch-norm-layer-time" &&
      "$BINARY" bench norms "${on[@]}" --table dyt --seconds 0.02 | compact >>"$d/28-dyt-layer-time" &&
      "$BINARY" bench models "${on[@]}" "${models[@]}" | compact >>"$d/31-batch-norm-model-time" &&
      { for word in pre_pre dyt; do
        "$BINARY" bench step "${on[@]}" --shape dyt --placement "$word" --seconds 0.2
      done; } | "$PYTHON" -c 'import json, sys
print(json.dumps({"runs": [json.loads(line) for line in sys.stdin]}))' >>"$d/29-dyt-training-time" ||
      fail "see $LOGS/claims.log"
    gpu_is_there || break
  done
  cp "$d/31-batch-norm-model-time" "$d/24-merged-batch-norm"
  for name in "$d"/[0-9]*-*[a-z]; do mv "$name" "$name.cuda.bench.jsonl"; done
  say "$(cat "$d"/29* | wc -l) repetitions: $d"
}
compact() { "$PYTHON" -c 'import json, sys; print(json.dumps(json.load(sys.stdin)))'; }

# Networks that are trained together: their bits beside those of each alone, the
# speed beside that of one network with as many images, and whole sweeps.
part_stack() {
  gpu_is_there || not_run "DEVICE=cpu"
  local d=$LOGS/stack of what k type shape begin
  mkdir -p "$d"
  # bf16 with the GELU that cuBLASLt computes in products; nine trials in four places.
  for what in '"precision": "bf16"' '"precision": "tf32", "accumulate": 2' '"optimizer": {"name": "muon"}'; do
    rm -rf "$d/alone" "$d/together"
    descriptor "$d/d.json" '["pre_pre", "bn_ffnbn", "dpn"]' 60 "$what"
    sed -i '$ s/"seeds": 1/"seeds": 3/' "$d/d.json"
    [[ $what != *bf16* ]] || sed -i 's/"depth": 4,/"depth": 4, "gelu": "tanh",/' "$d/d.json"
    train "$d/d.json" "$d/alone" cuda && train "$d/d.json" "$d/together" cuda 1 --stack 4 ||
      fail "training: $LOGS/stack.log"
    for k in metrics.jsonl states.jsonl; do
      cmp <(traces "$d/alone" "$k") <(traces "$d/together" "$k") || fail "$what: $k differs"
    done
  done
  for of in micro:64:bf16 micro:64:fp32 tiny:128:bf16; do
    IFS=: read -r shape what type <<<"$of"
    for k in 1 5 10 30 60; do
      [ "$shape" = micro ] || [ "$k" -le 10 ] || break
      echo "$of, $k networks: $(images_per_second --shape "$shape" --precision "$type" --stack "$k") images/s," \
        "one with as many images: $(images_per_second --shape "$shape" --precision "$type" --batch $((what * k)))"
    done
  done | tee "$LOGS/stack.table"
  # Whether more of the driver's queues let more branches of a graph run at once.
  for k in 10 60; do
    echo "micro:64:bf16, $k networks, CUDA_DEVICE_MAX_CONNECTIONS=32:" \
      "$(CUDA_DEVICE_MAX_CONNECTIONS=32 images_per_second --shape micro --precision bf16 --stack "$k") images/s"
  done | tee -a "$LOGS/stack.table"
  for of in "1 1" "8 1" "1 15" "4 15" "1 60"; do
    read -r what k <<<"$of"
    for type in micro_trials placements_gratings; do
      begin=$(date +%s%N)
      train "experiments/$type.json" "$d/$type.$what.$k" cuda "$what" --stack "$k" >/dev/null || exit 1
      echo "$type, --workers $what --stack $k: $((($(date +%s%N) - begin) / 1000000)) ms"
    done
  done | tee -a "$LOGS/stack.table" || fail "a sweep: $LOGS/stack.log"
  say "bits of 27 networks equal; speeds above"
}
images_per_second() {
  "$BINARY" bench step --device cuda --seconds 0.5 --format json "$@" | "$PYTHON" -c 'import json, sys; print(json.load(sys.stdin)["images_per_second"])'
}

part_trials() {
  local dry=""
  gpu_is_there || dry=1
  DRY=$dry TIMED=2 MODES=${MODES:-eager} NORMLAB=$BINARY tests/bench/peers/many_trials.sh >"$LOGS/trials.out" ||
    fail "see $LOGS/trials.log"
  cat "$LOGS/trials.out"
  grep -v '^{' "$LOGS/trials.out" >"$LOGS/trials.table"
  say "table above"
}

part_sanitizer() {
  gpu_is_there || not_run "DEVICE=cpu"
  command -v compute-sanitizer >/dev/null ||
    not_run "compute-sanitizer is not installed"
  local clean="" tool
  for tool in memcheck racecheck initcheck; do
    {
      NORMLAB_TEST_DEVICES=cuda timeout -k 5 $((PART_LIMIT - 10)) compute-sanitizer --tool "$tool" \
        --error-exitcode 9 "$TESTS" --no-colors --duration=true \
        -tc="norms: *,losses: *,ops: every gradient*" >"$LOGS/$tool.log" 2>&1
      echo $? >"$LOGS/$tool.code"
    } &
  done
  wait
  for tool in memcheck racecheck initcheck; do
    case $(cat "$LOGS/$tool.code") in
      0) clean+=" $tool" ;;
      124 | 137) clean+=" ($tool: over time)" ;;
      9) fail "$tool found something: $LOGS/$tool.log" ;;
      *) tail -3 "$LOGS/$tool.log"
        not_run "$tool: $(tail -1 "$LOGS/$tool.log" | cut -c1-50)" ;;
    esac
  done
  say "clean:$clean"
}

# --- one part, in a separate process -----------------------------------------
if [ "${1:-}" = --part ]; then
  part=$2
  case $part in
    gpu) part_gpu ;;
    build) part_build ;;
    tests) part_tests ;;
    bits) part_bits ;;
    resume) part_resume ;;
    losses) part_losses ;;
    ours) part_ours ;;
    torch) part_torch ;;
    profile) part_profile ;;
    formulas) part_formulas ;;
    muon) part_muon ;;
    tune) part_tune ;;
    peers) part_peers ;;
    autotune) part_autotune ;;
    stack) part_stack ;;
    trials) part_trials ;;
    claims) part_claims ;;
    sanitizer) part_sanitizer ;;
    *) echo "no part $part" >&2; exit 2 ;;
  esac
  exit
fi

# --- all ---------------------------------------------------------------------
[ -n "$LOGS" ] || LOGS=$(mktemp -d)
mkdir -p "$LOGS"
LOGS=$(cd "$LOGS" && pwd)
case " ${PARTS:-build} " in
  *" build "*) ;;
  *) BINARY=${BINARY:-$PWD/build/normlab} TESTS=${TESTS:-$PWD/build/tests/run} ;;
esac
begin=$SECONDS table="" code=0 side_by_side="" running=()
command="DEVICE=$DEVICE tests/gpu/run.sh"
[ "$(nproc)" -lt 8 ] || side_by_side=$untimed

# $1: part, $2: seconds
run_part() {
  local part=$1 limit=$2 start=$SECONDS ended
  PART_LIMIT=$limit timeout -k 5 "$limit" bash "${BASH_SOURCE[0]}" --part "$part" >"$LOGS/$part.log" 2>&1
  ended=$?
  [ -s "$LOGS/$part.result" ] || case $ended in
    124 | 137) echo "FAILED: not done after $limit s: $LOGS/$part.log" ;;
    *) echo "FAILED: ended with code $ended: $LOGS/$part.log" ;;
  esac >"$LOGS/$part.result"
  echo $((SECONDS - start)) >"$LOGS/$part.seconds"
}
report() {
  local part=$1 result
  [ -s "$LOGS/$part.table" ] && cut -c1-100 "$LOGS/$part.table"
  result=$(head -1 "$LOGS/$part.result")
  echo "$part: $result" | fold -s -w 80
  [[ $result = FAILED* ]] && code=1
  table+=$(printf '%-10s %4s  %s' "$part" "$(cat "$LOGS/$part.seconds")" "$result")$'\n'
}
wait_for_parts() {
  local part
  [ ${#running[@]} = 0 ] || wait
  for part in "${running[@]}"; do report "$part"; done
  running=()
}

for ((i = 0; i < ${#parts[@]}; i += 2)); do
  part=${parts[i]} limit=$((parts[i + 1] * slower))
  case " ${PARTS:-$part} " in *" $part "*) ;; *) continue ;; esac
  [[ $side_by_side = *" $part "* ]] || wait_for_parts
  left=$((whole * slower - (SECONDS - begin)))
  [ "$limit" -le "$left" ] || limit=$left
  if [ "$limit" -lt 5 ]; then
    table+=$(printf '%-10s %4s  %s' "$part" - "not run: no time left")$'\n'
    continue
  fi
  echo "== $part (at most $limit s)"
  rm -f "$LOGS/$part.result" "$LOGS/$part.table"
  if [[ $side_by_side = *" $part "* ]]; then
    run_part "$part" "$limit" &
    running+=("$part")
    continue
  fi
  run_part "$part" "$limit"
  report "$part"
  result=$(head -1 "$LOGS/$part.result")
  if [ "$part" = build ] && [ "$result" != prebuilt ] && [[ $result != FAILED* ]]; then
    folder=${result##*BUILD=}
    BINARY=$PWD/$folder/normlab TESTS=$PWD/$folder/tests/run
  fi
done
wait_for_parts

echo
echo "$command, $(date -u +%Y-%m-%d), $(git describe --always --dirty 2>/dev/null)"
echo "part        s   result"
while IFS= read -r line; do
  if [ ${#line} -le 80 ]; then
    echo "$line"
  else
    head=${line:0:17} rest=${line:17}
    while IFS= read -r piece; do
      printf '%s%s\n' "$head" "$piece"
      head=$(printf '%17s' "")
    done < <(fold -s -w 63 <<<"$rest")
  fi
done <<<"${table%$'\n'}"
echo "$((SECONDS - begin)) s; logs in $LOGS"
exit $code
