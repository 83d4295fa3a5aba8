package facts

import (
	"math"
	"strconv"
	"time"
)

// Type is the type of a metric.
type Type string

// Types of metrics. A fact without a metric has none of them.
const (
	Gauge     Type = "gauge"
	Counter   Type = "counter"
	Histogram Type = "histogram"
)

// Namespace is the prefix of all metric names.
const Namespace = "counterd_"

// Fact is a row of the table. Its fields are set by the table alone.
type Fact struct {
	Section string // of INFO; empty: the fact is not in INFO
	Info    string // field of INFO
	Same    string // this row is a second INFO name of the field that Same names, and nothing else
	Human   bool   // INFO repeats the size as NAME_human
	Redis   bool   // a fixed value, which tools for Redis expect

	Metric string // without Namespace; empty: there is no metric
	Type   Type
	Labels []string // label names; those of a list, or the one of Value
	Label  string   // value of the only label, where several rows make up a metric

	JSON string // path in the JSON of the console: "disk.free"

	Help string // its meaning: one sentence
	Unit string // of INFO, where the name does not say it

	part   Part
	stored bool // it is a fact of the store: unknown to metrics and JSON while data is being loaded

	read    func(s *State) Value // the value of INFO and JSON, and of the metric unless it has series
	series  func(s *State, add func(v Value, labels ...string))
	buckets func(s *State, add func(b Buckets, labels ...string))
	lines   func(s *State, line func(name, value string)) // several lines of INFO
	array   func(s *State, out []byte) []byte             // an array of the JSON
	column  bool                                          // it is part of a line of INFO and of an array
}

// Buckets is a histogram: value i counts observations above 2^(i-1) and at most 2^i units, the last one all larger
// values.
type Buckets struct {
	Counts []uint64
	Sum    float64 // of all values, in the unit of the metric
	Unit   float64 // of a bound, in the unit of the metric
}

// from moves all counts below a bucket into that bucket.
func (b Buckets) from(first int) Buckets {
	counts := append([]uint64(nil), b.Counts[first:]...)
	for _, n := range b.Counts[:first] {
		counts[0] += n
	}
	return Buckets{counts, b.Sum, b.Unit * float64(int(1)<<first)}
}

// Series calls add for each series of the fact's metric that is known. It is not for histograms.
func (f *Fact) Series(s *State, add func(v float64, labels ...string)) {
	if f.stored && s.Loading != nil {
		return
	}
	if f.series != nil {
		f.series(s, func(v Value, labels ...string) {
			if v.kind != unknown {
				add(v.metric(), labels...)
			}
		})
		return
	}
	v := f.read(s)
	switch {
	case v.kind == unknown || v.kind == never:
	case f.Label != "":
		add(v.metric(), f.Label)
	default:
		add(v.metric())
	}
}

// Buckets calls add for each histogram of the fact's metric.
func (f *Fact) Buckets(s *State, add func(b Buckets, labels ...string)) {
	if f.buckets != nil && (!f.stored || s.Loading == nil) {
		f.buckets(s, add)
	}
}

// kind is the type of a Value.
type kind uint8

const (
	unknown kind = iota
	integer
	unsigned
	decimal
	text
	truth
	span
	moment
	fine   // a span that INFO shows in microseconds with decimals
	status // up or down in INFO, else 1 or 0
	never  // -1 in INFO, else unknown
)

// Value is the result of reading a Fact. The zero Value is Unknown.
type Value struct {
	kind   kind
	digits int8 // of a decimal in INFO
	n      int64
	f      float64
	s      string
}

// Unknown is the value of a fact that is not known, or does not apply.
var Unknown Value

// Int is a number.
func Int[T ~int | ~int64 | ~int32](n T) Value { return Value{kind: integer, n: int64(n)} }

// Uint is a number that may need 64 bits.
func Uint(n uint64) Value { return Value{kind: unsigned, n: int64(n)} }

// Decimal is a number that INFO shows with so many digits behind the point.
func Decimal(f float64, digits int) Value { return Value{kind: decimal, f: f, digits: int8(digits)} }

// Text is a text. It has no metric.
func Text(s string) Value { return Value{kind: text, s: s} }

// Bool is 1 or 0, and a boolean in JSON.
func Bool(b bool) Value {
	v := Value{kind: truth}
	if b {
		v.n = 1
	}
	return v
}

// Span is a length of time: seconds in metrics, nanoseconds in JSON. INFO shows whole units, as the end of the name
// says: _usec, _msec, else seconds.
func Span(d time.Duration) Value { return Value{kind: span, n: int64(d)} }

// Moment is a point in time: seconds since 1970 in INFO and metrics, milliseconds in JSON. The zero Time is 0.
func Moment(t time.Time) Value {
	if t.IsZero() {
		return Value{kind: moment}
	}
	return Value{kind: moment, n: t.UnixMilli()}
}

// known is v, or Unknown unless ok.
func known(ok bool, v Value) Value {
	if ok {
		return v
	}
	return Unknown
}

// metric is the value as Prometheus has it.
func (v Value) metric() float64 {
	switch v.kind {
	case integer, truth, status:
		return float64(v.n)
	case unsigned:
		return float64(uint64(v.n))
	case decimal:
		return v.f
	case span:
		return time.Duration(v.n).Seconds()
	case moment:
		return float64(v.n) / 1000
	}
	return math.NaN()
}

// appendInfo appends the value as INFO has it. unit is that of a span.
func (v Value) appendInfo(out []byte, unit time.Duration) []byte {
	switch v.kind {
	case status:
		if v.n == 1 {
			return append(out, "up"...)
		}
		return append(out, "down"...)
	case integer, truth, never:
		return strconv.AppendInt(out, v.n, 10)
	case unsigned:
		return strconv.AppendUint(out, uint64(v.n), 10)
	case decimal, fine:
		return strconv.AppendFloat(out, v.f, 'f', int(v.digits), 64)
	case span:
		return strconv.AppendInt(out, v.n/int64(unit), 10)
	case moment:
		return strconv.AppendInt(out, v.n/1000, 10)
	}
	return append(out, v.s...)
}

// appendJSON appends the value as the console has it.
func (v Value) appendJSON(out []byte) []byte {
	switch v.kind {
	case unsigned:
		return strconv.AppendUint(out, uint64(v.n), 10)
	case decimal:
		if math.IsNaN(v.f) || math.IsInf(v.f, 0) {
			return append(out, "null"...)
		}
		return strconv.AppendFloat(out, v.f, 'f', -1, 64)
	case truth:
		return strconv.AppendBool(out, v.n != 0)
	case text:
		return appendQuoted(out, v.s)
	}
	return strconv.AppendInt(out, v.n, 10)
}
