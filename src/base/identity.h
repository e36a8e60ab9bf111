/*
 * identity: who asks, as far as this member could find out.
 *
 * It travels with whatever is asked: api finds it out from the token or the certificate and decides
 * by it, it stands in the header of a proposal, for apply to decide by on every member, and with
 * every read. A value; its bytes are lent by whoever hands it on, for as long as the call lives.
 *
 * All zeroes is nobody in particular.
 */
#pragma once

#include "base/bytes.h"

struct identity {
    bool is_known; /* somebody, by whatever name; what comes with an entry need not say so */
    struct bytes user;
    uint64_t auth_revision; /* of the users and roles, as far as whoever vouches for him knew */
};
