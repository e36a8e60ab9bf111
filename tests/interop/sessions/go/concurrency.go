package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	recipe "go.etcd.io/etcd/client/v3/experimental/recipes"
	"go.etcd.io/etcd/client/v3/leasing"
	"go.etcd.io/etcd/client/v3/mirror"
	"go.etcd.io/etcd/client/v3/namespace"
)

func session(c *clientv3.Client) *concurrency.Session {
	return got(concurrency.NewSession(c, concurrency.WithTTL(30)))
}

// waiters returns once so many keys are there: somebody has queued up.
func waiters(ctx context.Context, c *clientv3.Client, prefix string, count int64) {
	for got(c.Get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithCountOnly())).Count != count {
		time.Sleep(2 * time.Millisecond)
	}
}

func inBackground(act func() error) <-chan error {
	done := make(chan error, 1)
	go func() { done <- act() }()
	return done
}

func locks(ctx context.Context, c *clientv3.Client) {
	s1, s2 := session(c), session(c)
	m1, m2 := concurrency.NewMutex(s1, "lock"), concurrency.NewMutex(s2, "lock")
	must(m1.Lock(ctx))
	say("first holds it %v", got(c.Txn(ctx).If(m1.IsOwner()).Commit()).Succeeded)
	refused("second tries", m2.TryLock(ctx))

	impatient, stop := context.WithCancel(ctx)
	second := inBackground(func() error { return m2.Lock(impatient) })
	waiters(ctx, c, "lock/", 2)
	stop()
	refused("second gives up", next("second", second))
	waiters(ctx, c, "lock/", 1)

	second = inBackground(func() error { return m2.Lock(ctx) })
	waiters(ctx, c, "lock/", 2)
	must(m1.Unlock(ctx))
	say("second gets it: %v", next("second", second))
	say("first holds it %v, second %v", got(c.Txn(ctx).If(m1.IsOwner()).Commit()).Succeeded,
		got(c.Txn(ctx).If(m2.IsOwner()).Commit()).Succeeded)

	first := inBackground(func() error { return m1.Lock(ctx) })
	waiters(ctx, c, "lock/", 2)
	must(s2.Close())
	say("first gets it as the session ends: %v", next("first", first))
	<-s2.Done()
	refused("locking without a session", concurrency.NewMutex(s2, "lock").TryLock(ctx))

	third := session(c)
	waiting := inBackground(func() error { return concurrency.NewMutex(third, "lock").Lock(ctx) })
	waiters(ctx, c, "lock/", 2)
	got(c.Revoke(ctx, third.Lease()))
	must(s1.Close())
	refused("next, but its lease was revoked meanwhile", next("third", waiting))

	var count, most int
	var guard sync.Mutex
	var all sync.WaitGroup
	for range 5 {
		all.Go(func() {
			s := session(c)
			l := concurrency.NewLocker(s, "contended")
			for range 4 {
				l.Lock()
				guard.Lock()
				count++
				most = max(most, count)
				guard.Unlock()
				guard.Lock()
				count--
				guard.Unlock()
				l.Unlock()
			}
			must(s.Close())
		})
	}
	all.Wait()
	say("five take turns: %d inside at once", most)
	waiters(ctx, c, "contended", 0)
}

func elections(ctx context.Context, c *clientv3.Client) {
	s1, s2 := session(c), session(c)
	e1, e2 := concurrency.NewElection(s1, "elect"), concurrency.NewElection(s2, "elect")
	_, err := e1.Leader(ctx)
	refused("leader before any", err)
	watching, stop := context.WithCancel(ctx)
	seen := concurrency.NewElection(s2, "elect").Observe(watching)
	leader := func(what string) {
		say("%s: observed%s, leader%s", what, values(next("leader", seen)), values(got(e2.Leader(ctx))))
	}

	must(e1.Campaign(ctx, "one"))
	leader("elected")
	must(e1.Proclaim(ctx, "two"))
	leader("proclaimed")
	second := inBackground(func() error { return e2.Campaign(ctx, "three") })
	waiters(ctx, c, "elect/", 2)
	must(e1.Resign(ctx))
	say("second is elected: %v", next("second", second))
	leader("resigned")
	refused("proclaimed by one who resigned", e1.Proclaim(ctx, "four"))

	resumed := concurrency.ResumeElection(s2, "elect", e2.Key(), e2.Rev())
	must(resumed.Proclaim(ctx, "five"))
	leader("resumed")

	impatient, cancel := context.WithCancel(ctx)
	first := inBackground(func() error { return e1.Campaign(impatient, "six") })
	waiters(ctx, c, "elect/", 2)
	cancel()
	refused("gave up", next("first", first))
	waiters(ctx, c, "elect/", 1)
	first = inBackground(func() error { return e1.Campaign(ctx, "seven") })
	waiters(ctx, c, "elect/", 2)
	s2.Orphan()
	got(c.Revoke(ctx, s2.Lease()))
	say("first is elected: %v", next("first", first))
	leader("revoked")
	stop()
	for range seen {
		say("one more")
	}
	must(s1.Close())
	_, err = e1.Leader(ctx)
	refused("leader after all", err)
}

func values(r *clientv3.GetResponse) string {
	text := ""
	for _, kv := range r.Kvs {
		text += " " + string(kv.Value)
	}
	return text
}

// Software transactional memory: ten money transfers by each of four at once lose nothing.
func memory(ctx context.Context, c *clientv3.Client) {
	for i := range 3 {
		got(c.Put(ctx, fmt.Sprintf("account/%d", i), "100"))
	}
	for _, level := range []concurrency.Isolation{concurrency.SerializableSnapshot, concurrency.Serializable,
		concurrency.RepeatableReads} {
		var all sync.WaitGroup
		for who := range 4 {
			all.Go(func() {
				for i := range 10 {
					from, to := fmt.Sprintf("account/%d", i%3), fmt.Sprintf("account/%d", (i+1+who%2)%3)
					got(concurrency.NewSTM(c, func(s concurrency.STM) error {
						a, _ := strconv.Atoi(s.Get(from))
						b, _ := strconv.Atoi(s.Get(to))
						s.Put(from, strconv.Itoa(a-1))
						s.Put(to, strconv.Itoa(b+1))
						return nil
					}, concurrency.WithIsolation(level), concurrency.WithPrefetch("account/0")))
				}
			})
		}
		all.Wait()
		sum := 0
		for _, kv := range got(c.Get(ctx, "account/", clientv3.WithPrefix())).Kvs {
			n, _ := strconv.Atoi(string(kv.Value))
			sum += n
		}
		say("level %d: %d in all", level, sum)
	}
	_, err := concurrency.NewSTM(c, func(concurrency.STM) error { return errors.New("changed my mind") })
	refused("given up", err)
	txn := got(concurrency.NewSTM(c, func(s concurrency.STM) error {
		s.Del("account/0")
		say("seen by itself %q, revision %v", s.Get("account/0"), s.Rev("account/1") > 0)
		return nil
	}, concurrency.WithAbortContext(ctx)))
	say("deleted %v: %d left", txn.Succeeded, got(c.Get(ctx, "account/", clientv3.WithPrefix())).Count)
}

func recipes(ctx context.Context, c *clientv3.Client) {
	queue := recipe.NewQueue(c, "queue")
	taken := make(chan string, 1)
	go func() { taken <- got(queue.Dequeue()) }()
	must(queue.Enqueue("one"))
	say("dequeued %s", next("queue", taken))
	urgent := recipe.NewPriorityQueue(c, "urgent")
	must(urgent.Enqueue("later", 9))
	must(urgent.Enqueue("now", 1))
	say("first %s, then %s", got(urgent.Dequeue()), got(urgent.Dequeue()))

	barrier := recipe.NewBarrier(c, "barrier")
	must(barrier.Hold())
	refused("held twice", barrier.Hold())
	through := inBackground(barrier.Wait)
	must(barrier.Release())
	say("through the barrier: %v", next("barrier", through))

	s1, s2 := session(c), session(c)
	d1, d2 := recipe.NewDoubleBarrier(s1, "double", 2), recipe.NewDoubleBarrier(s2, "double", 2)
	entered := inBackground(d1.Enter)
	must(d2.Enter())
	say("both entered: %v", next("enter", entered))
	left := inBackground(d1.Leave)
	must(d2.Leave())
	say("both left: %v", next("leave", left))

	readers := []*recipe.RWMutex{recipe.NewRWMutex(s1, "rw"), recipe.NewRWMutex(s2, "rw")}
	must(readers[0].RLock())
	must(readers[1].RLock())
	s3 := session(c)
	writer := recipe.NewRWMutex(s3, "rw")
	written := inBackground(writer.Lock)
	waiters(ctx, c, "rw/", 3)
	must(readers[0].RUnlock())
	must(readers[1].RUnlock())
	say("written after reading: %v, %v", next("writer", written), writer.Unlock())
	for _, s := range []*concurrency.Session{s1, s2, s3} {
		must(s.Close())
	}
}

// What the library wraps around its own client.
func wrappers(ctx context.Context, c *clientv3.Client) {
	inner := namespace.NewKV(c.KV, "space/")
	got(inner.Put(ctx, "k", "v"))
	events := namespace.NewWatcher(c.Watcher, "space/").Watch(ctx, "k")
	got(inner.Txn(ctx).If(clientv3.Compare(clientv3.Value("k"), "=", "v")).Then(clientv3.OpPut("k", "w"),
		clientv3.OpDelete("j")).Commit())
	got(c.Get(ctx, "space/k"))
	say("in a space %q, outside %d", got(inner.Get(ctx, "k")).Kvs[0].Value, got(c.Get(ctx, "k")).Count)
	got(inner.Put(ctx, "k", "last"))
	for seen := ""; seen != "last"; {
		e := next("space", events).Events
		seen = string(e[len(e)-1].Kv.Value)
	}

	cached, closeCache, err := leasing.NewKV(c, "leasing/")
	must(err)
	got(cached.Put(ctx, "cached", "1"))
	say("cached%s", values(got(cached.Get(ctx, "cached"))))
	got(cached.Put(ctx, "cached", "2"))
	other, closeOther, err := leasing.NewKV(c, "leasing/")
	must(err)
	got(other.Put(ctx, "cached", "3"))
	say("written by another%s", values(got(cached.Get(ctx, "cached"))))
	closeOther()
	closeCache()

	for i := range 3 {
		got(c.Put(ctx, fmt.Sprintf("mirror/%d", i), "x"))
	}
	syncing, stop := context.WithCancel(ctx)
	syncer := mirror.NewSyncer(c, "mirror/", 0)
	base, errs := syncer.SyncBase(syncing)
	count := 0
	for r := range base {
		count += len(r.Kvs)
	}
	say("mirrored %d, %v", count, <-errs)
	updates := syncer.SyncUpdates(syncing)
	got(c.Put(ctx, "mirror/3", "later"))
	say("then %q", next("update", updates).Events[0].Kv.Value)
	stop()
}
