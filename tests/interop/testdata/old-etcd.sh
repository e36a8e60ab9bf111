#!/bin/sh
# Makes the directories that tests/interop/old_etcd_test.c starts on, by the etcd of an earlier release:
#   old-etcd.sh ETCD ETCDCTL CLEATUTL OUT
# OUT/stopped was stopped, with a snapshot of its log; OUT/killed was killed before its store had any entry.
# A log is cut behind its last record and a store behind its last page: the rest is zeros.
set -eu
etcd=$1 ctl="timeout 10 $2 --endpoints http://127.0.0.1:29379" utl=$3 out=$4

start() {
    "$etcd" --name m --data-dir "$dir" --listen-client-urls http://127.0.0.1:29379 \
        --advertise-client-urls http://127.0.0.1:29379 --listen-peer-urls http://127.0.0.1:29380 \
        --initial-advertise-peer-urls http://127.0.0.1:29380 --initial-cluster m=http://127.0.0.1:29380 \
        "$@" >"$dir.log" 2>&1 &
    pid=$!
    until $ctl put started yes >/dev/null 2>&1; do sleep 0.1; done
}
keep() {
    rm -f "$dir"/member/wal/*.tmp "$dir.log"
    for segment in "$dir"/member/wal/*.wal; do
        truncate -s "$("$utl" wal "$dir" | sed -n 's/.*usedBytes=\([0-9]*\).*/\1/p')" "$segment"
    done
    set -- $("$utl" db "$dir/member/snap/db" | sed -n 's/^page[a-zA-Z]*: //p')
    truncate -s $(($1 * $2)) "$dir/member/snap/db"
}

mkdir -p "$out"
dir=$out/stopped
start --snapshot-count 10
for i in 1 2 3 4 5 6; do $ctl put k v$i; done
$ctl del started
lease=$($ctl lease grant 3600 | cut -d' ' -f2)
$ctl put leased value "--lease=$lease"
$ctl user add u:secret
$ctl role add r
$ctl role grant-permission r read k
$ctl user grant-role u r
$ctl compaction --physical 4
sleep 5 # until it has a version
$ctl put last one
$ctl defrag
kill "$pid" && wait "$pid" || true
keep

dir=$out/killed
start --backend-batch-interval 1h --backend-batch-limit 1000000
$ctl put k v1
kill -9 "$pid" && wait "$pid" || true
keep
