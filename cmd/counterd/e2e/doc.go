// Package e2e is the root of the end-to-end tests. They test the built programs from outside, as users meet them: through
// redis-cli, redis-benchmark, client libraries and bare sockets. Each folder has one subject:
//
//	protocol       replies compared with a real redis-server byte for byte; users, TLS, hostile input, start and stop
//	counting       no increment lost, none counted twice; queries and schema changes under load
//	durability     kill -9, disks that fail, damaged files, posts in files, directories of earlier versions
//	replication    replicas under cuts and restarts; roles and FAILOVER
//	sentinel       failover by Sentinel
//	cluster        a cluster with real etcd that is hurt again and again; backups of clusters
//	migration      counterctl import, follow, export, build; redis-cli --rdb
//	libraries      go-redis, package client, the how-tos in other languages
//	tools          redis-cli, redis-benchmark, what other tools send; packages, units and the scripts of bench
//	observability  /metrics; the console in a browser
//	clients        the matrix of client libraries, in a module of its own
//	consumers      programs that follow the feed of changes, and their sinks
//	harness        what all of them share: processes, connections, loads that know what each post must hold
//
// # Running
//
//	make e2e                                                    all, a few minutes on two cores
//	go test ./cmd/counterd/e2e/...                              the same; programs are built into bin/e2e
//	go test ./cmd/counterd/e2e/durability -short                one folder, a tenth of the data
//	SCALE=10 go test ./cmd/counterd/e2e/durability -timeout 30m ten times the data
//	go test ./cmd/counterd/e2e/protocol -run Differential -seed 42    replay one random sequence
//	COUNTERD_BINARY=/usr/bin/counterd go test ./cmd/counterd/e2e/protocol -count=1    a binary that is already built
//	REQUIRE_REDIS=1 go test ./cmd/counterd/e2e/...              fail where redis-server or redis-cli is missing
//
// With -race the server is built with the race detector as well; its reports fail the test whose server made them, and limits on
// memory, which the detector inflates, are then not checked.
//
// # Differential tests
//
// The same sequence of requests goes to counterd and to redis-server. Every reply must be equal byte for byte, or be named in the
// table of protocol/differences_test.go with its reason. Two counters make the semantics coincide: n has a single column with the
// empty suffix, so that n:123 is a plain number as a Redis string holding digits is; h has three columns that the sequences always
// set together, so that h:123 is what a Redis hash with three fields is. A sequence that fails is cut down to the few requests
// that still make the difference, and printed with its seed.
package e2e
