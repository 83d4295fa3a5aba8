package client

import (
	"context"
	"errors"
	"strings"

	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// tracer makes a span for each request: a command, or commands that are sent together, with all of its attempts. Spans of
// go-redis's own instrumentation, one for each attempt, are below it. A nil tracer makes none, and costs a comparison.
//
// The package depends on OpenTelemetry's API and not on its SDK, as OpenTelemetry asks of libraries: a program without the
// SDK links a few types, and a program with it needs no adapter.
type tracer struct{ trace.Tracer }

func newTracer(provider trace.TracerProvider) *tracer {
	if provider == nil {
		return nil
	}
	return &tracer{provider.Tracer("github.com/counterd/counterd/counter/client")}
}

// Attributes of OpenTelemetry's semantic conventions for database clients, version 1.30 and later.
const (
	dbSystem    = attribute.Key("db.system.name")
	dbOperation = attribute.Key("db.operation.name")
	dbCounter   = attribute.Key("db.collection.name")
	dbBatch     = attribute.Key("db.operation.batch.size")
	dbStatus    = attribute.Key("db.response.status_code")
	errorType   = attribute.Key("error.type")
	spanAttempt = attribute.Key("counterd.attempt")
)

// span is that of one request. The zero span records nothing.
type span struct{ trace.Span }

// begin begins the span of a command, and gives the context that its attempts are made with. posts is how many posts it is
// about, 0 where only the server knows.
func (t *tracer) begin(ctx context.Context, c *Client, posts int, args []any) (context.Context, span) {
	if t == nil {
		return ctx, span{}
	}
	word, _ := args[0].(string)
	name := strings.ToUpper(word)
	attributes := []attribute.KeyValue{dbSystem.String("counterd"), dbOperation.String(name)}
	title, counter := name, c.options.Counter
	if cs := c.columns.known.Load(); cs != nil {
		counter = cs.counter
	}
	if counter != "" {
		attributes = append(attributes, dbCounter.String(counter))
		title += " " + counter
	}
	if posts > 1 {
		attributes = append(attributes, dbBatch.Int(posts))
	}
	ctx, s := t.Start(ctx, title, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(attributes...))
	return ctx, span{s}
}

// repeat notes that the request of ctx is sent again, after so many attempts, of which the last was answered err.
func (t *tracer) repeat(ctx context.Context, attempts int, err error) {
	if t != nil {
		trace.SpanFromContext(ctx).AddEvent("repeat", trace.WithAttributes(spanAttempt.Int(attempts+1), errorType.String(typeOf(err))))
	}
}

// end ends the span. A post that is not there is no error.
func (s span) end(err error) {
	if s.Span == nil {
		return
	}
	if err != nil && err != redis.Nil {
		s.SetStatus(codes.Error, err.Error())
		word := typeOf(err)
		s.SetAttributes(errorType.String(word))
		if word == strings.ToUpper(word) {
			s.SetAttributes(dbStatus.String(word))
		}
	}
	s.End()
}

// typeOf is the name of an error in a span: the first word of the server's reply, else the class.
func typeOf(err error) string {
	if e, ok := errors.AsType[*Error](err); ok {
		err = e.Err
	}
	if e, ok := errors.AsType[redis.Error](err); ok {
		word, _, _ := strings.Cut(e.Error(), " ")
		return word
	}
	switch ClassOf(err) {
	case Transient:
		return "unavailable"
	case InDoubt:
		return "in_doubt"
	}
	return "refused"
}
