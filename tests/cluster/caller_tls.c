#include "cluster/caller_tls.h"

enum err caller_tls_open(struct caller *c, const char *certs, struct arena *arena, struct buf *why,
                         struct tls **out)
{
    struct tls_options options = {.io = c->io,
                                  .asks_for_h2 = true,
                                  .cert_file = arena_printf(arena, "%s/cert.pem", certs),
                                  .key_file = arena_printf(arena, "%s/key.pem", certs),
                                  .trusted_ca_file = arena_printf(arena, "%s/ca.pem", certs)};

    if (!tls_open(&options, why, out))
        return ERR_DENIED;
    c->net = tls_net(*out);
    return ERR_OK;
}

void caller_tls_close(struct caller *c, struct tls *tls)
{
    if (!tls)
        return;
    for (size_t i = 0; i < c->line_count; i++)
        line_close(c->lines[i]);
    while (!tls_is_idle(tls))
        caller_turn(c, 10);
    tls_close(tls);
}
