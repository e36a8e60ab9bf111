/*
 * call_state: where a gRPC call stands, at either end of it: the server's (rpc_int.h) and the
 * client's (client.c).
 *
 * Three questions, whose answers move on their own. The owner is who speaks through the call: the
 * core, behind the line, or whoever uses client.h.
 *
 *     in     READING --> WHOLE --> LENT --> READING ...       what comes from the other end
 *            READING <-> PARKED;  READING --> PACKED --> WHOLE;  all --> DONE
 *     out    NOTHING --> FLOWING <-> DEFERRED --> ENDED       what nghttp2 was given for it
 *            all --> CLOSED
 *     life   UNTOLD --> TOLD --> ANSWERED --> OVER            what the owner knows
 *            UNTOLD --> OVER;  TOLD, ANSWERED --> GONE --> OVER
 */
#pragma once

enum call_in {
    IN_READING, /* the message that is being received is not whole */
    IN_PARKED,  /* its length is known, and does not fit in the budget */
    IN_PACKED,  /* it is whole, and is yet to be unpacked, or that is under way */
    IN_WHOLE,   /* it waits for the owner */
    IN_LENT,    /* it is with the owner, who has not released it */
    IN_DONE,    /* what still comes is of no interest */
};

enum call_out {
    OUT_NOTHING,
    OUT_FLOWING,  /* headers, and nghttp2 asks for data when it can send some */
    OUT_DEFERRED, /* the same, but it waits for nghttp2_session_resume_data */
    OUT_ENDED,    /* all */
    OUT_CLOSED,   /* the stream is no more; or the plain request was answered */
};

enum call_life {
    LIFE_UNTOLD,   /* the owner has not heard of the call */
    LIFE_TOLD,     /* he has, and may speak */
    LIFE_ANSWERED, /* he has finished the call, and a body is not complete */
    LIFE_GONE,     /* he is to hear that it has ended */
    LIFE_OVER,     /* he will neither hear nor speak of the call again */
};
