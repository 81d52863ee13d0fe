# Thin: every target is a line or two over meson and the scripts in tools/. `make help` lists them.
B       ?= build/release
JOBS    ?= 2
SECONDS ?= 60
PREFIX  ?= /usr/local
export PATH := $(CURDIR)/build/venv/bin:$(PATH)

# $(call configured,FOLDER,OPTIONS) and $(call built,FOLDER)
configured = test -f $1/build.ninja || meson setup $1 $2
built      = ninja -C $1 -j $(JOBS)

help:     ## this list
	@sed -n 's/^\([a-z]*\): [^#]*## /\1	/p' Makefile | expand -t 12

setup:    ## install what is missing (compiler, meson, ninja, python3 ..); nothing if all is there
	@tools/setup

build: setup    ## the library, shared and static, the tests, the examples
	@$(call configured,$(B),--prefix $(PREFIX))
	@$(call built,$(B))

test: build    ## all tests; the last line is the sum: N passed, N failed, N skipped
	@$(B)/test/weft-test

clean:    ## remove build/
	rm -rf build

.PHONY: help setup build test clean
