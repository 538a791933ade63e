#!/usr/bin/env bash
# Trains on ranks that the mpirun of Open MPI and of MPICH start on this machine, over loopback. Every run must give the
# metrics and states of a run without MPI. Ranks that differ, and launchers that cannot be used, must be refused.
#   tests/mpi/run.sh [BUILD]        ends with "mpi: passed (N checks)", "mpi: FAILED: ..." or "mpi: skipped: reason"
set -u
cd "$(dirname "$0")/../.."
normlab=$(realpath -m "${1:-build}")/normlab  # as /proc names it
[ -x "$normlab" ] || { echo "mpi: skipped: $normlab is not built"; exit 0; }
launchers=()
for mpi in openmpi mpich; do command -v mpirun.$mpi >/dev/null && launchers+=($mpi); done
[ ${#launchers[@]} -gt 0 ] || {
  echo "mpi: skipped: there is no mpirun.openmpi or mpirun.mpich; on Debian: apt-get install openmpi-bin mpich"; exit 0; }

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1  # for containers
export OMPI_MCA_btl=self,tcp OMPI_MCA_btl_tcp_if_include=lo OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_hwloc_base_binding_policy=none
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
checks=0
fail() { echo "mpi: FAILED: $1"; tail -n 20 "$folder/log"; exit 1; }
check() { checks=$((checks + 1)); "${@:2}" || fail "$1"; }

cat > "$folder/sweep.json" <<'END'
{"about": "a test", "dataset": {"name": "shapes", "train_images": 120, "eval_images": 40},
 "model": {"patch_size": 8, "embed_dim": 16, "depth": 2, "num_heads": 2, "drop_path": 0.2},
 "train": {"epochs": 3, "batch_size": 24, "clip_norm": 0.5, "ema": {"decay": 0.9}, "augment": {"mix": {"mixup": 0.2}}},
 "norms": {"mine": {"formula": "gamma * x / (abs(x) + alpha * std_image(x)) + beta", "parameters": {"alpha": 0.5}}},
 "sweep": {"model.placement": [{"base": "pre_pre", "norm": "mine"}, "bn"]}, "seeds": 1, "baseline": {"model.placement": "bn"}}
END
run() {  # MPI RANKS OPTIONS...: the run's exit code, its output in the log
  timeout 300 mpirun."$1" -n "$2" "$normlab" run "$folder/sweep.json" "${@:3}" >"$folder/log" 2>&1
}
# Step, metrics and hashes of the state, of every attempt that has a result.
bits() { (cd "$1/trials" && cat */attempt-*/metrics.jsonl */attempt-*/states.jsonl | sha256sum); }
says() { grep -q "$1" "$folder/log"; }
no_trial() { [ ! -e "$folder/$1/trials" ]; }

"$normlab" run "$folder/sweep.json" --out "$folder/alone" >"$folder/log" 2>&1 || fail "a run without MPI"
want=$(bits "$folder/alone")
equal() { [ "$(bits "$folder/$1")" = "$want" ]; }
for mpi in "${launchers[@]}"; do
  for ranks in 2 3 4; do
    out=$mpi-$ranks
    check "$mpi: $ranks ranks end" run $mpi $ranks --out "$folder/$out" --ranks-per-trial $ranks --threads 1
    check "$mpi: $ranks ranks say so" says "$ranks train each trial together"
    check "$mpi: $ranks ranks give the bits of one process" equal $out
  done
  check "$mpi: two ranks share two trials" run $mpi 2 --out "$folder/$mpi-each" --threads 1
  check "$mpi: and say so" says "each trains trials of its own, since there are 2 trials"
  check "$mpi: with the same bits" equal $mpi-each
  check "$mpi: four ranks are two groups" run $mpi 4 --out "$folder/$mpi-groups" --ranks-per-trial 2 --threads 1
  check "$mpi: with the same bits in both" equal $mpi-groups

  # A rank is killed during the training: the job ends, and another number of ranks continues.
  slow=(--out "$folder/$mpi-killed" --set train.epochs=200 --set checkpoint.steps=5 --threads 1)
  timeout 300 mpirun.$mpi -n 3 "$normlab" run "$folder/sweep.json" "${slow[@]}" --ranks-per-trial 3 >"$folder/log" 2>&1 &
  job=$!
  for _ in $(seq 300); do ls "$folder/$mpi-killed"/trials/*/attempt-1/checkpoint.safetensors >"$folder/found" 2>&1 && break; sleep 0.1; done
  victim=$(for p in /proc/[0-9]*; do
    [ "$(readlink "$p/exe")" = "$normlab" ] && tr '\0' '\n' <"$p/environ" 2>/dev/null | grep -qE '^(OMPI_COMM_WORLD_RANK|PMI_RANK)=1$' &&
      tr '\0' ' ' <"$p/cmdline" | grep -q "$folder/$mpi-killed" && basename "$p"; done | head -1)
  [ -n "$victim" ] || fail "$mpi: no rank 1 to kill"
  kill -9 "$victim"
  wait $job && fail "$mpi: a job with a killed rank ends well"
  checks=$((checks + 1))
  check "$mpi: another number of ranks continues" run $mpi 2 "${slow[@]}" --ranks-per-trial 2 --retry failed
  "$normlab" run "$folder/sweep.json" --out "$folder/undisturbed" --set train.epochs=200 >"$folder/log" 2>&1
  same() { diff <(cd "$folder/$mpi-killed/trials" && for t in *; do tail -n 1 "$t/$(ls "$t" | grep attempt | sort -V | tail -1)/metrics.jsonl"; done) \
                <(cd "$folder/undisturbed/trials" && tail -q -n 1 */attempt-1/metrics.jsonl); }
  check "$mpi: with the bits of an undisturbed run" same

  # Ranks that differ, and options that do not suit them.
  sed 's/"epochs": 3/"epochs": 4/' "$folder/sweep.json" >"$folder/other.json"
  timeout 100 mpirun.$mpi -n 1 "$normlab" run "$folder/sweep.json" --out "$folder/none" : \
    -n 1 "$normlab" run "$folder/other.json" --out "$folder/none" >"$folder/log" 2>&1 && fail "$mpi: two descriptors"
  check "$mpi: two descriptors are refused" says "has another descriptor than rank 0"
  run $mpi 2 --out "$folder/none" --ranks 2 && fail "$mpi: --ranks under a launcher"
  check "$mpi: --ranks is refused" says "use --ranks-per-trial"
  run $mpi 2 --out "$folder/none" --ranks-per-trial 3 && fail "$mpi: three of two ranks"
  check "$mpi: three of two ranks are refused" says "does not divide the 2 ranks"
  run $mpi 3 --out "$folder/none" --ranks-per-trial 3 --set train.batch_size=2
  check "$mpi: more ranks than images are refused" says "a batch has 2 images"
  check "$mpi: nothing was trained" no_trial none
done
# A launcher's variables without the launcher: the ranks do not find each other.
for variables in "OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2" "PMI_RANK=0 PMI_SIZE=2"; do
  case $variables in OMPI*) mpi=openmpi;; *) mpi=mpich;; esac
  [[ " ${launchers[*]} " = *" $mpi "* ]] || continue
  timeout 100 env $variables "$normlab" run "$folder/sweep.json" --out "$folder/none" >"$folder/log" 2>&1
  check "$mpi: ranks that do not find each other end with code 3" [ $? = 3 ]
  check "$mpi: and say so" says "has started 2 ranks, but .* finds 1"
done
echo "mpi: passed ($checks checks)"
