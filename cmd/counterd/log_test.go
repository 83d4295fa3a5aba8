package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"log/slog"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/config"
)

// logKeys are all keys of the log behind time, level and msg: one name for one thing, wherever it is said.
var logKeys = map[string]string{
	"address": "that is listened on, or that a connection comes from", "attempt": "which one this is", "attempts": "how many are made at most",
	"backup": "name of a backup", "before": "time that the posts of a line are older than", "blocks": "number of blocks", "bytes": "size of what the line is about", "bytes_written": "size of files written", "change": "of the map of a cluster", "client": "number of a connection, as in CLIENT LIST", "clock": "time of the machine", "confirmed": "log offset up to which changes were confirmed",
	"counter": "name of a counter", "counters": "number of counters", "damage": "what is wrong with a file", "deletes": "number of deletions", "difference": "a post and its values on two nodes", "dir": "data directory", "durability": "what an acknowledged change survives",
	"durable": "log offset that is on the disk", "end": "log offset of an end", "epoch": "of Sentinel, or of a shard of a cluster", "error": "what went wrong", "file": "path of a file, or its name",
	"files": "number of files", "first_change": "time of the first of several changes", "flushes": "number of FLUSHALL", "folder": "name of a folder of damaged files", "frames": "number of frames of the log", "free": "bytes free on the disk",
	"freed": "bytes given back", "from": "log offset of a begin", "generation": "number of a snapshot", "groups": "of hash slots", "held": "bytes in buffers of connections", "id": "of a trouble that a node reports",
	"hi": "first mid behind a range", "images_written": "number of files written", "in_sync": "ids of nodes", "items": "number of posts", "known_end": "log offset of an end that a node was heard to have",
	"last_change": "time of the last of several changes", "leads_again": "whether the node becomes primary in the end", "limit": "what was passed, in bytes", "lo": "first mid of a range", "log_time": "time of the newest tick of the log", "lost": "bytes of the log, or number of files", "maxmemory": "bytes", "memory": "bytes that posts take", "move": "id of a move of groups",
	"new_epoch": "that took the place of the epoch", "node": "id in a cluster", "number": "how many connections", "offset": "of the log", "old_primary": "id of the node that led before", "others": "number of events of the same kind since the last line about one", "older_ones": "number of older snapshots",
	"older_ones_removed": "number of older files removed", "panic": "what a fault of the program said", "parameter": "name of a setting", "path": "of a URL", "pid": "of the process", "place": "of backups",
	"primary": "the node that leads: its address, or its id in a cluster", "reason": "why it is done", "repair": "command that repairs it", "replay_from": "log offset that a start begins at", "replica": "address of a node that follows", "replicas": "ids of nodes that follow",
	"replid": "history of a log", "reserve": "bytes of the disk kept free", "restore": "command that brings it back", "restored": "how far a backup and the log have brought the data", "retry_in": "duration until the next attempt", "revision": "of a key in etcd", "saved_to": "path of a file made",
	"schema_changes": "number of changes of the schema", "sets": "number of values set", "settings": "names of settings", "shard": "number in a cluster", "size": "bytes that there are to be", "source": "directory that a backup was made of", "stack": "of a panic", "statement": "of the schema",
	"stood_still": "duration", "subject": "of a certificate", "text": "of a trouble that a node reports", "to": "log offset of an end", "took": "duration", "unixsocket": "path", "unread": "bytes that a client has not read",
	"unsent_limit": "bytes", "user": "name of a user", "valid_until": "time", "version": "of counterd", "what": "what is loaded",
}

// TestLogKeys: what the server's packages log has a message of their own words, which does not change from line to line,
// and keys that are in the table, none twice in a line and none that slog has already.
func TestLogKeys(t *testing.T) {
	used := make(map[string]bool)
	lines := 0
	for _, root := range []string{".", "../../counter", "../../persist", "../../coldstore"} {
		if err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			files := token.NewFileSet()
			file, err := parser.ParseFile(files, path, nil, 0)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				pairs, ok := logged(call)
				if !ok {
					return true
				}
				lines++
				where := files.Position(call.Pos())
				line := make(map[string]bool)
				for i := 0; i < len(pairs); i += 2 {
					key, ok := text(pairs[i])
					switch {
					case !ok:
						t.Errorf("%s: a key is computed, want a word", where)
					case logKeys[key] == "" || line[key]:
						t.Errorf("%s: key %q: want those of the table, each once", where, key)
					case i+1 == len(pairs):
						t.Errorf("%s: key %q has no value", where, key)
					}
					line[key], used[key] = true, true
				}
				return true
			})
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	if lines < 90 {
		t.Errorf("only %d lines were found", lines)
	}
	for key := range logKeys {
		if !used[key] {
			t.Errorf("nothing logs %q", key)
		}
		if key == slog.TimeKey || key == slog.LevelKey || key == slog.MessageKey {
			t.Errorf("%q is slog's own", key)
		}
	}
}

// logged tells whether a call writes to a log or makes one with keys, and gives its keys and values. A log is what is
// named so: log, logger, Logger, Log().
func logged(call *ast.CallExpr) (pairs []ast.Expr, ok bool) {
	f, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return nil, false
	}
	name := ""
	switch x := f.X.(type) {
	case *ast.Ident:
		name = x.Name
	case *ast.SelectorExpr:
		name = x.Sel.Name
	case *ast.CallExpr:
		if s, ok := x.Fun.(*ast.SelectorExpr); ok {
			name = s.Sel.Name
		}
	}
	if n := strings.ToLower(name); n != "log" && n != "logger" {
		return nil, false
	}
	switch f.Sel.Name {
	case "With":
		return call.Args, true
	case "Debug", "Info", "Warn", "Error":
		return call.Args[1:], true
	}
	return nil, false
}

// text is that of a string that stands in the code.
func text(e ast.Expr) (string, bool) {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return "", false
	}
	s, err := strconv.Unquote(lit.Value)
	return s, err == nil
}

// TestLogFormat: the two forms say the same; durations have a unit, or are seconds.
func TestLogFormat(t *testing.T) {
	line := func(format string) string {
		var b strings.Builder
		log := newLog(&b, format, slog.LevelInfo)
		log.Debug("not this")
		log.Warn("done", "took", 1500*time.Millisecond, "error", errors.New("a \"quoted\"\nerror"), "number", 7)
		_, rest, _ := strings.Cut(b.String(), "level")
		return rest
	}
	if got, want := line(config.LogText), `=WARN msg=done took=1.5s error="a \"quoted\"\nerror" number=7`+"\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := line(config.LogJSON), `":"WARN","msg":"done","took":1.5,"error":"a \"quoted\"\nerror","number":7}`+"\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	conf := config.Default()
	conf.LogFormat = "xml"
	if err := conf.Validate(); err == nil || !strings.Contains(fmt.Sprint(err), "log-format") {
		t.Errorf("a form that is none: %v", err)
	}
}
