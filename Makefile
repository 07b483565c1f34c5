# SPDX-License-Identifier: Apache-2.0
#
# libpprofagent. `make` builds build/libpprofagent.so, `make help` lists the rest.
#
# Objects live in build/obj/<variant>/, vendored archives in build/vendor/ (scripts/vendor), generated code in
# build/gen/. The library is linked against stubs of libc that offer only the symbol versions every libc of the last
# decade has (scripts/stub-libc, scripts/imports.allow), so that it can never keep a program from starting.

ifeq ($(origin CC),default)
CC := gcc
endif
CXX := $(if $(filter default,$(origin CXX)),g++,$(CXX))
CFLAGS ?= -O2 -g
VARIANT ?= release
ARCH ?= $(shell uname -m)
T ?=
CMD ?=
FUZZ_SECONDS ?= 60
RUSTC ?= rustc

ifneq ($(V),1)
.SILENT:
say = @echo "  $(1)"
endif

B := build
O := $(B)/obj/$(VARIANT)
V_ := $(B)/vendor
VLIB := $(V_)/lib
OUT := $(if $(filter release fuzz,$(VARIANT)),$(B),$(B)/$(VARIANT))
LIB := $(OUT)/libpprofagent.so

# -- how our own code is compiled ------------------------------------------------------------------------------------

WARN := -Wall -Wextra -Wshadow -Wvla -Wmissing-prototypes -Wstrict-prototypes -Wframe-larger-than=2048
# No jump tables: an indirect jump is then always a call through a pointer, which scripts/check-context forbids.
# No fortify, no stack protector: both import symbols; the first ones that musl lacks.
CODE := -std=gnu11 -D_GNU_SOURCE= -fPIC -fvisibility=hidden -ftls-model=initial-exec -fexceptions \
	-fno-jump-tables -fno-stack-protector -U_FORTIFY_SOURCE -ffunction-sections -fdata-sections
INC := -I. -I$(B)/gen -I$(V_)/include
CIVETWEB := -I$(V_)/civetweb/src -I$(V_)/civetweb/include -DNO_SSL -DNO_CGI -DNO_FILES -DNO_CACHING -DNDEBUG

CFLAGS_release :=
CFLAGS_debug := -Og -Wno-maybe-uninitialized -DPPA_DEBUG -Wno-frame-larger-than
CFLAGS_asan := -O1 -fsanitize=address -fno-omit-frame-pointer -DPPA_DEBUG -Wno-frame-larger-than
CFLAGS_ubsan := -O1 -fsanitize=undefined -fno-sanitize-recover=undefined -DPPA_DEBUG -Wno-frame-larger-than
CFLAGS_tsan := -O1 -fsanitize=thread -DPPA_DEBUG -Wno-frame-larger-than
CFLAGS_fuzz := -O1 -fsanitize=fuzzer-no-link,address -fno-omit-frame-pointer -DPPA_DEBUG -Wno-frame-larger-than
ifeq ($(VARIANT),fuzz)
CC := clang
endif

COMPILE = $(CC) $(CODE) $(WARN) $(INC) $(CFLAGS) $(CFLAGS_$(VARIANT)) $(CPPFLAGS) -MMD -MP

# Code of others: theirs to warn about, not ours. -O2 also where ours is not optimised.
$(O)/http/civetweb_embed.o: WARN := -Wall -Wno-unused -Wno-unused-parameter -Wno-unused-result
$(O)/http/civetweb_embed.o: INC += $(CIVETWEB)
$(O)/gen/%.o: WARN :=
$(O)/test/%.o: WARN += -Wno-frame-larger-than

# -- the library -----------------------------------------------------------------------------------------------------

SRC := $(wildcard agent/*.c agent/*/*.c agent/*/*/*.c unwind/*/*.c http/*.c proto/*.c proto/*/*.c)
GEN := $(if $(wildcard proto/profile.proto),$(B)/gen/proto/profile.pb.c)
PAGES := $(B)/gen/http/pages.h
OBJ := $(SRC:%.c=$(O)/%.o) $(GEN:$(B)/%.c=$(O)/%.o)
ARCHIVES := $(addprefix $(VLIB)/,libunwind.a libz.a libnanopb.a libbacktrace.a libiberty.a)
STUBS := $(addprefix $(B)/stub/,libc.so.6 libpthread.so.0 libdl.so.2 librt.so.1)

LINK := -shared -nostdlib -fPIC -Wl,-soname,libpprofagent.so -Wl,--version-script=agent/exports.map \
	-Wl,--exclude-libs,ALL -Wl,-z,defs -Wl,-z,now -Wl,-z,relro -Wl,-z,noexecstack -Wl,--gc-sections \
	-Wl,-T,agent/layout.ld \
	-Wl,--no-as-needed -Wl,--hash-style=gnu -Wl,--build-id=sha1

.PHONY: all debug
all: $(LIB)
debug:
	+$(MAKE) --no-print-directory VARIANT=debug all

$(LIB): $(OBJ) $(ARCHIVES) $(STUBS) agent/exports.map agent/layout.ld
	$(call say,LINK $@)
	mkdir -p $(@D)
	$(CC) $(LINK) $(LDFLAGS) -o $@.tmp $(OBJ) -Wl,--start-group $(ARCHIVES) -Wl,--end-group $(STUBS) -lgcc \
		|| { echo "hint: an undefined libc function must stand in scripts/imports.allow" >&2; false; }
	mv -f $@.tmp $@

$(O)/%.o: %.c $(B)/vendor/.stamp | $(GEN) $(PAGES)
	$(call say,CC $<)
	mkdir -p $(@D)
	$(COMPILE) -c -o $@ $<

$(O)/gen/%.o: $(B)/gen/%.c
	$(call say,CC $<)
	mkdir -p $(@D)
	$(COMPILE) -c -o $@ $<

$(B)/gen/proto/%.pb.c $(B)/gen/proto/%.pb.h: proto/%.proto proto/%.options | $(B)/.bootstrap-build
	$(call say,GEN $@)
	mkdir -p $(@D)
	protoc --plugin=protoc-gen-nanopb=/usr/bin/protoc-gen-nanopb -I proto --nanopb_opt="-q -Iproto" \
		--nanopb_out=$(@D) $(<F)

$(PAGES): $(wildcard http/pages/* http/pages/*/*) scripts/embed-pages
	$(call say,GEN $@)
	mkdir -p $(@D)
	scripts/embed-pages http/pages/*.css http/pages/flamegraph > $@.tmp && mv -f $@.tmp $@

$(STUBS) &: scripts/imports.allow scripts/stub-libc | $(B)/.bootstrap-build
	$(call say,GEN $(B)/stub)
	CC="$(CC)" scripts/stub-libc $(ARCH) $(B)/stub

# -- what we link in -------------------------------------------------------------------------------------------------

$(B)/.bootstrap-build: scripts/bootstrap
	scripts/bootstrap build

$(B)/.bootstrap-run: scripts/bootstrap
	scripts/bootstrap run

$(B)/vendor/.stamp: scripts/vendor scripts/vendor.redefine | $(B)/.bootstrap-build
	$(call say,VENDOR)
	scripts/vendor
$(ARCHIVES): $(B)/vendor/.stamp ;

# -- tests -----------------------------------------------------------------------------------------------------------
# The first lines of a test say what to link it with and how to compile it:
#   // link: unwind/walk/cfi.c agent/base/sys.c @unwind -lm  sources, @archives, -l flags
#   // flags: -O0                                           more compiler flags
# scripts/test-rules turns these lines into UNIT_LINK_<name> and so on, in build/tests.mk.

-include $(B)/tests.mk
$(B)/tests.mk: $(wildcard test/unit/*.c test/preload/*.c test/fuzz/*.c test/bench/*.c test/torture/*.c test/victims/*) scripts/test-rules
	mkdir -p $(B)
	scripts/test-rules > $@.tmp && mv -f $@.tmp $@

UNIT := $(patsubst test/unit/%.c,$(OUT)/unit/%,$(wildcard test/unit/*.c))
PRELOAD := $(patsubst test/preload/%.c,$(OUT)/preload/%,$(wildcard test/preload/*.c))
BENCH := $(patsubst test/bench/%.c,$(OUT)/bench/%,$(wildcard test/bench/*.c))
TORTURE := $(patsubst test/torture/%.c,$(OUT)/torture/%,$(wildcard test/torture/*.c)) \
	$(OUT)/torture/libstorm_one.so $(OUT)/torture/libstorm_two.so
FUZZ := $(patsubst test/fuzz/%.c,$(B)/fuzz/%,$(wildcard test/fuzz/*.c))

# @tokens of a link line, and the ground floor as an archive for whatever the line leaves open.
@nanopb := $(GEN:$(B)/%.c=$(O)/%.o) $(VLIB)/libnanopb.a
@zlib := $(VLIB)/libz.a
@unwind := $(VLIB)/libunwind.a
@backtrace := $(VLIB)/libbacktrace.a
@iberty := $(VLIB)/libiberty.a
@walker := $(O)/walker.a
@trace := $(patsubst %.c,$(O)/%.o,$(wildcard proto/trace/*.c))
BASE := $(O)/base.a
BASE_OBJ := $(patsubst %.c,$(O)/%.o,$(wildcard agent/base/*.c))
# $(call link,words of a link line): objects and archives | flags
link_files = $(foreach w,$(1),$(if $(filter @%,$(w)),$($(w)),$(if $(filter $(B)/gen/%.c,$(w)),$(w:$(B)/%.c=$(O)/%.o),\
	$(if $(filter %.c,$(w)),$(w:%.c=$(O)/%.o),$(if $(filter %.cc,$(w)),$(w:%.cc=$(O)/%.o))))))
link_flags = $(filter -%,$(1))

$(BASE): $(BASE_OBJ)
$(O)/walker.a: $(patsubst %.c,$(O)/%.o,$(wildcard unwind/*/*.c))
$(BASE) $(O)/walker.a:
	rm -f $@
	ar rc $@ $^

.SECONDEXPANSION:
# $(call test_program,directory under test/,prefix of the variables,more to link)
define test_program
$(OUT)/$(1)/%: $(O)/test/$(1)/%.o $$$$(call link_files,$$$$($(2)_LINK_$$$$*)) $(BASE)
	$$(call say,LINK $$@)
	mkdir -p $$(@D)
	$$(CC) $$(CFLAGS) $$(CFLAGS_$$(VARIANT)) -o $$@ $$(filter %.o,$$^) \
		-Wl,--start-group $$(sort $$(filter %.a,$$^)) -Wl,--end-group \
		$$(call link_flags,$$($(2)_LINK_$$*)) $$($(2)_FLAGS_$$*) $(3) -lpthread -ldl -lrt
$(O)/test/$(1)/%.o: CFLAGS += $$($(2)_FLAGS_$$*)
endef
$(eval $(call test_program,unit,UNIT,-lcmocka))
$(eval $(call test_program,preload,PRELOAD,))
$(eval $(call test_program,bench,BENCH,))
$(eval $(call test_program,torture,TORTURE,))
$(eval $(call test_program,fuzz,FUZZ,-fsanitize=fuzzer))
# They are libraries in spite of their names, with the agent's own NEEDED.
$(OUT)/bench/empty $(OUT)/bench/passthrough: | $(STUBS)
.SECONDARY:

$(O)/test/%.o: test/%.cc
	$(call say,CXX $<)
	mkdir -p $(@D)
	$(CXX) -I. -fPIC -fvisibility=hidden -Wall -Wextra $(CFLAGS) $(CFLAGS_$(VARIANT)) $(CPPFLAGS) -MMD -MP -c -o $@ $<
$(OUT)/torture/libstorm_one.so: STORM_LIBRARY := -DSTORM_LIBRARY_BYTES=48
$(OUT)/torture/libstorm_two.so: STORM_LIBRARY := -DSTORM_LIBRARY_BYTES=400
$(OUT)/torture/libstorm_%.so: test/torture/storm/library.c | $(B)/.bootstrap-build
	$(call say,LINK $@)
	mkdir -p $(@D)
	$(CC) -O2 -g -shared -fPIC -fomit-frame-pointer $(STORM_LIBRARY) -o $@ $<

VICTIM_SRC := $(wildcard test/victims/*.c test/victims/*.cc test/victims/*.rs)
VICTIMS := $(foreach v,$(VICTIM_SRC),$(B)/victims/$(basename $(notdir $(v))))
HAVE_RUST := $(shell $(RUSTC) --version 2>/dev/null | awk -F '[ .]' '$$2 > 1 || $$3 >= 66 { print "yes" }')

$(B)/victims/%: test/victims/%.c $(wildcard test/victims/*.h) agent/api/pprof_agent.h | $(B)/.bootstrap-build
	$(call say,CC $<)
	mkdir -p $(@D)
	$(CC) -O2 -g -pthread -o $@ $< $(VICTIM_FLAGS_$*) -ldl -lrt -lm
$(B)/victims/%: test/victims/%.cc $(wildcard test/victims/*.h) agent/api/pprof_agent.h | $(B)/.bootstrap-build
	$(call say,CXX $<)
	mkdir -p $(@D)
	$(CXX) -O2 -g -pthread -fomit-frame-pointer -o $@ $< $(VICTIM_FLAGS_$*) -ldl
$(B)/victims/%: test/victims/%.rs
	$(call say,RUSTC $<)
	mkdir -p $(@D)
	$(if $(HAVE_RUST),$(RUSTC) -O -g -o $@ $< $(VICTIM_FLAGS_$*),echo "  (no rustc of at least 1.66: $@ is left out)")

.PHONY: unit victims test asan ubsan tsan bench fuzz torture suites run
unit: $(UNIT)
victims: $(VICTIMS)
$(B)/.bootstrap-test: scripts/bootstrap
	scripts/bootstrap test

# What is tested is built on all processors, unless -j says otherwise; the tests then run one at a time.
.PHONY: test-programs
test-programs: $(LIB) $(UNIT) $(PRELOAD) $(TORTURE) $(VICTIMS)
test: $(B)/.bootstrap-test
	+$(MAKE) --no-print-directory $(if $(filter -j%,$(MAKEFLAGS)),,-j$$(nproc)) test-programs
	LIB=$(abspath $(LIB)) VICTIMS=$(B)/victims OUT=$(OUT) T="$(T)" scripts/test unit preload e2e

# The unit tests once more under a sanitizer. Preload tests are not run so: sanitizers interpose malloc as well.
asan ubsan tsan: $(B)/.bootstrap-test
	+$(MAKE) --no-print-directory VARIANT=$@ unit
	OUT=$(B)/$@ T="$(T)" scripts/test unit

fuzz: $(B)/.bootstrap-test
	+$(MAKE) --no-print-directory VARIANT=fuzz fuzz-programs
	T="$(T)" FUZZ_SECONDS=$(FUZZ_SECONDS) scripts/fuzz
.PHONY: fuzz-programs
fuzz-programs: $(FUZZ)

$(B)/.bootstrap-bench: scripts/bootstrap
	scripts/bootstrap bench

bench: $(B)/.bootstrap-bench $(LIB) $(BENCH) $(B)/victims/sleepers
	LIB=$(abspath $(LIB)) OUT=$(OUT) T="$(T)" scripts/bench

torture: $(B)/.bootstrap-test $(LIB) $(PRELOAD) $(TORTURE) $(VICTIMS)
	+$(MAKE) --no-print-directory VARIANT=fuzz $(B)/fuzz/walk
	LIB=$(abspath $(LIB)) VICTIMS=$(B)/victims OUT=$(OUT) T="$(T)" scripts/torture

# Other people's test suites and scrapers, and ten minutes of thread churn, with the agent in them.
$(B)/.bootstrap-suites: scripts/bootstrap
	scripts/bootstrap suites

suites: $(B)/.bootstrap-suites $(LIB) $(TORTURE)
	LIB=$(abspath $(LIB)) OUT=$(OUT) T="$(T)" test/suites/run

# The pages as a phone and a desk show them: pictures to look at, in build/pages.
$(B)/.bootstrap-pages: scripts/bootstrap
	scripts/bootstrap pages

.PHONY: pages
pages: $(B)/.bootstrap-test $(B)/.bootstrap-pages $(LIB) $(VICTIMS)
	LIB=$(abspath $(LIB)) VICTIMS=$(B)/victims PAGES_DIR=$(B)/pages T="TestPages|TestFlamegraph|TestIndex" scripts/test e2e
	echo "pictures: $(B)/pages/"

run: $(LIB) $(B)/.bootstrap-run
	LIB=$(abspath $(LIB)) scripts/run
run: export CMD := $(value CMD)

# -- checks ----------------------------------------------------------------------------------------------------------

CHECKS := format includes sizes getenv settings pages context tailcalls exports imports tidy
.PHONY: check check-all fmt $(CHECKS:%=check-%)
check: # all of them, whichever fails
	+$(MAKE) -k --no-print-directory $(if $(filter -j%,$(MAKEFLAGS)),,-j2) check-all && echo "check: all clean"
check-all: $(CHECKS:%=check-%)
check-format check-includes check-sizes check-getenv check-tidy: $(B)/vendor/.stamp $(GEN) $(PAGES)
check-context check-tailcalls: $(OBJ)
check-exports check-imports: $(LIB)
$(CHECKS:%=check-%):
	OBJDIR=$(O) LIB=$(LIB) ARCH=$(ARCH) scripts/$@
fmt:
	scripts/check-format --fix

# -- the rest --------------------------------------------------------------------------------------------------------

.PHONY: clean distclean help
clean: # what was downloaded and built from it stays
	find $(B) -mindepth 1 -maxdepth 1 ! -name vendor ! -name go ! -name debian11 ! -name '.bootstrap-*' -exec rm -rf {} + 2>/dev/null || :
distclean:
	rm -rf $(B)

help:
	echo "make              build/libpprofagent.so"
	echo "make run          redis under load with the agent, profiled; CMD='prog args' for your own"
	echo "make test         unit, preload and end-to-end tests; T=pattern selects"
	echo "make check        format, includes, contexts, exports, imports, clang-tidy"
	echo "make debug        build/debug/libpprofagent.so: -Og, invariants checked"
	echo "make asan|ubsan|tsan  unit tests under a sanitizer"
	echo "make fuzz         every harness for FUZZ_SECONDS ($(FUZZ_SECONDS)) seconds"
	echo "make bench        what the agent costs; BENCH_ROUNDS=n BENCH_ONLY=pattern"
	echo "make torture      the long, hostile tests"
	echo "make suites       CPython's and redis' own tests, stress-ng, scrapers and thread churn, with the agent in them"
	echo "make pages        the pages in a headless Chromium; pictures in build/pages"
	echo "make fmt          clang-format in place"
	echo "make clean        remove what was built; distclean also what was downloaded"
	echo "knobs: CC CFLAGS LDFLAGS V=1 VARIANT=release|debug|asan|ubsan|tsan RUSTC T CMD FUZZ_SECONDS"

-include $(shell find $(O) -name '*.d' 2>/dev/null)
