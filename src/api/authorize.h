/*
 * authorize: may they? The one place that decides.
 *
 * Every RPC passes here with what it asks for: unary calls after their arguments were checked,
 * streams with each message, reads and writes alike. The rule of every method stands beside it, in
 * methods.h; what a rule means is auth's to say, auth_decide (auth/auth.h).
 *
 * Some are not decided here, but by apply: what goes through the log, by the header of its entry,
 * and reads, when they begin. This member may lag behind: whoever was granted something by another
 * one would be refused here what is his. Only what he is called is found out before.
 */
#pragma once

#include "api/methods.h"
#include "apply/result.h"
#include "auth/auth.h"
#include "base/identity.h"

struct authorize_question {
    struct auth *auth;
    enum api_method method;
    const struct identity *who;
    const void *request; /* decoded; NULL while a stream is only being opened. Of a Watch, what is
                            to be created, NULL if nothing is */
};

/* Will apply decide? */
bool authorize_later(enum api_method method);

enum auth_rule authorize_rule(enum api_method method);

/* RESULT_OK, or what the caller is told instead. */
enum result authorize(const struct authorize_question *q);
