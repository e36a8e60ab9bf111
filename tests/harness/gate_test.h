/*
 * gate: the only way to programs that neither this tree nor Debian has: real etcd of two releases,
 * h2spec, and clients in other languages. `make peers` and `make clients` build them.
 *
 *     gate_need(GATE_PEERS);                    skips the test where they are not built
 *     peer_run(&a, "$PEERS/etcdctl version");   from here on the shell knows $PEERS
 *     gate_program(GATE_PEERS, "etcd")          the path, for an exec without a shell
 *
 * The runner sums up the tests skipped here in one closing line. A command line that names such a
 * program before its gate fails the test, on every machine: otherwise the test would fail, or wait
 * for ever, only where the programs are missing. `make lint` refuses the paths in tests' sources.
 *
 * The programs are below build/, or below the directory that TEST_PEERS names.
 */
#pragma once

/* A gate's variable in the shell is its name here without GATE_. */
enum gate { GATE_PEERS, GATE_PEERS36, GATE_H2SPEC, GATE_CLIENTS };

/* Skips the test unless all programs of this gate are there. */
void gate_need(enum gate g);

/* Skips the test unless this program is there; the path lives as long as the test. */
const char *gate_program(enum gate g, const char *name);

/* Fails the test if the command line names a program whose gate it has not passed. Functions that
 * hand a test's command line to the shell call this first. */
void gate_check_line(const char *line);
