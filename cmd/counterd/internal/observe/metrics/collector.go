package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/proto"
)

// kind is of which type a family is.
type kind string

const (
	gauge     kind = "gauge"
	counts    kind = "counter"
	histogram kind = "histogram"
)

// add takes one series: its value, and those of its labels.
type add func(v float64, labels ...string)

// family is a row of the table: a metric with all its series.
type family struct {
	kind   kind
	name   string // behind counterd_
	help   string
	labels []string

	// Exactly one is set. Those of Store are not asked while there is none.
	one   func(f *Figures) float64
	many  func(f *Figures, add add)
	store func(s *Store, add add)
	times func(f *Figures, add func(b Buckets, labels ...string))
}

// namespace is before all names.
const namespace = "counterd_"

// Collector makes series of a source's figures. Its registry must not gather twice at once.
type Collector struct {
	source Source
	descs  []*prometheus.Desc // of families, in their order
}

// NewCollector makes the collector of source.
func NewCollector(source Source) *Collector {
	c := &Collector{source: source}
	for i := range families {
		f := &families[i]
		c.descs = append(c.descs, prometheus.NewDesc(namespace+f.name, f.help, f.labels, nil))
	}
	return c
}

// Describe is prometheus.Collector's.
func (c *Collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		out <- d
	}
}

// Collect is prometheus.Collector's.
func (c *Collector) Collect(out chan<- prometheus.Metric) {
	figures := c.source.Figures()
	for i := range families {
		f, desc := &families[i], c.descs[i]
		plain := func(v float64, labels ...string) {
			out <- &series{desc: desc, kind: f.kind, labels: pairs(f.labels, labels), value: v}
		}
		switch {
		case f.one != nil:
			plain(f.one(figures))
		case f.many != nil:
			f.many(figures, plain)
		case f.store != nil && figures.Store != nil:
			f.store(figures.Store, plain)
		case f.times != nil:
			f.times(figures, func(b Buckets, labels ...string) {
				out <- &series{desc: desc, kind: histogram, labels: pairs(f.labels, labels), buckets: b}
			})
		}
	}
}

// pairs are labels with their values; names are in order.
func pairs(names, values []string) []*dto.LabelPair {
	if len(names) != len(values) {
		panic("metrics: a family has other labels than its series")
	}
	list := make([]*dto.LabelPair, len(names))
	for i := range names {
		list[i] = &dto.LabelPair{Name: &names[i], Value: proto.String(values[i])}
	}
	return list
}

// series is one. The library's own constant metrics sort labels and make maps of buckets each time, which is two thirds
// of what a scrape took with them.
type series struct {
	desc    *prometheus.Desc
	kind    kind
	labels  []*dto.LabelPair
	value   float64
	buckets Buckets
}

// Desc is prometheus.Metric's.
func (s *series) Desc() *prometheus.Desc { return s.desc }

// Write is prometheus.Metric's.
func (s *series) Write(m *dto.Metric) error {
	m.Label = s.labels
	switch s.kind {
	case gauge:
		m.Gauge = &dto.Gauge{Value: &s.value}
	case counts:
		m.Counter = &dto.Counter{Value: &s.value}
	case histogram:
		m.Histogram = s.buckets.histogram()
	}
	return nil
}

// histogram gives the last bucket no bound: it is +Inf, whose count is that of all values.
func (b *Buckets) histogram() *dto.Histogram {
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
