#!/bin/bash
# Writes 10,000 results (20 placements x 25 rates x 20 seeds) as trials do, and times their table: of no results, of
# all, and of all with the folder's pages dropped from the cache if permitted.
#   tests/bench/table_time.sh [BINARY] [REPEATS]
set -euo pipefail
binary=$(realpath "${1:-build/normlab}")
repeats=${2:-5}
folder=$(mktemp -d)
[ -n "${KEEP:-}" ] || trap 'rm -rf "$folder"' EXIT
cd "$folder"

rates=$(awk 'BEGIN { for (i = 1; i <= 25; ++i) printf "%s%g", (i > 1 ? ", " : ""), i * 1e-4 }')
cat > many.json <<JSON
{
  "about": "How long does a table of 10,000 results take?",
  "dataset": { "name": "shapes" },
  "model": { "kind": "vit", "patch_size": 4, "embed_dim": 48, "depth": 3, "num_heads": 2 },
  "train": { "epochs": 1, "batch_size": 50 },
  "sweep": {
    "model.placement": ["pre_pre", "pre_post", "pre_prepost", "post_pre", "post_post", "post_prepost", "prepost_pre",
                        "prepost_post", "prepost_prepost", "normformer", "normformer_full", "sub_ln", "dpn", "stem_pre",
                        "stem_post", "bn", "bn_ffnbn", "dyt", "rms_norm", "layer_scale"],
    "train.optimizer.lr": [$rates]
  },
  "seeds": 20,
  "baseline": { "model.placement": "pre_pre" }
}
JSON

"$binary" table many.json --out results --format json > plan.json
# A result as long as a real one; its accuracy depends on its index.
awk '
  /^ *"seed": / { seed = $2 + 0 }
  /^ *"trial": / {
    id = $2; gsub(/[",]/, "", id); ++n
    folder = "results/trials/" id "/attempt-1"
    print folder > "folders"
    print id, seed, 0.7 + ((n * 7919) % 1000) / 20000 > "values"
  }' plan.json
xargs mkdir -p < folders
awk '{
  file = "results/trials/" $1 "/result.json"
  printf "{\n  \"schema\": 1,\n  \"id\": \"%s\",\n  \"status\": \"done\",\n  \"seed\": %d,\n  \"metrics\": {\n    \"eval/accuracy\": %s,\n    \"eval/loss\": 0.9664001737533603,\n    \"train/loss\": 0.9496966659768077\n  },\n  \"wall_seconds\": 202.311333825,\n  \"images_per_second\": 2467.4841026544254,\n  \"resumed\": 0,\n  \"different_bits\": false,\n  \"provenance\": {\n    \"arithmetic\": \"2\",\n    \"bits\": \"binary 874d53191452c54b | OpenBLAS OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH NO_AFFINITY Cooperlake MAX_THREADS=64 | oneDNN 2.6.3, avx512_core_bf16 | libmvec, 16 floats | arithmetic 2\",\n    \"blas_config\": \"OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH NO_AFFINITY Cooperlake MAX_THREADS=64\",\n    \"blas_core\": \"Cooperlake\",\n    \"cpu\": \"AMD EPYC\",\n    \"data\": \"generated shapes\",\n    \"data_hash\": \"ef9e1789389c5b98eab001a9d3174dd991f98b85fccd6854f5cd20866847c570+e395d04f5878bb135883d0bb0e59275d16e64c4008b1f8974fadadbb38311cce\",\n    \"device\": \"cpu\",\n    \"flags\": \"g++ -O3 -march=native -fno-math-errno -fno-trapping-math -ffp-contract=fast -fopenmp-simd\",\n    \"host\": \"virtual machine\",\n    \"started\": \"2026-11-21T13:24:13Z\",\n    \"threads\": \"1\",\n    \"version\": \"2f8ced7\"\n  }\n}\n", $1, $2, $3 > file
  close(file)
}' values

now() { date +%s.%N; }
# Wall and processor seconds of each call, and the minima.
measure() {
  local name=$1; shift
  for ((i = 0; i < repeats; ++i)); do
    local begin; begin=$(now)
    /usr/bin/env bash -c 'TIMEFORMAT="%U %S"; time "$@" > /dev/null' _ "$@" 2> cpu
    awk -v begin="$begin" -v end="$(now)" '{ printf "%.3f %.3f %.3f\n", end - begin, $1, $2 }' cpu
  done | sort -n | awk -v name="$name" 'NR == 1 { best = $0 } END {
    split(best, part, " "); printf "%-34s %6.3f s  (processor: %.3f s user, %.3f s system; best of %d)\n", name, part[1], part[2], part[3], NR }'
}
measure "expansion alone (schema check)" "$binary" check many.json
measure "10,000 missing results" "$binary" table many.json --out nowhere
measure "10,000 results, text" "$binary" table many.json --out results
measure "10,000 results, json" "$binary" table many.json --out results --format json
"$binary" table many.json --out results --rows placement --cols lr | head -30 > sample
