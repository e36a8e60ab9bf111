/*
 * assert: what we rely on, checked in every build.
 *
 * A failed assertion is a bug in this program, never something a client, peer or disk can cause.
 * It prints one line with the condition and the place, then aborts, so that a core dump shows the
 * state that was wrong. There is no switch that turns it off.
 */
#pragma once

#define static_assert _Static_assert

#undef assert
#define assert(condition)                                                                          \
    (__builtin_expect(!!(condition), 1) ? (void)0                                                  \
                                        : assert_failed(#condition, __FILE__, __LINE__, __func__))

/* Reached only by a bug: the end of a switch that covers every case, for instance. */
#define unreachable() assert_failed("unreachable", __FILE__, __LINE__, __func__)

/* Prints the failed condition and aborts. */
__attribute__((noreturn, cold)) void assert_failed(const char *condition, const char *file,
                                                   int line, const char *function);

/*
 * The environment broke a promise we cannot work without: a sync failed, memory is gone. Prints
 * the message and exits with status 2, without a core, since the program is not at fault.
 */
__attribute__((noreturn, cold, format(printf, 1, 2))) void fatal(const char *format, ...);
