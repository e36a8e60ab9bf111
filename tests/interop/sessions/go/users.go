package main

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

func users(ctx context.Context, c *clientv3.Client) {
	say("enabled %v", got(c.AuthStatus(ctx)).Enabled)
	_, err := c.AuthEnable(ctx)
	refused("enabled without root", err)
	got(c.RoleAdd(ctx, "root"))
	got(c.RoleAdd(ctx, "part"))
	_, err = c.RoleAdd(ctx, "part")
	refused("a role twice", err)
	got(c.RoleGrantPermission(ctx, "part", "p/", clientv3.GetPrefixRangeEnd("p/"), clientv3.PermissionType(clientv3.PermReadWrite)))
	got(c.RoleGrantPermission(ctx, "part", "seen", "", clientv3.PermissionType(clientv3.PermRead)))
	for _, p := range got(c.RoleGet(ctx, "part")).Perm {
		say("permission %s %q to %q", p.PermType, p.Key, p.RangeEnd)
	}
	for _, name := range []string{"root", "carol", "alice"} {
		got(c.UserAdd(ctx, name, name+"-pw"))
		role := "part"
		if name == "root" {
			role = "root"
		}
		got(c.UserGrantRole(ctx, name, role))
	}
	_, err = c.UserAdd(ctx, "carol", "x")
	refused("a user twice", err)
	_, err = c.UserGrantRole(ctx, "carol", "nobody")
	refused("a role that is not there", err)
	say("users %q, roles %q, of carol %q", got(c.UserList(ctx)).Users, got(c.RoleList(ctx)).Roles, got(c.UserGet(ctx, "carol")).Roles)
	got(c.AuthEnable(ctx))

	as := func(name, password string) (*clientv3.Client, error) {
		return connect(func(config *clientv3.Config) { config.Username, config.Password = name, password })
	}
	_, err = as("carol", "wrong")
	refused("a wrong password", err)
	_, err = as("nobody", "x")
	refused("an unknown user", err)
	root, carol := got(as("root", "root-pw")), got(as("carol", "carol-pw"))
	say("root is told %v, revision of auth %d", got(root.AuthStatus(ctx)).Enabled, got(root.AuthStatus(ctx)).AuthRevision)

	// Over TLS the certificate's name is a user's; elsewhere there is none.
	_, err = c.Put(ctx, "p/0", "x")
	refused("a put without a token", err)
	_, err = c.Put(ctx, "q", "x")
	refused("a put elsewhere without a token", err)
	got(carol.Put(ctx, "p/1", "x"))
	_, err = carol.Put(ctx, "q", "x")
	refused("a put elsewhere", err)
	say("carol may look: %d", got(carol.Get(ctx, "seen")).Count)
	_, err = carol.Put(ctx, "seen", "x")
	refused("a put to what may be seen", err)
	_, err = carol.Get(ctx, "p", clientv3.WithPrefix())
	refused("a wider range", err)
	_, err = carol.Txn(ctx).If(clientv3.Compare(clientv3.Version("q"), "=", 0)).Then(clientv3.OpPut("p/2", "x")).Commit()
	refused("a comparison elsewhere", err)
	_, err = carol.Delete(ctx, "p/", clientv3.WithPrefix())
	say("deleted %v", err)
	_, err = carol.UserAdd(ctx, "friend", "x")
	refused("carol adds a user", err)
	_, err = carol.Compact(ctx, 1)
	refused("carol compacts what is gone", err)
	_, err = carol.Defragment(ctx, carol.Endpoints()[0])
	refused("carol defragments", err)
	_, err = carol.AlarmList(ctx)
	refused("carol lists alarms", err)
	lease := got(carol.Grant(ctx, 60))
	_, err = carol.Put(ctx, "p/leased", "x", clientv3.WithLease(lease.ID))
	say("leased %v", err)
	got(root.Put(ctx, "q", "x", clientv3.WithLease(lease.ID)))
	_, err = carol.Revoke(ctx, lease.ID)
	refused("a lease of other keys", err)

	watching, stop := context.WithCancel(ctx)
	events := carol.Watch(watching, "p/", clientv3.WithPrefix(), clientv3.WithCreatedNotify())
	say("may watch %v", next("watch", events).Created)
	got(root.Put(ctx, "p/w", "x"))
	sayKeys("watched", events)
	forbidden := next("forbidden watch", carol.Watch(ctx, "q"))
	say("watch elsewhere: canceled %v: %v", forbidden.Canceled, forbidden.Err())
	stop()

	got(root.UserChangePassword(ctx, "carol", "new-pw"))
	_, err = as("carol", "carol-pw")
	refused("the old password", err)
	again := got(as("carol", "new-pw"))
	got(again.Put(ctx, "p/1", "y"))
	must(again.Close())
	got(root.RoleRevokePermission(ctx, "part", "p/", clientv3.GetPrefixRangeEnd("p/")))
	got(root.UserRevokeRole(ctx, "alice", "part"))
	got(root.RoleDelete(ctx, "part"))
	_, err = root.UserDelete(ctx, "root")
	refused("root deletes himself", err)
	got(root.UserDelete(ctx, "alice"))
	got(root.AuthDisable(ctx))
	got(c.Put(ctx, "q", "anybody"))
	say("disabled: %v", got(c.AuthStatus(ctx)).Enabled)
	must(root.Close())
	must(carol.Close())
}

func sayKeys(what string, events clientv3.WatchChan) {
	for _, e := range next(what, events).Events {
		say("%s %s %q", what, e.Type, e.Kv.Key)
	}
}

// The server is killed and comes back: what was open goes on, what was held is held.
func restart(ctx context.Context, c *clientv3.Client) {
	s := session(c)
	m := concurrency.NewMutex(s, "survivor")
	must(m.Lock(ctx))
	events := c.Watch(ctx, "k/", clientv3.WithPrefix(), clientv3.WithCreatedNotify())
	say("created %v", next("watch", events).Created)
	got(c.Put(ctx, "k/1", "before"))
	sayKeys("before", events)

	ask("kill")
	brief, stop := context.WithTimeout(ctx, 200*time.Millisecond)
	_, err := c.Get(brief, "k/1")
	stop()
	refused("while it is away", err)
	ask("start")

	say("kept%s", values(got(c.Get(ctx, "k/1"))))
	got(c.Put(ctx, "k/2", "after"))
	sayKeys("after", events)
	say("still locked %v", got(c.Txn(ctx).If(m.IsOwner()).Commit()).Succeeded)
	say("lease of %d s", got(c.KeepAliveOnce(ctx, s.Lease())).TTL)
	must(m.Unlock(ctx))
	must(s.Close())
}
