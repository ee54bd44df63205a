/* missing.c - a plugin that needs a symbol which no library has. */
#include <kd/kd.h>

const char *symbol_that_nobody_has(void);
KD_EXPORT const kd_plugin *kd_entry_0(const kd_host *host);
KD_EXPORT const kd_plugin *kd_entry_0(const kd_host *host) {
  host->fail(KD_INTERNAL, "%s", symbol_that_nobody_has());
  return NULL;
}
