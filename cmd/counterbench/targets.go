package main

import (
	"strings"

	"github.com/counterd/counterd/bench"
)

// kindList lists the kinds of servers, for help texts.
func kindList() string {
	var names []string
	for _, kind := range bench.Kinds() {
		names = append(names, string(kind))
	}
	return strings.Join(names, ", ")
}

// parseTargets makes the targets A and, unless vs is empty, B.
func parseTargets(server, kind, password, vs, vsPassword string) ([]bench.Target, error) {
	a, err := parseTarget(server, kind, password)
	if err != nil || vs == "" {
		return []bench.Target{a}, err
	}
	b, err := bench.ParseTarget(vs)
	if err != nil {
		return nil, misuse("--vs: %v", err)
	}
	b.Password = vsPassword
	return []bench.Target{a, b}, nil
}

// parseTarget makes a target from the flags.
func parseTarget(server, kind, password string) (bench.Target, error) {
	target, err := bench.ParseTarget(server)
	if err != nil {
		return target, misuse("--server: %v", err)
	}
	if kind != "" {
		if target.Kind, err = bench.ParseKind(kind); err != nil {
			return target, misuse("--kind: %v", err)
		}
	}
	target.Password = password
	return target, nil
}
