# make without a target prints the targets.
SHELL := /bin/bash
GO ?= go
PORT ?= 6379
PKG ?= ./...
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
FUZZTIME ?= 20s

.PHONY: help build run demo demo-cluster test programs unit race e2e setup lint vet staticcheck dist pgo reference sim bench bench-compare bench-reference bench-peers bench-floor bench-tails bench-scaling bench-large bench-huge bench-move bench-feed bench-adds bench-nats suites suite-valkey suite-redis suite-go-redis suite-redis-py suite-ioredis suite-rueidis suite-resp-compatibility suite-resp-compatibility-cluster chaos fuzz crash proof proof-sim proof-checker console failover fault faults mutants upgrade clean

help:
	@echo 'Run it'
	@echo '  make build          compile bin/counterd, bin/counterctl and bin/counterbench; STRIP= for perf, gdb and delve'
	@echo '  make run            build counterd and start it with the example schema on 127.0.0.1:$(PORT); PORT='
	@echo '  make demo           load a sample into a counterd of its own, read timeline pages, and show the results'
	@echo '  make demo-cluster   start etcd and six nodes, kill a primary, move a group, add a shard; show what clients saw'
	@echo ''
	@echo 'Check a change (CONTRIBUTING.md)'
	@echo '  make test           all tests: unit, race and e2e beside each other'
	@echo '  make unit           tests that make race leaves out or shortens, without other programs; PKG=./counter/... all tests of some packages'
	@echo '  make race           tests of concurrent packages under the race detector; PKG='
	@echo '  make e2e            end-to-end tests with the built programs and real clients'
	@echo '  make lint           gofmt, go mod tidy, go vet, staticcheck'
	@echo '  make reference      write the generated parts of docs/reference'
	@echo '  make console        test the console in Chromium and save pictures in bin/console'
	@echo '  A random test prints its seed when it fails. SEED=n make ... replays it.'
	@echo ''
	@echo 'Search longer for faults'
	@echo '  make fuzz           run every fuzz target for FUZZTIME=$(FUZZTIME) each'
	@echo '  make sim            simulate 10,000 clusters through faults; SEEDS=, SEED=n replays one with a trace (6 minutes)'
	@echo '  make proof-sim      play whole systems, the real servers, through faults; SEEDS=, SEED=n replays one, SHRINK=1, SCENE=moves, QUIET=20 of a thousand, JOBS=processes'
	@echo '  make proof-checker  plant faults in a copy, and print after how many simulated systems each is found; ONLY=names RUNS= TIME='
	@echo '  make crash          3 million crash points, every damage of each file kind, 200 rounds of kill -9, 200 cut connections (over an hour)'
	@echo '  make failover       50 failovers by Sentinel, 400 during numbered changes, and 200 beside consumers of the feed (75 minutes; partitions need root)'
	@echo '  make fault N=17     run the tests that find a known fault again; BREAK=1 reverses its mend first (docs/internals/faults.md)'
	@echo '  make faults         run the tests of all known faults; BREAK=1 reverses all mends, one at a time, and resumes; LIMIT=5m for the tests of one'
	@echo '  make mutants        plant mistakes in the source, one at a time, and show which test finds each; N=17 or N=10-20, ONLY=repl'
	@echo '  make chaos          300 faults in a cluster with real etcd (hours; partitions need root); FAULTS= ONLY= CHAOS_LOG= OLDER=counterd-of-another-version'
	@echo '  make upgrade        a primary, its replica and a cluster whose nodes are of this version and of an older one; OLDER=commit or program, FAULTS=24'
	@echo '  make suites         other projects'"'"' own tests against counterd, through a proxy that maps keys; VALKEY= REDIS= GOREDIS= REDISPY= IOREDIS= RUEIDIS= RESPCOMPAT= name checkouts'
	@echo '  make proof          all of the above in turns for TIME=30m, and one page about it in PROOF=bin/proof; resumes'
	@echo ''
	@echo 'Measure'
	@echo '  make bench          Go benchmarks; PKG=./counter BENCH=Get ITEMS=10000000'
	@echo '  make bench-compare  compare a package at a revision with the work tree; PKG=./counter REF=HEAD~1'
	@echo '  make bench-reference  compare the server with the best commit so far (bench/reference.txt); CHECK=1 fails above a ratio'
	@echo '  make bench-peers    the standard set against redis-server, or PEER=host:port,kind (bench/README.md)'
	@echo '  make bench-floor    how much of an operation is the kernel'"'"'s: counterd beside a server that only receives, counts and sends'
	@echo '  make bench-tails    client latency during snapshots, demotion and floods; POSTS= RATE= PEER_BIN='
	@echo '  make bench-scaling  throughput gained by a second processor'
	@echo '  make bench-large    100 million posts, and 1,000 million with most on disk; LARGE= SMALL= HUGE= MAXMEMORY='
	@echo '  make bench-huge     cost of 1,000 million posts built in bulk; POSTS='
	@echo '  make bench-move     move 1 million posts between shards while clients increment them as fast as they can; POSTS='
	@echo '  make bench-feed     the cost of the feed of changes, and how late changes arrive; RATE= COUNT= ROUNDS= DURATION= FSYNC='
	@echo '  make bench-adds     what windows and numbers (IDMP) add to the cost of an INCR; POSTS= WINDOW= ROUNDS='
	@echo '  make bench-nats     one flipped bit on one node, and power lost on all nodes: a cluster beside NATS JetStream (root); FLAGS='
	@echo '  make pgo            renew the profile that programs are compiled with (3 minutes); POSTS= DURATION='
	@echo ''
	@echo 'Release'
	@echo '  make dist           archives, packages, SBOM and checksums for Linux on amd64 and arm64'
	@echo '  make clean          remove bin and dist'

# Programs are compiled with a profile of counterd at work (make pgo). Not by the name that go build knows, default.pgo: tests, vet
# and each build while something is changed would compile all packages twice, a minute of a processor.
PROFILE := cmd/counterd/counterd.pgo
# The version is the tag's; without one the programs say which commit they are.
VERSION ?= $(shell git describe --tags --match 'v[0-9]*' --dirty 2>/dev/null | sed 's/^v//')
# Programs are static, as those of a release, and have no symbol tables, a third of their size. Stack traces and pprof need none of these
# tables; perf, gdb and delve do: make build STRIP=
STRIP ?= -s -w
# gRPC's pages about its requests, which nothing here serves, are templates: methods are called by their names, so the linker keeps
# every method of every package.
TAGS := grpcnotrace
# go-redis is a sixth of the compiler's work, 20 of 123 s; without inlining it is 12. Only imports and demos use it.
COMPILE := $(if $(STRIP),-gcflags=all=-dwarf=false) -gcflags='github.com/redis/go-redis/v9=-l $(if $(STRIP),-dwarf=false)'
build:
	@mkdir -p bin
	CGO_ENABLED=0 $(GO) build -tags $(TAGS) -pgo=$(PROFILE) $(COMPILE) -ldflags "$(STRIP) -X github.com/counterd/counterd/internal/version.tag=$(VERSION)" -o bin/ ./cmd/...

# Tests whose names begin with TestReference compare the pages with the tables; with -update they write the pages.
REFERENCES := ./cmd/counterd/internal/reference ./cmd/counterd/internal/observe/facts ./internal/testkit/faults ./docs
reference:
	$(GO) test -trimpath -count=1 -run '^TestReference' $(REFERENCES) -update

run: build
	bin/counterd --port $(PORT) --dir .data --schema cmd/counterd/weibo.schema

demo: build
	bin/counterbench demo --counterd bin/counterd

demo-cluster: setup build
	bin/counterbench demo-cluster --counterd bin/counterd --counterctl bin/counterctl

# The three runs wait as much as they compute, so they run beside each other. What all of them compile is compiled before.
test: setup programs
	@$(MAKE) --no-print-directory -j3 unit race e2e

# The programs that tests run, without the profile: compiled as the tests compile them.
programs:
	@mkdir -p bin/e2e
	$(GO) build -o bin/e2e/ ./cmd/...

# The simulation of the whole system, whose connections have no file descriptors.
WHOLE := ./cmd/counterd/internal/testkit/simulation
# Its disks hang, for which it changes a table of the runtime (locks.go); the linker refuses that without the flag.
WHOLE_FLAGS := -tags noepoll,hangs -ldflags=-checklinkname=0

# make lint vets everything; again beside each test, and with the race detector, it takes a minute of a processor. The longest
# package takes 2 minutes, and met Go's limit of 10 where 20 other programs kept the processors busy.
GOTEST := $(GO) test -vet=off -timeout 30m
# A test's heap is small and lives briefly. With four times the room for garbage the engine's tests take 0.6 of the processor's time.
# Not for e2e: its servers would inherit it, and their memory is tested.
QUICK := GOGC=400 $(GOTEST)
# $(call packages,CONDITION): the folders of PKG, without e2e, where a condition on $$dir holds. go test runs them in this order: the server and the
# engine first, whose tests take minutes, mostly of waiting. As the last ones they ran alone.
packages = $$($(GO) list -f '{{.ImportPath}} {{.Dir}}' $(PKG) | grep -v /e2e | awk '$$1 ~ /\/internal\/server$$|\/counterd\/counter$$/ {print $$2; next} \
	{rest = rest $$2 "\n"} END {printf "%s", rest}' | while read -r dir; do if $(1); then echo $$dir; fi; done)
# Packages that start no goroutine, in their code or their tests, have nothing to show to the race detector; unit runs them.
# A test that starts no goroutine and takes long skips itself there (internal/testkit/racetest).
CONCURRENT := grep -qE '^[[:space:]]*go func|^[[:space:]]*go [[:alpha:]][[:alnum:].]*\(|\.Go\(' $$dir/*.go
# Only race runs a concurrent package whose tests know neither the detector nor -short: it does the same in both runs. Of the others unit
# runs the tests that do less under the detector.
ASKS := grep -qsE 'racetest\.|testing\.Short\(\)|go:build.*race' $$dir/*_test.go
unit:
ifeq ($(PKG),./...)
	$(QUICK) $(call packages,! $(CONCURRENT))
	both="$(call packages,$(CONCURRENT) && $(ASKS))" && $(QUICK) -run "$$($(GO) run ./internal/testkit/unraced $$both)" $$both
	$(QUICK) $(WHOLE_FLAGS) $(WHOLE)
else
	$(QUICK) $(call packages,true)
endif

race:
	$(QUICK) -race -short $(call packages,$(CONCURRENT))

# All folders run the programs of bin/e2e.
e2e: export COUNTERD_PROGRAMS := $(CURDIR)/bin/e2e
e2e: programs
	$(GOTEST) -count=1 -p 3 -parallel 3 ./cmd/counterd/e2e/...
	cd cmd/counterd/e2e/clients && $(GOTEST) -count=1 -parallel 4 ./...
	cd packaging/helm/test && $(GOTEST) ./...

# Programs that end-to-end tests talk to counterd with. Without them those tests say loudly what they leave out.
setup:
	@if command -v redis-cli >/dev/null && command -v redis-server >/dev/null && command -v redis-sentinel >/dev/null; then \
		echo 'setup: redis-cli, redis-server and redis-sentinel are here'; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo 'setup: installing redis-tools, redis-server and redis-sentinel'; \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get install -y -qq redis-tools redis-server redis-sentinel >/dev/null; \
	else \
		echo 'setup: LEFT OUT: tests with redis-cli, redis-benchmark, redis-server and redis-sentinel: install them to run those'; \
	fi
	@if command -v etcd >/dev/null; then \
		echo 'setup: etcd is here'; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo 'setup: installing etcd-server'; \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get install -y -qq etcd-server >/dev/null; \
	else \
		echo 'setup: LEFT OUT: tests with etcd: install etcd, version 3.4 or newer, to run those'; \
	fi
	@packaging/setup-clients.sh

lint:
	@out=$$(gofmt -l .); if [ -n "$$out" ]; then echo "not gofmt-ed: $$out"; exit 1; fi
	$(GO) mod tidy -diff
	@$(MAKE) --no-print-directory -j2 vet staticcheck

vet:
	$(GO) vet ./...

staticcheck:
	$(GO) run $(STATICCHECK) ./...

# ITEMS is for ./counter alone: other packages do not know it.
BENCH ?= .
bench:
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchmem $(PKG) $(if $(ITEMS),-items $(ITEMS))

# The standard set: counterd and redis-server in turns in one run, each on core 0, the load on core 1.
bench-peers: setup build
	@bench/peers.sh $(PEER)

# The same beside a server that only receives, counts commands, and sends fixed replies.
bench-floor: setup build
	@CGO_ENABLED=0 $(GO) build -o bin/ ./bench/floor
	@PEER_BIN=bin/floor HALF=no IDLE=0 bench/peers.sh

# What users wait while the server does something else, each on core 0, the load on core 1.
bench-tails: setup build
	@bench/tails.sh $(PEER)

bench-scaling: build
	@bench/scaling.sh

bench-large: build
	@bench/large.sh

bench-huge: build
	@bench/huge.sh

bench-move: build
	COUNTERD_PROGRAMS=$(CURDIR)/bin $(GO) test -count=1 -v -run 'TestMoveUnderLoad$$' -timeout 30m ./cmd/counterd/e2e/cluster -move-posts $(or $(POSTS),1000000)

# INCRs without a reader of the feed and with one, in turns.
bench-feed: build
	@bench/feed.sh

bench-adds: build
	@bench/adds.sh

# A module of its own, so that counterd does not depend on NATS. FLAGS are those of bench/survival/main.go.
bench-nats: setup build
	cd bench/survival && $(GO) run . -bin ../../bin $(FLAGS)

# One package at a revision and in the work tree, in turns; compare.sh lists its variables.
bench-compare:
	@bench/compare.sh

# The whole server at the best commit so far and in the work tree, in turns, and their instructions an operation.
bench-reference: setup build
	@bench/reference.sh

fuzz:
	@set -e; for pkg in $$($(GO) list ./...); do \
		for f in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz' || true); do \
			echo "$$pkg $$f"; $(GO) test -run '^$$' -fuzz "^$$f$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x $$pkg; \
		done; \
	done

console:
	@mkdir -p bin/console
	PAGE_PICTURES=$(CURDIR)/bin/console $(GO) test -count=1 -v -run 'TestPage$$' ./cmd/counterd/e2e/observability
	@echo 'pictures: bin/console/*.png'

sim:
	SEED=$(SEED) SEEDS=$(or $(SEEDS),10000) $(GO) test -count=1 -v -run 'TestSimulation$$' -timeout 3h ./cmd/counterd/internal/nodes/cluster

proof-sim:
	SEED=$(SEED) $(GO) test -count=1 -v $(WHOLE_FLAGS) -run '$(or $(TEST),TestWholeSystem)$$' -timeout 24h $(WHOLE) -args -runs $(or $(SEEDS),$(if $(SEED),1,200)) $(if $(SEED),-story) $(if $(SHRINK),-shrink) $(if $(SCENE),-scene $(SCENE)) -quiet $(or $(QUIET),20) -jobs $(or $(JOBS),$(if $(SEED),1,$(shell nproc)))

# Faults planted in a copy of the tree, one at a time: the simulation must find each.
proof-checker:
	@$(GO) run ./internal/testkit/faults -planted $(if $(ONLY),-only $(ONLY)) -runs $(or $(RUNS),20000) -within $(or $(TIME),20m)

crash:
	$(GO) test -count=1 -run 'Crash' -timeout 3h ./persist -scripts 7000
	$(GO) test -count=1 -run Crash -timeout 3h ./persist/snapfile ./persist/past
	$(GO) test -count=1 -timeout 3h ./counter -long -every-damage
	$(GO) test -count=1 -run 'Spread' -timeout 3h ./counter/internal/hot -long
	$(GO) test -count=1 -run 'Heals' -timeout 3h ./cmd/counterd/internal/server -all-damage
	SCALE=10 $(GO) test -count=1 -run 'Durable|Kill|ColdServes|ReplicaCuts|ReplicaLostTail|FailoverUnderLoad|Differential|ClientExact|ClientHistory' -timeout 3h ./cmd/counterd/e2e/...

DOWN_AFTER ?= 3s
failover:
	SCALE=50 $(GO) test -count=1 -run 'SentinelSoak' -timeout 3h -v ./cmd/counterd/e2e/sentinel -down-after $(DOWN_AFTER)
	$(GO) test -count=1 -run 'NumberedFailovers' -timeout 3h -v ./cmd/counterd/e2e/sentinel -failovers 100
	$(GO) test -count=1 -run 'FeedSentinel' -timeout 3h -v ./cmd/counterd/e2e/sentinel -feed-rounds 100
	$(GO) test -count=1 -run 'FeedCluster' -timeout 3h -v ./cmd/counterd/e2e/cluster -feed-rounds 200

fault:
	@test -n '$(N)' || { echo 'make fault N=17, or N=10-20: docs/internals/faults.md lists the numbers'; exit 2; }
	@$(GO) run ./internal/testkit/faults -n $(N) $(if $(BREAK),-break)

faults:
	@$(GO) run ./internal/testkit/faults $(if $(BREAK),-break -record $(or $(RECORD),bin/faults.jsonl)) $(if $(LIMIT),-limit $(LIMIT))

mutants:
	@$(GO) run ./internal/testkit/mutations $(if $(N),-n '$(N)') $(if $(ONLY),-only '$(ONLY)')

FAULTS ?= 300
CHAOS_LOG ?= bin/chaos.log
NODE_TIMEOUT ?= 2s
chaos: setup
	@mkdir -p bin
	$(GO) test -count=1 -run 'TestClusterChaos$$' -timeout 48h -v ./cmd/counterd/e2e/cluster -cluster-faults $(FAULTS) -cluster-log $(abspath $(CHAOS_LOG)) -cluster-only '$(ONLY)' -node-timeout $(NODE_TIMEOUT) $(if $(OLDER),-cluster-older $(abspath $(OLDER)))

# OLDER is a program, or a commit that one is built of.
upgrade: setup programs
	@test -n '$(OLDER)' || { echo 'make upgrade OLDER=commit: name an older version'; exit 2; }
	@if [ -x '$(OLDER)' ]; then cp '$(OLDER)' bin/older; else \
		rm -rf bin/older-source && git worktree prune && git worktree add --quiet --detach bin/older-source '$(OLDER)' && \
		(cd bin/older-source && $(GO) build -trimpath -o ../older ./cmd/counterd); \
		status=$$?; git worktree remove --force bin/older-source; exit $$status; fi
	COUNTERD_PROGRAMS=$(CURDIR)/bin/e2e $(GO) test -count=1 -run 'TestUpgradePair$$' -v ./cmd/counterd/e2e/durability -older $(CURDIR)/bin/older
	COUNTERD_PROGRAMS=$(CURDIR)/bin/e2e $(GO) test -count=1 -run 'TestClusterChaos$$' -timeout 48h -v ./cmd/counterd/e2e/cluster -cluster-faults $(or $(filter-out 300,$(FAULTS)),24) -cluster-older $(CURDIR)/bin/older

# Each suite runs if the variable of its checkout is set; nothing is fetched.
SUITES := $(if $(VALKEY),suite-valkey) $(if $(REDIS),suite-redis) $(if $(GOREDIS),suite-go-redis) $(if $(REDISPY),suite-redis-py) \
	$(if $(IOREDIS),suite-ioredis) $(if $(RUEIDIS),suite-rueidis) $(if $(RESPCOMPAT),suite-resp-compatibility suite-resp-compatibility-cluster)
suites: $(SUITES)
	@test -n '$(strip $(SUITES))' || { echo 'make suites VALKEY=folder ...: name a checkout'; exit 2; }
SUITE = $(GO) run ./internal/testkit/suites $(patsubst suite-%,%,$@) --path
suite-valkey: build
	$(SUITE) $(VALKEY)
suite-redis: build
	$(SUITE) $(REDIS)
suite-go-redis: build
	$(SUITE) $(GOREDIS)
suite-redis-py: build
	$(SUITE) $(REDISPY)
suite-ioredis: build
	$(SUITE) $(IOREDIS)
suite-rueidis: build
	$(SUITE) $(RUEIDIS)
suite-resp-compatibility suite-resp-compatibility-cluster: build
	$(SUITE) $(RESPCOMPAT)

TIME ?= 30m
PROOF ?= bin/proof
proof: setup
	$(GO) run ./internal/testkit/proof --time $(TIME) --folder $(PROOF) $(if $(ONLY),--only $(ONLY))

dist:
	@VERSION=$(or $(VERSION),0.1.0-dev+$(shell git rev-parse --short=12 HEAD)) packaging/dist.sh

pgo: setup build
	$(GO) build -tags profile,$(TAGS) -o bin/counterd-profile ./cmd/counterd
	@PROFILED_BIN=bin/counterd-profile bench/pgo.sh

clean:
	rm -rf bin dist
