/*
 * identity: who asks, as far as this member could find out.
 *
 * It travels with whatever is asked: rpc reads it from the token or the certificate, api decides by
 * it, it stands in the header of a proposal, for apply to decide again on every member, and with
 * every read. A value; its bytes are lent by whoever hands it on, for as long as the call lives.
 *
 * All zeroes is nobody in particular. Authentication is not built yet, so it is all zeroes
 * everywhere for now.
 */
#pragma once

#include "base/bytes.h"

struct identity {
    struct bytes user;
    uint64_t auth_revision;        /* of the users and roles, when the token was checked */
    struct bytes certificate_name; /* the common name of the client's */
    bool through_gateway;          /* it says nothing then: the call came in JSON */
};
