#include "server/secure.h"

#include "base/mem.h"
#include "io/clock.h"
#include "io/disk.h"
#include "io/io.h"
#include "io/tls_self.h"

#include <time.h>

#define S_PER_YEAR ((int64_t)365 * 24 * 3600)

/* --- a certificate of our own --- */

static bool is_there(struct disk *disk, const char *path)
{
    struct disk_stat stat;

    return disk_stat(disk, path, &stat) == ERR_OK;
}

static void log_made(const struct secure_options *o, int64_t to_s)
{
    time_t end = (time_t)to_s;
    struct tm parts;
    char text[sizeof("2026-11-17T18:44:37Z")];

    gmtime_r(&end, &parts);
    strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts);
    log_warn(o->logger, "automatically generate certificates",
             LOG_STR("certificate-validity-bound-not-after", text));
}

static struct tls_names hosts_of(const struct secure_options *o, struct arena *arena)
{
    size_t count = 0;

    for (size_t i = 0; i < o->listen_count; i++)
        count += o->listens[i].count;
    struct bytes *hosts = arena_new_array(arena, count, struct bytes);
    count = 0;
    for (size_t i = 0; i < o->listen_count; i++) {
        for (size_t j = 0; j < o->listens[i].count; j++)
            hosts[count++] = o->listens[i].at[j].url.host;
    }
    return (struct tls_names){hosts, count};
}

/* The key appears under its name when it is whole: what a crash has left is no pair. */
static enum err write_pair(const struct secure *s, const struct secure_options *o,
                           const struct buf *cert, const struct buf *key)
{
    struct disk *disk = o->io->disk;
    struct buf fresh = {0};

    buf_printf(&fresh, "%s.new", s->key_file);
    enum err e = disk_write_file(disk, s->cert_file, 0666, buf_bytes(cert));
    if (e == ERR_OK)
        e = disk_write_file(disk, buf_str(&fresh), 0600, buf_bytes(key));
    if (e == ERR_OK)
        e = disk_rename(disk, buf_str(&fresh), s->key_file);
    buf_free(&fresh);
    return e;
}

static enum err make_pair(const struct secure *s, const struct secure_options *o)
{
    int64_t now_s = (int64_t)(clock_wall_ns(o->io->clock) / NS_PER_S);
    struct arena arena = {0};
    struct buf cert = {0}, key = {0};
    struct tls_self_options self = {.hosts = hosts_of(o, &arena),
                                    .from_s = now_s,
                                    .to_s =
                                        now_s + (int64_t)o->config->self_signed_years * S_PER_YEAR};

    log_made(o, self.to_s);
    tls_self_make(&self, &cert, &key);
    enum err e = write_pair(s, o, &cert, &key);
    if (e == ERR_OK) {
        log_info(o->logger, "created cert file", LOG_STR("path", s->cert_file));
        log_info(o->logger, "created key file", LOG_STR("path", s->key_file));
    }
    explicit_bzero(key.at, key.len);
    buf_free(&cert);
    buf_free(&key);
    arena_free(&arena);
    return e;
}

static enum err find_or_make_pair(struct secure *s, const struct secure_options *o, struct buf *why)
{
    struct disk *disk = o->io->disk;
    const char *dir = arena_printf(&s->arena, "%s/fixtures/%s", o->config->data_dir, o->side);

    s->cert_file = arena_printf(&s->arena, "%s/cert.pem", dir);
    s->key_file = arena_printf(&s->arena, "%s/key.pem", dir);
    if (is_there(disk, s->cert_file) && is_there(disk, s->key_file))
        return ERR_OK;
    enum err e = disk_make_dir(disk, dir, 0700, DISK_PARENTS);
    if (e == ERR_OK)
        e = make_pair(s, o);
    if (e != ERR_OK)
        buf_printf(why, "failed to get %s self-signed certs in %s: %s", o->side, dir, err_text(e));
    return e;
}

/* --- life --- */

static struct tls_names names_of(struct url_list list)
{
    return (struct tls_names){list.at, list.count};
}

/* With a file of those we trust everybody is asked for a certificate, as in etcd, also if that was
 * not said. */
static struct tls_options tls_options_of(const struct secure *s, const struct secure_options *o)
{
    const struct tls_flags *f = o->flags;

    return (struct tls_options){
        .io = o->io,
        .logger = o->logger,
        .rejected = o->rejected,
        .cert_file = s->cert_file,
        .key_file = s->key_file,
        .dial_cert_file = f->dial_cert_file,
        .dial_key_file = f->dial_key_file,
        .trusted_ca_file = f->trusted_ca_file,
        .requires_cert = f->client_cert_auth || f->trusted_ca_file[0] != 0,
        .trusts_anybody = f->makes_cert,
        .allowed_hostnames = names_of(f->allowed_hostnames),
        .allowed_cns = names_of(f->allowed_cns),
        .crl_file = f->crl_file,
        .suites = names_of(o->config->cipher_suites),
        .min = o->config->tls_min,
        .max = o->config->tls_max,
        .offers_h2 = o->offers_h2,
        .checks_address = o->checks_address,
    };
}

enum err secure_find_files(struct secure *s, const struct secure_options *options, struct buf *why)
{
    s->cert_file = options->flags->cert_file;
    s->key_file = options->flags->key_file;
    return options->flags->makes_cert ? find_or_make_pair(s, options, why) : ERR_OK;
}

enum err secure_open_tls(const struct secure *s, const struct secure_options *options,
                         struct buf *why, struct tls **out)
{
    struct tls_options tls = tls_options_of(s, options);

    return tls_open(&tls, why, out) ? ERR_OK : ERR_DENIED;
}

enum err secure_open(struct secure *s, const struct secure_options *options, struct buf *why)
{
    enum err e = secure_find_files(s, options, why);

    return e == ERR_OK ? secure_open_tls(s, options, why, &s->tls) : e;
}

bool secure_is_idle(const struct secure *s)
{
    return !s->tls || tls_is_idle(s->tls);
}

void secure_close(struct secure *s)
{
    tls_close(s->tls);
    arena_free(&s->arena);
    *s = (struct secure){0};
}

void secure_say(const struct secure *s, const struct logger *logger, const struct config *config,
                const struct tls_flags *flags, const char *message)
{
    bool own = flags->makes_cert;
    struct buf info = {0}, suites = {0};

    buf_printf(&info,
               "cert = %s, key = %s, client-cert=%s, client-key=%s, trusted-ca = %s, "
               "client-cert-auth = %s, crl-file = %s",
               s->cert_file, s->key_file, own ? s->cert_file : flags->dial_cert_file,
               own ? s->key_file : flags->dial_key_file, flags->trusted_ca_file,
               flags->client_cert_auth ? "true" : "false", flags->crl_file);
    url_list_join(config->cipher_suites, &suites);
    log_info(logger, message, LOG_BYTES("tls-info", buf_bytes(&info)),
             LOG_BYTES("cipher-suites", buf_bytes(&suites)));
    buf_free(&info);
    buf_free(&suites);
}
