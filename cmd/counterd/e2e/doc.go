// Package e2e tests the built counterd binary from outside, as its users meet it: through redis-cli,
// redis-benchmark, go-redis and bare sockets. It holds tests only; nothing imports it.
//
//	file                    topic
//	main_test.go            flags, the one build of the binary, what is left out when a tool is missing
//	process_test.go         a server process: start, log, resident memory, stop
//	wire_test.go            a bare connection: requests in, exact reply bytes out
//	pty_test.go             a terminal for interactive programs
//	bulk_test.go            load and check of very many items
//	script_test.go          the schema script, in every order, and the keys it makes
//	startup_test.go         flags, schema files, sockets, and starts that must fail
//	rediscli_test.go        every mode of redis-cli
//	benchmark_test.go       redis-benchmark, and the sums it leaves
//	goredis_test.go         go-redis v9
//	howto_test.go           other libraries with the classes of counter/client/howto; howto_every_test.go: each command once
//	clients/                clients with caches of their own, in a module of its own
//	numbered_test.go        commands with a number, by redis-cli and go-redis, and kills between change and reply
//	tools_test.go           what other clients and tools send and parse
//	differences_test.go     the table of all intended differences from Redis
//	generate_test.go        random command sequences
//	differential_test.go    those sequences against a real redis-server, byte for byte
//	cases_test.go           error texts and rare forms, compared in the same way
//	protocol_test.go        raw input, protocol errors, compared in the same way
//	hostile_test.go         packets and connections that mean harm
//	tls_test.go             TLS: clients, reloads, handshakes that stall, Sentinel
//	live_test.go            schema changes under load
//	scan_test.go            SCAN while items come and go
//	failover_test.go        roles and FAILOVER, compared with a pair of redis-servers; FAILOVER under load
//	import_test.go          counterctl import: every shape of keys, files, kills of all who take part, hostile sources
//	follow_test.go          counterctl import --follow under kills, and of snapshots
//	export_test.go          counterctl export of a running node, and reading it back
//	shutdown_test.go        what a stopping server still answers
//	exact_test.go           no increment lost, none counted twice
//	exactwriter_test.go     a load that knows what each post must hold, over restarts
//	numbered_failover_test.go roles that change between a numbered change and its repeat; repeatwriter_test.go: their load
//	replica_cuts_test.go    primary, replica and replica of a replica under cuts and restarts
//	replica_tail_test.go    a primary that lost the end of its log
//	sentinel_test.go        three stock Sentinels; redis-cli --replica
//	sentinel_group_test.go  three nodes and three Sentinels, in network namespaces where there can be
//	sentinel_load_test.go   clients of Sentinel that remember what they were told
//	sentinel_soak_test.go   failover after failover: kill, stop, partition
//	sentinel_planned_test.go SENTINEL FAILOVER
//	cluster_chaos_test.go   a cluster with real etcd that is hurt again and again; cluster_faults_test.go, cluster_moves_test.go: in which ways
//	cluster_harness_test.go etcd and nodes, in network namespaces where there can be; cluster_writers_test.go: who writes, and what must be there
//	sentinel_ioredis_test.go ioredis's Sentinel client, where node finds ioredis
//
// # Running
//
//	go test ./cmd/counterd/e2e                                  all, about a minute on two cores
//	go test ./cmd/counterd/e2e -short                           a tenth of the data
//	SCALE=10 go test ./cmd/counterd/e2e -timeout 30m            ten times the data
//	go test ./cmd/counterd/e2e -run Differential -seed 42       replay one random sequence
//	COUNTERD_BINARY=/usr/bin/counterd go test ./cmd/counterd/e2e -count=1    a binary that is already built
//	REQUIRE_REDIS=1 go test ./cmd/counterd/e2e                  fail where redis-server or redis-cli is missing
//
// With -race the server is built with the race detector as well; its reports fail the test whose
// server made them, and limits on memory, which the detector inflates, are then not checked.
//
// # Differential tests
//
// The same sequence of requests goes to counterd and to redis-server. Every reply must be equal byte for
// byte, or be named in the table of differences_test.go with its reason. Two counters make the semantics
// coincide: n has a single column with the empty suffix, so that n:123 is a plain number as a Redis string
// holding digits is; h has three columns that the sequences always set together, so that h:123 is what
// a Redis hash with three fields is. A sequence that fails is cut down to the few requests that
// still make the difference, and printed with its seed.
package e2e
