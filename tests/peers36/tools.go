//go:build tools

// Package peers36 names the programs of the release before, beside which cleat has to live, too.
package peers36

import (
	_ "go.etcd.io/etcd/etcdctl/v3"
	_ "go.etcd.io/etcd/etcdutl/v3"
	_ "go.etcd.io/etcd/server/v3"
)
