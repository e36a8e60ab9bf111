/*
 * passwords: hashed and compared on a worker, one after the other, everybody in turn.
 *
 * A hash takes as long as thousands of puts, on purpose. So they are computed on a worker, one at a
 * time, and those who wait stand in line by the address they come from: each address that has
 * somebody waiting gets one turn, then the next has its own. Whoever guesses passwords as fast as
 * he can waits behind himself, and others pass him.
 *
 *     API_PASSWORD --> its address's line --one of each address in turn--> a worker --> done
 *                  --> too many wait: refused at once               --> passwords_take
 *
 * Promises   1. A call that came in goes out exactly once, by passwords_take, unless it is
 *               forgotten before.
 *            2. At most PASSWORDS_WAITING_MAX wait, PASSWORDS_WAITING_PER_ADDRESS_MAX of one
 *               address.
 *            3. A password is overwritten in memory when its turn is over.
 *            4. To compare with a hash that is not there takes as long as with one of this server's
 *               cost, and fails.
 * Leans on   auth/password.h; io for workers and salt.
 */
#pragma once

#include "api/api.h"
#include "auth/password.h"
#include "io/worker.h"

struct entropy;

struct passwords {
    struct workers *workers;
    struct entropy *entropy;
    unsigned cost;

    struct list addresses; /* struct address, the next one first */
    struct list done;      /* struct password_question */
    size_t waiting;
    struct password_question *running; /* NULL: none is */
};

void passwords_init(struct passwords *p, struct workers *workers, struct entropy *entropy,
                    unsigned cost);
/* Also one that is all zeroes. What a worker had in hand does not come back any more. */
void passwords_free(struct passwords *p);

/* An API_PASSWORD; and it is to be forgotten: false, it was not here. */
void passwords_need(struct passwords *p, const struct api_need *need);
bool passwords_forget(struct passwords *p, const struct api_call *c);

/* One who can be told: NULL, there is none.. */
struct api_call *passwords_take(struct passwords *p, struct api_password_result *out);

/* Has no worker anything in hand? */
bool passwords_is_idle(const struct passwords *p);
