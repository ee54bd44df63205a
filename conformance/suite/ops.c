/* ops.c - the ops that the plugin under test brings, as the host reads them. */
#include "device/context.h"
#include "loader/library.h"
#include "loader/loader.h"
#include "ops/vendor.h"
#include "suite/run.h"

static char refused[400];

static void note_refused(void *context, uint32_t level, const char *line) {
  (void)context;
  if (level <= KD_LOG_WARNING && !*refused)
    snprintf(refused, sizeof refused, "%s", line);
}

/* The plugin in a host that has no other. */
static struct {
  keel_context context;
  keel_library library;
  keel_plugin plugin;
} own = {.context = {.log = {.write = note_refused, .level = KD_LOG_WARNING}}};

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void read_ops(void) {
  own.library.host = *kc_services();
  own.plugin.context = &own.context;
  own.plugin.shared = &own.library;
  own.plugin.table = kp.p;
  own.plugin.path = "the plugin";
  own.plugin.abi_version = kp.p.abi_version;
  keel_status status = keel_schema_ready();
  if (status == KD_OK) status = keel_ops_read(&own.plugin);
  if (status == KD_OK) status = keel_ops_add(&own.plugin);
  if (status != KD_OK) snprintf(refused, sizeof refused, "%s", keel_message());
}

const keel_context *kc_ops(void) {
  if (kp.mapped) pthread_once(&once, read_ops); /* rules ask on many threads */
  return &own.context;
}

const keel_schema *kc_own_op(uint32_t index) {
  kc_ops();
  return index < own.context.vendor_op_count ? own.context.vendor_ops[index]
                                             : NULL;
}

const char *kc_ops_refused(void) {
  kc_ops();
  return refused;
}
