#include "config/tls.h"

#include "base/text.h"

#include <inttypes.h>

/* Go keeps the time until a certificate ends in nanoseconds, of which there are not more. */
#define SELF_SIGNED_YEARS_MAX 292

static const struct flag_value *value_of(const struct flags *flags, enum flag_id id)
{
    return &flags->values[id];
}

/* ---- Versions and suites ---- */

static bool read_version(const struct flags *flags, enum flag_id id, enum tls_version *out,
                         struct buf *why)
{
    static const char *const versions[] = {
        [TLS_VERSION_ANY] = "", [TLS_VERSION_1_2] = "TLS1.2", [TLS_VERSION_1_3] = "TLS1.3"};
    const char *text = value_of(flags, id)->text;

    for (size_t i = 0; i < ARRAY_LEN(versions); i++) {
        if (strcmp(text, versions[i]) == 0) {
            *out = (enum tls_version)i;
            return true;
        }
    }
    buf_append_str(why, "unexpected TLS version ");
    text_append_quoted(why, bytes_of_str(text));
    buf_append_str(why, " (must be one of: TLS1.2, TLS1.3)");
    return false;
}

static bool read_suites(const struct flags *flags, struct config *out, struct buf *why)
{
    struct url_list said = value_of(flags, FLAG_CIPHER_SUITES)->set;

    if (out->tls_min == TLS_VERSION_1_3 && said.count > 0) {
        buf_append_str(why, "cipher suites cannot be configured when only TLS1.3 is enabled");
        return false;
    }
    for (size_t i = 0; i < said.count; i++) {
        if (tls_suite_is_known(said.at[i]))
            continue;
        buf_append_str(why, "unexpected TLS cipher suite ");
        text_append_quoted(why, said.at[i]);
        return false;
    }
    out->cipher_suites = said;
    return true;
}

static bool read_versions(const struct flags *flags, struct config *out, struct buf *why)
{
    if (!read_version(flags, FLAG_TLS_MIN_VERSION, &out->tls_min, why) ||
        !read_version(flags, FLAG_TLS_MAX_VERSION, &out->tls_max, why))
        return false;
    if (out->tls_min == TLS_VERSION_ANY)
        out->tls_min = TLS_VERSION_1_2; /* Go's choice */
    if (out->tls_max == TLS_VERSION_ANY)
        out->tls_max = TLS_VERSION_1_3; /* the newest there is */
    if (out->tls_min <= out->tls_max)
        return true;
    buf_printf(why, "min version (%s) is greater than max version (%s)",
               value_of(flags, FLAG_TLS_MIN_VERSION)->text,
               value_of(flags, FLAG_TLS_MAX_VERSION)->text);
    return false;
}

/* ---- Either side ---- */

bool tls_flags_are_given(const struct tls_flags *f)
{
    return f->cert_file[0] != 0 || f->key_file[0] != 0 || f->makes_cert;
}

static struct tls_flags client_flags(const struct flags *flags)
{
    return (struct tls_flags){
        .cert_file = value_of(flags, FLAG_CERT_FILE)->text,
        .key_file = value_of(flags, FLAG_KEY_FILE)->text,
        .dial_cert_file = value_of(flags, FLAG_CLIENT_CERT_FILE)->text,
        .dial_key_file = value_of(flags, FLAG_CLIENT_KEY_FILE)->text,
        .trusted_ca_file = value_of(flags, FLAG_TRUSTED_CA_FILE)->text,
        .crl_file = value_of(flags, FLAG_CLIENT_CRL_FILE)->text,
        .client_cert_auth = value_of(flags, FLAG_CLIENT_CERT_AUTH)->boolean,
        .allowed_hostnames = value_of(flags, FLAG_CLIENT_CERT_ALLOWED_HOSTNAME)->set,
    };
}

static struct tls_flags peer_flags(const struct flags *flags)
{
    return (struct tls_flags){
        .cert_file = value_of(flags, FLAG_PEER_CERT_FILE)->text,
        .key_file = value_of(flags, FLAG_PEER_KEY_FILE)->text,
        .dial_cert_file = value_of(flags, FLAG_PEER_CLIENT_CERT_FILE)->text,
        .dial_key_file = value_of(flags, FLAG_PEER_CLIENT_KEY_FILE)->text,
        .trusted_ca_file = value_of(flags, FLAG_PEER_TRUSTED_CA_FILE)->text,
        .crl_file = value_of(flags, FLAG_PEER_CRL_FILE)->text,
        .client_cert_auth = value_of(flags, FLAG_PEER_CLIENT_CERT_AUTH)->boolean,
        .skips_san = value_of(flags, FLAG_PEER_SKIP_CLIENT_SAN)->boolean,
        .allowed_hostnames = value_of(flags, FLAG_PEER_CERT_ALLOWED_HOSTNAME)->set,
        .allowed_cns = value_of(flags, FLAG_PEER_CERT_ALLOWED_CN)->set,
    };
}

/* A certificate of our own is used as it is: etcd forgets whatever else was said with it. */
static void consider_own(struct tls_flags *f, bool is_asked)
{
    if (is_asked && !tls_flags_are_given(f))
        *f = (struct tls_flags){.cert_file = "",
                                .key_file = "",
                                .dial_cert_file = "",
                                .dial_key_file = "",
                                .trusted_ca_file = "",
                                .crl_file = "",
                                .makes_cert = true};
}

static bool read_validity(const struct flags *flags, struct config *out, struct buf *why)
{
    uint64_t years = value_of(flags, FLAG_SELF_SIGNED_CERT_VALIDITY)->number;
    bool is_used = out->client_tls.makes_cert || out->peer_tls.makes_cert;

    out->self_signed_years = years;
    if (is_used && years == 0) {
        buf_append_str(why, "selfSignedCertValidity is invalid,it should be greater than 0");
        return false;
    }
    if (is_used && years > SELF_SIGNED_YEARS_MAX) {
        buf_printf(why, "--self-signed-cert-validity must be at most %d (set to %" PRIu64 ")",
                   SELF_SIGNED_YEARS_MAX, years);
        return false;
    }
    return true;
}

bool config_tls_read(const struct flags *flags, struct config *out, struct buf *why)
{
    if (!read_versions(flags, out, why) || !read_suites(flags, out, why))
        return false;
    out->client_tls = client_flags(flags);
    out->peer_tls = peer_flags(flags);
    consider_own(&out->client_tls, value_of(flags, FLAG_AUTO_TLS)->boolean);
    consider_own(&out->peer_tls, value_of(flags, FLAG_PEER_AUTO_TLS)->boolean);
    return read_validity(flags, out, why);
}

/* ---- What is used ---- */

static void append_list(struct buf *out, struct url_list list)
{
    buf_append_str(out, "[");
    for (size_t i = 0; i < list.count; i++) {
        buf_append_str(out, i > 0 ? " " : "");
        text_append_quoted(out, list.at[i]);
    }
    buf_append_str(out, "]");
}

bool config_tls_check(const struct tls_flags *f, struct buf *why)
{
    if (f->makes_cert)
        return true;
    if (f->cert_file[0] == 0 || f->key_file[0] == 0) {
        buf_printf(why, "KeyFile and CertFile must both be present[key: %s, cert: %s]", f->key_file,
                   f->cert_file);
        return false;
    }
    if ((f->dial_cert_file[0] == 0) != (f->dial_key_file[0] == 0)) {
        buf_printf(why,
                   "ClientKeyFile and ClientCertFile must both be present or both absent: key: %s, "
                   "cert: %s]",
                   f->dial_key_file, f->dial_cert_file);
        return false;
    }
    if (f->allowed_cns.count > 0 && f->allowed_hostnames.count > 0) {
        buf_append_str(why, "AllowedCNs and AllowedHostnames are mutually exclusive (cns=");
        append_list(why, f->allowed_cns);
        buf_append_str(why, ", hostnames=");
        append_list(why, f->allowed_hostnames);
        buf_append_str(why, ")");
        return false;
    }
    return true;
}
