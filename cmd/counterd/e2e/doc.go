// Package e2e tests the built counterd binary from outside, as its users meet it: through redis-cli,
// redis-benchmark, go-redis and bare sockets. It holds tests only; nothing imports it.
//
// # Files
//
//	main_test.go                 flags, the one build of the binary, what is left out when a tool is missing
//	process_test.go              a server process: start, log, resident memory, stop
//	wire_test.go pty_test.go     a bare connection: requests in, exact reply bytes out; a terminal for interactive programs
//	bulk_test.go                 load and check of very many items
//	exactwriter_test.go repeatwriter_test.go  loads that know what each post must hold, over restarts; with numbers
//
//	startup_test.go script_test.go  flags, schema files, sockets, and starts that must fail; the schema script and its keys
//	shutdown_test.go             what a stopping server still answers
//	protocol_test.go cases_test.go  raw input and error texts, compared with a real redis-server byte for byte
//	differential_test.go generate_test.go  random sequences of commands, compared in the same way
//	differences_test.go          the table of all intended differences from Redis
//	commandtable_test.go         what COMMAND says, compared in the same way
//	exact_test.go live_test.go   no increment lost, none counted twice; schema changes under load
//	scan_test.go find_test.go    SCAN while items come and go; queries under load
//	numbered_test.go             commands with a number, and kills between change and reply
//	users_test.go tls_test.go    rights of users; TLS: clients, reloads, handshakes that stall, Sentinel
//	hostile_test.go              packets and connections that mean harm
//	metrics_test.go page_test.go /metrics; the status page in a browser
//
//	rediscli_test.go benchmark_test.go  every mode of redis-cli; redis-benchmark, and the sums it leaves
//	goredis_test.go client_test.go  go-redis v9; package client
//	client_bench_test.go         what a client costs
//	howto_test.go howto_every_test.go tools_test.go  the how-tos in other languages; each command once; what other tools send
//
//	durable_kill_test.go         kill -9 again and again
//	durable_trouble_test.go      disks that fail
//	durable_damage_test.go durable_cut_test.go  damaged logs and snapshots; repairs that cut the log
//	durable_tools_test.go durable_helper_test.go  the tools on directories; what these tests share
//	durable_writers_test.go      their load
//	cold_test.go cold_unreadable_test.go lost_test.go  posts in files; pages and images that cannot be read
//	compress_test.go upgrade_test.go  compressed logs; directories of earlier versions
//
//	import_test.go follow_test.go export_test.go  counterctl import, also of what goes on; export
//	download_test.go built_test.go  redis-cli --rdb; counterctl build
//	bench_scripts_test.go packaging_test.go  the scripts of bench; packages and units
//
//	failover_test.go             roles and FAILOVER, compared with a pair of redis-servers; FAILOVER under load
//	replica_cuts_test.go replica_tail_test.go  replicas under cuts and restarts; a primary that lost the end of its log
//	numbered_failover_test.go    roles that change between a numbered change and its repeat
//	sentinel_test.go             three stock Sentinels; redis-cli --replica
//	sentinel_group_test.go       three nodes and three Sentinels, in network namespaces where there can be
//	sentinel_load_test.go        clients of Sentinel that remember what they were told
//	sentinel_soak_test.go sentinel_planned_test.go  failover after failover; SENTINEL FAILOVER
//	sentinel_ioredis_test.go     ioredis's Sentinel client, where node finds ioredis
//
//	cluster_harness_test.go      etcd and nodes, in network namespaces where there can be
//	cluster_writers_test.go      who writes to a cluster, and what must be there
//	cluster_chaos_test.go        a cluster with real etcd that is hurt again and again
//	cluster_faults_test.go cluster_moves_test.go  in which ways
//	cluster_check_test.go        that the check of what was written sees what is wrong
//	cluster_backup_test.go       backups of clusters
//
// Clients with caches of their own stand in the folder clients, in a module of its own.
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
