# cleat's build, in one file.
#
#   make            build/ with optimisation, assertions on, hardening
#   make run        install what is missing, build, start a member with etcd's defaults; ARGS='--name m1'
#   make run-cluster  three members on 2379, 22379 and 32379, ready to kill (docs/operations.md)
#   make test       install what is missing, build, run every test; T='io/ rpc/': of these alone,
#                   T=@build/skipped: those that the last run skipped for want of peers or clients
#   make asan|tsan  the tests again under sanitizers (build/asan, build/tsan); TSAN_TESTS='io/ rpc/':
#                   of these alone
#   make threads    whole programs again with --io-threads 1; part of make tsan, too
#   make fuzz       every fuzzer for FUZZ_SECONDS (20) each, from FUZZ_SEED (0: another each time)
#   make lint       formatting, includes, names in docs, clang-tidy, and a warning-free build with clang
#   make bench      micro-benchmarks
#   make sim        whole clusters in the simulator, each run twice: SEED=1 RUNS=100
#   make cluster-faults  three real members, killed, paused and cut off: ROUNDS=100 PARTITIONS=30
#   make cluster-installs  the same for MINUTES=30, with a snapshot for some member every minute or so
#   make cluster-failover  for how long nobody can write when the leader goes: KILLS=50 STOPS=20
#   make cluster-chores  a member at half load, compacted, defragmented and scraped for ten minutes
#   make cluster-siege  a member attacked by many small efforts at once: MINUTES_OF_SIEGE=5
#   make cluster-catchup  what it costs to bring back a member that was away: KEYS=1000000
#   make interop    members of ours and of real etcd in one cluster, and from one kind to the other
#   make peers      real etcd and its tools, from the Go module registry, into build/peers, and those
#                   of the release before into build/peers36 (make peers36 for them alone); and
#                   h2spec, which tries out a server's HTTP/2, into build/h2spec
#   make clients    install what is missing, and prepare the clients whose scripted sessions the
#                   tests run, into build/clients
#   make install PREFIX=/usr/local
#
# How files find their place, by name alone:
#   src/<room>/x.c        linked into every program
#   src/<room>/x_test.c   unit tests, all in build/cleat-test
#   src/<room>/x_bench.c  micro-benchmarks, all in build/cleat-bench
#   src/<room>/x_fuzz.c   a fuzzer of its own, build/fuzz/x_fuzz
#   src/cli/x_main.c      the program build/x
#   tests/<tool>/         what a test program is made of, by the same endings: tests/raft holds
#                         build/raft-scenarios and build/raft-cluster, tests/model holds
#                         build/model-episodes, tests/cluster holds build/cluster-faults,
#                         build/cluster-failover, build/cluster-catchup and build/cluster-mixed, all
#                         with their unit tests
#   src/pb/proto/x.proto  compiled by protoc-c; the result is a second opinion for tests only
#
# A variant is the same build in another directory: make BUILD=build/clang CC=clang-19.
# Every core compiles, unless -j says how many may. Goals named together are made one by one, in
# their order: `make clean all` cleans first, `make peers test` tests with the new peers.

ifeq ($(MAKELEVEL)$(filter -j%,$(MAKEFLAGS)),0)
MAKEFLAGS += -j$(shell nproc)
endif
ifneq ($(word 2,$(filter-out build/%,$(MAKECMDGOALS))),)
.NOTPARALLEL:
endif

BUILD    ?= build
CC       ?= cc
CLANG    ?= clang-19
PREFIX   ?= /usr/local
SANITIZE ?=
ROOMS    ?= $(notdir $(wildcard src/*))

ifeq ($(origin CC),default)
CC := gcc
endif

WARNINGS := -Wall -Wextra -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes -Wvla \
            -Wpointer-arith -Wformat=2 -Werror
HARDEN   := -fPIE -fstack-protector-strong -fstack-clash-protection -fcf-protection
OPTIMISE := -O2 -g
LINK     := -pie -Wl,-z,relro,-z,now,-z,noexecstack
ifeq ($(SANITIZE),)
HARDEN   += -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2
else
OPTIMISE := -O1 -g -fno-omit-frame-pointer
HARDEN   += -fsanitize=$(SANITIZE) -fno-sanitize-recover=all
LINK     += -fsanitize=$(SANITIZE)
endif
CFLAGS   := -std=gnu17 -D_GNU_SOURCE $(OPTIMISE) $(WARNINGS) $(HARDEN) $(EXTRA_CFLAGS)
CPPFLAGS := -Isrc -Itests -I$(BUILD) -fmacro-prefix-map=src/= -MMD -MP
LIBS     := -luv -llmdb -lnghttp2 -lz -ljson-c -lyaml -lssl -lcrypto -lnettle -lpthread

# --- sources, by the rules above ---

ALL      := $(sort $(foreach room,$(ROOMS),$(wildcard src/$(room)/*.c src/$(room)/*/*.c)))
TOOLS    := $(wildcard tests/harness/*.c) $(if $(filter raft,$(ROOMS)),$(wildcard tests/raft/*.c)) \
            $(if $(and $(filter watch,$(ROOMS)),$(filter lease,$(ROOMS))),$(wildcard tests/model/*.c)) \
            $(if $(filter server,$(ROOMS)),$(wildcard tests/interop/*.c tests/cluster/*.c))
TESTS    := $(filter %_test.c,$(ALL) $(TOOLS))
BENCHES  := $(filter %_bench.c,$(ALL))
FUZZERS  := $(filter %_fuzz.c,$(ALL))
MAINS    := $(filter %_main.c,$(ALL))
TOOLBOX  := $(filter-out %_test.c %_main.c,$(TOOLS))
LIBRARY  := $(filter-out $(TESTS) $(BENCHES) $(FUZZERS) $(MAINS),$(ALL))
PROTOS   := $(if $(filter pb,$(ROOMS)),$(wildcard src/pb/proto/*.proto))
GENERATED := $(PROTOS:src/pb/proto/%.proto=$(BUILD)/gen/pb/%.pb-c.c)

objects = $(patsubst %.c,$(BUILD)/obj/%.o,$(1))
GENERATED_OBJECTS := $(GENERATED:.c=.o)

PROGRAMS := $(MAINS:src/cli/%_main.c=$(BUILD)/%) $(BUILD)/cleat-test $(BUILD)/cleat-bench
PROGRAMS += $(patsubst tests/raft/%_main.c,$(BUILD)/raft-%,$(filter tests/raft/%_main.c,$(TOOLS)))
PROGRAMS += $(patsubst tests/model/%_main.c,$(BUILD)/model-%,$(filter tests/model/%_main.c,$(TOOLS)))
PROGRAMS += $(patsubst tests/cluster/%_main.c,$(BUILD)/cluster-%,$(filter tests/cluster/%_main.c,$(TOOLS)))

.PHONY: all programs run run-cluster test check threads asan tsan fuzz lint formatted format bench sim cluster-faults \
        cluster-installs cluster-chores cluster-siege cluster-soak cluster-failover cluster-catchup interop peers \
        peers36 h2spec clients install clean FORCE
.DELETE_ON_ERROR:
.SECONDARY:
all: $(if $(PROTOS),$(BUILD)/found.test) $(PROGRAMS) compile_commands.json

# --- objects and programs ---

# Without its headers every file would fail to compile: a line says first which packages are missing.
$(BUILD)/found.%:
	@scripts/missing $* $(CC)
	@mkdir -p $(BUILD) && touch $@
# Where both are needed, one line is enough.
ifneq ($(and $(PROTOS),$(filter all check threads bench interop cluster-%,$(or $(MAKECMDGOALS),all))),)
$(BUILD)/found.build: | $(BUILD)/found.test
endif

$(BUILD)/obj/%.o: %.c $(BUILD)/flags | $(BUILD)/found.build
	@mkdir -p $(@D)
	@echo "  cc     $<"
	@$(CC) $(CPPFLAGS) $(CFLAGS) -c $< -o $@

# Generated code is held to its generator's standards, not to ours.
$(BUILD)/gen/pb/%.pb-c.c $(BUILD)/gen/pb/%.pb-c.h: src/pb/proto/%.proto | $(BUILD)/found.test
	@mkdir -p $(@D)
	@echo "  protoc $<"
	@protoc-c -Isrc/pb/proto --c_out=$(BUILD)/gen/pb $<
$(BUILD)/gen/pb/%.o: $(BUILD)/gen/pb/%.c $(BUILD)/flags
	@echo "  cc     $<"
	@$(CC) -I$(BUILD)/gen/pb -MMD -MP -std=gnu17 -O1 -g -fPIE -w -c $< -o $@

$(BUILD)/libcleat.a: $(call objects,$(LIBRARY))
	@echo "  ar     $@"
	@rm -f $@ && ar rcs $@ $^

# Tests that include generated headers need them made first; after that -MMD knows.
$(call objects,$(TESTS) $(BENCHES)): | $(GENERATED:.c=.h)

define program
	@echo "  link   $@"
	@$(CC) $(CFLAGS) $(LINK) $(filter %.o %.a,$^) $(LIBS) $(1) -o $@
endef

$(MAINS:src/cli/%_main.c=$(BUILD)/%): $(BUILD)/%: $(BUILD)/obj/src/cli/%_main.o $(BUILD)/libcleat.a
	$(call program)
$(BUILD)/cleat-test: $(call objects,tests/harness/test_main.c $(TOOLBOX) $(TESTS)) \
                     $(GENERATED_OBJECTS) $(BUILD)/libcleat.a
	$(call program,$(if $(PROTOS),-lprotobuf-c))
$(BUILD)/cleat-bench: $(call objects,tests/harness/bench_main.c $(BENCHES)) \
                      $(GENERATED_OBJECTS) $(BUILD)/libcleat.a
	$(call program,$(if $(PROTOS),-lprotobuf-c))
$(BUILD)/raft-%: $(BUILD)/obj/tests/raft/%_main.o $(call objects,$(TOOLBOX)) $(BUILD)/libcleat.a
	$(call program)
$(BUILD)/model-%: $(BUILD)/obj/tests/model/%_main.o $(call objects,$(TOOLBOX)) $(BUILD)/libcleat.a
	$(call program)
$(BUILD)/cluster-%: $(BUILD)/obj/tests/cluster/%_main.o $(call objects,$(TOOLBOX)) $(BUILD)/libcleat.a
	$(call program)

# Objects are remade when the compiler or its flags change.
$(BUILD)/flags: FORCE
	@mkdir -p $(BUILD)
	@echo '$(CC) $(CPPFLAGS) $(CFLAGS)' | cmp -s - $@ || echo '$(CC) $(CPPFLAGS) $(CFLAGS)' >$@

compile_commands.json: $(BUILD)/flags Makefile
	@scripts/compile-commands '$(CC) $(filter-out -MMD -MP,$(CPPFLAGS)) $(CFLAGS)' $(ALL) >$@

# --- what people type ---

# What README.md speaks of.
programs: build/cleat build/cleatutl build/cleat-sim
	@:
run:
	@scripts/setup build
	@$(MAKE) --no-print-directory programs
	@exec scripts/run $(ARGS)
run-cluster:
	@scripts/setup build
	@$(MAKE) --no-print-directory programs
	@exec scripts/run-cluster $(ARGS)
test:
	@scripts/setup test
	@$(MAKE) --no-print-directory check
# The same on any machine: by default the number of its cores would decide (make threads has one).
check: all
	@ETCD_IO_THREADS=0 $(BUILD)/cleat-test -j 2 -o $(BUILD)/skipped $(T)

SANITIZED = $(MAKE) --no-print-directory CC=$(CLANG) check
asan:
	@scripts/setup test
	+@$(SANITIZED) BUILD=build/asan SANITIZE=address,undefined
tsan:
	@scripts/setup test
	+@export TSAN_OPTIONS='suppressions="$(CURDIR)/tests/harness/tsan.suppressions"' && \
	    $(SANITIZED) BUILD=build/tsan SANITIZE=thread T='$(or $(TSAN_TESTS),$(T))' && \
	    $(MAKE) --no-print-directory CC=$(CLANG) BUILD=build/tsan SANITIZE=thread threads

# Whole programs again with a thread for clients: whatever a test starts gets it by its environment.
# Its own tests, a kill loop, and clients of all kinds.
WITH_THREADS = io/thread_test wires_test line_test server/process_test api/etcd_test crash_loop_test \
               hostile_test tls_client_test places_test gateway_test concurrency_test \
               thousand_watchers
threads: all
	@ETCD_IO_THREADS=1 $(BUILD)/cleat-test -j 2 $(or $(T),$(WITH_THREADS))

bench: all
	@$(BUILD)/cleat-bench micro

SEED ?= 1
RUNS ?= 100
sim: $(BUILD)/cleat-sim
	@$(BUILD)/cleat-sim --seed $(SEED) --runs $(RUNS) --replay $(SIM)

# The same checks hold for real etcd: SERVER=build/peers/etcd. Nobody falls behind the log: it is kept.
SERVER     ?= $(BUILD)/cleat
ROUNDS     ?= 100
PARTITIONS ?= 30
cluster-faults: all
	@$(BUILD)/cluster-faults --server $(SERVER) --rounds $(ROUNDS) --partitions $(PARTITIONS) \
	    --seed $(SEED) --flags '--log-level warn --snapshot-count 1000000'
# Members that keep ten entries: whoever is away for a while is sent a snapshot.
MINUTES ?= 30
cluster-installs: all
	@$(BUILD)/cluster-faults --server $(SERVER) --rounds 6 --partitions 2 --behind 4 \
	    --minutes $(MINUTES) --install-s 120 --seed $(SEED) \
	    --flags '--snapshot-count 50 --snapshot-catchup-entries 10'
KILLS ?= 50
STOPS ?= 20
cluster-failover: all
	@$(BUILD)/cluster-failover --server $(SERVER) --kills $(KILLS) --stops $(STOPS) \
	    --flags '--log-level warn'

# Three quarters of an hour at half load, with a kill each minute: nobody's memory may grow.
cluster-soak: all
	@$(BUILD)/cluster-soak --server $(SERVER) --flags '--log-level warn'

# Ten minutes at half load with a compaction every ten seconds, a defragmentation every minute and a
# scrape each second: no error, no turn of 5 ms, and a store that finds its size.
MINUTES_OF_CHORES ?= 10
cluster-chores: all
	@$(BUILD)/cluster-chores --server $(SERVER) --minutes $(MINUTES_OF_CHORES)

# Three members by TLS, one of them attacked: no probe fails, it goes on leading, its clients wait not more
# than ten times as long, and its memory stays within bounds. SERVER=build/peers/etcd for the record.
MINUTES_OF_SIEGE ?= 5
cluster-siege: all
	@$(BUILD)/cluster-siege --server $(SERVER) --minutes $(MINUTES_OF_SIEGE)

# A gigabyte is written while one of them is away. Once the leader lives, once it is killed in between.
KEYS ?= 1000000
cluster-catchup: all
	@$(BUILD)/cluster-catchup --server $(SERVER) --keys $(KEYS)
	@$(BUILD)/cluster-catchup --server $(SERVER) --keys $(KEYS) --kill-leader

MIXED = $(BUILD)/cluster-mixed --cleat $(BUILD)/cleat --seed $(SEED)
interop: all
	@for etcd in build/peers/etcd build/peers36/etcd; do \
	    [ -x $$etcd ] || { echo "make interop needs $$etcd: make peers builds it" >&2; exit 1; }; \
	done
	@for etcd in build/peers/etcd build/peers36/etcd; do \
	    for ours in 1 2; do $(MIXED) --etcd $$etcd --plan together --ours $$ours || exit; done; \
	    $(MIXED) --etcd $$etcd --plan members && \
	    $(MIXED) --etcd $$etcd --plan directories || exit; \
	done
	@$(MIXED) --auth

# --- fuzzing: each target with its kept corpus, new finds go to build/fuzz/<name>.corpus ---

FUZZ_SECONDS ?= 20
FUZZ_SEED    ?= 0
FUZZ_FLAGS   := BUILD=build/fuzz CC=$(CLANG) SANITIZE=address,undefined \
                EXTRA_CFLAGS=-fsanitize=fuzzer-no-link
FUZZ_PROGRAMS := $(foreach f,$(FUZZERS),$(BUILD)/$(basename $(notdir $(f))))
fuzz:
	@scripts/setup test
	@$(MAKE) --no-print-directory $(FUZZ_FLAGS) fuzz-programs
	@scripts/fuzz $(FUZZ_SECONDS) $(FUZZ_SEED) $(FUZZERS)
fuzz-programs: $(FUZZ_PROGRAMS)
define fuzz_rule
$(BUILD)/$(basename $(notdir $(1))): $(call objects,$(1)) $(BUILD)/libcleat.a
	@echo "  link   $$@"
	@$$(CC) $$(CFLAGS) -fsanitize=fuzzer $$(LINK) $$^ $$(LIBS) -o $$@
endef
$(foreach f,$(FUZZERS),$(eval $(call fuzz_rule,$(f))))

# --- lint ---

SOURCES := $(sort $(shell find src tests -name '*.[ch]' -not -path '*/gen/*'))
formatted:
	@scripts/setup test
	@clang-format-19 --dry-run -Werror $(SOURCES)
lint: formatted
	@scripts/floors
	@scripts/docs
	@scripts/planted --fit
	@$(MAKE) --no-print-directory BUILD=build/clang CC=$(CLANG) all
	@scripts/tidy $(ALL) $(wildcard tests/*/*.c)
format:
	@clang-format-19 -i $(SOURCES)

# --- the rest ---

peers: peers36 h2spec
	@scripts/peers tests/peers build/peers
peers36:
	@scripts/peers tests/peers36 build/peers36
h2spec:
	@scripts/peers tests/h2spec build/h2spec
clients:
	@scripts/setup test
	@scripts/clients build/clients
install: $(BUILD)/cleat $(BUILD)/cleatutl
	install -D -m 755 -t '$(DESTDIR)$(PREFIX)/bin' $^
clean:
	rm -rf $(BUILD) compile_commands.json

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
