package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/counterd/counterd/bench/report"
)

// killPrimary kills the primary of the shard that owns the newest post, waits until a change of that post is taken
// again, and starts the node anew.
func (d *clusterDemoRun) killPrimary(ctx context.Context, rdb *redis.ClusterClient, load *clusterLoad) error {
	key := fmt.Sprintf("{%d}.%s", load.posts[len(load.posts)-1], clusterColumn)
	primary, err := rdb.MasterForKey(ctx, key)
	if err != nil {
		return err
	}
	node := d.nodeAt(primary.Options().Addr)
	if node == nil {
		return fmt.Errorf("the primary of %s is at %s, where no node was started", key, primary.Options().Addr)
	}
	began := time.Now()
	if err := node.cmd.Process.Kill(); err != nil {
		return err
	}
	<-node.done
	d.say("kill -9 of node %s, the primary of %s", node.addr, key)
	for first := true; ; first = false {
		// Changes nothing, but is refused where a change is.
		if err := rdb.IncrBy(ctx, key, 0).Err(); err == nil {
			break
		} else if first {
			d.say("  the first answer: %v", err)
		}
		rdb.ReloadState(ctx)
		if time.Since(began) > time.Minute {
			return errors.New("no change was taken for a minute after the primary was killed")
		}
	}
	d.say("  changes are taken again after %s, by its replica", report.Duration(time.Since(began)))
	node.child, err = startChild(ctx, node.dir, "127.0.0.1", node.port, d.opts.counterd, node.args...)
	if err != nil {
		return err
	}
	d.say("  the node is started again, and follows the new primary")
	return nil
}

func (d *clusterDemoRun) nodeAt(addr string) *demoNode {
	for _, n := range d.nodes {
		if n.addr == addr {
			return n
		}
	}
	return nil
}

// moveGroup moves the first group of hash slots to the other shard.
func (d *clusterDemoRun) moveGroup(ctx context.Context, rdb *redis.ClusterClient, _ *clusterLoad) error {
	began := time.Now()
	if _, err := d.ctl(ctx, "cluster", "move", "--groups", "0", "--to", "2", "--yes"); err != nil {
		return err
	}
	d.say("group 0, which is hash slots 0 to 63, moved from shard 1 to shard 2 in %s", report.Duration(time.Since(began)))
	return nil
}

// addShard makes a shard of the free nodes, and moves a third of all groups there.
func (d *clusterDemoRun) addShard(ctx context.Context, rdb *redis.ClusterClient, _ *clusterLoad) error {
	began := time.Now()
	addresses := d.addresses()
	if _, err := d.ctl(ctx, "cluster", "add", "--yes", addresses[4], addresses[5]); err != nil {
		return err
	}
	d.say("a third shard is made of the two free nodes")
	if _, err := d.ctl(ctx, "cluster", "rebalance", "--yes"); err != nil {
		return err
	}
	d.say("  a third of all groups moved there in %s", report.Duration(time.Since(began)))
	return nil
}
