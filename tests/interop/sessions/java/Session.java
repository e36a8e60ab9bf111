import io.etcd.jetcd.ByteSequence;
import io.etcd.jetcd.Client;
import io.etcd.jetcd.ClientBuilder;
import io.etcd.jetcd.Election;
import io.etcd.jetcd.KV;
import io.etcd.jetcd.KeyValue;
import io.etcd.jetcd.Watch;
import io.etcd.jetcd.auth.Permission;
import io.etcd.jetcd.common.exception.CompactedException;
import io.etcd.jetcd.common.exception.EtcdException;
import io.etcd.jetcd.election.LeaderKey;
import io.etcd.jetcd.election.LeaderResponse;
import io.etcd.jetcd.kv.TxnResponse;
import io.etcd.jetcd.lease.LeaseKeepAliveResponse;
import io.etcd.jetcd.op.Cmp;
import io.etcd.jetcd.op.CmpTarget;
import io.etcd.jetcd.op.Op;
import io.etcd.jetcd.options.CompactOption;
import io.etcd.jetcd.options.DeleteOption;
import io.etcd.jetcd.options.GetOption;
import io.etcd.jetcd.options.LeaseOption;
import io.etcd.jetcd.options.PutOption;
import io.etcd.jetcd.options.WatchOption;
import io.etcd.jetcd.watch.WatchEvent;
import io.etcd.jetcd.watch.WatchResponse;
import io.grpc.stub.StreamObserver;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;

/**
 * A session with jetcd, printed as it goes. Locks and elections are the server's here, not the
 * client's own.
 *
 * <p>It is run against real etcd and against us, and the two transcripts must be equal; so it
 * prints nothing that may differ (ids, sizes, times). How it is called is told in sessions_test.c.
 */
public final class Session {
    private static final long PATIENCE_S = 40;
    private static final BufferedReader COMMANDS =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    private static String[] arguments;

    private static void say(String format, Object... words) {
        System.out.println(String.format(format, words));
    }

    /** Has the server killed or started, and waits until that is done. */
    private static void ask(String what) throws Exception {
        say(":%s", what);
        COMMANDS.readLine();
    }

    private static ByteSequence b(String text) {
        return ByteSequence.from(text, StandardCharsets.UTF_8);
    }

    private static <T> T get(CompletableFuture<T> future) throws Exception {
        return future.get(PATIENCE_S, TimeUnit.SECONDS);
    }

    private static String why(Throwable e) {
        if (e instanceof CompactedException c) {
            return "compacted: " + c.getMessage();
        }
        if (e instanceof EtcdException etcd) {
            return etcd.getErrorCode() + " " + e.getMessage();
        }
        return e.toString();
    }

    private static void refused(String what, CompletableFuture<?> future) throws Exception {
        try {
            get(future);
            say("%s was not refused", what);
        } catch (ExecutionException e) {
            say("%s: %s", what, why(e.getCause()));
        }
    }

    private static Client connect(java.util.function.UnaryOperator<ClientBuilder> change)
            throws Exception {
        ClientBuilder builder =
                Client.builder()
                        .endpoints(arguments[0])
                        .retryDelay(50)
                        .retryMaxDelay(200)
                        .retryMaxAttempts(100)
                        .waitForReady(false)
                        .connectTimeout(Duration.ofSeconds(5));
        if (arguments.length > 1) {
            builder.sslContext(
                    ssl ->
                            ssl.trustManager(new File(arguments[1]))
                                    .keyManager(new File(arguments[2]), new File(arguments[3])));
        }
        return change.apply(builder).build();
    }

    private static String show(KeyValue kv) {
        return String.format(
                "%s=%s created %d modified %d version %d%s",
                kv.getKey(), kv.getValue(), kv.getCreateRevision(), kv.getModRevision(),
                kv.getVersion(), kv.getLease() != 0 ? " leased" : "");
    }

    private static String show(List<KeyValue> kvs) {
        return kvs.stream().map(Session::show).collect(Collectors.joining("; "));
    }

    private static void keys(Client c) throws Exception {
        KV kv = c.getKVClient();
        PutOption prev = PutOption.builder().withPrevKV().build();
        say("put at %d", get(kv.put(b("a"), b("1"))).getHeader().getRevision());
        say("put, before it %s", show(get(kv.put(b("a"), b("2"), prev)).getPrevKv()));
        say("got %s", show(get(kv.get(b("a"))).getKvs()));
        say("got nothing: %d", get(kv.get(b("nothing"))).getCount());
        for (int i = 0; i < 6; i++) {
            get(kv.put(b("list/" + i), b(String.valueOf(i * 5 % 6))));
        }
        long now = get(kv.get(b("a"))).getHeader().getRevision();
        GetOption.Builder[] options = {
            GetOption.builder(),
            GetOption.builder().withLimit(2),
            GetOption.builder()
                    .withSortField(GetOption.SortTarget.VALUE)
                    .withSortOrder(GetOption.SortOrder.DESCEND),
            GetOption.builder().withKeysOnly(true),
            GetOption.builder().withCountOnly(true),
            GetOption.builder().withRevision(now - 2),
            GetOption.builder().withMinModRevision(now - 1),
            GetOption.builder().withMaxCreateRevision(now - 4),
            GetOption.builder().withSerializable(true).withLimit(1),
        };
        for (GetOption.Builder option : options) {
            var response = get(kv.get(b("list/"), option.isPrefix(true).build()));
            say("list %d %s: %s", response.getCount(), response.isMore(), show(response.getKvs()));
        }
        say("range %s", show(get(kv.get(b("list/2"),
                GetOption.builder().withRange(b("list/4")).build())).getKvs()));
        refused("the future", kv.get(b("a"), GetOption.builder().withRevision(now + 1000).build()));
        refused("an empty key", kv.put(b(""), b("x")));
        refused("no such lease", kv.put(b("a"), b("x"),
                PutOption.builder().withLeaseId(4711).build()));
        var deleted = get(kv.delete(b("a"), DeleteOption.builder().withPrevKV(true).build()));
        say("deleted %d: %s", deleted.getDeleted(), show(deleted.getPrevKvs()));
        say("deleted %d", get(kv.delete(b("a"))).getDeleted());
        say("deleted %d", get(kv.delete(b("list/"),
                DeleteOption.builder().isPrefix(true).build())).getDeleted());
        try (Client inner = connect(x -> x.namespace(b("space/")))) {
            get(inner.getKVClient().put(b("k"), b("v")));
            say("inside %s", show(get(inner.getKVClient().get(b("k"))).getKvs()));
            say("outside %s", show(get(kv.get(b("space/k"))).getKvs()));
        }
    }

    private static void transactions(Client c) throws Exception {
        KV kv = c.getKVClient();
        get(kv.put(b("t"), b("1")));
        for (String value : List.of("1", "2")) {
            TxnResponse txn = get(kv.txn()
                    .If(new Cmp(b("t"), Cmp.Op.EQUAL, CmpTarget.value(b(value))),
                            new Cmp(b("t"), Cmp.Op.GREATER, CmpTarget.version(0)),
                            new Cmp(b("none"), Cmp.Op.EQUAL, CmpTarget.createRevision(0)))
                    .Then(Op.put(b("t/yes"), b(value), PutOption.DEFAULT),
                            Op.get(b("t"), GetOption.DEFAULT))
                    .Else(Op.delete(b("t/yes"), DeleteOption.DEFAULT),
                            Op.txn(new Cmp[] {}, new Op[] {Op.get(b("t"), GetOption.DEFAULT)},
                                    new Op[] {}))
                    .commit());
            say("transaction %s at %d: %d put, %d got, %d deleted, %d inner", txn.isSucceeded(),
                    txn.getHeader().getRevision(), txn.getPutResponses().size(),
                    txn.getGetResponses().size(), txn.getDeleteResponses().size(),
                    txn.getTxnResponses().size());
        }
        refused("twice", kv.txn().Then(Op.put(b("t"), b("1"), PutOption.DEFAULT),
                Op.put(b("t"), b("2"), PutOption.DEFAULT)).commit());
    }

    /** What a watch brings, to be waited for. */
    private static final class Watching implements AutoCloseable {
        final BlockingQueue<Object> come = new LinkedBlockingQueue<>();
        final Watch.Watcher watcher;

        Watching(Client c, String key, WatchOption option) {
            watcher = c.getWatchClient().watch(b(key), option,
                    Watch.listener(come::add, come::add, () -> come.add("completed")));
        }

        Object next() throws Exception {
            Object value = come.poll(PATIENCE_S, TimeUnit.SECONDS);
            if (value == null) {
                throw new IllegalStateException("nothing came");
            }
            return value;
        }

        void events(String what, int count) throws Exception {
            while (count > 0) {
                if (!(next() instanceof WatchResponse response)) {
                    throw new IllegalStateException("something else came");
                }
                for (WatchEvent e : response.getEvents()) {
                    String before = e.getPrevKV() != null && e.getPrevKV().getVersion() > 0
                            ? " before " + show(e.getPrevKV()) : "";
                    say("%s %s %s%s", what, e.getEventType(), show(e.getKeyValue()), before);
                    count--;
                }
            }
        }

        @Override
        public void close() {
            watcher.close();
        }
    }

    private static WatchOption.Builder prefix() {
        return WatchOption.builder().isPrefix(true);
    }

    private static void watches(Client c) throws Exception {
        KV kv = c.getKVClient();
        long start = get(kv.put(b("w/0"), b("before"))).getHeader().getRevision() + 1;
        try (Watching live = new Watching(c, "w/",
                prefix().withCreateNotify(true).withPrevKV(true).build())) {
            say("created %s", ((WatchResponse) live.next()).isCreatedNotify());
            get(kv.put(b("w/1"), b("one")));
            get(kv.put(b("w/1"), b("two")));
            get(kv.delete(b("w/1")));
            get(kv.put(b("w/2"), b("three")));
            live.events("live", 4);
        }
        try (Watching past = new Watching(c, "w/", prefix().withRevision(start).build())) {
            past.events("past", 4);
        }
        try (Watching only = new Watching(c, "w/",
                prefix().withRevision(start).withNoPut(true).build())) {
            only.events("only", 1);
        }
        try (Watching quiet = new Watching(c, "w/quiet",
                WatchOption.builder().withProgressNotify(true).withRequireLeader(true).build())) {
            WatchResponse r = (WatchResponse) quiet.next();
            say("progress %s at %d", r.isProgressNotify(), r.getHeader().getRevision());
            quiet.watcher.requestProgress();
            say("progress %s", ((WatchResponse) quiet.next()).isProgressNotify());
        }
        long first = get(kv.put(b("c"), b("1"))).getHeader().getRevision();
        get(kv.put(b("c"), b("2")));
        get(kv.put(b("c"), b("3")));
        get(kv.compact(first + 1, CompactOption.builder().withCompactPhysical(true).build()));
        refused("compact again", kv.compact(first));
        refused("what is gone", kv.get(b("c"), GetOption.builder().withRevision(first).build()));
        try (Watching gone = new Watching(c, "c",
                WatchOption.builder().withRevision(first).build())) {
            CompactedException e = (CompactedException) gone.next();
            say("watch what is gone: %d", e.getCompactedRevision() - first);
        }
    }

    private static void leases(Client c) throws Exception {
        var leases = c.getLeaseClient();
        KV kv = c.getKVClient();
        long id = get(leases.grant(600)).getID();
        get(kv.put(b("l/1"), b("x"), PutOption.builder().withLeaseId(id).build()));
        get(kv.put(b("l/2"), b("x"), PutOption.builder().withLeaseId(id).build()));
        say("leased %s", show(get(kv.get(b("l/1"))).getKvs()));
        var ttl = get(leases.timeToLive(id, LeaseOption.builder().withAttachedKeys().build()));
        say("time to live of %d, %s, %s", ttl.getGrantedTTL(), ttl.getTTL() > 500,
                ttl.getKeys().stream().map(ByteSequence::toString).sorted().toList());
        say("kept alive %d", get(leases.keepAliveOnce(id)).getTTL());
        get(leases.revoke(id));
        say("revoked: %d", get(kv.get(b("l/"), GetOption.builder().isPrefix(true).build())).getCount());
        refused("revoked again", leases.revoke(id));
        refused("kept alive again", leases.keepAliveOnce(id));
        say("time to live %d", get(leases.timeToLive(id, LeaseOption.DEFAULT)).getTTL());

        long shortId = get(leases.grant(4)).getID(); // long enough for a machine that is busy
        long from = get(kv.put(b("l/short"), b("x"),
                PutOption.builder().withLeaseId(shortId).build())).getHeader().getRevision();
        long kept = get(leases.grant(6)).getID();
        BlockingQueue<LeaseKeepAliveResponse> beats = new LinkedBlockingQueue<>();
        try (var keeper = leases.keepAlive(kept, observer(beats))) {
            say("kept alive %d", beats.poll(PATIENCE_S, TimeUnit.SECONDS).getTTL());
            say("kept alive %d", beats.poll(PATIENCE_S, TimeUnit.SECONDS).getTTL());
        }
        get(leases.revoke(kept));
        try (Watching gone = new Watching(c, "l/short",
                WatchOption.builder().withRevision(from + 1).build())) {
            WatchEvent e = ((WatchResponse) gone.next()).getEvents().get(0);
            say("expired %s %s", e.getEventType(), e.getKeyValue().getKey());
        }
    }

    private static <T> StreamObserver<T> observer(BlockingQueue<T> into) {
        return new StreamObserver<>() {
            @Override
            public void onNext(T value) {
                into.add(value);
            }

            @Override
            public void onError(Throwable e) {
                // Closing it comes here, too.
            }

            @Override
            public void onCompleted() {
                // Nothing follows.
            }
        };
    }

    private static void waiters(KV kv, String prefix, long count) throws Exception {
        GetOption counted = GetOption.builder().isPrefix(true).withCountOnly(true).build();
        while (get(kv.get(b(prefix), counted)).getCount() != count) {
            Thread.sleep(5);
        }
    }

    private static void locks(Client c) throws Exception {
        var lock = c.getLockClient();
        long one = get(c.getLeaseClient().grant(60)).getID();
        long two = get(c.getLeaseClient().grant(60)).getID();
        ByteSequence held = get(lock.lock(b("door"), one)).getKey();
        say("held by its lease %s", held.toString().equals("door/" + Long.toHexString(one)));
        say("held again %s", get(lock.lock(b("door"), one)).getKey().equals(held));
        var second = lock.lock(b("door"), two);
        waiters(c.getKVClient(), "door/", 2);
        say("second waits %s", !second.isDone());
        get(lock.unlock(held));
        ByteSequence next = get(second).getKey();
        say("second holds it %s", next.toString().equals("door/" + Long.toHexString(two)));
        var third = lock.lock(b("door"), one);
        waiters(c.getKVClient(), "door/", 2);
        get(c.getLeaseClient().revoke(two));
        say("third holds it %s", get(third).getKey().toString().startsWith("door/"));
        refused("with a lease that is gone", lock.lock(b("door"), two));
        get(c.getLeaseClient().revoke(one));
        waiters(c.getKVClient(), "door/", 0);
    }

    private static void elections(Client c) throws Exception {
        Election election = c.getElectionClient();
        ByteSequence name = b("president");
        BlockingQueue<LeaderResponse> seen = new LinkedBlockingQueue<>();
        StreamObserver<LeaderResponse> into = observer(seen);
        long one = get(c.getLeaseClient().grant(60)).getID();
        long two = get(c.getLeaseClient().grant(60)).getID();
        refused("leader", election.leader(name));
        election.observe(name, new Election.Listener() {
            @Override
            public void onNext(LeaderResponse response) {
                into.onNext(response);
            }

            @Override
            public void onError(Throwable e) {
                into.onError(e);
            }

            @Override
            public void onCompleted() {
                into.onCompleted();
            }
        });
        LeaderKey first = get(election.campaign(name, one, b("one"))).getLeader();
        say("observed %s", seen.poll(PATIENCE_S, TimeUnit.SECONDS).getKv().getValue());
        get(election.proclaim(first, b("two")));
        say("observed %s", seen.poll(PATIENCE_S, TimeUnit.SECONDS).getKv().getValue());
        var second = election.campaign(name, two, b("three"));
        waiters(c.getKVClient(), "president/", 2);
        say("leader %s, the second waits %s", get(election.leader(name)).getKv().getValue(),
                !second.isDone());
        get(election.resign(first));
        LeaderKey key = get(second).getLeader();
        say("observed %s", seen.poll(PATIENCE_S, TimeUnit.SECONDS).getKv().getValue());
        refused("proclaimed by one who resigned", election.proclaim(first, b("four")));
        get(election.resign(key));
        refused("leader", election.leader(name));
        get(c.getLeaseClient().revoke(one));
        get(c.getLeaseClient().revoke(two));
    }

    private static void member(Client c) throws Exception {
        var maintenance = c.getMaintenanceClient();
        var members = get(c.getClusterClient().listMember()).getMembers();
        say("members %d %s %d", members.size(), members.get(0).getName(),
                members.get(0).getClientURIs().size());
        var status = get(maintenance.statusMember(arguments[0]));
        say("status %s %s", status.getVersion(),
                status.getLeader() == status.getHeader().getMemberId());
        say("alarms %d", get(maintenance.listAlarms()).getAlarms().size());
        get(maintenance.defragmentMember(arguments[0]));
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        get(maintenance.snapshot(out));
        byte[] all = out.toByteArray();
        byte[] sum = MessageDigest.getInstance("SHA-256")
                .digest(Arrays.copyOf(all, all.length - 32));
        say("snapshot, sum right %s",
                Arrays.equals(sum, Arrays.copyOfRange(all, all.length - 32, all.length)));
        refused("move the lead", maintenance.moveLeader(4711));
    }

    private static void users(Client c) throws Exception {
        var auth = c.getAuthClient();
        get(auth.roleAdd(b("root")));
        get(auth.roleAdd(b("part")));
        refused("a role twice", auth.roleAdd(b("part")));
        get(auth.roleGrantPermission(b("part"), b("p/"), b("p0"), Permission.Type.READWRITE));
        for (Permission p : get(auth.roleGet(b("part"))).getPermissions()) {
            say("permission %s %s %s", p.getPermType(), p.getKey(), p.getRangeEnd());
        }
        get(auth.userAdd(b("root"), b("root-pw")));
        get(auth.userGrantRole(b("root"), b("root")));
        get(auth.userAdd(b("carol"), b("carol-pw")));
        get(auth.userGrantRole(b("carol"), b("part")));
        say("users %s, roles %s", get(auth.userList()).getUsers(), get(auth.roleList()).getRoles());
        get(auth.authEnable());
        refused("without a token", c.getKVClient().get(b("q")));
        try (Client root = connect(x -> x.user(b("root")).password(b("root-pw")));
                Client carol = connect(x -> x.user(b("carol")).password(b("carol-pw")));
                Client wrong = connect(x -> x.user(b("carol")).password(b("wrong")).retryMaxAttempts(0))) {
            refused("a wrong password", wrong.getKVClient().get(b("p/1")));
            get(carol.getKVClient().put(b("p/1"), b("x")));
            say("hers %s", get(carol.getKVClient().get(b("p/1"))).getCount());
            refused("elsewhere", carol.getKVClient().put(b("q"), b("x")));
            refused("administration", carol.getAuthClient().userAdd(b("friend"), b("x")));
            try (Watching hers = new Watching(carol, "p/", prefix().withCreateNotify(true).build())) {
                say("created %s", ((WatchResponse) hers.next()).isCreatedNotify());
                get(root.getKVClient().put(b("p/2"), b("x")));
                say("watched %s", ((WatchResponse) hers.next()).getEvents().get(0).getEventType());
            }
            get(root.getAuthClient().userRevokeRole(b("carol"), b("part")));
            refused("no longer hers", carol.getKVClient().get(b("p/1")));
            get(root.getAuthClient().userDelete(b("carol")));
            get(root.getAuthClient().authDisable());
        }
        get(c.getKVClient().put(b("q"), b("anybody")));
    }

    /** The server is killed and comes back: the watch goes on. */
    private static void restart(Client c) throws Exception {
        KV kv = c.getKVClient();
        try (Watching events = new Watching(c, "k/", prefix().withCreateNotify(true).build())) {
            say("created %s", ((WatchResponse) events.next()).isCreatedNotify());
            get(kv.put(b("k/1"), b("before")));
            say("seen %s", show(((WatchResponse) events.next()).getEvents().get(0).getKeyValue()));
            ask("kill");
            ask("start");
            say("kept %s", show(get(kv.get(b("k/1"))).getKvs()));
            get(kv.put(b("k/2"), b("after"), PutOption.builder().withAutoRetry().build()));
            Object come = events.next(); // that it broke off, and that it was created again
            while (!(come instanceof WatchResponse r && !r.getEvents().isEmpty())) {
                come = events.next();
            }
            say("seen %s", show(((WatchResponse) come).getEvents().get(0).getKeyValue()));
        }
    }

    private interface Part {
        void run(Client c) throws Exception;
    }

    public static void main(String[] words) throws Exception {
        arguments = words;
        try (Client c = connect(x -> x)) {
            Part[] parts = {
                Session::keys, Session::transactions, Session::watches, Session::leases,
                Session::locks, Session::elections, Session::member, Session::users,
                Session::restart
            };
            for (Part part : parts) {
                say("---");
                part.run(c);
            }
        }
        say("done");
        System.exit(0);
    }
}
