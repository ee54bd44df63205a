/* clock.h - the host's clock, CLOCK_MONOTONIC. */
#ifndef PLUGINS_CLOCK_H
#define PLUGINS_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Nanoseconds. */
static inline uint64_t clock_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline struct timespec clock_timespec(uint64_t time) {
  return (struct timespec){.tv_sec = (time_t)(time / 1000000000u),
                           .tv_nsec = (long)(time % 1000000000u)};
}

#endif /* PLUGINS_CLOCK_H */
