/* The state of an attacker, and the helpers that all files of attacks share. */
#pragma once

#include "cluster/attacks.h"
#include "cluster/raw_h2.h"

struct attacker {
    struct attack_target target;
    SSL_CTX *context;
    const char *certs;
    atomic_uint_fast64_t *efforts;
};

void attacker_made(struct attacker *a); /* one effort more */
void attacker_pause_ms(unsigned ms);

void attack_by_silent_peers(struct attacker *a);
void attack_by_silent_probes(struct attacker *a);
void attack_by_idle_probes(struct attacker *a);
void attack_by_dribblers(struct attacker *a);
void attack_by_trickling_posts(struct attacker *a);
void attack_by_large_posts(struct attacker *a);
void attack_by_broken_handshakes(struct attacker *a);
void attack_by_hpack_bombs(struct attacker *a);
void attack_by_long_paths(struct attacker *a);
void attack_by_gzip_bombs(struct attacker *a);
void attack_by_health_bombs(struct attacker *a);
void attack_by_unread_keys_of_a_lease(struct attacker *a);
void attack_by_unread_sorted_ranges(struct attacker *a);
void attack_by_unread_leases(struct attacker *a);
void attack_by_unread_metrics(struct attacker *a);
void attack_by_unread_watches(struct attacker *a);
void attack_by_long_watch_keys(struct attacker *a);
void attack_by_slow_backups(struct attacker *a);
void attack_by_logins(struct attacker *a);
void attack_by_logins_of_eight(struct attacker *a);
void attack_by_costly_logins(struct attacker *a);
void attack_by_bad_tokens(struct attacker *a);
void attack_by_renewals(struct attacker *a);
void attack_by_windows(struct attacker *a);
void attack_by_large_puts(struct attacker *a);
