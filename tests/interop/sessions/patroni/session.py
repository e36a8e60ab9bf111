"""A session with Patroni's etcd3 class, printed as it goes.

Two database servers and an operator work on one cluster by way of the JSON gateway, as Patroni does
it: leases kept alive, a leader's key, compare-and-swap of the rest, and one watch for each server
that keeps a copy of everything below the cluster's prefix. There are no databases.

It is run against real etcd and against us, and the two transcripts must be equal; so it prints
nothing that may differ (ids, sizes, times). How it is called is told in sessions_test.c.
"""
import json
import logging
import os
import sys
import time
import types
from urllib.parse import urlparse

# The driver of the database, which Patroni imports and nothing here uses.
driver = types.ModuleType("patroni.psycopg")
driver.__getattr__ = lambda name: Exception
sys.modules["patroni.psycopg"] = driver

from etcd import EtcdException  # noqa: E402
from patroni.dcs.etcd3 import (  # noqa: E402
    Etcd3,
    Etcd3ClientError,
    PermissionDenied,
    UserEmpty,
    base64_encode,
)
from patroni.exceptions import DCSError  # noqa: E402
from patroni.postgresql.mpp import get_mpp  # noqa: E402

PATIENCE_S = 40


def say(*words):
    print(*words, flush=True)


def ask(what):
    """Has the server killed or started, and waits until that is done."""
    say(":" + what)
    sys.stdin.readline()


def refused(what, act):
    try:
        act()
        say(what, "was not refused")
    except Etcd3ClientError as e:
        say(what, type(e).__name__, e, e.status)


def connect(name, **more):
    url = urlparse(sys.argv[1])
    config = {
        "name": name,
        "scope": "batman",
        "namespace": "service",
        "ttl": 30,
        "loop_wait": 1,
        "retry_timeout": 10,
        "protocol": url.scheme,
        "host": url.netloc,
        **dict(zip(("cacert", "cert", "key"), sys.argv[2:])),
        **more,
    }
    dcs = Etcd3(config, get_mpp({}))
    if not dcs._ctl:
        watching(dcs, None)
    return dcs


def wait(condition):
    deadline = time.time() + PATIENCE_S
    while not condition():
        if time.time() > deadline:
            raise TimeoutError
        time.sleep(0.005)


def stream(dcs):
    return dcs._client._kv_cache._response


def watching(dcs, before):
    """Waits for another stream than the one before."""
    wait(lambda: stream(dcs) and stream(dcs) is not before and dcs._client._kv_cache._is_ready)


def vain(dcs, act):
    """Tries what must fail. The watch then begins anew, for what was known was not up to date."""
    before = stream(dcs)
    result = act()
    watching(dcs, before)
    return bool(result)


def show(dcs):
    """The cluster as this one sees it, without what may differ."""
    c = dcs.get_cluster()
    return json.dumps(
        {
            "initialize": c.initialize,
            "config": c.config and c.config.data,
            "leader": c.leader and [c.leader.name, c.leader.session == dcs._lease],
            "status": c.status.last_lsn,
            "members": sorted((m.name, m.data.get("role")) for m in c.members),
            "failover": bool(c.failover) and [c.failover.leader, c.failover.candidate],
            "sync": [c.sync.leader, c.sync.sync_standby],
            "history": c.history and c.history.lines,
            "failsafe": c.failsafe,
        }
    )


def settled(dcs, what):
    """Waits until the copy kept by this one's watch is as the server has it."""
    truth = {n["key"]: n["mod_revision"] for n in dcs._client.prefix(dcs.cluster_prefix)["kvs"]}
    cache = dcs._client._kv_cache  # which also has what this client has put elsewhere

    def kept():
        prefix = base64_encode(dcs.cluster_prefix).rstrip("=")[:-1]
        return {n["key"]: n["mod_revision"] for n in cache.copy() if n["key"].startswith(prefix)}

    wait(lambda: kept() == truth)
    say(what, show(dcs))


def wakes_up(dcs, what, act):
    """Sleeps as the loop of a server does; what the other one does must end that."""
    dcs.event.clear()
    act()
    say(what, "wakes it up:", dcs.watch(None, PATIENCE_S))


def bootstrap(one, two):
    say("empty", show(one))
    say("initialize", bool(one.initialize(create_new=True)), vain(two, lambda: two.initialize(create_new=True)))
    say("identity", bool(one.initialize(create_new=False, sysid="4711")))
    say("config", one.set_config_value(json.dumps({"ttl": 30, "loop_wait": 10})))
    say("touch", one.touch_member({"role": "replica"}), two.touch_member({"role": "replica"}))
    say("take the lead", bool(one.take_leader()))
    settled(one, "one")
    settled(two, "two")


def lead(one, two):
    say("acquire", vain(two, two.attempt_to_acquire_leader))
    for lsn in (100, 200):
        say("update", one.update_leader(one.get_cluster(), lsn, failsafe={"one": "url"}))
    wakes_up(two, "progress", lambda: one.write_leader_optime(300))
    say("member", one.touch_member({"role": "primary"}), one.touch_member({"role": "primary"}))
    settled(two, "two")
    leader = two.get_cluster().leader
    say("delete another's lead", vain(two, lambda: two.delete_leader(leader)))
    wakes_up(two, "resignation", lambda: say("resign", one.delete_leader(one.get_cluster().leader, 400)))
    settled(two, "two")
    say("acquire", bool(two.acquire_leader_lock()), vain(one, one.acquire_leader_lock))
    settled(one, "one")


def operate(one, two, ctl):
    """Everything else is written if nobody else has written it meanwhile."""
    wakes_up(one, "a new configuration", lambda: ctl.set_config_value(json.dumps({"ttl": 20})))
    version = ctl.get_cluster().config.modify_version
    say("config", ctl.set_config_value("{}", version), ctl.set_config_value('{"x":1}', version))
    say("failover", ctl.manual_failover("two", "one"))
    settled(two, "two")
    version = ctl.get_cluster().failover.version
    say("failover done", two.manual_failover(None, None, version=version))
    say("done twice", vain(two, lambda: two.manual_failover("", "", version=version)))
    state = two.write_sync_state("two", ["one"], 0, version=None)
    say("sync", state.leader, state.sync_standby)
    later = two.write_sync_state("two", None, 0, version=state.version)
    say("sync", later is not None)
    say("sync", vain(two, lambda: two.write_sync_state("two", ["x"], 0, version=state.version)))
    say("sync deleted", vain(two, lambda: two.delete_sync_state(state.version)))
    say("sync deleted", bool(two.delete_sync_state(later.version)))
    say("history", two.set_history_value(json.dumps([[1, 25, "promoted"]])))
    settled(one, "one")


def leases(one, two):
    """A lease that is gone, one way or another: the lead is lost, and won again."""
    client = one._client
    say("kept alive", client.lease_keepalive(two._lease))
    lease = client.lease_grant(60)
    client.put("/service/leased", "x", lease)
    wakes_up(one, "revocation", lambda: client.call_rpc("/lease/revoke", {"ID": two._lease}))
    say("kept alive", client.lease_keepalive(two._lease))
    refused("put", lambda: client.put("/service/x", "x", two._lease))
    settled(one, "one")
    say("touch", two.touch_member({"role": "primary"}), two.touch_member({"role": "primary"}))
    say("update", two.update_leader(two.get_cluster(), 500) if two.get_cluster().leader else "no leader")
    say("acquire", bool(two.attempt_to_acquire_leader()))
    client.call_rpc("/lease/revoke", {"ID": two._lease})
    say("acquire with a lease that is gone", bool(two.attempt_to_acquire_leader()))
    settled(one, "one")
    client.call_rpc("/lease/revoke", {"ID": lease})
    say("revoked", "kvs" in client.range("/service/leased"))


def users():
    nobody = connect("nobody", patronictl=True)._client
    rpc = nobody.call_rpc
    refused("enable", lambda: rpc("/auth/enable", {}))
    for name, role in (("root", "root"), ("postgres", "pg")):
        rpc("/auth/role/add", {"name": role})
        rpc("/auth/user/add", {"name": name, "password": name + "-pw"})
        rpc("/auth/user/grant", {"user": name, "role": role})
    key, end = base64_encode("/service/"), base64_encode("/service0")
    rpc("/auth/role/grant", {"name": "pg", "perm": {"permType": "READWRITE", "key": key, "range_end": end}})
    say("users", rpc("/auth/user/list", {})["users"], rpc("/auth/role/get", {"role": "pg"})["perm"])
    rpc("/auth/enable", {})
    try:
        nobody.range("/service/x")
        say("no password is asked for")
    except (UserEmpty, PermissionDenied):
        # Which of them: etcd takes a caller whose request has no "Accept" for the one that its own
        # certificate names. We do not, and to Patroni either means that it is to log in.
        say("a password is asked for")
    pg = connect("three", username="postgres", password="postgres-pw")
    say("touch", pg.touch_member({"role": "replica"}))
    settled(pg, "three")
    refused("elsewhere", lambda: pg._client.put("/other", "x"))
    refused("administration", lambda: pg._client.call_rpc("/auth/user/add", {"name": "x"}))
    token, pg._client._token = pg._client._token, "nonsense.1"
    say("a new token", pg.touch_member({"role": "again"}), pg._client._token != token)
    pg._client.password = "wrong"
    refused("a wrong password", lambda: pg._client.authenticate())
    root = connect("root", username="root", password="root-pw", patronictl=True)
    root._client.call_rpc("/auth/disable", {})
    say("disabled", bool(root._client.range("/service/x")))
    pg._client.username = None


def restart(one, two):
    """The server is killed and comes back: the lease is kept, and the watches begin anew."""
    ask("kill")
    try:
        one._client.range("/service/x")
        say("it is not away")
    except EtcdException:
        say("it is away")
    ask("start")
    while True:
        try:
            one.get_cluster()
            two.get_cluster()
            break
        except DCSError:
            time.sleep(0.05)
    say("update", two.update_leader(two.get_cluster(), 600))
    watching(one, None)
    settled(one, "one")
    wakes_up(one, "resignation", lambda: say("resign", two.delete_leader(two.get_cluster().leader)))
    say("acquire", bool(one.attempt_to_acquire_leader()))
    settled(two, "two")
    say("delete", bool(one.delete_cluster()))
    say("after all", "kvs" in one._client.prefix("/service/"))


def main():
    logging.basicConfig(level=logging.INFO)  # on standard error
    one, two = connect("one"), connect("two")
    ctl = connect("ctl", patronictl=True)
    bootstrap(one, two)
    lead(one, two)
    operate(one, two, ctl)
    leases(one, two)
    users()
    restart(one, two)
    say("done")
    os._exit(0)  # its threads never end


main()
