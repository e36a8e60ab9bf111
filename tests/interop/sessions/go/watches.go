package main

import (
	"context"
	"fmt"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

func sayEvents(what string, events clientv3.WatchChan, count int) {
	for count > 0 {
		r := next(what, events)
		must(r.Err())
		for _, e := range r.Events {
			say("%s: %s%s before%s", what, e.Type, show([]*keyValue{e.Kv}), show(prev(e.PrevKv)))
			count--
		}
	}
}

func watches(ctx context.Context, c *clientv3.Client) {
	all := clientv3.WithPrefix()
	start := got(c.Put(ctx, "w/0", "before")).Header.Revision + 1

	watching, stop := context.WithCancel(ctx)
	live := c.Watch(watching, "w/", all, clientv3.WithCreatedNotify())
	created := next("created", live)
	say("created %v at %d", created.Created, created.Header.Revision)
	got(c.Put(ctx, "w/1", "one"))
	got(c.Put(ctx, "w/1", "two"))
	got(c.Delete(ctx, "w/1"))
	got(c.Txn(ctx).Then(clientv3.OpPut("w/2", "x"), clientv3.OpPut("w/3", "y"), clientv3.OpDelete("w/0")).Commit())
	sayEvents("live", live, 6)
	sayEvents("from a revision", c.Watch(ctx, "w/", all, clientv3.WithRev(start), clientv3.WithPrevKV()), 6)
	sayEvents("puts", c.Watch(ctx, "w/", all, clientv3.WithRev(start), clientv3.WithFilterDelete()), 4)
	sayEvents("deletions", c.Watch(ctx, "w/", all, clientv3.WithRev(start), clientv3.WithFilterPut(), clientv3.WithPrevKV()), 2)
	sayEvents("one key", c.Watch(ctx, "w/3", clientv3.WithRev(start)), 1)
	sayEvents("from a key", c.Watch(ctx, "w/2", clientv3.WithFromKey(), clientv3.WithRev(start)), 2)

	stop()
	for r := range live {
		say("ended: %v", r.Canceled)
	}
	say("the channel is closed")

	future := c.Watch(ctx, "w/", all, clientv3.WithRev(start+6))
	got(c.Put(ctx, "w/early", "not seen"))
	got(c.Put(ctx, "w/early", "nor this"))
	got(c.Put(ctx, "w/late", "seen"))
	sayEvents("the future", future, 1)

	progress := c.Watch(clientv3.WithRequireLeader(ctx), "nothing", clientv3.WithProgressNotify())
	r := next("progress", progress)
	say("progress by itself: %v at %d", r.IsProgressNotify(), r.Header.Revision)
	// Only a stream all of whose watchers have caught up is told: this one has a stream of its own.
	watcher := clientv3.NewWatcher(c)
	asked := watcher.Watch(ctx, "nothing", clientv3.WithCreatedNotify())
	next("created", asked)
	must(watcher.RequestProgress(ctx))
	r = next("progress", asked)
	say("progress asked for: %v at %d", r.IsProgressNotify(), r.Header.Revision)
	must(watcher.Close())

	large := c.Watch(ctx, "f/", all, clientv3.WithFragment(), clientv3.WithRev(r.Header.Revision+1))
	var ops []clientv3.Op
	for i := range 40 {
		ops = append(ops, clientv3.OpPut(fmt.Sprintf("f/%02d", i), string(make([]byte, 30000))))
	}
	got(c.Txn(ctx).Then(ops...).Commit())
	r = next("fragments", large)
	say("fragments: %d events put together", len(r.Events))
	got(c.Delete(ctx, "f/", all))
	say("deletion of them all: %d events", len(next("deletions", large).Events))
}

func compaction(ctx context.Context, c *clientv3.Client) {
	revision := got(c.Put(ctx, "c", "1")).Header.Revision
	got(c.Put(ctx, "c", "2"))
	got(c.Put(ctx, "c", "3"))
	got(c.Compact(ctx, revision+1, clientv3.WithCompactPhysical()))
	_, err := c.Compact(ctx, revision)
	refused("compact again", err)
	_, err = c.Compact(ctx, revision+1000)
	refused("compact the future", err)
	_, err = c.Get(ctx, "c", clientv3.WithRev(revision))
	refused("get what is gone", err)
	say("get what is left%s", show(got(c.Get(ctx, "c", clientv3.WithRev(revision+1))).Kvs))
	r := next("compacted watch", c.Watch(ctx, "c", clientv3.WithRev(revision)))
	say("watch what is gone: canceled %v, compacted at %d: %v, %v", r.Canceled, r.CompactRevision-revision,
		r.Err(), r.Err() == rpctypes.ErrCompacted)
	hash := got(c.HashKV(ctx, c.Endpoints()[0], 0))
	say("hash %d at %d, compacted %d", hash.Hash, hash.HashRevision, hash.CompactRevision)
}
