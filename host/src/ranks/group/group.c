/* group.c - device groups, and calls of them whose inputs may be pending. */
#include "ranks/group/group.h"
#include "device/context.h"
#include "device/stream.h"

#include "base/refs.h"
#include "device/lost.h"
#include "memory/copy.h"
#include "threads/pool.h"

/* ---- groups ------------------------------------------------------------------- */

/* "all_reduce". */
static const char *call_name(uint32_t kind) {
  static const char *const names[] = {
      "all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all"};
  return kind < KEEL_COUNT_OF(names) ? names[kind] : "?";
}

static keel_status check_members(keel_device *const *devices, uint32_t count) {
  if (!count || count > 1024)
    return keel_fail(KD_INVALID_ARGUMENT,
                     "a group of %u devices; it has 1 to 1024", count);
  for (uint32_t i = 0; i < count; i++) {
    if (devices[i]->context != devices[0]->context)
      return keel_fail(KD_INVALID_ARGUMENT,
                       "a group has devices of one context; rank %u (%s) is of"
                       " another one",
                       i, devices[i]->name);
    for (uint32_t k = 0; k < i; k++)
      if (devices[k] == devices[i])
        return keel_fail(
            KD_INVALID_ARGUMENT,
            "a device can be in a group only once; %s is rank %u and %u",
            devices[i]->name, k, i);
  }
  for (uint32_t i = 0; i < count; i++)
    KEEL_TRY(keel_device_ready(devices[i]));
  return KD_OK;
}

static int by_address(const void *a, const void *b) {
  uintptr_t x = (uintptr_t) * (keel_device *const *)a,
            y = (uintptr_t) * (keel_device *const *)b;
  return (x > y) - (x < y);
}

/* The plugin's own group, if it makes one. */
static keel_status ask_plugin(keel_group *group) {
  const keel_plugin *plugin = group->devices[0]->plugin;
  bool one_plugin = group->size > 1 && plugin->collectives.create;
  for (uint32_t i = 0; i < group->size; i++)
    one_plugin &= group->devices[i]->plugin == plugin;
  if (!one_plugin) return KD_OK;
  kd_device **handles = calloc(group->size, sizeof *handles);
  if (!handles) return keel_no_memory(group->size * sizeof *handles);
  for (uint32_t i = 0; i < group->size; i++)
    handles[i] = group->devices[i]->handle;
  keel_clear_error();
  kd_status status =
      plugin->collectives.create(handles, group->size, &group->handle);
  free(handles);
  if (status == KD_OK) return KD_OK;
  group->handle = NULL;
  if (!keel_has_error())
    keel_fail(status, "no reason given (%s)", keel_status_name(status));
  if (status != KD_UNIMPLEMENTED)
    return keel_while(status, "while %s and others made a group",
                      group->devices[0]->name);
  keel_log_line(&group->context->log, KD_LOG_INFO,
                "a group of %s and others works through the host: %s",
                group->devices[0]->name, keel_message());
  return KD_OK;
}

keel_status keel_group_create(keel_device *const *devices, uint32_t count,
                              keel_group **out_group) {
  *out_group = NULL;
  KEEL_TRY(check_members(devices, count));
  size_t size = sizeof(keel_group) + 2 * count * sizeof(keel_device *);
  keel_group *group = calloc(1, size);
  if (!group) return keel_no_memory(size);
  keel_refs_init(&group->refs);
  pthread_mutex_init(&group->lock, NULL);
  group->context = devices[0]->context;
  group->size = count;
  group->by_address = group->devices + count;
  memcpy(group->devices, devices, count * sizeof(keel_device *));
  memcpy(group->by_address, devices, count * sizeof(keel_device *));
  qsort(group->by_address, count, sizeof(keel_device *), by_address);
  uint32_t held = 0;
  keel_status status = KD_OK;
  for (; held < count && status == KD_OK; held++) {
    status = keel_device_enter(devices[held]);
    if (status != KD_OK) break;
    /* its handle must not change from now on */
    keel_device_pin(devices[held]);
    keel_lost_leave(devices[held]);
  }
  if (status == KD_OK) status = ask_plugin(group);
  if (status == KD_OK) {
    *out_group = group;
    return KD_OK;
  }
  while (held-- > 0)
    keel_device_unpin(devices[held]);
  pthread_mutex_destroy(&group->lock);
  free(group);
  return status;
}

static bool is_part(const keel_group *part, const keel_group *group,
                    const int64_t *ranks, uint32_t count) {
  for (uint32_t i = 0; part->size == count && i < count; i++)
    if (part->devices[i] != group->devices[ranks[i]]) return false;
  return part->size == count;
}

/* With the lock held. */
static keel_status make_part(keel_group *group, const int64_t *ranks,
                             uint32_t count, keel_group **out_part) {
  keel_device **devices = calloc(count, sizeof *devices);
  if (!devices) return keel_no_memory(count * sizeof *devices);
  for (uint32_t i = 0; i < count; i++)
    devices[i] = group->devices[ranks[i]];
  keel_status status = keel_group_create(devices, count, out_part);
  free(devices);
  if (status != KD_OK) return status;
  (*out_part)->next = group->parts;
  group->parts = *out_part;
  return KD_OK;
}

keel_status keel_group_part(keel_group *group, const int64_t *ranks,
                            uint32_t count, keel_group **out_part) {
  *out_part = group;
  if (is_part(group, group, ranks, count)) return KD_OK;
  pthread_mutex_lock(&group->lock);
  keel_group *part = group->parts;
  while (part && !is_part(part, group, ranks, count))
    part = part->next;
  keel_status status = part ? KD_OK : make_part(group, ranks, count, &part);
  pthread_mutex_unlock(&group->lock);
  *out_part = part;
  return status;
}

static void group_free(keel_group *group) {
  while (group->parts) {
    keel_group *part = group->parts;
    group->parts = part->next;
    keel_group_release(part);
  }
  if (group->handle) {
    for (uint32_t i = 0; i < group->size; i++)
      /* its work is done, or is lost */
      keel_device_drain_quietly(group->devices[i]);
    group->devices[0]->plugin->collectives.destroy(group->handle);
  }
  for (uint32_t i = 0; i < group->size; i++)
    keel_device_unpin(group->devices[i]);
  pthread_mutex_destroy(&group->lock);
  free(group);
}

void keel_group_release(keel_group *group) {
  if (group && keel_refs_drop(&group->refs)) group_free(group);
}

uint32_t keel_group_size(const keel_group *group) {
  return group->size;
}

keel_device *keel_group_device(const keel_group *group, uint32_t rank) {
  return rank < group->size ? group->devices[rank] : NULL;
}

void keel_group_count(const keel_group *group, keel_group_counts *out_counts) {
  *out_counts = (keel_group_counts){.direct = atomic_load(&group->direct),
                                    .staged = atomic_load(&group->staged)};
}

/* ---- inputs and outputs --------------------------------------------------------- */

static keel_status group_refuse(const keel_group_call *call, uint32_t rank,
                                const char *what) {
  char type[96];
  return keel_fail(KD_INVALID_ARGUMENT,
                   "%s of a group of %u devices: rank %u (%s) has %s, %s",
                   call_name(call->kind), call->group->size, rank,
                   call->group->devices[rank]->name,
                   keel_type_text(call->inputs[rank]->type, type, sizeof type),
                   what);
}

static keel_status check_inputs(const keel_group_call *call) {
  uint32_t first = call->kind == KD_BROADCAST ? call->root : 0;
  for (uint32_t i = 0; i < call->group->size; i++) {
    keel_tensor *tensor = call->inputs[i];
    if (!tensor) continue;
    keel_status status = keel_tensor_need_data(tensor);
    if (status != KD_OK)
      return keel_while(status, "while %s had the value of rank %u",
                        call_name(call->kind), i);
    if (tensor->type != call->inputs[first]->type)
      return group_refuse(call, i, "and another type than rank 0");
  }
  const keel_type *type = call->inputs[first]->type;
  if (call->kind == KD_ALL_GATHER && !type->rank)
    return group_refuse(call, 0, "which has no dimension to be joined by");
  bool parted = call->kind == KD_REDUCE_SCATTER || call->kind == KD_ALL_TO_ALL;
  if (parted && (!type->rank || type->dims[0] % call->group->size))
    return group_refuse(
        call, 0, "whose first dimension can't be parted among them evenly");
  return KD_OK;
}

static keel_status type_output(keel_group_call *call) {
  const keel_type *type =
      call->inputs[call->kind == KD_BROADCAST ? call->root : 0]->type;
  int64_t dims[KD_MAX_RANK];
  call->out_type = type;
  if (call->kind != KD_ALL_GATHER && call->kind != KD_REDUCE_SCATTER)
    return KD_OK;
  memcpy(dims, type->dims, type->rank * sizeof *dims);
  if (call->kind == KD_REDUCE_SCATTER)
    dims[0] /= call->group->size;
  else if (!keel_mul_i64(dims[0], call->group->size, &dims[0]))
    return group_refuse(call, 0, "which is too much for one value");
  return keel_type_of(type->dtype, type->rank, dims, &call->out_type);
}

/* All inputs are ready. */
static keel_status group_run(keel_group_call *call, keel_tensor **outputs) {
  keel_group *group = call->group;
  KEEL_TRY(check_inputs(call));
  KEEL_TRY(type_output(call));
  keel_status status = KD_UNIMPLEMENTED;
  if (group->handle && call->out_type->bytes)
    status = keel_group_direct(call, outputs);
  if (status == KD_OK) {
    atomic_fetch_add_explicit(&group->direct, 1, memory_order_relaxed);
    return KD_OK;
  }
  if (status == KD_UNIMPLEMENTED) {
    status = keel_group_staged(call, outputs);
    if (status == KD_OK)
      atomic_fetch_add_explicit(&group->staged, 1, memory_order_relaxed);
  }
  for (uint32_t i = 0; status != KD_OK && i < group->size; i++) {
    keel_tensor_release(outputs[i]);
    outputs[i] = NULL;
  }
  return status == KD_OK
             ? KD_OK
             : keel_while(status, "while a group of %u devices did %s",
                          group->size, call_name(call->kind));
}

/* ---- calls whose inputs are not known yet ---------------------------------------- */

typedef struct arrival {
  keel_waiter waiter; /* must be first: cast from keel_waiter */
  struct deferred *call;
} arrival;

typedef struct deferred {
  keel_task task; /* must be first: cast from keel_task */
  keel_group_call call;
  /* Pending inputs, plus one. Decremented with acq_rel, so that the call sees all
   * inputs. */
  atomic_uint missing;
  keel_tensor **inputs, **outputs;
  arrival copy_outs[];
} deferred;

static void end_deferred(deferred *later) {
  keel_group *group = later->call.group;
  for (uint32_t i = 0; i < 2 * group->size; i++)
    keel_tensor_release(later->inputs[i]);
  free(later->inputs);
  free(later);
  keel_group_release(group);
}

static void run_deferred(keel_task *task) {
  deferred *later = (deferred *)(void *)task;
  uint32_t n = later->call.group->size;
  keel_tensor *failed = keel_tensors_failed(later->inputs, n);
  keel_tensor **values = failed ? NULL : calloc(n, sizeof *values);
  keel_status status = failed || values ? KD_OK : keel_no_memory(n);
  if (values) status = group_run(&later->call, values);
  for (uint32_t i = 0; i < n; i++) {
    if (status != KD_OK)
      keel_tensor_resolve_failed(later->outputs[i], status);
    else
      keel_tensor_follow(later->outputs[i], failed ? failed : values[i]);
    if (values) keel_tensor_release(values[i]);
  }
  free(values);
  end_deferred(later);
}

static void input_arrived(keel_waiter *waiter) {
  deferred *later = ((arrival *)waiter)->call;
  /* acq_rel: the last one sees what all the others wrote */
  if (atomic_fetch_sub_explicit(&later->missing, 1, memory_order_acq_rel) == 1)
    keel_pool_submit(later->call.group->context->pool, &later->task);
}

/* Takes over `moved`. */
static keel_status defer(const keel_group_call *call, keel_tensor **moved,
                         keel_tensor **outputs) {
  keel_group *group = call->group;
  uint32_t n = group->size;
  deferred *later = calloc(1, sizeof *later + n * sizeof(arrival));
  if (!later) {
    for (uint32_t i = 0; i < n; i++)
      keel_tensor_release(moved[i]);
    free(moved);
    return keel_no_memory(sizeof *later);
  }
  keel_refs_take(&group->refs);
  later->task.run = run_deferred;
  later->call = *call;
  later->call.inputs = later->inputs = moved;
  later->outputs = moved + n;
  for (uint32_t i = 0; i < n; i++) {
    later->outputs[i] = keel_tensor_pending(group->context);
    if (later->outputs[i]) continue;
    end_deferred(later);
    return KD_OUT_OF_MEMORY;
  }
  for (uint32_t i = 0; i < n; i++)
    outputs[i] = keel_tensor_retain(later->outputs[i]);
  /* plus one, so that the call does not run before every input has been subscribed to */
  atomic_store(&later->missing, n + 1);
  arrival self = {.call = later};
  for (uint32_t i = 0; i < n; i++) {
    arrival *at = &later->copy_outs[i];
    *at = (arrival){{NULL, input_arrived}, later};
    if (moved[i])
      keel_tensor_then(moved[i], &at->waiter);
    else
      input_arrived(&at->waiter);
  }
  input_arrived(&self.waiter);
  return KD_OK;
}

/* ---- calls ------------------------------------------------------------------------ */

/* Starts moving each input to its member. */
static keel_status move_all(const keel_group_call *call,
                            keel_tensor *const *inputs, keel_tensor **moved) {
  for (uint32_t i = 0; i < call->group->size; i++) {
    if (!inputs[i]) continue;
    keel_device *device = call->group->devices[i];
    keel_status status = keel_group_move(device, inputs[i], &moved[i]);
    if (status != KD_OK)
      return keel_while(status, "while the value of rank %u went to %s", i,
                        device->name);
  }
  return KD_OK;
}

/* A failed input becomes every output. */
static keel_status call_ready(keel_group_call *call, keel_tensor **moved,
                              keel_tensor **outputs) {
  uint32_t n = call->group->size;
  keel_tensor *failed = keel_tensors_failed(moved, n);
  call->inputs = moved;
  for (uint32_t i = 0; failed && i < n; i++)
    outputs[i] = keel_tensor_retain(failed);
  keel_status status = failed ? KD_OK : group_run(call, outputs);
  for (uint32_t i = 0; i < n; i++)
    keel_tensor_release(moved[i]);
  free(moved);
  return status;
}

static bool is_pending(keel_tensor *const *tensors, uint32_t n) {
  for (uint32_t i = 0; i < n; i++)
    if (tensors[i] && keel_tensor_state(tensors[i]) == KEEL_PENDING)
      return true;
  return false;
}

/* inputs  an entry is NULL if the member has none */
static keel_status group_begin(keel_group_call *call,
                               keel_tensor *const *inputs,
                               keel_tensor **outputs) {
  uint32_t n = call->group->size;
  for (uint32_t i = 0; i < n; i++)
    outputs[i] = NULL;
  keel_tensor **moved = calloc(2 * (size_t)n, sizeof(keel_tensor *));
  if (!moved) return keel_no_memory(2 * n * sizeof(keel_tensor *));
  keel_status status = move_all(call, inputs, moved);
  if (status == KD_OK)
    return is_pending(moved, n) ? defer(call, moved, outputs)
                                : call_ready(call, moved, outputs);
  for (uint32_t i = 0; i < n; i++)
    keel_tensor_release(moved[i]);
  free(moved);
  return status;
}

static keel_status begin_all(keel_group *group, uint32_t kind,
                             uint32_t reduction, keel_tensor *const *inputs,
                             keel_tensor **outputs) {
  keel_group_call call = {.group = group, .kind = kind, .reduction = reduction};
  for (uint32_t i = 0; i < group->size; i++)
    outputs[i] = NULL;
  if (reduction > KD_REDUCE_MAX)
    return keel_fail(KD_INVALID_ARGUMENT, "%s: there is no reduction %u",
                     call_name(kind), reduction);
  for (uint32_t i = 0; i < group->size; i++)
    if (!inputs[i])
      return keel_fail(KD_INVALID_ARGUMENT, "%s: rank %u (%s) has no value",
                       call_name(kind), i, group->devices[i]->name);
  return group_begin(&call, inputs, outputs);
}

keel_status keel_group_all_reduce(keel_group *group, uint32_t reduction,
                                  keel_tensor *const *inputs,
                                  keel_tensor **outputs) {
  return begin_all(group, KD_ALL_REDUCE, reduction, inputs, outputs);
}

keel_status keel_group_all_gather(keel_group *group, keel_tensor *const *inputs,
                                  keel_tensor **outputs) {
  return begin_all(group, KD_ALL_GATHER, 0, inputs, outputs);
}

keel_status keel_group_reduce_scatter(keel_group *group, uint32_t reduction,
                                      keel_tensor *const *inputs,
                                      keel_tensor **outputs) {
  return begin_all(group, KD_REDUCE_SCATTER, reduction, inputs, outputs);
}

keel_status keel_group_all_to_all(keel_group *group, keel_tensor *const *inputs,
                                  keel_tensor **outputs) {
  return begin_all(group, KD_ALL_TO_ALL, 0, inputs, outputs);
}

static keel_status check_rank(const keel_group *group, uint32_t rank,
                              const char *what) {
  return rank < group->size ? KD_OK
                            : keel_fail(KD_INVALID_ARGUMENT,
                                        "%s rank %u; the group has %u devices",
                                        what, rank, group->size);
}

keel_status keel_group_broadcast(keel_group *group, uint32_t root,
                                 keel_tensor *input, keel_tensor **outputs) {
  keel_group_call call = {.group = group, .kind = KD_BROADCAST, .root = root};
  KEEL_TRY(check_rank(group, root, "broadcast from"));
  keel_tensor **inputs = calloc(group->size, sizeof(keel_tensor *));
  if (!inputs) return keel_no_memory(group->size * sizeof(keel_tensor *));
  inputs[root] = input;
  keel_status status = group_begin(&call, inputs, outputs);
  free(inputs);
  return status;
}

keel_status keel_group_send(keel_group *group, uint32_t to, keel_tensor *tensor,
                            keel_tensor **out_tensor) {
  *out_tensor = NULL;
  KEEL_TRY(check_rank(group, to, "send to"));
  keel_status status = keel_group_move(group->devices[to], tensor, out_tensor);
  return status == KD_OK ? KD_OK
                         : keel_while(status, "while rank %u (%s) received it",
                                      to, group->devices[to]->name);
}
