/* own_copies.c - the minimal plugin, with functions of its own under names that libraries of the
 * host have, as a vendor's static copies of them. It refuses a host where it does not get them. */
#include <kd/kd.h>

#undef KD_ENTRY
#define KD_ENTRY(plugin)
#include "minimal.c" /* NOLINT(bugprone-suspicious-include): the whole of it */

#define COPIES(X)                     \
  X(cJSON_Delete)                     \
  X(cJSON_Parse)                      \
  X(cJSON_ParseWithLengthOpts)        \
  X(pcre2_compile_8)                  \
  X(pcre2_match_8)                    \
  X(protobuf_c_message_free_unpacked) \
  X(protobuf_c_message_unpack)

static int calls;

#define DEFINE(name)        \
  KD_EXPORT int name(void); \
  int name(void) {          \
    return ++calls;         \
  }
COPIES(DEFINE)

KD_EXPORT const kd_plugin *kd_entry_0(const kd_host *host);

KD_EXPORT const kd_plugin *kd_entry_0(const kd_host *host) {
#define ROW(name) {name, #name},
  static const struct {
    int (*volatile copy)(
        void); /* as a call finds it, through the linker's table */
    const char *name;
  } copies[] = {COPIES(ROW)};
  for (size_t i = 0; i < sizeof copies / sizeof *copies; i++) {
    int before = calls;
    if (copies[i].copy() != before + 1 || calls != before + 1) {
      host->fail(KD_INTERNAL, "%s is another library's", copies[i].name);
      return NULL;
    }
  }
  return &minimal_plugin;
}
