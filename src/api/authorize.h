/*
 * authorize: may they? The one place that decides.
 *
 * Every RPC passes here with what it asks for: unary calls after their arguments were checked,
 * streams with each message, reads and writes alike. What is answered here on the member that was
 * asked is decided again by apply, on every member, for whatever goes through the log.
 *
 * For now authentication is always disabled (a store in which it is enabled does not open), so
 * there is a single outcome. The rule of every method stands beside it nevertheless, in methods.h.
 */
#pragma once

#include "api/methods.h"
#include "apply/result.h"
#include "base/identity.h"

enum authorize_rule {
    RULE_ANYBODY,          /* nobody is asked who he is */
    RULE_ANY_USER,         /* but somebody */
    RULE_ROOT,             /* has the role root */
    RULE_ROOT_OR_SELF,     /* or asks about himself */
    RULE_ROOT_OR_OWN_ROLE, /* or about a role he has */
    RULE_READ_RANGE,
    RULE_WRITE_KEY,   /* reading too, if he wants the previous value; and the keys of the lease */
    RULE_WRITE_RANGE, /* likewise */
    RULE_TXN,         /* compares and both branches, at any depth */
    RULE_WATCH,       /* reading the range of each watcher when it is created */
    RULE_READ_LEASE,  /* any user; reading its keys, if he wants to see them */
    RULE_WRITE_LEASE, /* any user; writing all of its keys */
    RULE_READ_ALL_LEASES,
    RULE_ALARM,          /* looking: any user; else root */
    RULE_BY_INNER_CALLS, /* what it is made of is authorized one by one */
    RULE_COUNT,
};

struct authorize_question {
    enum api_method method;
    const struct identity *who;
    const void *request; /* decoded; NULL while a stream is only being opened */
};

enum authorize_rule authorize_rule(enum api_method method);

/* RESULT_OK, or what the caller is told instead. */
enum result authorize(const struct authorize_question *q);
