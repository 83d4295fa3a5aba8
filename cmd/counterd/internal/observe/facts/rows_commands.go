package facts

import (
	"strconv"
	"strings"
	"time"

	"github.com/counterd/counterd/internal/errclass"
)

// commandRows are about each command of the command table that was called, rejected or failed.
var commandRows = join(
	commandList.rows(
		column[Command]{line: commandLine, key: "calls", json: "calls", Fact: Fact{Metric: "commands_total", Type: Counter,
			Help: "Executions of the command, including those in a pipeline or transaction."}, of: func(c *Command) Value { return Int(c.Calls) }},
		column[Command]{line: commandLine, key: "usec", Fact: Fact{Unit: "microseconds", Help: "Time that they took together."}, of: func(c *Command) Value { return Int(c.Nanos / 1000) }},
		column[Command]{line: commandLine, key: "usec_per_call", Fact: Fact{Unit: "microseconds", Help: "Mean time of an execution."},
			of: func(c *Command) Value { return Decimal(float64(c.Nanos)/1000/float64(max(1, c.Calls)), 2) }},
		column[Command]{line: commandLine, key: "rejected_calls", Fact: Fact{Metric: "commands_rejected_total", Type: Counter,
			Help: "Calls that were refused before execution: wrong number of arguments, missing rights, LOADING, READONLY."}, of: func(c *Command) Value { return Int(c.Rejected) }},
		column[Command]{line: commandLine, key: "failed_calls", Fact: Fact{Metric: "commands_failed_total", Type: Counter,
			Help: "Executions that were answered with an error."}, of: func(c *Command) Value { return Int(c.Failed) }},
		column[Command]{json: "failed", Fact: Fact{Help: "Calls that were refused, and executions that were answered with an error."}, of: func(c *Command) Value { return Int(c.Failed + c.Rejected) }},
		column[Command]{json: "rate", Fact: Fact{Help: "Executions per second, in the last second."}, of: func(c *Command) Value { return Decimal(c.PerSec, 1) }},
		column[Command]{line: latencyLine, key: "p50", json: "p50", Fact: Fact{Unit: "microseconds", Help: "Upper bound of the time of half of the executions."}, of: percentile(0.5)},
		column[Command]{line: latencyLine, key: "p99", json: "p99", Fact: Fact{Unit: "microseconds", Help: "Upper bound of the time of 99 % of the executions."}, of: percentile(0.99)},
		column[Command]{line: latencyLine, key: "p99.9", json: "p999", Fact: Fact{Unit: "microseconds", Help: "Upper bound of the time of 99.9 % of the executions."}, of: percentile(0.999)},
	),
	in("", PartCommands, Fact{Metric: "command_duration_seconds", Type: Histogram, Labels: []string{"command"},
		Help: "Time to execute the command, without waiting for its turn, the disk or the network. Commands that are executed together share their time equally.",
		buckets: func(s *State, add func(b Buckets, labels ...string)) {
			for i := range s.Commands {
				c := &s.Commands[i]
				times := c.Times.ByPower()
				add(Buckets{Counts: times[:], Sum: float64(c.Nanos) / 1e9, Unit: 1e-6}, c.Name)
			}
		}}),
	in("Errorstats", PartCommands, Fact{Info: "errorstat_*", Metric: "error_replies_total", Type: Counter, Labels: []string{"class", "error"},
		Help: "Error replies by their first word. class: permanent (refused), transient (refused, and may be sent again), in_doubt (may have been executed).",
		lines: func(s *State, line func(name, value string)) {
			for _, e := range s.Errors {
				line("errorstat_"+safeWord.Replace(e.Word), "count="+strconv.FormatInt(e.N, 10))
			}
		},
		series: errorReplies}),
)

// safeWord makes a word of an error part of a field's name.
var safeWord = strings.NewReplacer(":", "_", "#", "_", "\r", "_", "\n", "_", "=", "_")

var (
	commandList = list[Command]{part: PartCommands, json: "commands", name: "name", help: "The commands that were executed most.",
		items: func(s *State) []Command { return s.Commands }, labels: []string{"command"}, label: func(c *Command) string { return c.Name }}
	commandLine = &line[Command]{section: "Commandstats", prefix: "cmdstat_", help: "One line for each command that was called, rejected or failed."}
	latencyLine = &line[Command]{section: "Latencystats", prefix: "latency_percentiles_usec_", help: "One line for each command that was executed.",
		skip: func(c *Command) bool { return c.Calls == 0 }}
)

// percentile reads a bound of a percentile: nanoseconds in JSON, microseconds with three decimals in INFO.
func percentile(p float64) func(c *Command) Value {
	return func(c *Command) Value {
		if c.Calls == 0 || c.Times == nil {
			return Unknown
		}
		return micros(c.Times.Percentile(p))
	}
}

// micros is a time in microseconds with three decimals in INFO, as Redis has it, and in nanoseconds in JSON.
func micros(d time.Duration) Value {
	return Value{kind: fine, n: int64(d), f: float64(d) / float64(time.Microsecond), digits: 3}
}

// classes are those of package errclass as labels.
var classes = map[errclass.Class]string{errclass.Permanent: "permanent", errclass.Transient: "transient", errclass.InDoubt: "in_doubt"}

// codes are the first words of all errors that a server sends, each once.
var codes = func() (list []errclass.Row) {
	for _, row := range errclass.Table() {
		word, _, rest := strings.Cut(row.Code, " ")
		if !rest {
			list = append(list, errclass.Row{Code: word, Class: row.Class})
		}
	}
	return list
}()

// errorReplies has a series for each error that a server sends, so that the first one shows as an increase. Any other
// first word may come from a client and is counted as "other".
func errorReplies(s *State, add func(v Value, labels ...string)) {
	all := int64(0)
	counted := make(map[string]int64, len(s.Errors))
	for _, e := range s.Errors {
		counted[e.Word] = e.N
		all += e.N
	}
	for i := range codes {
		n := counted[codes[i].Code]
		add(Int(n), classes[codes[i].Class], codes[i].Code)
		all -= n
	}
	add(Int(all), classes[errclass.Permanent], "other")
}
