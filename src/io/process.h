/*
 * process: how this process is doing, in the system's eyes.
 *
 * Asking takes as long as the system likes (with ten thousand descriptors open, milliseconds), so
 * it is done on a worker. In the simulator there is nothing to be asked.
 */
#pragma once

#include <stdint.h>

struct process_sample {
    uint64_t cpu_ns;                             /* of all threads, with the system's part */
    uint64_t resident_bytes, virtual_bytes;      /* memory */
    uint64_t virtual_bytes_max;                  /* UINT64_MAX: no limit */
    uint64_t open_files, files_max;              /* descriptors */
    uint64_t threads, processors;                /* that there are; that it may use */
    uint64_t heap_bytes, heap_used_bytes;        /* of the allocator; of them, those in use */
    uint64_t net_received_bytes, net_sent_bytes; /* by the machine, as far as the process sees it */
    double started_unix;                         /* seconds since 1970 */
};

/* What cannot be found out stays 0. From any thread. */
void process_look(struct process_sample *out);

/* The words that the process was started with, each with its final zero. Appends. */
struct buf;
void process_command_line(struct buf *out);
