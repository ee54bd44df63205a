/* exits.c - no plugin: it ends the process, as if all were well. */
#include <kd/kd.h>
#include <stdlib.h>

KD_EXPORT const kd_plugin *kd_entry_0(const kd_host *host);

KD_EXPORT const kd_plugin *kd_entry_0(const kd_host *host) {
  (void)host;
  exit(0);
}
