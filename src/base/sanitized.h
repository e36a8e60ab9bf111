/*
 * sanitized: is this build one of those that watch every piece of memory (make asan, make tsan)?
 * They want to see each come and go, keep what was freed, and need most addresses for themselves.
 */
#pragma once

#include <stdbool.h>

#if defined(__has_feature) /* clang */
#define SANITIZED_ADDRESSES __has_feature(address_sanitizer)
#define SANITIZED_THREADS   __has_feature(thread_sanitizer)
#else
#ifdef __SANITIZE_ADDRESS__
#define SANITIZED_ADDRESSES true
#else
#define SANITIZED_ADDRESSES false
#endif
#ifdef __SANITIZE_THREAD__
#define SANITIZED_THREADS true
#else
#define SANITIZED_THREADS false
#endif
#endif

#define SANITIZED (SANITIZED_ADDRESSES || SANITIZED_THREADS)
