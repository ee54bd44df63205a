/* single.h - a plugin with static state, which serves one host at a time. A second host
 * gets KD_ALREADY_EXISTS, and loads a copy of the file. */
#ifndef PLUGINS_SINGLE_H
#define PLUGINS_SINGLE_H

#include <kd/kd.h>
#include <stdatomic.h>

static atomic_flag single_taken = ATOMIC_FLAG_INIT;

/* `open`: starts the plugin by `start`, where nobody has it. */
static inline kd_status single_open(const kd_host *host,
                                    kd_status (*start)(const kd_host *),
                                    kd_instance **out_instance) {
  if (atomic_flag_test_and_set(&single_taken))
    return host->fail(KD_ALREADY_EXISTS,
                      "another host in this process has the plugin open");
  kd_status status = start(host);
  if (status == KD_OK)
    *out_instance = (kd_instance *)(void *)&single_taken;
  else
    atomic_flag_clear(&single_taken);
  return status;
}

/* To be called at the end of `close`. */
static inline void single_close(void) {
  atomic_flag_clear(&single_taken);
}

#endif /* PLUGINS_SINGLE_H */
