package sinks

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/counterd/counterd/cmd/internal/connect"
)

// kafka is a cluster of one broker, with a topic of two partitions.
func kafka(t *testing.T) (c *kfake.Cluster, to string) {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(2, "changes"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c, "kafka://" + strings.Join(c.ListenAddrs(), ",") + "/changes?partition=1"
}

// parsed parses the text behind --to with the flags of a sink.
func parsed(t *testing.T, to string) *Place {
	t.Helper()
	p, err := Parse(to, Options{Reach: connect.AddSinkFlags(pflag.NewFlagSet("", pflag.ContinueOnError))})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// committed are the lines of the topic, as consumers read them.
func committed(t *testing.T, c *kfake.Cluster, lines int) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	reader, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"changes": {1: kgo.NewOffset().AtStart()}}))
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	text := ""
	for lines > 0 {
		fetched := reader.PollFetches(ctx)
		if ctx.Err() != nil {
			t.Fatalf("%d lines are missing behind %s", lines, text)
		}
		fetched.EachRecord(func(r *kgo.Record) {
			text += string(r.Value) + "\n"
			lines--
		})
	}
	return text
}

// TestTopic writes through transactions that a killed process left open, a commit whose answer is lost, and a refused commit: each
// change is committed once.
func TestTopic(t *testing.T) {
	c, to := kafka(t)
	p := parsed(t, to)
	open := func(at string) Sink {
		t.Helper()
		s, err := p.Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if s.Position() != at {
			t.Fatalf("it is at %q, want %q", s.Position(), at)
		}
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
	s := open("")
	write(t, s, batch(0, 3))
	write(t, s, batch(3, 4))
	s = open(place(4))

	killed := s.(*topic)
	if err := killed.client.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := killed.client.ProduceSync(t.Context(), &kgo.Record{Topic: "changes", Partition: 1, Value: batch(4, 5).Line(0), Headers: []kgo.RecordHeader{{Key: topicHeader, Value: []byte(place(5))}}}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	s = open(place(4))
	if err := killed.client.EndTransaction(t.Context(), kgo.TryCommit); err == nil {
		t.Error("a process that was replaced has committed")
	}
	write(t, s, batch(4, 6))

	var lost bool
	c.ControlKey(int16(kmsg.EndTxn), func(kmsg.Request) (kmsg.Response, error, bool) { // the connection breaks before the commit
		lost = true
		return nil, errors.New("gone"), true
	})
	if err := s.Write(t.Context(), batch(6, 8)); err == nil { // the client may have sent it again by itself
		s = open(place(8))
	} else if !errors.Is(err, ErrBroken) {
		t.Fatal(err)
	} else {
		s = open(place(6))
		write(t, s, batch(6, 8))
	}
	if !lost {
		t.Error("no commit was lost")
	}
	c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.EndTxn}, TopLevel: true, Err: kerr.InvalidProducerEpoch})
	if err := s.Write(t.Context(), batch(8, 9)); !errors.Is(err, ErrBroken) {
		t.Errorf("refused: %v", err)
	}
	s = open(place(8))
	write(t, s, batch(8, 200))
	open(place(200))
	if committed(t, c, 200) != string(batch(0, 200).Text) {
		t.Errorf("the topic has %s", committed(t, c, 200))
	}
	if !strings.HasSuffix(p.Name, "/changes") {
		t.Errorf("it is called %s", p.Name)
	}
}

// TestTopicOfOthers: records without a position are no feed. A topic in which an older process committed nothing is an empty one.
func TestTopicOfOthers(t *testing.T) {
	c, to := kafka(t)
	p := parsed(t, to)
	s, err := p.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	record := func() *kgo.Record { return &kgo.Record{Topic: "changes", Partition: 1, Value: []byte("something")} }
	killed := s.(*topic)
	if err := killed.client.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := killed.client.ProduceSync(t.Context(), record()).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if s, err = p.Open(t.Context()); err != nil || s.Position() != "" {
		t.Fatalf("behind a transaction that was not committed: %v", err)
	}
	defer s.Close()
	other, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := other.ProduceSync(t.Context(), record()).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Open(t.Context()); !errors.As(err, new(*ForeignError)) || errors.Is(err, ErrBroken) {
		t.Errorf("records of others: %v", err)
	}
}

// TestTopicWithoutItsLastRecord: retention has removed all records, and the position with them.
func TestTopicWithoutItsLastRecord(t *testing.T) {
	_, to := kafka(t)
	p := parsed(t, to)
	s, err := p.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	write(t, s, batch(0, 3))
	part := kmsg.NewDeleteRecordsRequestTopicPartition()
	part.Partition, part.Offset = 1, -1 // up to the end
	topics := kmsg.NewDeleteRecordsRequestTopic()
	topics.Topic, topics.Partitions = "changes", append(topics.Partitions, part)
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.Topics = append(req.Topics, topics)
	answer, err := req.RequestWith(t.Context(), s.(*topic).client)
	if err != nil || answer.Topics[0].Partitions[0].ErrorCode != 0 {
		t.Fatal(answer, err)
	}
	if _, err := p.Open(t.Context()); !errors.As(err, new(*ForeignError)) {
		t.Errorf("got %v", err)
	}
}

// TestTopicRefusals: a topic that is not there may come; a user that is not known does not pass.
func TestTopicRefusals(t *testing.T) {
	if err := ofKafka(kerr.UnknownTopicOrPartition); !errors.Is(err, ErrBroken) {
		t.Errorf("got %v", err)
	}
	for _, err := range []error{kerr.SaslAuthenticationFailed, kerr.TopicAuthorizationFailed, kerr.TransactionalIDAuthorizationFailed, kerr.MessageTooLarge} {
		if errors.Is(ofKafka(err), ErrBroken) {
			t.Errorf("%v passes", err)
		}
	}
	for to, want := range map[string]string{
		"kafka://": "TOPIC", "kafka://h": "TOPIC", "kafka://h/": "TOPIC", "kafka:///t": "TOPIC", "kafka://h/a/b": "TOPIC", "kafka://h/t?partition=x": "partition=N", "kafka://u:secret@h/t?sasl=x": "scram",
	} {
		_, err := Parse(to, Options{Reach: connect.AddSinkFlags(pflag.NewFlagSet("", pflag.ContinueOnError))})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", to, err)
		}
	}
	if p := parsed(t, "kafka://u:secret@a:1,b,[::1]:3/t?sasl=scram-sha-512"); p.Name != "kafka://a:1,b,[::1]:3/t" {
		t.Errorf("it is called %s", p.Name)
	}
}
