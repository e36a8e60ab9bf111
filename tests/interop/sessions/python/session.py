#!/usr/bin/python3
"""A session with python3-etcd3, printed as it goes.

It is run against real etcd and against us, and the two transcripts must be equal; so it prints
nothing that may differ (ids, sizes, times). How it is called is told in sessions_test.c.
"""
import sys
import threading
import time
from urllib.parse import urlparse

import etcd3
import grpc


def say(*words):
    print(*words, flush=True)


def show(value, meta):
    if meta is None:
        return "%s -" % (value,)
    return "%s=%s version %d created %d modified %d lease %s" % (
        meta.key,
        value,
        meta.version,
        meta.create_revision,
        meta.mod_revision,
        "yes" if meta.lease_id else "no",
    )


def keys(client):
    say("put", client.put("a", "1").header.revision)
    say("put", client.put("a", "2", prev_kv=True).prev_kv.value)
    say("put", client.put(b"\x00\xff", b"\xfe\x00").header.revision)
    say("get", show(*client.get("a")))
    say("get", show(*client.get(b"\x00\xff")))
    say("get", show(*client.get("nothing")))
    for i in range(5):
        client.put("list/%d" % i, str(i * 7 % 5))
    for value, meta in client.get_prefix("list/"):
        say("prefix", show(value, meta))
    for value, meta in client.get_prefix("list/", sort_order="descend", sort_target="value"):
        say("sorted", show(value, meta))
    for value, meta in client.get_range("list/1", "list/3"):
        say("range", show(value, meta))
    for value, meta in client.get_all(keys_only=True):
        say("all", show(value, meta))
    say("delete", client.delete("a"), client.delete("a"))
    say("delete", client.delete("list/0", prev_kv=True, return_response=True).deleted)
    say("delete", client.delete_prefix("list/").deleted)
    say("replace", client.replace("r", "x", "y"))
    client.put("r", "x")
    say("replace", client.replace("r", "x", "y"), client.get("r")[0])
    say("if not there", client.put_if_not_exists("r", "z"), client.put_if_not_exists("s", "z"))


def transactions(client):
    t = client.transactions
    client.put("t", "1")
    for expected in ("1", "2"):
        ok, answers = client.transaction(
            compare=[t.value("t") == expected, t.version("t") > 0],
            success=[t.put("t/ok", "yes"), t.get("t"), t.delete("t/no")],
            failure=[t.put("t/no", "yes"), t.get("t/ok")],
        )
        say("transaction", ok, len(answers), [len(a) for a in answers if isinstance(a, list)])
    ok, answers = client.transaction(
        compare=[t.create("nowhere") == 0],
        success=[t.txn(compare=[t.mod("t") > 1], success=[t.put("inner", "1")], failure=[])],
        failure=[],
    )
    say("nested", ok, show(*client.get("inner")))


def leases(client):
    lease = client.lease(600, lease_id=4711)
    say("lease", lease.id, lease.granted_ttl, lease.remaining_ttl > 500)
    refused("same lease", lambda: client.lease(600, lease_id=4711))
    client.put("l1", "v", lease=lease)
    client.put("l2", "v", lease=4711)
    say("lease", sorted(lease.keys), show(*client.get("l1")))
    say("refresh", [answer.TTL for answer in lease.refresh()])
    refused("unknown lease", lambda: client.put("l3", "v", lease=4712))
    lease.revoke()
    say("revoked", client.get("l1")[0], client.get("l2")[0])
    refused("revoked again", lease.revoke)


def watches(client):
    start = client.put("w", "0").header.revision + 1
    events, cancel = client.watch_prefix("w", start_revision=start, prev_kv=True)
    client.put("w/1", "one")
    client.put("w/1", "two")
    client.delete("w/1")
    client.put("w/2", "three")
    for _ in range(4):
        event = next(events)
        say("event", type(event).__name__, event.key, event.value, event.mod_revision)
    cancel()

    past, cancel = client.watch_prefix("w", start_revision=start)
    for _ in range(4):
        event = next(past)
        say("past", type(event).__name__, event.key, event.value, event.version)
    cancel()

    heard = threading.Event()
    number = client.add_watch_callback("cb", lambda answer: heard.set())
    client.put("cb", "call me")
    say("called back", heard.wait(30))
    client.cancel_watch(number)
    say("watch once", client_sees_one(client))


def client_sees_one(client):
    timer = threading.Timer(0.05, lambda: client.put("once", "here"))
    timer.start()
    event = client.watch_once("once", timeout=30)
    timer.join()
    return event.value


def compaction(client):
    revision = client.put("c", "1").header.revision
    client.put("c", "2")
    client.put("c", "3")
    client.compact(revision + 1)
    refused("compact again", lambda: client.compact(revision))
    refused("compact the future", lambda: client.compact(revision + 1000))
    try:
        events, _ = client.watch("c", start_revision=revision)
        next(events)
        say("no error")
    except etcd3.exceptions.RevisionCompactedError as e:
        say("compacted", e.compacted_revision - revision)


def locks(client):
    """One at a time: waiting for a lock is broken in this library with a new tenacity."""
    lock = client.lock("door", ttl=60)
    say("lock", lock.acquire(timeout=10), lock.is_acquired())
    say("release", lock.release(), lock.is_acquired())
    say("lock", lock.acquire(timeout=10), lock.is_acquired())
    say("release", lock.release())


def the_member(client):
    members = list(client.members)
    say("members", [m.name for m in members], len(members[0].client_urls))
    status = client.status()
    say("status", status.version, status.leader.name, status.raft_term)
    say("alarms", list(client.list_alarms()))


def refused(what, act):
    try:
        act()
        say(what, "was not refused")
    except grpc.RpcError as e:
        say(what, e.code(), e.details())
    except etcd3.exceptions.Etcd3Exception as e:
        say(what, type(e).__name__)


def ask(what):
    """Has the server killed or started, and waits until that is done."""
    say(":" + what)
    sys.stdin.readline()


def restart(client):
    """With a client that has no watches: this library's would try again without pause meanwhile."""
    client.put("kept", "before")
    ask("kill")
    try:
        client.get("kept")
        say("it is not away")
    except etcd3.exceptions.ConnectionFailedError:
        say("it is away")
    ask("start")
    while True:
        try:
            say("kept", show(*client.get("kept")))
            break
        except etcd3.exceptions.ConnectionFailedError:
            time.sleep(0.05)
    say("put", client.put("kept", "after").header.revision)


def connect():
    url = urlparse(sys.argv[1])
    files = dict(zip(("ca_cert", "cert_cert", "cert_key"), sys.argv[2:]))
    return etcd3.client(host=url.hostname, port=url.port, timeout=20, **files)


def main():
    client = connect()
    keys(client)
    transactions(client)
    leases(client)
    watches(client)
    compaction(client)
    locks(client)
    the_member(client)
    refused("empty key", lambda: client.put("", "x"))
    client.close()
    client = connect()
    restart(client)
    client.close()
    say("done")


main()
