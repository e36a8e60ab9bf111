package main

import (
	"context"
	"slices"

	clientv3 "go.etcd.io/etcd/client/v3"
)

func leases(ctx context.Context, c *clientv3.Client) {
	say("the shortest: %d s", got(c.Grant(ctx, 1)).TTL)
	short := got(c.Grant(ctx, 4)) // long enough for a machine that is busy
	from := got(c.Put(ctx, "l/short", "x", clientv3.WithLease(short.ID))).Header.Revision
	gone := c.Watch(ctx, "l/short", clientv3.WithRev(from+1))

	lease := got(c.Grant(ctx, 600))
	say("granted %d s, error %q", lease.TTL, lease.Error)
	got(c.Put(ctx, "l/2", "v", clientv3.WithLease(lease.ID)))
	got(c.Put(ctx, "l/1", "v", clientv3.WithLease(lease.ID)))
	got(c.Put(ctx, "l/1", "kept", clientv3.WithIgnoreLease()))
	say("leased%s", show(got(c.Get(ctx, "l/1")).Kvs))
	ttl := got(c.TimeToLive(ctx, lease.ID, clientv3.WithAttachedKeys()))
	attached := make([]string, len(ttl.Keys))
	for i, key := range ttl.Keys {
		attached[i] = string(key)
	}
	slices.Sort(attached)
	say("time to live: of %d s, much left %v, keys %q", ttl.GrantedTTL, ttl.TTL > 500, attached)
	say("keys not asked for: %d", len(got(c.TimeToLive(ctx, lease.ID)).Keys))
	held := got(c.Leases(ctx)).Leases
	say("held: %v, ours among them %v", len(held) >= 2, slices.Contains(held, clientv3.LeaseStatus{ID: lease.ID}))
	say("kept alive once: %d s", got(c.KeepAliveOnce(ctx, lease.ID)).TTL)

	brief := got(c.Grant(ctx, 6))
	keeping, stop := context.WithCancel(ctx)
	alive := got(c.KeepAlive(keeping, brief.ID))
	for range 2 {
		say("kept alive: %d s", next("keep-alive", alive).TTL)
	}
	stop()
	got(c.Revoke(ctx, lease.ID))
	say("revoked, its keys: %d", got(c.Get(ctx, "l/", clientv3.WithRange("l/3"), clientv3.WithCountOnly())).Count)
	_, err := c.Revoke(ctx, lease.ID)
	refused("revoked again", err)
	_, err = c.KeepAliveOnce(ctx, lease.ID)
	refused("kept alive after that", err)
	say("time to live after that: %d", got(c.TimeToLive(ctx, lease.ID)).TTL)
	e := next("expiry", gone)
	say("expired: %s %q", e.Events[0].Type, e.Events[0].Kv.Key)
}
