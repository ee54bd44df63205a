/* direct.c - exchanges between ranks from device to device, by a group that the devices have
 * joined. They run on a stream of their own, concurrently with the device's other work. */
#include <time.h>

#include "device/backoff.h"
#include "device/context.h"
#include "device/failures.h"
#include "device/lost.h"
#include "device/stream.h"
#include "eager/launch.h"
#include "memory/access.h"
#include "memory/copy.h"
#include "ranks/group/group.h"
#include "ranks/link/link.h"

#define LAST_WAIT UINT64_C(5000000000) /* for work that was given up */

/* An operation of a group: `from` is NULL if this rank contributes nothing. The types are those of
 * the tensors, or have as many elements. */
typedef struct work {
  uint32_t kind, reduction, root;
  const keel_link_group *group;
  keel_tensor *from, *to;
  const keel_type *from_type, *to_type;
} work;

/* ---- one collective ----------------------------------------------------------------------- */

static kd_tensor view_of(const keel_tensor *tensor, const keel_type *type) {
  kd_tensor view = {.dtype = KD_NONE};
  if (!tensor) return view;
  view = (kd_tensor){.size = type->bytes,
                     .dims = type->dims,
                     .dtype = type->dtype,
                     .rank = type->rank};
  keel_launch_point(&view, tensor);
  return view;
}

/* The work that the stream of exchanges has to wait for: the value's, and the last work on the
 * result's memory. */
static kd_status direct_mark(keel_device *device, kd_event *event,
                             const work *what) {
  kd_status status = KD_OK;
  pthread_mutex_lock(&device->stream_lock);
  if (what->from) status = keel_failures_check_locked(what->from->buffer);
  if (status == KD_OK)
    status = keel_stream_record(device, device->stream, event);
  keel_failures_writes(what->to->buffer, 0);
  pthread_mutex_unlock(&device->stream_lock);
  return status;
}

/* As long as the plugin has no room, or its members are still connecting. *out_began: the
 * collective may be under way. */
static kd_status call_group(keel_link *link, const work *what,
                            const kd_collective *collective, bool *out_began) {
  const kd_collective_table *table = &link->devices.device->plugin->collectives;
  uint64_t began = keel_now();
  kd_status status;
  for (uint32_t asked = 0;
       (status = table->enqueue(what->group->handle, collective)) == KD_BUSY;
       asked++) {
    *out_began = true;
    KEEL_TRY(keel_link_between(link, asked, began));
  }
  *out_began |= status == KD_OK;
  return status;
}

static kd_status direct_enqueue(keel_link *link, const work *what,
                                bool *out_began) {
  keel_device *device = link->devices.device;
  const keel_plugin *plugin = device->plugin;
  kd_stream *stream = link->devices.stream;
  kd_tensor from = view_of(what->from, what->from_type),
            to = view_of(what->to, what->to_type);
  const kd_collective collective = {.struct_size = sizeof collective,
                                    .kind = what->kind,
                                    .reduction = what->reduction,
                                    .root = what->root,
                                    .streams = &stream,
                                    .inputs = &from,
                                    .outputs = &to};
  keel_backoff backoff = {0};
  KEEL_TRY(direct_mark(device, link->devices.before, what));
  kd_status status;
  do
    status = plugin->streams.wait(stream, link->devices.before);
  while (keel_backoff_retry(device, stream, &backoff, &status));
  if (status != KD_OK) return status;
  KEEL_TRY(call_group(link, what, &collective, out_began));
  return keel_stream_record(device, stream, link->devices.after);
}

static kd_status wait_for_end(keel_link *link, const work *what) {
  const keel_plugin *plugin = link->devices.device->plugin;
  uint64_t began = keel_now();
  for (uint32_t asked = 0;; asked++) {
    kd_status status = plugin->events.query(link->devices.after);
    if (status != KD_BUSY) return status;
    if (asked % 256 == 255)
      status = plugin->collectives.status(what->group->handle);
    if (status != KD_OK && status != KD_BUSY) return status;
    KEEL_TRY(keel_link_between(link, asked, began));
  }
}

/* The memory that it writes stays allocated until it has ended, which is known if its end was
 * recorded. */
static void direct_give_up(keel_link *link, const work *what, bool recorded) {
  const keel_plugin *plugin = link->devices.device->plugin;
  plugin->collectives.abort(what->group->handle);
  if (recorded && plugin->events.wait(link->devices.after, LAST_WAIT) !=
                      KD_DEADLINE_EXCEEDED)
    return;
  link->devices.stuck = true;
  if (what->from) keel_link_abandon(what->from);
  keel_link_abandon(what->to);
}

/* The rank that failed reports it, a moment after its group does. */
static bool hear_why(keel_link *link) {
  const struct timespec nap = {0, 10000000};
  for (int i = 0; i < 50 && !link->failure; i++) {
    nanosleep(&nap, NULL);
    keel_link_hear(link);
  }
  return link->failure != NULL;
}

/* The failure as a message. The link's own failures have one already. */
static keel_status direct_judge(keel_link *link, kd_status status) {
  keel_device *device = link->devices.device;
  char words[1024] = "";
  if (link->failure) return keel_tensor_query(link->failure);
  if (status == KD_DEADLINE_EXCEEDED) return status;
  if (keel_has_error()) snprintf(words, sizeof words, "%s", keel_message());
  bool others = status == KD_ABORTED || status == KD_UNAVAILABLE;
  if (others && hear_why(link)) return keel_tensor_query(link->failure);
  keel_fail(status, "%s: an exchange with other ranks failed: %s", device->name,
            *words ? words : keel_status_name(status));
  return keel_device_check(device, status);
}

/* KD_UNIMPLEMENTED, of all ranks alike: nothing was done. */
static keel_status direct_run(keel_link *link, const work *what) {
  bool began = false;
  keel_clear_error();
  kd_status status = direct_enqueue(link, what, &began);
  if (status == KD_UNIMPLEMENTED) return status;
  bool recorded = status == KD_OK;
  keel_link_busy(link, true);
  if (status == KD_OK) status = wait_for_end(link, what);
  keel_link_busy(link, false);
  if (status == KD_OK) return KD_OK;
  keel_status judged = direct_judge(link, status);
  char words[2048];
  snprintf(words, sizeof words, "%s", keel_message());
  if (began) direct_give_up(link, what, recorded);
  return keel_fail_text(judged, words);
}

/* ---- an exchange ---------------------------------------------------------------------------- */

static uint32_t direct_kind_of(const keel_exchange *what) {
  static const uint32_t kinds[] = {
      [KEEL_ALL_REDUCE] = KD_ALL_REDUCE,
      [KEEL_ALL_GATHER] = KD_ALL_GATHER,
      [KEEL_REDUCE_SCATTER] = KD_REDUCE_SCATTER,
      [KEEL_ALL_TO_ALL] = KD_ALL_TO_ALL,
      [KEEL_BROADCAST] = KD_BROADCAST,
  };
  return kinds[what->kind];
}

/* The value in the device's own memory, row-major. */
static keel_status direct_place(keel_device *device, keel_tensor *value,
                                keel_tensor **out_tensor) {
  return keel_tensor_location(value) == device
             ? keel_copy_rows(value, out_tensor)
             : keel_copy_to(value, device, out_tensor);
}

/* Of a Broadcast, the rank of the group that gives; a part's is its first. */
static uint32_t root_of(const keel_link *link, const keel_link_job *job,
                        const keel_link_group *group) {
  return group == &link->devices.all ? keel_link_root(NULL, &job->what) : 0;
}

static keel_status in_group(keel_link *link, const keel_link_job *job,
                            const keel_link_group *group, keel_tensor *from,
                            keel_tensor *to) {
  uint32_t root = root_of(link, job, group);
  bool gives = job->what.kind != KEEL_BROADCAST || group->rank == root;
  const work what = {.kind = direct_kind_of(&job->what),
                     .reduction = job->what.reduction,
                     .root = root,
                     .group = group,
                     .from = gives ? from : NULL,
                     .to = to,
                     .from_type = from->type,
                     .to_type = to->type};
  return direct_run(link, &what);
}

/* Between machines, this rank's block of its machine's sum: by the module. */
static keel_status reduce_between(keel_link *link, uint32_t reduction,
                                  keel_tensor *part, keel_tensor **out_tensor) {
  keel_tensor *here = NULL, *sum = NULL;
  KEEL_TRY(keel_tensor_to_host(part, &here));
  keel_status status = keel_tensor_on(&link->context->host, here->type, &sum);
  if (status == KD_OK) {
    const keel_link_call call = {.struct_size = sizeof call,
                                 .kind = KEEL_LINK_ALL_REDUCE,
                                 .reduction = reduction,
                                 .dtype = here->type->dtype,
                                 .count = (uint64_t)here->type->elements,
                                 .comm = link->devices.between,
                                 .send = here->data,
                                 .receive = sum->data};
    status = keel_link_run(link, &call, 1);
    if (status != KD_OK) {
      keel_link_abandon(here);
      keel_link_abandon(sum);
    }
  }
  if (status == KD_OK)
    status = keel_copy_to(sum, link->devices.device, out_tensor);
  keel_tensor_release(here);
  keel_tensor_release(sum);
  return status;
}

/* On each machine, each rank's device gets a part of that machine's reduction; the parts are
 * reduced between machines, and gathered on each. */
static keel_status in_levels(keel_link *link, const keel_link_job *job,
                             keel_tensor *from, keel_tensor *to) {
  const keel_link_group *group = &link->devices.machine;
  const keel_type *flat = NULL, *of_part = NULL;
  int64_t all = from->type->elements, each = all / group->size;
  keel_tensor *part = NULL, *sum = NULL;
  if (all % group->size) return KD_UNIMPLEMENTED;
  KEEL_TRY(keel_type_of(from->type->dtype, 1, &all, &flat));
  KEEL_TRY(keel_type_of(from->type->dtype, 1, &each, &of_part));
  KEEL_TRY(keel_tensor_on(&link->devices.device->heap, of_part, &part));
  const work scatter = {KD_REDUCE_SCATTER,
                        job->what.reduction,
                        0,
                        group,
                        from,
                        part,
                        flat,
                        of_part};
  keel_status status = direct_run(link, &scatter);
  if (status == KD_OK)
    status = reduce_between(link, job->what.reduction, part, &sum);
  const work gather = {KD_ALL_GATHER, 0, 0, group, sum, to, of_part, flat};
  if (status == KD_OK) status = direct_run(link, &gather);
  keel_tensor_release(part);
  keel_tensor_release(sum);
  return status;
}

/* The result where the member wants it. */
static keel_status deliver(const keel_link_job *job, keel_tensor *made,
                           keel_tensor **out_tensor) {
  return job->device ? keel_group_move(job->device, made, out_tensor)
                     : keel_tensor_to_host(made, out_tensor);
}

/* By the group, or where it is NULL by two levels; the device has been entered. */
static keel_status direct_exchange(keel_link *link, const keel_link_job *job,
                                   const keel_link_group *group,
                                   keel_tensor **out_tensor) {
  keel_device *device = link->devices.device;
  const keel_type *type = NULL;
  keel_tensor *from = NULL, *to = NULL;
  uint32_t size = group ? group->size : link->world.size;
  KEEL_TRY(keel_link_type_of(&job->what, size, job->value->type, &type));
  if (!type->bytes) return KD_UNIMPLEMENTED;
  KEEL_TRY(direct_place(device, job->value, &from));
  keel_status status = keel_tensor_on(&device->heap, type, &to);
  if (status == KD_OK)
    status = group ? in_group(link, job, group, from, to)
                   : in_levels(link, job, from, to);
  if (status == KD_OK) status = deliver(job, to, out_tensor);
  if (status == KD_OK) {
    atomic_fetch_add_explicit(&link->bytes, from->type->bytes,
                              memory_order_relaxed);
    atomic_fetch_add_explicit(group ? &link->direct : &link->levels, 1,
                              memory_order_relaxed);
  }
  keel_tensor_release(from);
  keel_tensor_release(to);
  return status;
}

keel_status keel_link_direct(keel_link *link, const keel_link_job *job,
                             keel_tensor **out_tensor) {
  keel_link_devices *own = &link->devices;
  keel_link_part *part = NULL;
  if (job->what.kind > KEEL_BROADCAST) return KD_UNIMPLEMENTED;
  KEEL_TRY(keel_link_agree(link, job->device));
  if (!own->device) return KD_UNIMPLEMENTED;
  KEEL_TRY(keel_link_find_part(link, &job->what, &part));
  const keel_link_group *group = part ? &part->group : &own->all;
  bool levels =
      !part && own->machine.handle && job->what.kind == KEEL_ALL_REDUCE;
  if (!group->handle && !levels) return KD_UNIMPLEMENTED;
  KEEL_TRY(keel_device_enter(own->device));
  keel_status status =
      direct_exchange(link, job, group->handle ? group : NULL, out_tensor);
  keel_lost_leave(own->device);
  return status;
}
