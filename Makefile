# Thin: a target is a few lines over meson and the scripts in tools/. Variables: CC, JOBS, SECONDS and SEED (make fuzz),
# PREFIX and DESTDIR (make install), T (make test T=text runs only the tests of the library that are called so). JOBS is how many
# compilers, and tests of the checked builds, run at once: as many as there are processors.
B       ?= build/release
JOBS    ?= $(or $(shell nproc 2>/dev/null),2)
SECONDS ?= 60
PREFIX  ?= /usr/local
T       ?=
comma   := ,
export PATH := $(CURDIR)/build/venv/bin:$(PATH)

# $(call make_in,FOLDER,OPTIONS,TARGETS): configures the folder if it is new, and builds it, or these targets of it alone.
make_in = test -f $1/build.ninja || { tools/setup --once && meson setup $1 $2; } && ninja -C $1 -j $(JOBS) $3
gpu_seconds = $(if $(filter command line,$(origin SECONDS)),$(SECONDS),120)
checked = -Doptimization=1 -Dpython=disabled

help:       ## this list
	@sed -n 's/^\([a-z-]*\): [^#]*## /\1	/p' Makefile | expand -t 16

setup:      ## install what is missing (compiler, meson, python3 ..); nothing if all is there
	@tools/setup

build:      ## the library, shared and static, its tests and examples, in build/release
	@$(call make_in,$(B),--prefix $(PREFIX))

demo: build ## train a small network, show its kernels, draw what it learnt
	@$(B)/examples/demo $(B)/demo.svg

examples: build ## run all of examples/; each draws a picture, in build/release/examples
	@tools/examples $(B)

test: build ## all tests; the last line is their sum: N passed, N failed, N skipped
	@$(if $(T),$(B)/test/weft-test --verbose $(T),tools/test $(B))

scenes: build ## the failures weft was founded on, in C and Python, on vm and x86
	@tools/scenes $(B) vm x86

asan:       ## the tests of the library under AddressSanitizer and UBSan
	@$(call make_in,build/asan,$(checked) -Db_sanitize=address$(comma)undefined -Dc_args=-fno-sanitize-recover=all,test/weft-test)
	@tools/sanitized build/asan/test/weft-test --jobs $(JOBS) $(T)

tsan:       ## the same under ThreadSanitizer
	@$(call make_in,build/tsan,$(checked) -Db_sanitize=thread,test/weft-test)
	@tools/sanitized build/tsan/test/weft-test --jobs $(JOBS) $(T)

valgrind: build ## tests and random programs under memcheck, by the vm: values that nothing has set. COUNT=400, SEED
	@tools/valgrind $(B) $(or $(COUNT),400) $(SEED)

hard:       ## the tests of the library with every internal invariant asserted
	@$(call make_in,build/hard,-Dhard=true -Db_ndebug=false -Dpython=disabled,test/weft-test)
	@build/hard/test/weft-test --jobs $(JOBS) $(T)

fuzz: build ## random programs, graphs and files, SECONDS=60 for each; SEED=n: from there on
	@tools/fuzz $(B) $(SECONDS)

ulp: build  ## how far mathematical functions are from the truth; writes docs/accuracy.md
	@$(B)/test/ulp -o docs/accuracy.md

special: build  ## likewise of special functions, against mpmath, which PYTHON must have; writes docs/special.md
	@WEFT_ULP=$(B)/test/ulp $(or $(PYTHON),python3) test/special.py -o docs/special.md

distributions: build ## a million draws of every function of weft.random against SciPy, which PYTHON must have
	@PYTHONPATH=$(B)/python $(or $(PYTHON),python3) test/distributions.py

bench: build ## how fast it is: alone, against kernels by hand, and against its peers (installed in a cache folder)
	@tools/bench $(B)

coverage: build ## docs/coverage.md, measured: what each operation can do; minutes, 6 GiB. ADD=1: > 2^31 of new ones only
	@$(B)/test/weft-coverage $(if $(ADD),--add docs/coverage.md) >$(B)/coverage.md && mv $(B)/coverage.md docs/coverage.md

arm: build  ## the library and its tests for aarch64 under qemu-user: the bits are those of the vm here
	@tools/arm $(B) $(T)

gpu: build  ## all that needs an NVIDIA GPU: gpu-test, gpu-digest, gpu-fuzz, gpu-bench; where there is none it says so and succeeds
	@SECONDS_OF_FUZZ=$(gpu_seconds) ROWS="$(ROWS)" tools/gpu $(B) test digest fuzz bench

gpu-test: build ## tests of kernels, plans, loops and the library on the GPU, and the scenes
	@tools/gpu $(B) test

gpu-digest: build ## what every op gives on the GPU and on the host, bit by bit, and that all of it ran on the GPU
	@tools/gpu $(B) digest

gpu-programs: build ## 10^4 random programs on the GPU with the bits of plain C, PROGRAMS=10000 FROM=1
	@PROGRAMS=$(PROGRAMS) FROM=$(FROM) tools/gpu $(B) programs

gpu-fuzz: build ## random programs on the GPU, SECONDS=120
	@SECONDS_OF_FUZZ=$(gpu_seconds) tools/gpu $(B) fuzz

gpu-sanitize: build ## a selection on the GPU under compute-sanitizer, memcheck and racecheck
	@tools/gpu $(B) sanitize

gpu-bench: build ## bench/compare --device gpu, into docs/gpu.md and its picture; ROWS="text ..": only works that are called so
	@ROWS="$(ROWS)" tools/gpu $(B) bench

mlx-suite: build ## MLX's own tests on weft: MLX=a checkout of its repository; PYTHON=one that has NumPy
	@PYTHONPATH=$(abspath $(B)/python) $(or $(PYTHON),python3) tools/mlx_suite.py $(or $(MLX),$(error say MLX=a checkout of MLX)) --jobs $(JOBS)

mlx-leaks: build ## a million calls of all kinds through weft.mlx leave nothing behind; PYTHON=one that has NumPy and pytest
	@WEFT_CALLS=1000000 PYTHONPATH=$(abspath $(B)/python) $(or $(PYTHON),python3) -m pytest -q -p no:cacheprovider python/test/test_mlx_leaks.py

array-api: build ## the tests of the Python array API on weft: CHECKOUT=array-api-tests, PYTHON with pytest, pytest-json-report, hypothesis, ndindex
	@PYTHONPATH=$(abspath $(B)/python) $(or $(PYTHON),python3) tools/array_api.py $(or $(CHECKOUT),$(error say CHECKOUT=a checkout of array-api-tests)) --jobs $(JOBS)

pytensor-suite: build ## PyTensor's own tests in mode WEFT: PYTENSOR=checkout, PART="scan mlx door tensor linalg", PYTHON with pytensor
	@$(or $(PYTHON),python3) tools/pytensor-suite $(B) $(or $(PYTENSOR),$(error say PYTENSOR=a checkout of PyTensor)) $(PART)

emulated: build ## tests on a device without a GPU, whose driver interprets PTX. T=text: only these
	@tools/emulated $(B) $(T)

assembled: build ## PTX of every operation read by ptxas, without a GPU; EVERY=N: machine code of every N-th text, of all unless told
	@tools/assembled $(B) $(EVERY)

symbols: build ## what the libraries export and use
	@tools/symbols $(B)

layers:     ## who includes whom, against tools/layers.txt, and no line too long
	@tools/layers

texts:      ## that files, targets, functions and tests which the texts name are there
	@tools/texts

install: build ## headers, libraries, pkg-config and CMake files, to DESTDIR and PREFIX
	@meson configure $(B) --prefix $(PREFIX) && meson install -C $(B) $(if $(DESTDIR),--destdir $(abspath $(DESTDIR)))

clean:      ## remove build/
	rm -rf build

.PHONY: help setup build demo examples test scenes asan tsan valgrind hard fuzz ulp special distributions bench coverage arm gpu gpu-test gpu-digest gpu-programs gpu-fuzz gpu-bench gpu-sanitize emulated assembled mlx-suite mlx-leaks array-api pytensor-suite symbols layers texts install clean
