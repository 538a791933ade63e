#!/usr/bin/env bash
# Builds the program and the tests of core, autograd, nn and the fixtures for 64-bit ARM with Debian's cross compiler,
# and runs them and a sweep under qemu's user emulation. That shows nothing about speed, or about real ARM CPUs.
#   tests/arm64/run.sh [BUILD [JOBS]]        ends with "arm64: passed (...)", "arm64: FAILED: ..." or
#                                            "arm64: skipped: reason"
set -u
cd "$(dirname "$0")/../.." || exit
build=${1:-build-arm64}
sysroot=$PWD/$build/sysroot

skip() { echo "arm64: skipped: $1"; exit 0; }
fail() { echo "arm64: FAILED: $1"; exit 1; }
for program in aarch64-linux-gnu-g++ qemu-aarch64-static; do
  command -v $program >/dev/null ||
    skip "there is no $program; on Debian: apt-get install g++-aarch64-linux-gnu qemu-user-static"
done
[ -d "$sysroot" ] ||
  skip "there are no libraries for ARM; tests/arm64/sysroot $build/sysroot downloads 55 MB and installs nothing"

# The GPU's kernels are linked, but not run: they would be emulated twice.
${MAKE:-make} -j"${2:-$(nproc)}" BUILD="$build" ARCH=armv8.2-a CUDA=0 \
  CXX="aarch64-linux-gnu-g++ --sysroot=$sysroot" EMULATED="$(echo cuda/*.cu)" QEMU="qemu-aarch64-static -L $sysroot" \
  TESTS="$(find tests/core tests/autograd tests/nn tests/reference -name '*_test.cpp' | sort | tr '\n' ' ')" \
  "$build/normlab" "$build/tests/run" || fail "the build"

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
openblas=/usr/lib/aarch64-linux-gnu/openblas-pthread  # an installation would link it among the other libraries
emulate() { qemu-aarch64-static -L "$sysroot" -E LD_LIBRARY_PATH=$openblas "$@"; }
says() { grep -q "$1" "$folder/log" || { cat "$folder/log"; fail "$2"; }; }

qemu-aarch64-static -cpu cortex-a53 -L "$sysroot" "$build/normlab" --version >"$folder/log" 2>&1
[ $? = 3 ] || fail "an ARM CPU without atomics is not refused with code 3"
says "built for a CPU with atomics" "the missing feature is not named"

# Two processes, which use two cores. qemu does not limit an address space, so the tests of such a limit cannot run.
export NORMLAB_TEST_DEVICES=
left_out='shards: without memory for their stacks*,shards: after a lack of memory*,* on GPUs: *,NCCL: *'
emulate "$build/tests/run" -sf='*tests/nn/*' -tce="$left_out" >"$folder/nn" 2>&1 &
emulate "$build/tests/run" -sfe='*tests/nn/*' -tce="$left_out" >"$folder/others" 2>&1
wait $!
passed=0
for part in nn others; do
  summary=$(sed -n 's/\x1b\[[0-9;]*m//g; s/^\[doctest\] test cases: *//p' "$folder/$part" | tail -1)
  count=$(sed -n 's/.*| *\([0-9]*\) passed | *0 failed.*/\1/p' <<<"$summary")
  [ "${count:-0}" != 0 ] || { tail -n 60 "$folder/$part"; fail "tests: ${summary:-ended before their summary}"; }
  passed=$((passed + count))
done

cat >"$folder/sweep.json" <<'JSON'
{"about": "a test", "dataset": {"name": "shapes", "train_images": 120, "eval_images": 40},
 "model": {"patch_size": 8, "embed_dim": 16, "depth": 2, "num_heads": 2, "drop_path": 0.2},
 "train": {"epochs": 2, "batch_size": 24, "clip_norm": 0.5, "augment": {"mix": {"mixup": 0.2}}},
 "sweep": {"model.placement": ["pre_pre", "bn"]}, "seeds": 2, "baseline": {"model.placement": "pre_pre"}}
JSON
sweep() {  # NAME OPTIONS...
  emulate "$build/normlab" run "$folder/sweep.json" --out "$folder/$1" "${@:2}" >"$folder/log" 2>&1
}
trained() {
  sweep "$@" || { cat "$folder/log"; fail "the sweep: $*"; }
  says "4 of 4 trials done (0 before), 0 diverged, 0 failed" "the sweep has not trained four trials: $*"
}
# Step, metrics and hashes of the state, of every trial.
bits() { cat "$folder/$1"/trials/*/attempt-*/metrics.jsonl "$folder/$1"/trials/*/attempt-*/states.jsonl; }
trained workers --workers 2 --threads 1
trained threads --workers 1 --threads 2
trained rounded --workers 2 --threads 1 --set train.precision=bf16_emulated
cmp <(bits workers) <(bits threads) || fail "two threads give other bits than one"
sweep refused --set train.precision=bf16
[ $? = 3 ] || fail "bf16 is not refused with code 3"
says 'needs an x86-64 CPU.*use "bf16_emulated"' "the error of bf16 does not say what to use"
echo "arm64: not run: $left_out"
echo "arm64: passed ($passed tests of core, autograd, nn and the fixtures; 3 sweeps of 4 trials)"
