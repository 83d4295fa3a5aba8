package consumers

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/counterd/counterd/cmd/counterd/e2e/harness"
	"github.com/counterd/counterd/internal/testkit/freeport"
)

// NewKafka is a topic of a cluster of Kafka in this process, which keeps its data. It ends and starts again, or breaks the connections of the next requests.
func NewKafka(t testing.TB, rng *rand.Rand) *Sink {
	port, dir := freeport.Take(t), t.TempDir()
	start := func() *kfake.Cluster {
		c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.Ports(port), kfake.SeedTopics(1, "changes"), kfake.DataDir(dir), kfake.SyncWrites())
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	c, at := start(), int64(0)
	t.Cleanup(func() { c.Close() })
	return &Sink{To: []string{"--to", fmt.Sprintf("kafka://127.0.0.1:%d/changes", port)},
		Break: func() {
			if rng.IntN(2) == 0 {
				c.Close()
				c = start()
				return
			}
			for _, key := range []kmsg.Key{kmsg.Produce, kmsg.EndTxn, kmsg.InitProducerID} {
				c.ControlKey(int16(key), func(kmsg.Request) (kmsg.Response, error, bool) { return nil, errors.New("cut"), true })
			}
		},
		Read: func() (lines []string, err error) {
			lines, at, err = Committed(t.Context(), c.ListenAddrs()[0], at)
			return lines, err
		}}
}

// Committed are the values of the records of the topic changes from an offset on, as a consumer sees them, and where they end.
func Committed(ctx context.Context, addr string, at int64) (lines []string, end int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, harness.IoTimeout)
	defer cancel()
	reader, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"changes": {0: kgo.NewOffset().At(at)}}))
	if err != nil {
		return nil, at, err
	}
	defer reader.Close()
	part := kmsg.NewListOffsetsRequestTopicPartition()
	part.Timestamp = -1
	topic := kmsg.NewListOffsetsRequestTopic()
	topic.Topic, topic.Partitions = "changes", append(topic.Partitions, part)
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID, req.IsolationLevel, req.Topics = -1, 1, append(req.Topics, topic)
	answer, err := req.RequestWith(ctx, reader)
	if err != nil {
		return nil, at, err
	}
	for end = answer.Topics[0].Partitions[0].Offset; at < end && ctx.Err() == nil; {
		reader.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
			if r.Offset >= end {
				return
			}
			if at = r.Offset + 1; !r.Attrs.IsControl() {
				lines = append(lines, string(r.Value))
			}
		})
	}
	return lines, at, ctx.Err()
}
