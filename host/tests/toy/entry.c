/* entry.c - what the toy's plugins differ in: TOY_MODEL names the model. Those that can't even
 * be entered have another ENTRY, or a TABLE that no library has. */
#include "toy.h"

#ifndef ENTRY
#define ENTRY kd_entry_0
#endif
#ifndef TABLE
#define TABLE toy_plugin
#endif

const kd_plugin *TABLE(const kd_host *host, const char *model);
KD_EXPORT const kd_plugin *ENTRY(const kd_host *host);

KD_EXPORT const kd_plugin *ENTRY(const kd_host *host) {
  return TABLE(host, TOY_MODEL);
}
