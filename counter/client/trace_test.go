package client

import (
	"context"
	"fmt"
	"slices"
	"sort"
	"strings"
	"sync"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/embedded"
	"go.opentelemetry.io/otel/trace/noop"
)

// spans records what a tracer makes.
type spans struct {
	embedded.TracerProvider
	mu   sync.Mutex
	list []string // of those that ended
}

func (s *spans) Tracer(string, ...trace.TracerOption) trace.Tracer {
	return recorder{Tracer: noop.NewTracerProvider().Tracer(""), spans: s}
}

// take gives the spans that ended since the last time.
func (s *spans) take() (list []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list, s.list = s.list, nil
	return list
}

type recorder struct {
	trace.Tracer
	spans *spans
}

func (r recorder) Start(ctx context.Context, name string, options ...trace.SpanStartOption) (context.Context, trace.Span) {
	config := trace.NewSpanStartConfig(options...)
	s := &recorded{Span: noop.Span{}, spans: r.spans, text: fmt.Sprint(config.SpanKind(), " ", name), attributes: config.Attributes()}
	return trace.ContextWithSpan(ctx, s), s
}

// recorded is a span in text: kind, name, attributes, events.
type recorded struct {
	trace.Span
	spans      *spans
	text       string
	attributes []attribute.KeyValue
	events     string
}

func (r *recorded) SetAttributes(list ...attribute.KeyValue) {
	r.attributes = append(r.attributes, list...)
}

func (r *recorded) SetStatus(code codes.Code, _ string) { r.events += " status=" + code.String() }

func (r *recorded) AddEvent(name string, options ...trace.EventOption) {
	config := trace.NewEventConfig(options...)
	r.events += " " + name + "(" + attributesText(config.Attributes()) + ")"
}

func (r *recorded) End(...trace.SpanEndOption) {
	r.spans.mu.Lock()
	r.spans.list = append(r.spans.list, r.text+" "+attributesText(r.attributes)+r.events)
	r.spans.mu.Unlock()
}

func attributesText(list []attribute.KeyValue) string {
	var words []string
	for _, a := range list {
		words = append(words, string(a.Key)+"="+a.Value.String())
	}
	sort.Strings(words)
	return strings.Join(words, " ")
}

// TestSpans: each request is one span with its repeats, by the conventions for databases.
func TestSpans(t *testing.T) {
	f, recorded := newFake(t), &spans{}
	c := newTest(t, f, Options{TracerProvider: recorded})
	db := func(op string, more ...string) string {
		words := append([]string{"db.collection.name=weibo", "db.operation.name=" + op, "db.system.name=counterd"}, more...)
		sort.Strings(words)
		return "client " + op + " weibo " + strings.Join(words, " ")
	}
	check := func(what string, err error, want ...string) {
		t.Helper()
		if err != nil && what[0] != '!' {
			t.Errorf("%s: %v", what, err)
		}
		if got := recorded.take(); !slices.Equal(got, want) {
			t.Errorf("%s:\ngot  %q\nwant %q", what, got, want)
		}
	}
	if _, err := c.Columns(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := recorded.take(); len(got) != 1 || !strings.HasPrefix(got[0], "client SCHEMA") {
		t.Errorf("the schema: got %q", got)
	}
	_, err := c.Add(t.Context(), 1, "repost", 1)
	check("Add", err, db("INCRBY"))
	err = c.Set(t.Context(), 1, "repost", 7)
	check("Set", err, db("SET"))
	_, _, err = c.Get(t.Context(), 1, "repost")
	check("Get", err, db("GET"))
	_, _, err = c.Get(t.Context(), 99, "repost")
	check("Get of a post that is not there", err, db("GET"))
	_, err = c.Batch().Add(1, "repost", 1).Add(2, "repost", 1).Do(t.Context())
	check("Batch", err, db("COUNTER.MINCRBY", "db.operation.batch.size=2"))

	left := 2
	f.set(func() {
		f.fates = func([]string) fate {
			if left--; left >= 0 {
				return fate{refuse: "READONLY You can't write against a read only replica."}
			}
			return fate{}
		}
	})
	_, err = c.Add(t.Context(), 1, "repost", 1)
	check("Add with repeats", err, db("INCRBY")+" repeat(counterd.attempt=2 error.type=READONLY) repeat(counterd.attempt=3 error.type=READONLY)")
	f.set(func() { f.fates = func([]string) fate { return fate{refuse: "ERR value is out of range"} } })
	_, err = c.Add(t.Context(), 1, "repost", 1)
	check("! Add that is refused", err, db("INCRBY", "db.response.status_code=ERR", "error.type=ERR")+" status=Error")
	f.set(func() { f.fates = func([]string) fate { return fate{} } })

	a, err := c.NewAggregator(AggregatorOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Add(t.Context(), 5, "repost", 1); err != nil {
		t.Fatal(err)
	}
	err = a.Close(t.Context())
	check("Aggregator", err, db("COUNTER.MINCRBY"))
}

// TestSpansCluster: the changes of several hash slots that go out together are one span.
func TestSpansCluster(t *testing.T) {
	f, recorded := newFake(t), &spans{}
	c := newTest(t, f, Options{Cluster: true, TracerProvider: recorded})
	if _, err := c.Columns(t.Context()); err != nil {
		t.Fatal(err)
	}
	recorded.take()
	if _, err := c.Batch().Add(1, "repost", 1).Add(2, "repost", 1).Do(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := recorded.take(); len(got) != 1 || !strings.Contains(got[0], "COUNTER.MINCRBY") || !strings.Contains(got[0], "batch.size=2") {
		t.Errorf("got %q, want one span of two changes", got)
	}
}
