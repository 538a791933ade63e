# `make help` lists the targets.
# Settings: ARCH=native  BUILD=build  CXX=g++  SANITIZE=address,undefined|thread  CUDA=0|1  CUDA_ARCH="80 90"  JOINED=0|1  JOBS=...  V=1  PREFIX=/usr/local  DESTDIR=
ARCH ?= native
BUILD ?= build
SANITIZE ?=
COVERAGE ?=
JOBS ?= $(shell nproc)
CXX := $(if $(filter default,$(origin CXX)),g++,$(CXX))
NVCC ?= $(shell command -v nvcc 2>/dev/null)
# By default, GPU kernels are built if this machine has a GPU, and for its GPUs only. CUDA=1 builds them for all
# architectures. The last architecture is also compiled to PTX, for newer GPUs.
ifeq ($(origin CUDA),undefined)
GPUS := $(shell nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | \
  sed -n 's/^\([0-9]*\)\.\([0-9]\)$$/\1\2/p' | sort -u)
CUDA := $(if $(and $(NVCC),$(GPUS)),1,0)
CUDA_ARCH ?= $(GPUS)
CUDA_WHY := $(if $(NVCC),$(if $(GPUS),$(patsubst %,sm_%,$(GPUS)) (CUDA=0 leaves them out),none, since no GPU is here \
  (CUDA=1 builds them for all architectures)),none, since nvcc is not on PATH)
else
CUDA_WHY = $(if $(filter 1,$(CUDA)),$(patsubst %,sm_%,$(CUDA_ARCH)),none) (by CUDA=$(CUDA))
endif
CUDA_ARCH ?= 80 90 90a 100

# These flags determine the numbers in every result: the compiler fuses multiply-adds wherever possible, and
# reassociates only loops marked `omp simd reduction`.
ARITHMETIC_FLAGS := -fno-math-errno -fno-trapping-math -ffp-contract=fast -fopenmp-simd
LEVEL := $(if $(SANITIZE)$(COVERAGE),-O1 -g1 -fno-omit-frame-pointer,-O3)
OPTIMISE := $(LEVEL) -march=$(ARCH)
WARNINGS := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Wno-psabi -Werror
# g++ 12 reports nonexistent overlaps and overflows in std::string (GCC bugs 105651, 105329), and with sanitizers
# nonexistent uninitialised values in <regex> (105562).
ifeq ($(findstring clang,$(shell $(CXX) --version 2>/dev/null)),)
WARNINGS += -Wno-restrict -Wno-stringop-overflow $(if $(SANITIZE),-Wno-maybe-uninitialized)
CXXFLAGS += --param=ggc-min-heapsize=1048576  # g++ collects garbage only above 1 GB
# Library headers that most files include, precompiled for g++.
PRECOMPILED := $(if $(SANITIZE),,algorithm array chrono condition_variable filesystem functional map memory optional set \
  span sstream string thread unordered_map variant vector fmt/core.h)
export CCACHE_SLOPPINESS ?= pch_defines,time_macros
else ifneq ($(SANITIZE)$(COVERAGE),)
WARNINGS += -Wno-pass-failed  # counters and sanitizers keep some loops scalar
endif
# With AVX-512, g++ 12.2 copies some constants wrongly ({0.5, 0.5, 0, 0} as 0.5 four times), but not in pieces of 16
# bytes. The kernels do not change. tests/core/compiler_test.cpp detects the bug.
COPIES := -mmove-max=128 -mstore-max=128
COPIES := $(shell echo | $(CXX) $(COPIES) -x c++ -fsyntax-only - >/dev/null 2>&1 && echo $(COPIES))
CPPFLAGS += -I. -MMD -MP
INSTRUMENT := $(if $(SANITIZE),-fsanitize=$(SANITIZE))$(if $(COVERAGE),-fprofile-instr-generate -fcoverage-mapping)
CXXFLAGS += -std=c++20 -march=$(ARCH) $(COPIES) $(ARITHMETIC_FLAGS) $(WARNINGS) -pthread $(INSTRUMENT)
LDFLAGS += -pthread $(INSTRUMENT)
# A build for a level of x86-64 runs on many machines. It uses the same kernels of OpenBLAS on every CPU, so that it
# gives the same bits, and libraries beside it come first, also those that its libraries need (RPATH, not RUNPATH).
OPENBLAS_CORE := $(if $(filter x86-64-v3,$(ARCH)),Haswell,$(if $(filter x86-64-v4,$(ARCH)),SkylakeX))
ifneq ($(OPENBLAS_CORE),)
LDFLAGS += -Wl,--disable-new-dtags,-rpath,'$$ORIGIN'
$(BUILD)/core/cpu/blas.o $(BUILD)/tests/core/blas_test.o: private CPPFLAGS += -DNORMLAB_OPENBLAS_CORE='"$(OPENBLAS_CORE)"'
endif
LDLIBS += -lfmt -ljpeg -lpng -lnettle -lz -ldl

# The release's number, which CHANGELOG.md's first heading repeats, and the commit.
NUMBER := 0.2.0
VERSION := $(NUMBER)+$(shell git describe --always --dirty --exclude='*' 2>/dev/null || echo unknown)
BUILD_FLAGS := $(CXX) $(OPTIMISE) $(COPIES) $(ARITHMETIC_FLAGS) $(if $(SANITIZE),-fsanitize=$(SANITIZE))

LIBRARY := $(filter-out experiments/lab/main.cpp experiments/lab/tarball/%,\
  $(shell find core autograd nn cuda experiments -name '*.cpp' | sort))
CUDA_SOURCES := $(sort $(wildcard cuda/*.cu))
EMULATED := $(CUDA_SOURCES) $(sort $(wildcard tests/cuda_emulation/*_test.cu))
TESTS := $(shell find tests -name '*_test.cpp' -printf '%h %p\n' | sort -k1,1 -k2,2 | sed 's/.* //')
TEST_SUPPORT := $(filter-out %/formula_units.cpp,$(wildcard tests/cuda_emulation/*.cpp)) tests/devices.cpp tests/system_calls.cpp tests/main.cpp

# Most time goes into the headers and templates that files of a room share. A new build therefore compiles several of
# them as one, a unit (.ci/units). Not those with fused multiply-adds, whose bits could change with their neighbours
# (tests/joined), those whose names would need to be others, and build_info.cpp, which changes with every commit.
JOINED ?=
ALONE := nn/model/fuse.cpp nn/model/init.cpp nn/model/parameters.cpp nn/model/rotary.cpp nn/training/schedule.cpp \
  $(addprefix experiments/lab/,base/build_info.cpp data/draws.cpp data/generated.cpp data/gratings.cpp data/jpeg.cpp \
  data/mix.cpp data/ops/% data/png.cpp data/random_boxes.cpp data/resize_% data/scenes.cpp data/segment_transform.cpp \
  data/shapes.cpp ledger/judge_rows.cpp ledger/verdict.cpp train/cost.cpp)
# LIGHT is compiled with -Og: it reads, writes, prints, and says which kernels compute what. Not files that have fused
# multiply-adds, and not those that write each pixel of a batch.
LIGHT_ROOMS := nn/model nn/training $(addprefix experiments/lab/,base bench cli descriptor ledger pictures sweep tables train trials weights)
PIXELS := experiments/lab/train/batches.cpp experiments/lab/train/eval_images.cpp
LIGHT := $(filter-out $(ALONE) $(PIXELS),$(filter $(LIGHT_ROOMS:%=%/%),$(LIBRARY)))
# Tests that define what others see stay alone.
JOINABLE_TESTS := $(shell grep -LE '^(namespace normlab|\#define|\#if|extern)' $(TESTS) /dev/null | grep -v /dev/null)
JOINABLE := $(LIGHT) $(filter-out $(ALONE),$(filter experiments/lab/data/%,$(LIBRARY))) \
  $(JOINABLE_TESTS)
UNITS := $(if $(filter 0,$(JOINED)),,$(shell bash .ci/units $(BUILD) '$(JOINED)' $(JOINABLE)))
UNIT_OBJECTS := $(patsubst %,$(BUILD)/%.o,$(filter-out %.cpp,$(UNITS)))
objects_of = $(patsubst %.cpp,$(BUILD)/%.o,$(filter-out $(UNITS),$(1)))

OBJECTS := $(call objects_of,$(LIBRARY)) $(filter-out $(BUILD)/joined/tests/%,$(UNIT_OBJECTS)) $(BUILD)/recipes.o $(if $(filter 1,$(CUDA)),$(CUDA_SOURCES:%.cu=$(BUILD)/%.o))
TEST_OBJECTS := $(call objects_of,$(TESTS)) $(filter $(BUILD)/joined/tests/%,$(UNIT_OBJECTS)) $(TEST_SUPPORT:%.cpp=$(BUILD)/%.o)
# Kernels of formulas, whose text a program writes; with LONG=1 also those of the long tests.
FORMULA_UNITS := 0 1 $(if $(LONG),2 3 4 5 6 7 8 9)
EMULATED_OBJECTS := $(EMULATED:%.cu=$(BUILD)/emulated/%.o) $(FORMULA_UNITS:%=$(BUILD)/emulated/formulas/%.o)
BINARY := $(BUILD)/normlab
TEST_BINARY := $(BUILD)/tests/run
REVERSED := $(BUILD)/tests/normlab_reversed
FAULTS := $(BUILD)/faults.so
FAKE_NCCL := $(BUILD)/tests/libnccl.so.2

# Prints what is being compiled. .ci/build first counts these lines, then passes their number as STEPS.
step = $(if $(STEPS),sh .ci/step $(BUILD) $(STEPS) "$(1)",echo "  $(1)")

.PHONY: help all install deps missing-packages build-all compile_commands coverage test test-long test-avx2 torture test-mpi test-arm64 test-reference sweep bench bench-peers \
  example-report site tarball cuda-report fuzz fuzz-coverage tsan asan lint format clean
.DEFAULT_GOAL := all

# The build runs in parallel and counts its files.
in_parallel = @echo "GPU kernels: $(CUDA_WHY)"; MAKE="$(MAKE) --no-print-directory" bash .ci/build $(BUILD) $(JOBS)
help:  ## list the targets
	@sed -n 's/^\([a-z][a-z-]*\):[^#]*## /\1\t/p' Makefile | while IFS="$$(printf '\t')" read -r name what; do \
	  printf '  %-16s %s\n' "$$name" "$$what"; done
	@sed -n 's/^# Settings: /  /p' Makefile

all: missing-packages  ## build the program, BUILD/normlab; installs nothing
	$(in_parallel) $(BINARY)

PREFIX ?= /usr/local
install: all  ## copy the program and the descriptors to DESTDIR/PREFIX
	@install -D $(BINARY) $(DESTDIR)$(PREFIX)/bin/normlab
	@for file in $$(cd experiments && find . -name '*.json'); do \
	  install -D -m 644 experiments/$$file $(DESTDIR)$(PREFIX)/share/normlab/experiments/$$file; done
	@install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/doc/normlab LICENSE README.md CHANGELOG.md
	@echo "$(DESTDIR)$(PREFIX)/bin/normlab, $(DESTDIR)$(PREFIX)/share/normlab/experiments"

build-all: $(BINARY) $(TEST_BINARY) $(REVERSED) $(FAKE_NCCL) $(if $(SANITIZE),,$(FAULTS))

deps:  ## install missing packages on Debian and Ubuntu
	@bash .ci/deps
missing-packages:
	@bash .ci/deps --check

# The images are a package. Where it cannot be had, .ci/sweep trains on generated ones, as DATA=gratings does.
DATA := fashion_mnist
SWEEP_PACKAGE := $(if $(filter fashion_mnist,$(DATA)),dataset-fashion-mnist)
sweep:  ## install missing packages and Fashion-MNIST, build, train the default sweep, print its table
	@MAKE="$(MAKE) --no-print-directory" bash .ci/announce $(JOBS) $(BINARY) $(DATA) $(SWEEP_PACKAGE)
	@bash .ci/deps
	@$(if $(SWEEP_PACKAGE),bash .ci/deps $(SWEEP_PACKAGE) || true)
	@$(MAKE) --no-print-directory all
	@bash .ci/sweep $(BINARY) $(DATA)

test: deps  ## install missing packages, build, run the tests
	$(in_parallel) build-all
	@bash tests/run_tests $(BUILD)

# Builds kernels for all architectures if nvcc is installed, unless CUDA is set.
test-long: deps  ## all tests, also the long ones: about an hour
ifeq ($(origin CUDA)$(if $(NVCC),,-),file)
	@$(MAKE) --no-print-directory CUDA=1 test-long
else
	@echo "GPU kernels: $(CUDA_WHY)"; MAKE="$(MAKE) --no-print-directory LONG=1" bash .ci/build $(BUILD) $(JOBS) build-all
	@NORMLAB_LONG=1 bash tests/run_tests $(BUILD)
endif

# Runs every rig in full, for some hours: damaged files, kills, merges side by side, and faults of every call that reads
# or writes.
torture: deps  ## every rig against damage, kills and faults in full: some hours
	$(in_parallel) build-all
	@failed=0; bash tests/damage/run $(BUILD) 10000 3 || failed=1; tests/kills/run $(BUILD) 1000 3 || failed=1; \
	tests/sharing/run $(BUILD) 1000 3 || failed=1; tests/faults/run $(BUILD) 1 3 || failed=1; exit $$failed

# Ranks of Open MPI and of MPICH on this machine, over loopback, where their launchers are installed.
test-mpi: deps  ## ranks of Open MPI and MPICH on this machine
	$(in_parallel) $(BINARY)
	@bash tests/mpi/run.sh $(BUILD)

# A cross build for 64-bit ARM and its tests under emulation: about half an hour.
test-arm64:  ## cross-compile for 64-bit ARM and test under emulation: half an hour
	@MAKE="$(MAKE) --no-print-directory" bash tests/arm64/run.sh $(BUILD)-arm64 $(JOBS)

test-reference: deps  ## compare with the numbers of REFERENCE_DIR
	$(in_parallel) build-all
	@REFERENCE_DIR="$(or $(REFERENCE_DIR),tests/reference/fixtures)" $(TEST_BINARY) -tc="reference:*"

# Runs the tests of multithreaded code under ThreadSanitizer: shards, the engine, prepared batches, data readers,
# leases, and sweeps by a program built with it. On the CPU only, since the emulated device has one thread and fibers.
# Two tests are excluded: one expects a crash's own signal, which the sanitizer catches; one limits the address space.
THREAD_TESTS := core/shards nn/training/engine nn/training/targets nn/training/accumulation nn/training/optimizer \
  nn/probes/probes lab/base/parallel lab/data/webdataset lab/data/image_folder lab/data/pack lab/train/batches \
  lab/train/pipeline lab/train/trial lab/trials/lease lab/trials/claim lab/sweep/dispatcher lab/cli/workers
tsan: deps  ## test multithreaded code under ThreadSanitizer
	@$(MAKE) --no-print-directory -j$(JOBS) BUILD=$(BUILD)-tsan SANITIZE=thread CUDA=0 \
	  TESTS="$(THREAD_TESTS:%=tests/%_test.cpp)" EMULATED="$(CUDA_SOURCES)" build-all
	@NORMLAB_TEST_DEVICES= NORMLAB_BINARY=$$PWD/$(BUILD)-tsan/normlab TSAN_OPTIONS="$(TSAN_OPTIONS)" $(BUILD)-tsan/tests/run \
	  -tce="workers: a crash*,workers: memory that runs out*"
TSAN_OPTIONS := suppressions=$(CURDIR)/tests/tsan.supp

# Compiles core/ and autograd/ for CPUs without AVX-512, whose kernels have other vectors, and runs their tests.
AVX2_TESTS := $(wildcard tests/core/*_test.cpp tests/core/cpu/*_test.cpp tests/core/formula/*_test.cpp tests/autograd/*_test.cpp)
test-avx2: deps  ## test core and autograd as compiled for CPUs without AVX-512
	@$(MAKE) --no-print-directory -j$(JOBS) BUILD=$(BUILD)-avx2 ARCH=x86-64-v3 CUDA=0 TESTS="$(AVX2_TESTS)" \
	  LIBRARY="$(filter core/% autograd/% cuda/% %/op_cases.cpp,$(LIBRARY))" EMULATED="$(CUDA_SOURCES)" $(BUILD)-avx2/tests/run
	@$(BUILD)-avx2/tests/run

# Runs all tests under AddressSanitizer and UndefinedBehaviorSanitizer, in a separate build folder.
asan: deps  ## all tests under AddressSanitizer and UndefinedBehaviorSanitizer
	@$(MAKE) --no-print-directory -j$(JOBS) BUILD=$(BUILD)-asan SANITIZE=address,undefined CUDA=0 build-all
	@UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 bash tests/run_tests $(BUILD)-asan

# The pages as a static site with search in build/site; needs mkdocs (Debian's package) and says so.
site:  ## the pages as a static site
	@command -v mkdocs >/dev/null || { echo "make site: needs mkdocs (apt-get install mkdocs)" >&2; exit 3; }
	@rm -rf build/site build/site_pages && mkdir -p build/site_pages
	@cp -r docs/*.md docs/*.svg docs/images docs/install docs/report build/site_pages
	@sed 's|(docs/|(|g; s|(CHANGELOG.md)|(changes.md)|g' README.md > build/site_pages/index.md
	@sed 's|(docs/|(|g' CHANGELOG.md > build/site_pages/changes.md
	@sed -i 's|(../README.md|(index.md|g; s|(../CHANGELOG.md|(changes.md|g' build/site_pages/*.md
	@mkdocs build -q --strict -f docs/site.yml
	@echo "build/site/index.html"

# One archive that runs without installing anything: programs for the levels, their libraries, descriptors, licences.
LEVELS := x86-64-v3 x86-64-v4
tarball: missing-packages  ## an archive that runs without installing anything
	@set -e; for level in $(LEVELS); do $(MAKE) --no-print-directory ARCH=$$level BUILD=$(BUILD)/$$level CUDA=0 all; done
	@$(CXX) -std=c++20 -O2 -march=x86-64 $(WARNINGS) -I. -Wl,--as-needed experiments/lab/tarball/start.cpp \
	  core/cpu/instruction_set.cpp -o $(BUILD)/start
	@CXX="$(CXX)" bash experiments/lab/tarball/pack $(BUILD) "$(VERSION)" $(LEVELS)

bench: all  ## measure training steps
	@for shape in micro tiny small; do $(BINARY) bench step --shape $$shape; done

# Makes a report and its pictures from the results in the repository.
example-report: all  ## a report of results in the repository
	$(BINARY) report experiments/placements_cifar10.json --from docs/results/cifar10.jsonl \
	  -o $(BUILD)/report/example.html --svg $(BUILD)/report

# Times normlab's and PyTorch's training step in turns; prints medians and ratios. PYTHON must have torch and timm.
bench-peers: all  ## compare training steps with PyTorch
	@bash tests/bench/compare.sh

# Runs each target of tests/fuzz, or those in TARGETS, for TIME seconds. Needs clang with libFuzzer.
TIME ?= 60
fuzz:  ## random input for every reader
	@MAKE="$(MAKE)" JOBS=$(JOBS) bash tests/fuzz/run $(BUILD)-fuzz $(TIME) $(TARGETS)

# Writes tests/fuzz/coverage.md: how many lines of each reader the fuzz inputs and the readers' tests execute.
fuzz-coverage:  ## lines of the readers that fuzzing executes
	@MAKE="$(MAKE)" JOBS=$(JOBS) bash tests/fuzz/coverage $(BUILD)-fuzz-coverage $(BUILD)-fuzz

lint:  ## check the format, the order of includes and clang-tidy
	@bash tests/format && bash tests/tidy

compile_commands: $(BUILD)/recipes.cpp  ## write compile_commands.json, for editors and clang-tidy
	@$(MAKE) -nB JOINED=0 --no-print-directory STEPS= build-all | python3 .ci/compile_commands > compile_commands.json

coverage: deps  ## lines of core, autograd and nn that their tests execute, with clang
	@MAKE="$(MAKE) --no-print-directory" JOBS=$(JOBS) bash tests/coverage $(BUILD)-coverage

format:  ## format the code
	@clang-format -i $$(git ls-files '*.h' '*.cpp' '*.cu' '*.cuh')

clean:  ## remove BUILD
	rm -rf $(BUILD)

$(BINARY): $(OBJECTS) $(BUILD)/experiments/lab/main.o
	@mkdir -p $(@D)
	@$(call step,LINK $@)
	@$(CXX) $(LDFLAGS) $^ $(LDLIBS) -o $@

# The program from objects in reverse order, which must give the same bits (tests/lab/cli/link_order_test.cpp).
$(REVERSED): $(OBJECTS) $(BUILD)/experiments/lab/main.o
	@mkdir -p $(@D)
	@$(call step,LINK $@)
	@$(CXX) $(LDFLAGS) $$(printf '%s\n' $^ | tac) $(LDLIBS) -o $@

$(TEST_BINARY): $(OBJECTS) $(TEST_OBJECTS) $(EMULATED_OBJECTS)
	@mkdir -p $(@D)
	@$(call step,LINK $@)
	@$(CXX) $(LDFLAGS) $^ $(LDLIBS) -larchive -lboost_context -o $@

# Preloaded by tests/faults/run. A program with a sanitizer would refuse it.
$(FAULTS): tests/faults/faults.cpp $(BUILD)/flags
	@mkdir -p $(@D)
	@$(call step,CXX $<)
	@$(CXX) -std=c++20 -O1 $(WARNINGS) -shared -fPIC $< -ldl -o $@

# Opened by tests in place of NCCL: a library of this name is the one that is already open.
$(FAKE_NCCL): tests/nccl/fake.cpp tests/nccl/fake.h $(BUILD)/flags
	@mkdir -p $(@D)
	@$(call step,CXX $<)
	@$(CXX) -std=c++20 -O1 -I. $(WARNINGS) -shared -fPIC -Wl,-soname,$(@F) $< -o $@

# File readers and their dependencies for tests/fuzz/run, as an archive, so that a target links only what it needs.
FUZZED_FOLDERS := base metrics statistics data descriptor trials tables weights
FUZZED := $(filter-out core/cpu/%,$(filter core/% autograd/% nn/% $(addsuffix /%,$(addprefix experiments/lab/,$(FUZZED_FOLDERS))),$(LIBRARY)))
FUZZED += experiments/lab/sweep/plan_file.cpp
$(BUILD)/fuzz/readers.a: $(FUZZED:%.cpp=$(BUILD)/%.o) $(BUILD)/recipes.o
	@mkdir -p $(@D)
	@rm -f $@
	@ar rcs $@ $^
.PRECIOUS: $(BUILD)/tests/fuzz/%.o
$(BUILD)/fuzz/%: $(BUILD)/tests/fuzz/%.o $(BUILD)/fuzz/readers.a
	@$(call step,LINK $@)
	@$(CXX) $(LDFLAGS) -fsanitize=fuzzer $^ $(LDLIBS) -o $@

# The tests of the folders with readers, as a separate program for tests/fuzz/coverage.
READER_TESTS := $(wildcard $(addsuffix /*_test.cpp,$(addprefix tests/lab/,$(FUZZED_FOLDERS) sweep)))
$(BUILD)/tests/readers: $(READER_TESTS:%.cpp=$(BUILD)/%.o) $(BUILD)/tests/readers_main.o $(BUILD)/tests/system_calls.o $(OBJECTS)
	@$(call step,LINK $@)
	@$(CXX) $(LDFLAGS) $^ $(LDLIBS) -larchive -o $@

$(BUILD)/%.o: %.cpp $(BUILD)/flags
	@mkdir -p $(@D)
	@$(call step,CXX $<)
	@$(CXX) $(CPPFLAGS) $(CXXFLAGS) $(LEVEL) -c $< -o $@
$(BUILD)/joined/%.o: $(BUILD)/joined/%.cpp $(BUILD)/flags
	@$(call step,CXX $* ($$(grep -c 'cpp"' $<) files))
	@$(CXX) $(CPPFLAGS) $(CXXFLAGS) $(LEVEL) -c $< -o $@

# Its flags must be those of the including file.
$(BUILD)/precompiled/%.h.gch: $(BUILD)/flags
	@mkdir -p $(@D)
	@printf '#include <%s>\n' $(PRECOMPILED) > $(@:.gch=)
	@$(call step,CXX $@)
	@$(CXX) $(CXXFLAGS) $(LEVEL) -x c++-header -c $(@:.gch=) -o $@

# Embeds the recipes as text, so that a copied program includes them.
RECIPES := $(sort $(wildcard experiments/recipes/*.json))
$(BUILD)/recipes.cpp: $(RECIPES) Makefile
	@mkdir -p $(@D)
	@{ printf '#include "experiments/lab/descriptor/recipes.h"\nnamespace normlab {\nstd::span<const Recipe> recipes() {\n'; \
	  printf '  static constexpr Recipe kRecipes[] = {\n'; \
	  for recipe in $(RECIPES); do printf '{"%s", R"json(' "$$(basename "$$recipe" .json)"; cat "$$recipe"; printf ')json"},\n'; done; \
	  printf '  };\n  return kRecipes;\n}\n}  // namespace normlab\n'; } > $@
$(BUILD)/recipes.o: $(BUILD)/recipes.cpp $(BUILD)/flags
	@$(CXX) $(CPPFLAGS) $(CXXFLAGS) -O1 -c $< -o $@

# The version changes with every commit; only the file that prints it is recompiled.
$(BUILD)/experiments/lab/base/build_info.o: private CPPFLAGS += -DNORMLAB_VERSION='"$(VERSION)"' -DNORMLAB_FLAGS='"$(BUILD_FLAGS)"' \
  -DNORMLAB_LEVEL='"$(ARCH)"'
$(BUILD)/experiments/lab/base/build_info.o: $(BUILD)/version

# Nothing joins a product and a sum that are different instructions of a formula.
$(BUILD)/core/cpu/formula.o $(BUILD)/core/cpu/formula_kernels.o: private CXXFLAGS += -ffp-contract=off

# These files must give the same bits as libraries that are compiled for any CPU.
$(BUILD)/experiments/lab/data/resize_weights.o $(BUILD)/experiments/lab/data/resize_tensorflow.o \
$(patsubst %.cpp,$(BUILD)/%.o,$(wildcard experiments/lab/data/ops/*.cpp)): private CXXFLAGS += -ffp-contract=off

# Not for kernels, and not for files with special flags.
LIGHT_OBJECTS := $(LIGHT:%.cpp=$(BUILD)/%.o) $(filter $(LIGHT_ROOMS:%=$(BUILD)/joined/%.%),$(UNIT_OBJECTS))
HEAVY := $(filter-out $(LIGHT) core/% experiments/lab/data/resize_% experiments/lab/data/ops/%,$(LIBRARY))
HEAVY_OBJECTS := $(HEAVY:%.cpp=$(BUILD)/%.o) $(filter-out $(LIGHT_OBJECTS),$(filter $(OBJECTS),$(UNIT_OBJECTS)))
ifneq ($(PRECOMPILED),)
$(LIGHT_OBJECTS): private CPPFLAGS += -fpch-preprocess -include $(BUILD)/precompiled/light.h
$(HEAVY_OBJECTS): private CPPFLAGS += -fpch-preprocess -include $(BUILD)/precompiled/heavy.h
$(LIGHT_OBJECTS): $(BUILD)/precompiled/light.h.gch
$(HEAVY_OBJECTS): $(BUILD)/precompiled/heavy.h.gch
endif

# Computing code has -O3. LIGHT has -Og, to compile faster. Tests get the fused
# multiply-adds of -O3.
ifeq ($(SANITIZE)$(COVERAGE),)
$(LIGHT_OBJECTS) $(BUILD)/precompiled/light.h.gch: private LEVEL := -Og
$(TEST_OBJECTS) $(TESTS:%.cpp=$(BUILD)/%.o): private LEVEL := -O1 -fexpensive-optimizations
endif

ifeq ($(CUDA),1)
# The runtime is linked statically and cuBLAS is loaded on use, so the binary also starts where only a driver
# is installed.
CUDA_HOME := $(patsubst %/bin/,%,$(dir $(realpath $(NVCC))))
LDLIBS += -L$(CUDA_HOME)/lib64 -lcudart_static -lrt
NVCCFLAGS := -std=c++20 -O3 -I. -MMD -MP --expt-relaxed-constexpr -Werror all-warnings \
  -Xcompiler -pthread,-Wall,-Wextra,-Wno-psabi,-Werror -DNORMLAB_CUDA_NAMESPACE=cuda \
  $(foreach arch,$(CUDA_ARCH),-gencode arch=compute_$(arch),code=sm_$(arch)) \
  -gencode arch=compute_$(lastword $(CUDA_ARCH)),code=compute_$(lastword $(CUDA_ARCH))
$(BUILD)/%.o: %.cu $(BUILD)/flags
	@mkdir -p $(@D)
	@$(call step,NVCC $<)
	@$(NVCC) $(NVCCFLAGS) -Xptxas -v -c $< -o $@ 2> $(@:.o=.ptxas) || { cat $(@:.o=.ptxas) >&2; exit 1; }
$(BUILD)/cuda/backend.o: private CPPFLAGS += -DNORMLAB_WITH_CUDA -isystem $(CUDA_HOME)/include

# Registers, shared memory and spills of each kernel on each architecture, from the output of ptxas.
cuda-report: $(CUDA_SOURCES:%.cu=$(BUILD)/%.o)
	@python3 tests/gpu/registers.py $(^:.o=.ptxas) > $(BUILD)/cuda_registers.md
	@echo "$(BUILD)/cuda_registers.md: $$(grep -m1 ' kernels in ' $(BUILD)/cuda_registers.md)"
else
cuda-report:
	@echo "cuda-report: needs nvcc (CUDA=1)" >&2; exit 3
endif

# Compiles the kernels as C++ for tests/cuda_emulation, whose headers replace CUDA's. The thread sanitizer's calls
# before each load and store are redirected to the emulation's checks; with another sanitizer there are none.
EMULATION_FLAGS := -O1 -Itests/cuda_emulation/include -DNORMLAB_CUDA_EMULATED -DNORMLAB_CUDA_NAMESPACE=cuda_emulated
EMULATION_FLAGS += $(if $(SANITIZE),-DNORMLAB_SANITIZED,-fsanitize=thread)$(if $(COVERAGE), -fno-profile-instr-generate -fno-coverage-mapping)
$(BUILD)/emulated/%.o: %.cu $(BUILD)/flags
	@mkdir -p $(@D)
	@$(call step,CXX $< (emulated))
	@$(CXX) -x c++ $(CPPFLAGS) $(CXXFLAGS) $(LEVEL) $(EMULATION_FLAGS) -c $< -o $@
# Nothing joins a product and a sum, as in NVRTC's kernels. QEMU: what runs a program of a cross build.
FORMULA_WRITER := $(BUILD)/tests/cuda_emulation/formula_units
$(FORMULA_WRITER): $(FORMULA_WRITER).o $(addprefix $(BUILD)/core/,formula/cuda_rows.o formula/cuda_source.o formula/cuda_values.o formula/graph.o formula/program.o formula/tree.o error.o)
	@$(call step,LINK $@)
	@$(CXX) $(LDFLAGS) $^ -lfmt -o $@
$(FORMULA_UNITS:%=$(BUILD)/emulated/formulas/%.o): $(BUILD)/emulated/formulas/%.o: $(FORMULA_WRITER) cuda/formula_kernels.h
	@mkdir -p $(@D)
	@$(call step,CXX formulas $* (emulated))
	@$(QEMU) $(FORMULA_WRITER) $* > $(@:.o=.cpp)
	@$(CXX) $(CPPFLAGS) $(CXXFLAGS) $(LEVEL) $(EMULATION_FLAGS) -ffp-contract=off -w -c $(@:.o=.cpp) -o $@
.PRECIOUS: $(FORMULA_WRITER).o
$(BUILD)/tests/cuda_emulation/%.o: private CPPFLAGS += $(if $(SANITIZE),-DNORMLAB_SANITIZED)

# Rewritten only if their content changes, so that other flags rebuild everything and the same flags nothing.
define remember
	+@mkdir -p $(BUILD)
	+@echo '$(1)' | cmp -s - $@ || echo '$(1)' > $@
endef
$(BUILD)/flags: FORCE
	$(call remember,$(CXX) $(CPPFLAGS) $(CXXFLAGS) $(LEVEL) $(PRECOMPILED) CUDA=$(CUDA) $(CUDA_ARCH))
$(BUILD)/version: FORCE
	$(call remember,$(VERSION))
.PHONY: FORCE
FORCE:

-include $(OBJECTS:.o=.d) $(TEST_OBJECTS:.o=.d) $(EMULATED_OBJECTS:.o=.d) $(BUILD)/experiments/lab/main.d $(FORMULA_WRITER).d $(wildcard $(BUILD)/tests/fuzz/*.d)
