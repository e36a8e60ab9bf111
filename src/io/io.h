/*
 * io: the seams between deciding and the world.
 *
 * Nothing above this room calls the system for time, randomness, files, sockets, names or threads:
 * it is handed this struct of small function tables. There are two worlds to hand in:
 *
 *     loop.h         the real one, on libuv, in uv_*.c
 *     fake_world.h   one in memory, on virtual time, replayable from a seed, in fake_*.c
 *
 * One idea runs through all of it. A request in flight is a struct embedded in whoever waits for
 * it, so submitting neither allocates nor fails. Its completion is an event in the inbox, run by
 * the core thread in its turn, never from inside the call that submitted it.
 */
#pragma once

struct io_thread;
struct process_sample;

struct io {
    struct inbox *inbox;
    struct clock *clock;
    struct entropy *entropy;
    struct disk *disk;
    struct net *net;
    struct resolver *resolver;
    struct workers *workers;
    struct workers *store_worker;  /* one thread, for the page store alone: a commit never waits
                                      behind somebody's long computation */
    struct workers *store_readers; /* WARMING_THREADS, for reading the page store alone: nobody who
                                      waits for a page waits for the hash of a store */
    struct workers *handshakes;    /* for steps of TLS handshakes alone: nobody who connects waits
                                      for the hash of a store */
    struct io_thread *const *threads; /* thread.h; for connections beside the core's */
    unsigned thread_count;
    void (*look_at_process)(struct process_sample *out); /* process.h; NULL: there is none */
    unsigned files_max; /* files and connections that may be open at once; 0: no limit is known */
};
