package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

type keyValue = mvccpb.KeyValue

func keys(ctx context.Context, c *clientv3.Client) {
	put := got(c.Put(ctx, "a", "1"))
	say("put at %d, before it %v", put.Header.Revision, put.PrevKv)
	put = got(c.Put(ctx, "a", "2", clientv3.WithPrevKV()))
	say("put at %d, before it%s", put.Header.Revision, show([]*keyValue{put.PrevKv}))
	say("bytes at %d", got(c.Put(ctx, "\x00\xff", "\xfe\x00")).Header.Revision)
	say("empty value at %d", got(c.Put(ctx, "e", "")).Header.Revision)
	say("value kept at %d", got(c.Put(ctx, "a", "", clientv3.WithIgnoreValue())).Header.Revision)
	get := got(c.Get(ctx, "a"))
	say("get at %d, %d:%s", get.Header.Revision, get.Count, show(get.Kvs))
	say("get bytes%s", show(got(c.Get(ctx, "\x00\xff")).Kvs))
	say("get nothing %d %v", got(c.Get(ctx, "nothing")).Count, got(c.Get(ctx, "nothing")).More)

	_, err := c.Put(ctx, "", "x")
	refused("empty key", err)
	_, err = c.Get(ctx, "")
	refused("empty key in a get", err)
	_, err = c.Put(ctx, "never", "", clientv3.WithIgnoreValue())
	refused("value of a key that is not there", err)
	_, err = c.Put(ctx, "a", "x", clientv3.WithIgnoreLease(), clientv3.WithIgnoreValue())
	refused("a value that is ignored", err)
	_, err = c.Put(ctx, "a", "x", clientv3.WithLease(4711))
	refused("a lease that is not there", err)
	_, err = c.Put(ctx, "big", strings.Repeat("x", 1600<<10))
	refused("a large value", err)
	_, err = c.Get(ctx, "a", clientv3.WithRev(1000))
	refused("a future revision", err)

	for i := range 3 {
		got(c.Put(ctx, fmt.Sprintf("d/%d", i), "x"))
	}
	del := got(c.Delete(ctx, "d/1", clientv3.WithPrevKV()))
	say("deleted %d at %d:%s", del.Deleted, del.Header.Revision, show(del.PrevKvs))
	del = got(c.Delete(ctx, "d/1"))
	say("deleted %d at %d", del.Deleted, del.Header.Revision)
	del = got(c.Delete(ctx, "d/", clientv3.WithPrefix(), clientv3.WithPrevKV()))
	say("deleted %d at %d:%s", del.Deleted, del.Header.Revision, show(del.PrevKvs))
}

func ranges(ctx context.Context, c *clientv3.Client) {
	for i := range 9 {
		got(c.Put(ctx, fmt.Sprintf("r/%d", i), fmt.Sprint(i*7%9)))
	}
	got(c.Put(ctx, "r/3", "again"))
	got(c.Delete(ctx, "r/5"))
	now := got(c.Get(ctx, "r/0")).Header.Revision
	all := clientv3.WithPrefix()
	for _, each := range []struct {
		name string
		key  string
		ops  []clientv3.OpOption
	}{
		{"prefix", "r/", []clientv3.OpOption{all}},
		{"limit", "r/", []clientv3.OpOption{all, clientv3.WithLimit(3)}},
		{"by value", "r/", []clientv3.OpOption{all, clientv3.WithSort(clientv3.SortByValue, clientv3.SortDescend), clientv3.WithLimit(4)}},
		{"by revision", "r/", []clientv3.OpOption{all, clientv3.WithSort(clientv3.SortByModRevision, clientv3.SortAscend)}},
		{"by version", "r/", []clientv3.OpOption{all, clientv3.WithSort(clientv3.SortByVersion, clientv3.SortDescend), clientv3.WithLimit(1)}},
		{"keys only", "r/", []clientv3.OpOption{all, clientv3.WithKeysOnly()}},
		{"count only", "r/", []clientv3.OpOption{all, clientv3.WithCountOnly()}},
		{"from key", "r/6", []clientv3.OpOption{clientv3.WithFromKey()}},
		{"half open", "r/2", []clientv3.OpOption{clientv3.WithRange("r/4")}},
		{"the past", "r/", []clientv3.OpOption{all, clientv3.WithRev(now - 2)}},
		{"modified since", "r/", []clientv3.OpOption{all, clientv3.WithMinModRev(now - 2)}},
		{"modified until", "r/", []clientv3.OpOption{all, clientv3.WithMaxModRev(now - 8)}},
		{"created since", "r/", []clientv3.OpOption{all, clientv3.WithMinCreateRev(now - 3)}},
		{"created until", "r/", []clientv3.OpOption{all, clientv3.WithMaxCreateRev(now - 8)}},
		{"last key", "r/", clientv3.WithLastKey()},
		{"last created", "r/", clientv3.WithLastCreate()},
		{"first revision", "r/", clientv3.WithFirstRev()},
		{"serializable", "r/", []clientv3.OpOption{all, clientv3.WithSerializable(), clientv3.WithLimit(1)}},
		{"everything", "\x00", []clientv3.OpOption{clientv3.WithFromKey(), clientv3.WithCountOnly()}},
		{"backwards", "r/4", []clientv3.OpOption{clientv3.WithRange("r/2")}},
	} {
		get := got(c.Get(ctx, each.key, each.ops...))
		say("%s: %d more %v:%s", each.name, get.Count, get.More, show(get.Kvs))
	}
}

func sayTxn(what string, txn *clientv3.TxnResponse) {
	say("%s: %v at %d", what, txn.Succeeded, txn.Header.Revision)
	for _, r := range txn.Responses {
		if put := r.GetResponsePut(); put != nil {
			say("  put, before it%s", show(prev(put.PrevKv)))
		} else if get := r.GetResponseRange(); get != nil {
			say("  get %d:%s", get.Count, show(get.Kvs))
		} else if del := r.GetResponseDeleteRange(); del != nil {
			say("  deleted %d:%s", del.Deleted, show(del.PrevKvs))
		} else if inner := r.GetResponseTxn(); inner != nil {
			say("  inner %v, %d responses", inner.Succeeded, len(inner.Responses))
		}
	}
}

func prev(kv *keyValue) []*keyValue {
	if kv == nil {
		return nil
	}
	return []*keyValue{kv}
}

func transactions(ctx context.Context, c *clientv3.Client) {
	got(c.Put(ctx, "t", "5"))
	for _, value := range []string{"5", "6"} {
		txn := got(c.Txn(ctx).If(
			clientv3.Compare(clientv3.Value("t"), "=", value),
			clientv3.Compare(clientv3.Version("t"), ">", 0),
			clientv3.Compare(clientv3.CreateRevision("t/none"), "=", 0),
			clientv3.Compare(clientv3.ModRevision("t"), "!=", 1),
			clientv3.Compare(clientv3.LeaseValue("t"), "=", 0),
			clientv3.Compare(clientv3.Value("t"), "<", "9").WithPrefix(),
		).Then(
			clientv3.OpPut("t/yes", value, clientv3.WithPrevKV()), clientv3.OpGet("t", clientv3.WithPrefix()),
		).Else(
			clientv3.OpDelete("t/", clientv3.WithPrefix(), clientv3.WithPrevKV()), clientv3.OpGet("t"),
		).Commit())
		sayTxn("value "+value, txn)
	}
	sayTxn("nested", got(c.Txn(ctx).Then(
		clientv3.OpTxn([]clientv3.Cmp{clientv3.Compare(clientv3.Version("t"), ">", 7)},
			nil, []clientv3.Op{clientv3.OpPut("t/in", "x"), clientv3.OpGet("t/in")}),
		clientv3.OpPut("t", "out")).Commit()))
	sayTxn("nothing to do", got(c.Txn(ctx).Commit()))
	_, err := c.Txn(ctx).Then(clientv3.OpPut("t", "1"), clientv3.OpPut("t", "2")).Commit()
	refused("one key twice", err)
	many := make([]clientv3.Op, 129)
	for i := range many {
		many[i] = clientv3.OpPut(fmt.Sprintf("t/%d", i), "x")
	}
	_, err = c.Txn(ctx).Then(many...).Commit()
	refused("many operations", err)
	say("do %d", got(c.Do(ctx, clientv3.OpPut("t", "done"))).Put().Header.Revision)
}

// The hash says that whatever was kept until now is the same, byte by byte.
func member(ctx context.Context, c *clientv3.Client) {
	endpoint := c.Endpoints()[0]
	status := got(c.Status(ctx, endpoint))
	for status.StorageVersion == "" { // a member that has just begun settles it while it serves
		status = got(c.Status(ctx, endpoint))
	}
	say("status: %s, storage %s, leads %v, learns %v, errors %q, quota %d", status.Version, status.StorageVersion,
		status.Leader == status.Header.MemberId, status.IsLearner, status.Errors, status.DbSizeQuota)
	hash := got(c.HashKV(ctx, endpoint, 0))
	say("hash %d at %d, compacted %d", hash.Hash, hash.HashRevision, hash.CompactRevision)
	members := got(c.MemberList(ctx)).Members
	say("members: %d, %s, %d and %d addresses", len(members), members[0].Name, len(members[0].PeerURLs), len(members[0].ClientURLs))
	must(c.Sync(ctx))
	say("synced to %d", len(c.Endpoints()))
	say("alarms: %d", len(got(c.AlarmList(ctx)).Alarms))
	_, err := c.MoveLeader(ctx, 4711)
	refused("move the lead", err)
	_, err = c.MemberRemove(ctx, 4711)
	refused("remove a stranger", err)
	_, err = c.MemberPromote(ctx, 4711)
	refused("promote a stranger", err)
	_, err = c.Downgrade(ctx, clientv3.DowngradeValidate, "3.5.0")
	refused("downgrade", err)

	snapshot := got(c.SnapshotWithVersion(ctx))
	bytes := got(io.ReadAll(snapshot.Snapshot))
	must(snapshot.Snapshot.Close())
	body := bytes[:len(bytes)-sha256.Size]
	say("snapshot of %s, whole %v, sum right %v", snapshot.Version, len(body)%512 == 0,
		sha256.Sum256(body) == [sha256.Size]byte(bytes[len(body):]))
	got(c.Defragment(ctx, endpoint))
	say("after defragmentation%s", show(got(c.Get(ctx, "a")).Kvs))
}
