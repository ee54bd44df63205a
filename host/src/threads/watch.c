/* watch.c - keel_stop, and waiting that ends. */
#include "threads/watch.h"

#include "base/refs.h"
#include "device/context.h"
#include "threads/pool.h"
#include "values/tensor.h"

keel_status keel_stop_create(keel_context *context, keel_stop **out_stop) {
  keel_stop *stop = calloc(1, sizeof *stop);
  *out_stop = stop;
  if (!stop) return keel_no_memory(sizeof *stop);
  keel_refs_init(&stop->refs);
  stop->context = context;
  keel_alarms_init(&stop->alarms);
  return KD_OK;
}

void keel_stop_retain(keel_stop *stop) {
  if (stop) keel_refs_take(&stop->refs);
}

void keel_stop_release(keel_stop *stop) {
  if (!stop || !keel_refs_drop(&stop->refs)) return;
  keel_alarms_deinit(&stop->alarms);
  free(stop);
}

void keel_stop_listen(keel_stop *stop, keel_alarm *alarm) {
  keel_alarms_add(&stop->alarms, alarm);
  /* acquire: why. Who asks now rings after this is added. */
  if (atomic_load_explicit(&stop->asked, memory_order_acquire) == 2)
    keel_alarms_ring(&stop->alarms, stop->context->pool);
}

void keel_stop_ask(keel_stop *stop, const char *why) {
  unsigned none = 0;
  if (!atomic_compare_exchange_strong(&stop->asked, &none, 1)) return;
  snprintf(stop->why, sizeof stop->why, "%s", why ? why : "");
  /* release: why, for who reads that it was asked */
  atomic_store_explicit(&stop->asked, 2, memory_order_release);
  keel_alarms_ring(&stop->alarms, stop->context->pool);
  keel_pool_wake_waiters(stop->context->pool);
}

keel_watch keel_watch_of(keel_stop *stop, uint64_t timeout) {
  uint64_t now = timeout ? keel_now() : 0;
  return (keel_watch){stop, !timeout                     ? 0
                            : timeout > UINT64_MAX - now ? UINT64_MAX
                                                         : now + timeout};
}

/* `who`: "the run", "planning". */
static keel_status fail(const keel_watch *watch, const char *who,
                        const char *node, const char *op) {
  char next[200] = "";
  if (op)
    snprintf(next, sizeof next, ", before %s%s%s%s", op,
             node && *node ? " \"" : "", node && *node ? node : "",
             node && *node ? "\"" : "");
  if (watch->stop &&
      atomic_load_explicit(&watch->stop->asked, memory_order_acquire) == 2)
    return keel_fail(KD_CANCELLED, "%s was asked to stop%s%s%s", who,
                     *watch->stop->why ? ": " : "", watch->stop->why, next);
  return keel_fail(KD_DEADLINE_EXCEEDED, "%s is past its deadline%s", who,
                   next);
}

keel_status keel_watch_fail(const keel_watch *watch, const char *node,
                            const char *op) {
  return fail(watch, "the run", node, op);
}

keel_status keel_watch_planning(const keel_watch *watch, const char *next,
                                const char *node) {
  return !watch || !keel_watch_is_over(watch)
             ? KD_OK
             : fail(watch, "planning", node, next);
}

typedef struct wait {
  const keel_watch *watch;
  keel_tensor *tensor;
} wait;

static bool is_known_or_over(void *context) {
  const wait *self = context;
  return keel_tensor_state(self->tensor) != KEEL_PENDING ||
         keel_watch_is_over(self->watch);
}

keel_status keel_watch_wait(const keel_watch *watch, keel_tensor *tensor) {
  if (!watch || keel_tensor_state(tensor) != KEEL_PENDING)
    return keel_tensor_wait(tensor);
  wait self = {watch, tensor};
  keel_pool_wait_until(tensor->context->pool, is_known_or_over, &self,
                       watch->deadline);
  return keel_tensor_state(tensor) == KEEL_PENDING
             ? keel_watch_fail(watch, NULL, NULL)
             : keel_tensor_query(tensor);
}
