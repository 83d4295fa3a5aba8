package main

import (
	"bufio"
	"errors"
	"net"
	"strings"
)

// keymap is the proxy: each connection of a client has one of its own to the server.
type keymap struct {
	listener net.Listener
	server   string
	names    *names
	// answered are the commands that the proxy answers with OK instead of the server; nil: none.
	answered func(args [][]byte) bool
	// integers are those of replies.
	integers map[string]string
}

func newKeymap(listen, server string, n *names) (*keymap, error) {
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return nil, err
	}
	return &keymap{listener: l, server: server, names: n}, nil
}

func (k *keymap) addr() *net.TCPAddr { return k.listener.Addr().(*net.TCPAddr) }

// serve accepts connections until the listener is closed.
func (k *keymap) serve() {
	for {
		client, err := k.listener.Accept()
		if err != nil {
			break
		}
		go k.relay(client)
	}
}

// word is an argument of a command in lower case; empty where it has none.
func word(args [][]byte, i int) string {
	if i >= len(args) {
		return ""
	}
	return strings.ToLower(string(args[i]))
}

// tclAnswered are commands that the Tcl suites send before each test, and counterd does not have: also those that set how Redis encodes
// lists and sets, and the time from which on it keeps slow events.
func tclAnswered(args [][]byte) bool {
	switch word(args, 0) {
	case "function", "script":
		return true
	case "config":
		setting := word(args, 2)
		return strings.Contains(setting, "listpack") || strings.Contains(setting, "intset") || strings.Contains(setting, "ziplist") || setting == "latency-monitor-threshold"
	}
	return false
}

// clusterAnswered are the commands by which a suite makes a cluster of nodes: counterctl made it.
func clusterAnswered(args [][]byte) bool {
	if word(args, 0) != "cluster" {
		return false
	}
	switch word(args, 1) {
	case "meet", "addslots", "addslotsrange", "replicate":
		return true
	}
	return false
}

// endsRESP tells whether the answer of a command is no RESP.
func endsRESP(args [][]byte) bool {
	switch word(args, 0) {
	case "sync", "psync", "replconf":
		return true
	}
	return strings.HasPrefix(word(args, 0), "counter.")
}

func (k *keymap) relay(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", k.server)
	if err != nil {
		return
	}
	defer server.Close()
	answers := &replies{names: k.names, integers: k.integers}
	go func() {
		_ = answers.copy(client, server)
		client.Close() // the end of the server's side is the end of the connection
	}()
	r := bufio.NewReaderSize(client, 1<<16)
	for {
		args, raw, err := readRequest(r)
		if errors.Is(err, errRaw) {
			if _, err := server.Write(raw); err == nil {
				_, _ = r.WriteTo(server)
			}
			return
		}
		if err != nil {
			_, _ = server.Write(raw)
			return
		}
		if k.answered != nil && k.answered(args) {
			// An answer of the proxy would overtake those of the server, so the server gives one.
			args = [][]byte{[]byte("CLIENT"), []byte("SETNAME"), nil}
		}
		if endsRESP(args) {
			answers.raw.Store(true)
		}
		if len(args) > 0 {
			raw = appendRequest(nil, k.names.translate(args))
		}
		if _, err := server.Write(raw); err != nil {
			return
		}
	}
}
