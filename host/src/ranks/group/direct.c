/* direct.c - collectives that a plugin's devices perform among themselves: one call
 * enqueues each member's part on its stream. */
#include "device/backoff.h"
#include "device/failures.h"
#include "device/lost.h"
#include "device/work.h"
#include "eager/launch.h"
#include "memory/copy.h"
#include "ranks/group/group.h"

/* The plugin's arguments, and the memory that they borrow. */
typedef struct parts {
  kd_collective what;
  kd_stream **streams;
  kd_tensor *views; /* inputs, then outputs */
  keel_tensor **plain;
} parts;

/* Groups that share devices must be enqueued in the same order on all of their streams;
 * otherwise they could deadlock. */
static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;

static void lock_streams(const keel_group *group) {
  pthread_mutex_lock(&one_at_a_time);
  for (uint32_t i = 0; i < group->size; i++)
    pthread_mutex_lock(&group->by_address[i]->stream_lock);
}

static void unlock_streams(const keel_group *group) {
  for (uint32_t i = group->size; i-- > 0;)
    pthread_mutex_unlock(&group->by_address[i]->stream_lock);
  pthread_mutex_unlock(&one_at_a_time);
}

/* Waits briefly for one member's stream, a different one each time: the plugin does not say
 * which is full. */
static bool backoff_retry(const keel_group *group, uint32_t try,
                          keel_backoff *backoff, kd_status *status) {
  keel_device *device = group->devices[try % group->size];
  return keel_backoff_retry(device, device->stream, backoff, status);
}

/* Records a member's part of it, and the memory that this writes. */
static void direct_note(keel_device *device, const kd_collective *what,
                        const keel_tensor *plain, const keel_tensor *output) {
  static const char *const names[] = {"AllReduce", "AllGather", "ReduceScatter",
                                      "Broadcast", "AllToAll"};
  const keel_type *type = plain ? plain->type : output->type;
  const keel_work_name name = {names[what->kind], "", &type, 1, keel_type_text};
  uint64_t ticket = keel_failures_ticket(device);
  keel_failures_writes(output->buffer, ticket);
  keel_work_note(device, ticket, &name);
}

/* Under the streams' locks. Work that one stream holds back would block the others. */
static kd_status direct_enqueue(const keel_group *group,
                                const kd_collective *what,
                                keel_tensor *const *plain,
                                keel_tensor *const *outputs) {
  const keel_plugin *plugin = group->devices[0]->plugin;
  keel_backoff backoff = {0};
  uint32_t tries = 0;
  kd_status status;
  for (uint32_t i = 0; i < group->size; i++) {
    if (plain[i]) KEEL_TRY(keel_failures_check_locked(plain[i]->buffer));
    direct_note(group->devices[i], what, plain[i], outputs[i]);
  }
  do
    status = plugin->collectives.enqueue(group->handle, what);
  while (backoff_retry(group, tries++, &backoff, &status));
  for (uint32_t i = 0; status == KD_OK && plugin->streams.flush &&
                       i < group->size && what->streams[i];
       i++)
    status = plugin->streams.flush(what->streams[i]);
  return status;
}

static void fill_view(kd_tensor *view, const keel_tensor *tensor) {
  const keel_type *type = tensor->type;
  *view = (kd_tensor){.size = type->bytes,
                      .dims = type->dims,
                      .dtype = type->dtype,
                      .rank = type->rank};
  keel_launch_point(view, tensor);
}

/* An input in the form that the plugin needs: row-major, in the device's own memory. */
static keel_status place_input(keel_device *device, keel_tensor *tensor,
                               keel_tensor **out_plain) {
  if (keel_tensor_location(tensor) != device)
    return keel_copy_to(tensor, device, out_plain);
  return keel_copy_rows(tensor, out_plain);
}

static keel_status fill_parts(const keel_group_call *call, parts *all,
                              keel_tensor **outputs) {
  const keel_group *group = call->group;
  for (uint32_t i = 0; i < group->size; i++) {
    keel_device *device = group->devices[i];
    all->streams[i] = device->stream;
    if (call->kind != KD_BROADCAST || i == call->root) {
      KEEL_TRY(place_input(device, call->inputs[i], &all->plain[i]));
      fill_view(&all->views[i], all->plain[i]);
    }
    KEEL_TRY(keel_tensor_on(&device->heap, call->out_type, &outputs[i]));
    fill_view(&all->views[group->size + i], outputs[i]);
  }
  all->what = (kd_collective){.struct_size = sizeof all->what,
                              .kind = call->kind,
                              .reduction = call->reduction,
                              .root = call->root,
                              .streams = all->streams,
                              .inputs = all->views,
                              .outputs = all->views + group->size};
  return KD_OK;
}

/* Reports the loss of a member, if one is lost; otherwise the failure itself. */
static kd_status direct_judge(const keel_group *group, kd_status status) {
  if (status == KD_UNIMPLEMENTED) return status;
  bool said = keel_has_error();
  for (uint32_t i = 0; status != KD_OK && i < group->size; i++) {
    kd_status judged = keel_device_check(group->devices[i], status);
    if (judged != status || judged == KD_DEVICE_LOST) return judged;
  }
  if (status != KD_OK && !said)
    keel_fail(status, "no reason given (%s)", keel_status_name(status));
  return status;
}

/* Called with all members entered. */
static keel_status direct_run(const keel_group_call *call,
                              keel_tensor **outputs) {
  const keel_group *group = call->group;
  size_t size = group->size;
  parts all = {.streams = calloc(size, sizeof *all.streams),
               .views = calloc(2 * size, sizeof *all.views),
               .plain = calloc(size, sizeof *all.plain)};
  keel_status status = all.streams && all.views && all.plain
                           ? fill_parts(call, &all, outputs)
                           : keel_no_memory(2 * size * sizeof *all.views);
  if (status == KD_OK) {
    keel_clear_error();
    lock_streams(group);
    status = direct_enqueue(group, &all.what, all.plain, outputs);
    unlock_streams(group);
    status = direct_judge(group, status);
  }
  for (size_t i = 0; all.plain && i < size; i++)
    keel_tensor_release(all.plain[i]);
  free(all.plain);
  free(all.views);
  free(all.streams);
  return status;
}

keel_status keel_group_direct(const keel_group_call *call,
                              keel_tensor **outputs) {
  const keel_group *group = call->group;
  uint32_t entered = 0;
  keel_status status = KD_OK;
  while (entered < group->size && status == KD_OK) {
    status = keel_device_enter(group->devices[entered]);
    if (status == KD_OK) entered++;
  }
  if (status == KD_OK) status = direct_run(call, outputs);
  while (entered-- > 0)
    keel_lost_leave(group->devices[entered]);
  for (uint32_t i = 0; status != KD_OK && i < group->size; i++) {
    keel_tensor_release(outputs[i]);
    outputs[i] = NULL;
  }
  return status;
}
