package main

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"strings"
)

// keymap is the proxy: each connection of a client has one of its own to the server.
type keymap struct {
	listener net.Listener
	server   string
	names    *names
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

// answered are commands that suites send before each test, and counterd does not have. The proxy answers them with OK.
var answered = map[string]bool{"function": true, "script": true}

// replaced tells whether the proxy answers a command: also one that sets how Redis encodes lists and sets.
func replaced(args [][]byte) bool {
	if len(args) == 0 {
		return false
	}
	return answered[strings.ToLower(string(args[0]))] || len(args) > 2 && strings.EqualFold(string(args[0]), "config") &&
		(bytes.Contains(args[2], []byte("listpack")) || bytes.Contains(args[2], []byte("intset")) || bytes.Contains(args[2], []byte("ziplist")))
}

func (k *keymap) relay(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", k.server)
	if err != nil {
		return
	}
	defer server.Close()
	go func() {
		_, _ = io.Copy(client, server)
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
		if replaced(args) {
			// An answer of the proxy would overtake those of the server, so the server gives one.
			args = [][]byte{[]byte("CLIENT"), []byte("SETNAME"), nil}
		}
		if len(args) > 0 {
			raw = appendRequest(nil, k.names.translate(args))
		}
		if _, err := server.Write(raw); err != nil {
			return
		}
	}
}
