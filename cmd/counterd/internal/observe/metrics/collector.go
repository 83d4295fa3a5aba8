package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/proto"

	"github.com/counterd/counterd/cmd/counterd/internal/observe/facts"
)

// Source is the server whose facts are shown.
type Source interface {
	// State returns those of now, with the parts that metrics read. It is called by one goroutine at a time.
	State() *facts.State
}

// family is a metric with the rows that make it up.
type family struct {
	desc   *prometheus.Desc
	labels []string
	rows   []*facts.Fact
}

// Collector makes series of a source's facts. Its registry must not gather twice at once.
type Collector struct {
	source   Source
	families []family
}

// NewCollector makes the collector of source.
func NewCollector(source Source) *Collector {
	c := &Collector{source: source}
	at := make(map[string]int)
	table := facts.Table()
	for i := range table {
		f := &table[i]
		if f.Metric == "" {
			continue
		}
		n, ok := at[f.Metric]
		if !ok {
			n = len(c.families)
			at[f.Metric] = n
			c.families = append(c.families, family{desc: prometheus.NewDesc(facts.Namespace+f.Metric, f.MetricHelp(), f.Labels, nil), labels: f.Labels})
		}
		c.families[n].rows = append(c.families[n].rows, f)
	}
	return c
}

// Describe is prometheus.Collector's.
func (c *Collector) Describe(out chan<- *prometheus.Desc) {
	for i := range c.families {
		out <- c.families[i].desc
	}
}

// Collect is prometheus.Collector's.
func (c *Collector) Collect(out chan<- prometheus.Metric) {
	state := c.source.State()
	for i := range c.families {
		fam := &c.families[i]
		for _, f := range fam.rows {
			if f.Type == facts.Histogram {
				f.Buckets(state, func(b facts.Buckets, labels ...string) {
					out <- &series{desc: fam.desc, kind: f.Type, labels: pairs(fam.labels, labels), buckets: b}
				})
				continue
			}
			f.Series(state, func(v float64, labels ...string) {
				out <- &series{desc: fam.desc, kind: f.Type, labels: pairs(fam.labels, labels), value: v}
			})
		}
	}
}

// pairs are labels with their values; names are in order.
func pairs(names, values []string) []*dto.LabelPair {
	if len(names) != len(values) {
		panic("metrics: a series has other labels than its metric")
	}
	list := make([]*dto.LabelPair, len(names))
	for i := range names {
		list[i] = &dto.LabelPair{Name: &names[i], Value: proto.String(values[i])}
	}
	return list
}

// series is one. The library's own constant metrics sort labels and make maps of buckets each time, which took two
// thirds of the time of a scrape.
type series struct {
	desc    *prometheus.Desc
	kind    facts.Type
	labels  []*dto.LabelPair
	value   float64
	buckets facts.Buckets
}

// Desc is prometheus.Metric's.
func (s *series) Desc() *prometheus.Desc { return s.desc }

// Write is prometheus.Metric's.
func (s *series) Write(m *dto.Metric) error {
	m.Label = s.labels
	switch s.kind {
	case facts.Gauge:
		m.Gauge = &dto.Gauge{Value: &s.value}
	case facts.Counter:
		m.Counter = &dto.Counter{Value: &s.value}
	case facts.Histogram:
		m.Histogram = histogram(&s.buckets)
	}
	return nil
}

// histogram gives the last bucket no bound: it is +Inf, whose count is that of all values.
func histogram(b *facts.Buckets) *dto.Histogram {
	h := &dto.Histogram{SampleSum: &b.Sum}
	bounded := max(0, len(b.Counts)-1)
	list := make([]dto.Bucket, bounded)
	numbers := make([]struct {
		bound float64
		count uint64
	}, bounded)
	h.Bucket = make([]*dto.Bucket, bounded)
	sum, bound := uint64(0), b.Unit
	for i, n := range b.Counts {
		sum += n
		if i < bounded {
			numbers[i].bound, numbers[i].count = bound, sum
			list[i].UpperBound, list[i].CumulativeCount = &numbers[i].bound, &numbers[i].count
			h.Bucket[i] = &list[i]
			bound *= 2
		}
	}
	h.SampleCount = &sum
	return h
}
