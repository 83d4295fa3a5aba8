package sinks

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// topic is one partition of a topic of Kafka. Each change is a record:
//
//	value     the line of JSON
//	headers   position
//
// A batch is a transaction. The transactional id is that of the topic and partition: so the broker ends the transaction of an
// older process, killed or not, before this one reads the last committed position. Consumers must read
// with isolation.level=read_committed.
//
// Invariant: between two calls there is no open transaction of this process. Behind an error there may be one, which the next open ends.
type topic struct {
	client    *kgo.Client
	name      string
	partition int32
	position  string
	records   []kgo.Record
	refs      []*kgo.Record
}

// topicOptions are where a topic is.
type topicOptions struct {
	name      string
	partition int32
	client    []kgo.Opt // brokers, TLS, user
}

const (
	// topicAnswer is how long the cluster may take for a batch, with all repeats that the client makes by itself.
	topicAnswer = 30 * time.Second
	// topicHeader is the header that has the position.
	topicHeader = "position"
)

// openTopic connects, ends the transaction of an older process, and looks for the last position.
func openTopic(ctx context.Context, o topicOptions) (_ Sink, err error) {
	id := fmt.Sprintf("counterctl-feed-%s-%d", o.name, o.partition)
	client, err := kgo.NewClient(append([]kgo.Opt{
		kgo.WithContext(ctx), kgo.ClientID("counterctl"), kgo.WithLogger(kgo.BasicLogger(io.Discard, kgo.LogLevelNone, nil)),
		kgo.TransactionalID(id), kgo.TransactionTimeout(2 * topicAnswer), kgo.RecordDeliveryTimeout(topicAnswer), kgo.RetryTimeout(topicAnswer),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0),
	}, o.client...)...)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			client.Close()
		}
	}()
	s := &topic{client: client, name: o.name, partition: o.partition}
	limited, cancel := context.WithTimeout(ctx, topicAnswer)
	defer cancel()
	if _, _, err := client.ProducerID(limited); err != nil {
		return nil, ofKafka(err)
	}
	if s.position, err = s.find(limited, o.client); err != nil {
		return nil, ofKafka(err)
	}
	return s, nil
}

// ofKafka tells errors that may pass. So may a fence: another process took over, and this one reads the position before it goes on.
func ofKafka(err error) error {
	var e *kerr.Error
	if errors.As(err, new(*ForeignError)) {
		return err
	}
	if errors.As(err, &e) && !e.Retriable && e != kerr.ProducerFenced && e != kerr.InvalidProducerEpoch && e != kerr.InvalidProducerIDMapping && e != kerr.UnknownProducerID &&
		e != kerr.TransactionAbortable && e != kerr.OperationNotAttempted && e != kerr.InvalidTxnState && e != kerr.OutOfOrderSequenceNumber && e != kerr.UnknownServerError {
		return err
	}
	return &BrokenError{err}
}

// find reads the end of the partition, more and more of it, until a record with a position is among it. Where there is none, the partition must
// never have had one: records that retention removed may have, and changes up to the last of them would be written again.
func (s *topic) find(ctx context.Context, opts []kgo.Opt) (position string, err error) {
	const newest, oldest = -1, -2
	end, err := s.offset(ctx, newest)
	if err != nil {
		return "", err
	}
	first, err := s.offset(ctx, oldest)
	if err != nil {
		return "", err
	}
	for n := int64(64); ; n *= 16 {
		from := max(first, end-n)
		position, others, err := s.last(ctx, opts, from, end)
		switch {
		case position != "" || err != nil:
			return position, err
		case from > first:
		case first > 0:
			return "", &ForeignError{s.name, "retention removed records, and none that is left has a position: want a new topic, or one that keeps its last record"}
		case others:
			return "", &ForeignError{s.name, "it has records without a position"}
		default:
			return "", nil
		}
	}
}

// offset asks for the first or last stable offset.
func (s *topic) offset(ctx context.Context, at int64) (int64, error) {
	part := kmsg.NewListOffsetsRequestTopicPartition()
	part.Partition, part.Timestamp = s.partition, at
	t := kmsg.NewListOffsetsRequestTopic()
	t.Topic, t.Partitions = s.name, append(t.Partitions, part)
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID, req.IsolationLevel, req.Topics = -1, 1, append(req.Topics, t)
	answer, err := req.RequestWith(ctx, s.client)
	if err != nil {
		return 0, err
	}
	if len(answer.Topics) != 1 || len(answer.Topics[0].Partitions) != 1 {
		return 0, errors.New("the answer about offsets has no partition")
	}
	p := answer.Topics[0].Partitions[0]
	return p.Offset, kerr.ErrorForCode(p.ErrorCode)
}

// last reads the committed records between two offsets, and returns the last position, and whether there are records without one.
func (s *topic) last(ctx context.Context, opts []kgo.Opt, from, end int64) (position string, others bool, err error) {
	if from >= end {
		return "", false, nil
	}
	reader, err := kgo.NewClient(append([]kgo.Opt{
		kgo.WithContext(ctx), kgo.ClientID("counterctl"), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{s.name: {s.partition: kgo.NewOffset().At(from)}}),
	}, opts...)...)
	if err != nil {
		return "", false, err
	}
	defer reader.Close()
	for at := from; at < end; {
		fetched := reader.PollFetches(ctx)
		if err := fetched.Err0(); err != nil {
			return "", false, err
		}
		if err := ctx.Err(); err != nil {
			return "", false, err
		}
		fetched.EachError(func(_ string, _ int32, failed error) { err = failed })
		if err != nil {
			return "", false, err
		}
		fetched.EachRecord(func(r *kgo.Record) { // the marks of transactions too, one of which may be the last
			at = max(at, r.Offset+1)
			if r.Attrs.IsControl() || r.Offset >= end {
				return
			}
			ours := false
			for _, h := range r.Headers {
				if h.Key == topicHeader {
					position, ours = string(h.Value), true
				}
			}
			others = others || !ours
		})
	}
	return position, others, nil
}

func (s *topic) Position() string { return s.position }

// Write sends the batch as one transaction. If its end is not known to be committed, the next open finds out.
func (s *topic) Write(ctx context.Context, b *Batch) error {
	if err := s.client.BeginTransaction(); err != nil {
		return ofKafka(err)
	}
	s.records, s.refs = s.records[:0], s.refs[:0]
	for i := range b.Changes {
		s.records = append(s.records, kgo.Record{Topic: s.name, Partition: s.partition, Value: b.Line(i),
			Headers: []kgo.RecordHeader{{Key: topicHeader, Value: []byte(b.Changes[i].Position)}}})
	}
	for i := range s.records {
		s.refs = append(s.refs, &s.records[i])
	}
	if err := s.client.ProduceSync(ctx, s.refs...).FirstErr(); err != nil {
		if errors.Is(err, kerr.MessageTooLarge) {
			err = fmt.Errorf("a change is larger than a record may be (max.message.bytes of the topic, and 1 MB): %w", err)
		}
		return ofKafka(err)
	}
	limited, cancel := context.WithTimeout(ctx, topicAnswer)
	defer cancel()
	if err := s.client.EndTransaction(limited, kgo.TryCommit); err != nil {
		return ofKafka(err)
	}
	s.position = b.Position()
	return nil
}

// Close ends the connections.
func (s *topic) Close() error {
	s.client.Close()
	return nil
}
