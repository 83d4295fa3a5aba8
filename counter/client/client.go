package client

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel/trace"
)

// Options are the settings of a Client. Zero values mean the defaults described here. Everything about connections
// (addresses, pools, TLS, passwords, Sentinel, time limits, reads from replicas) is a setting of the go-redis client.
type Options struct {
	// Counter is the counter's name; the schema's first where it is empty.
	Counter string
	// RetryFor is how long a request is repeated after its first attempt failed: 30 s, at most 5 minutes. A server
	// remembers a producer for 10 minutes at least, so that a repeat is never taken for a new request. The context may end it
	// earlier.
	RetryFor time.Duration
	// RetryPercent is how many repeats a hundred requests pay for: 10. RetryBurst is how many are there to begin with,
	// and saved at most: 1,000, so that each of 1,000 goroutines that lose their connections at once may repeat.
	RetryPercent int
	RetryBurst   int
	// Producers is how many producers number the changes at most: 64. Each may have 64 changes on their way, and there
	// are only as many as are needed.
	Producers int
	// Cluster says that rdb sends commands to the owners of their keys where its type does not: an AutoPipeliner of a
	// *redis.ClusterClient.
	Cluster bool
	// PageMids is how many posts are asked for in one command: 200. Larger pages are asked in parts, side by side.
	PageMids int
	// SchemaFor is how old the list of columns may become: 10 s. A column that is not on it is looked for at once.
	SchemaFor time.Duration
	// TracerProvider makes OpenTelemetry spans: one for each request with all of its attempts, by the semantic conventions
	// for database clients. Nil makes none.
	TracerProvider trace.TracerProvider
}

const (
	maxRetryFor  = 5 * time.Minute
	maxProducers = 1000
	// firstLanes is how many lanes there are at first, and not one a processor: a server has places for the producers of all
	// its clients. Four locks of 20 ns suffice for any number of requests that a client can make.
	firstLanes = 4
)

// check sets the defaults, and returns an error for invalid values.
func (o *Options) check() error {
	var errs []error
	set := func(name string, v *int, usual, least, most int) {
		if *v == 0 {
			*v = usual
		}
		if *v < least || *v > most {
			errs = append(errs, fmt.Errorf("client: %s is %d, want %d to %d", name, *v, least, most))
		}
	}
	set("RetryPercent", &o.RetryPercent, 10, 1, 100)
	set("RetryBurst", &o.RetryBurst, 1000, 1, 1_000_000)
	set("Producers", &o.Producers, 64, 1, maxProducers)
	set("PageMids", &o.PageMids, 200, 1, 10_000)
	if o.RetryFor == 0 {
		o.RetryFor = 30 * time.Second
	}
	if o.RetryFor < 0 || o.RetryFor > maxRetryFor {
		errs = append(errs, fmt.Errorf("client: RetryFor is %v, want 0 to %v", o.RetryFor, maxRetryFor))
	}
	if o.SchemaFor == 0 {
		o.SchemaFor = 10 * time.Second
	}
	if o.SchemaFor < 0 {
		errs = append(errs, fmt.Errorf("client: SchemaFor is %v, want 0 or more", o.SchemaFor))
	}
	return errors.Join(errs...)
}

// Client changes and reads the posts of one counter. It is safe for concurrent use, has no goroutines, and needs no
// Close: its go-redis client is the caller's to close.
type Client struct {
	rdb     redis.UniversalClient
	options Options
	cluster bool // commands are sent to the owner of their key
	owners  owners
	deaf    bool // rdb does not look at contexts while it waits for a reply
	clock   clock
	budget  *budget
	lanes   *lanes

	columns *columnCache
	tracer  *tracer // nil: requests have no spans
}

// New makes a client that sends through rdb: a *redis.Client, also one of Sentinel, a *redis.ClusterClient, or an
// *redis.AutoPipeliner of either. With a thousand goroutines that increment, an AutoPipeliner takes a quarter of the
// processor time, here, and a tenth at the server; with one goroutine it takes twice as much. It sends nothing yet.
func New(rdb redis.UniversalClient, options Options) (*Client, error) {
	if err := options.check(); err != nil {
		return nil, err
	}
	nodes, cluster := rdb.(*redis.ClusterClient)
	c := &Client{rdb: rdb, options: options, cluster: cluster || options.Cluster, owners: owners{rdb, nodes}, deaf: ignoresContexts(rdb), clock: realClock,
		budget: newBudget(options.RetryPercent, options.RetryBurst),
		lanes:  newLanes(min(runtime.GOMAXPROCS(0), firstLanes), options.Producers), tracer: newTracer(options.TracerProvider)}
	c.columns = &columnCache{schema: c.readSchema, counter: options.Counter, braces: c.cluster, maxAge: options.SchemaFor, clock: &c.clock, reading: make(chan struct{}, 1)}
	return c, nil
}

// readSchema asks for the lines of SCHEMA.
func (c *Client) readSchema(ctx context.Context) ([]any, error) {
	return ask(ctx, c, 0, func(ctx context.Context) ([]any, error) { return c.rdb.Do(ctx, "schema").Slice() }, "schema")
}
