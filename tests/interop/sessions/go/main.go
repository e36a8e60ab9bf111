// A session with etcd's Go client, printed as it goes.
//
// It is run against real etcd and against us, and the two transcripts must be equal; so it prints
// nothing that may differ (ids, sizes, times), and where several of its own threads are at work
// nothing that hangs on which of them comes first. What it says to the one who runs it, and how it
// is called, is told in sessions_test.c.
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
)

// Far more than anything here takes: whoever waits so long has lost.
const patience = 40 * time.Second

func say(format string, words ...any) {
	fmt.Printf(format+"\n", words...)
}

// must ends the session where nothing could be compared any more.
func must(err error) {
	if err != nil {
		say("failed: %v", err)
		os.Exit(1)
	}
}

func got[T any](value T, err error) T {
	must(err)
	return value
}

// refused says how a request failed, as the library tells its user.
func refused(what string, err error) {
	if err == nil {
		say("%s was not refused", what)
		return
	}
	say("%s: %v", what, err)
}

// next waits for what a channel brings.
func next[T any](what string, from <-chan T) T {
	select {
	case value, ok := <-from:
		if !ok {
			say("%s: the channel was closed", what)
		}
		return value
	case <-time.After(patience):
		must(errors.New(what + " did not come"))
		panic("unreachable")
	}
}

var commands = bufio.NewReader(os.Stdin)

// ask has the runner do something to the server, and waits until it is done.
func ask(what string) {
	say(":%s", what)
	_ = got(commands.ReadString('\n'))
}

func credentials(words []string) *tls.Config {
	if len(words) == 0 {
		return nil
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(got(os.ReadFile(words[0]))) {
		must(errors.New("no certificate in " + words[0]))
	}
	pair := got(tls.LoadX509KeyPair(words[1], words[2]))
	return &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{pair}}
}

func connect(change func(*clientv3.Config)) (*clientv3.Client, error) {
	config := clientv3.Config{
		Endpoints:   []string{os.Args[1]},
		TLS:         credentials(os.Args[2:]),
		DialTimeout: patience,
		Logger:      zap.NewNop(),
		DialOptions: []grpc.DialOption{grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.5, MaxDelay: time.Second},
			MinConnectTimeout: 5 * time.Second,
		})},
	}
	if change != nil {
		change(&config)
	}
	return clientv3.New(config)
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 3*patience)
	defer cancel()
	c := got(connect(nil))
	for _, part := range []struct {
		name string
		run  func(context.Context, *clientv3.Client)
	}{
		{"keys", keys}, {"ranges", ranges}, {"transactions", transactions}, {"member", member},
		{"watches", watches}, {"compaction", compaction}, {"leases", leases}, {"locks", locks},
		{"elections", elections}, {"memory", memory}, {"recipes", recipes}, {"wrappers", wrappers},
		{"users", users}, {"restart", restart},
	} {
		say("--- %s", part.name)
		part.run(ctx, c)
	}
	must(c.Close())
	refused("after close", func() error { _, err := c.Get(context.Background(), "a"); return err }())
	say("done")
}

// show says all of a key but the id of its lease.
func show(kvs []*keyValue) string {
	var b strings.Builder
	for _, kv := range kvs {
		lease := ""
		if kv.Lease != 0 {
			lease = " leased"
		}
		fmt.Fprintf(&b, " %q=%q created %d modified %d version %d%s;", kv.Key, kv.Value,
			kv.CreateRevision, kv.ModRevision, kv.Version, lease)
	}
	return b.String()
}
