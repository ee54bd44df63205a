/* group.c - what several GPUs do together, by NCCL.
 *
 * All members' parts are given to NCCL as one of its groups, so that none waits for a call
 * that is still to come. Where a member is lost, the others' kernels would wait for it for
 * ever: they are aborted, and the devices whose work that spoils count as lost, too.
 *
 * A group that is joined has one member here. Its communicator is one that does not block: who
 * asks again hears whether the others have come. */
#include <string.h>

#include "cudev.h"

struct kd_group {
  kd_group *next;
  pthread_mutex_t lock; /* of the communicators */
  atomic_bool doomed;   /* a member was lost while the lock was held */
  bool aborted;         /* there are none any more */
  uint32_t count;
  /* of a group that was joined: how many members it has, and which this is */
  uint32_t members, rank;
  bool whole;   /* they have come */
  bool pending; /* NCCL has a call that it has not begun yet */
  nccl_comm *comms;
  cu_event *ends; /* behind the last work of each member */
  kd_device *devices[];
};

static pthread_mutex_t all_lock = PTHREAD_MUTEX_INITIALIZER;
static kd_group *all;

/* The library is the process's. */
static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;

static kd_status group_failed(int code, const char *call) {
  return FAIL(KD_UNAVAILABLE, "NCCL: %s: %s", call, nccl.GetErrorString(code));
}

/* ---- groups ------------------------------------------------------------------------ */

static void free_events(kd_group *group) {
  for (uint32_t i = 0; i < group->count; i++)
    if (group->ends[i] && cuda_enter_anyhow(group->devices[i])) {
      cu.EventDestroy(group->ends[i]);
      cuda_leave();
    }
}

static kd_status make_events(kd_group *group) {
  for (uint32_t i = 0; i < group->count; i++) {
    CU_ENTER(group->devices[i]);
    cu_result code = cu.EventCreate(&group->ends[i], CU_DISABLE_TIMING);
    kd_status status = cuda_left(group->devices[i], code, "cuEventCreate");
    if (status != KD_OK) return status;
  }
  return KD_OK;
}

/* NCCL makes each member's context the thread's: what it leaves is thrown away. */
static kd_status make_comms(kd_group *group) {
  int *ids = cuda_host->allocate(cuda_host, group->count * sizeof *ids, 0);
  if (!ids) return FAIL(KD_OUT_OF_MEMORY, "no memory for a group");
  for (uint32_t i = 0; i < group->count; i++)
    ids[i] = group->devices[i]->id;
  kd_status status = cuda_enter(group->devices[0]);
  if (status == KD_OK) {
    int code = nccl.CommInitAll(group->comms, (int)group->count, ids);
    if (code != NCCL_OK) status = group_failed(code, "ncclCommInitAll");
    cuda_leave();
  }
  cuda_host->release(cuda_host, ids);
  return status;
}

static kd_group *group_allocate(kd_device *const *devices, uint32_t count) {
  size_t size =
      sizeof(kd_group) +
      count * (sizeof(kd_device *) + sizeof(nccl_comm) + sizeof(cu_event));
  kd_group *group = cuda_host->allocate(cuda_host, size, 0);
  if (!group) return NULL;
  memset(group, 0, size);
  group->count = count;
  group->comms = (nccl_comm *)(void *)(group->devices + count);
  group->ends = (cu_event *)(void *)(group->comms + count);
  memcpy(group->devices, devices, count * sizeof *devices);
  pthread_mutex_init(&group->lock, NULL);
  return group;
}

static void deallocate(kd_group *group) {
  free_events(group);
  pthread_mutex_destroy(&group->lock);
  cuda_host->release(cuda_host, group);
}

static kd_status find_nccl(void) {
  const char *path = cuda_host->option(cuda_host, "nccl"), *why = NULL;
  if (path && !strcmp(path, "off"))
    return FAIL(KD_UNIMPLEMENTED, "option nccl is off");
  pthread_mutex_lock(&opening);
  if (!nccl.version) why = nccl_api_open(path);
  pthread_mutex_unlock(&opening);
  return why ? FAIL(KD_UNIMPLEMENTED, "%s", why) : KD_OK;
}

static void enlist(kd_group *group) {
  pthread_mutex_lock(&all_lock);
  group->next = all;
  all = group;
  pthread_mutex_unlock(&all_lock);
}

static kd_status group_create(kd_device *const *devices, uint32_t count,
                              kd_group **out_group) {
  kd_status found = find_nccl();
  if (found != KD_OK) return found;
  kd_group *group = group_allocate(devices, count);
  if (!group) return FAIL(KD_OUT_OF_MEMORY, "no memory for a group");
  kd_status status = make_events(group);
  if (status == KD_OK) status = make_comms(group);
  if (status != KD_OK) {
    deallocate(group);
    return status == KD_UNAVAILABLE ? KD_UNIMPLEMENTED : status;
  }
  enlist(group);
  *out_group = group;
  return KD_OK;
}

static void group_destroy(kd_group *group) {
  pthread_mutex_lock(&all_lock);
  kd_group **at = &all;
  while (*at != group)
    at = &(*at)->next;
  *at = group->next;
  pthread_mutex_unlock(&all_lock);
  bool entered = cuda_enter_anyhow(group->devices[0]);
  for (uint32_t i = 0; !group->aborted && i < group->count; i++)
    if (group->members && !group->whole)
      nccl.CommAbort(group->comms[i]);
    else
      nccl.CommDestroy(group->comms[i]);
  if (entered) cuda_leave();
  deallocate(group);
}

/* ---- lost members -------------------------------------------------------------------- */

/* Under the lock, once: whoever's work is not done has results that nobody may use. */
static void abort_all(kd_group *group, const char *why) {
  if (group->aborted) return;
  group->aborted = true;
  for (uint32_t i = 0; i < group->count; i++) {
    kd_device *d = group->devices[i];
    if (cuda_why_lost(d) || !cuda_enter_anyhow(d)) continue;
    bool busy = cu.EventQuery(group->ends[i]) == CU_NOT_READY;
    cuda_leave();
    if (busy) cuda_lose(d, "its work with others was aborted", why);
  }
  bool entered = cuda_enter_anyhow(group->devices[0]);
  for (uint32_t i = 0; i < group->count; i++)
    nccl.CommAbort(group->comms[i]);
  if (entered) cuda_leave();
}

static const char *why_any_lost(const kd_group *group) {
  const char *why = NULL;
  for (uint32_t i = 0; i < group->count && !why; i++)
    why = cuda_why_lost(group->devices[i]);
  return why;
}

static void look_after(kd_group *group) {
  const char *why = why_any_lost(group);
  if (why) abort_all(group, why);
}

/* A device that it loses may be in groups before it: as often as there is one. */
void cuda_groups_lost(void) {
  pthread_mutex_lock(&all_lock);
  for (kd_group *group = all; group;) {
    kd_group *next = group->next;
    if (why_any_lost(group) && !atomic_exchange(&group->doomed, true) &&
        pthread_mutex_trylock(&group->lock) == 0) { /* else its holder sees */
      look_after(group);
      pthread_mutex_unlock(&group->lock);
      next = all;
    }
    group = next;
  }
  pthread_mutex_unlock(&all_lock);
}

/* ---- groups of several processes -------------------------------------------------------- */

/* NCCL's id, and behind it a mark of ours. */
static const char mark[] = "keel's cuda plugin, by NCCL";
#define MARK_AT sizeof(nccl_id)

static kd_status find_joining(void) {
  kd_status found = find_nccl();
  if (found != KD_OK || nccl.joins) return found;
  return FAIL(KD_UNIMPLEMENTED,
              "NCCL (version %d) is older than 2.14: several processes have to"
              " wait for each other in it",
              nccl.version);
}

static kd_status group_make_id(kd_device *device, uint32_t flags,
                               kd_group_id *out_id) {
  nccl_id id;
  if (flags & ~KD_GROUP_MACHINES)
    return FAIL(KD_UNIMPLEMENTED, "unknown flags 0x%x", flags);
  kd_status status = find_joining();
  if (status == KD_OK) status = cuda_enter(device);
  if (status != KD_OK) return status;
  int code = nccl.GetUniqueId(&id);
  cuda_leave();
  if (code != NCCL_OK) return group_failed(code, "ncclGetUniqueId");
  memset(out_id, 0, sizeof *out_id);
  memcpy(out_id->bytes, &id, sizeof id);
  memcpy(out_id->bytes + MARK_AT, mark, sizeof mark);
  return KD_OK;
}

static kd_status make_member(kd_group *group, const kd_group_id *id) {
  nccl_config config = {.size = sizeof config,
                        .magic = NCCL_CONFIG_MAGIC,
                        .version = NCCL_CONFIG_VERSION,
                        .blocking = 0};
  nccl_id own;
  memcpy(&own, id->bytes, sizeof own);
  kd_status status = make_events(group);
  if (status == KD_OK) status = cuda_enter(group->devices[0]);
  if (status != KD_OK) return status;
  int code = nccl.CommInitRankConfig(&group->comms[0], (int)group->members, own,
                                     (int)group->rank, &config);
  cuda_leave();
  return code == NCCL_OK || code == NCCL_IN_PROGRESS
             ? KD_OK
             : group_failed(code, "ncclCommInitRankConfig");
}

static kd_status group_join(kd_device *device, const kd_join *what,
                            kd_group **out_group) {
  if (what->flags)
    return FAIL(KD_UNIMPLEMENTED, "unknown flags 0x%x", what->flags);
  if (!what->size || what->rank >= what->size)
    return FAIL(KD_INVALID_ARGUMENT, "member %u of %u", what->rank, what->size);
  if (memcmp(what->id->bytes + MARK_AT, mark, sizeof mark) != 0)
    return FAIL(KD_INVALID_ARGUMENT, "the id is not of this plugin");
  kd_status status = find_joining();
  if (status != KD_OK) return status;
  kd_group *group = group_allocate(&device, 1);
  if (!group) return FAIL(KD_OUT_OF_MEMORY, "no memory for a group");
  group->members = what->size;
  group->rank = what->rank;
  status = make_member(group, what->id);
  if (status != KD_OK) {
    deallocate(group);
    return status;
  }
  enlist(group);
  *out_group = group;
  return KD_OK;
}

/* How NCCL gets on. Under the lock. */
static kd_status group_ask(kd_group *group) {
  int code = NCCL_OK;
  int asked = nccl.CommGetAsyncError(group->comms[0], &code);
  if (asked != NCCL_OK) code = asked;
  if (code == NCCL_IN_PROGRESS) return KD_BUSY;
  if (code != NCCL_OK)
    return group_failed(code, "a group of several processes");
  group->whole = true;
  return KD_OK;
}

static kd_status given_up(void) {
  return FAIL(KD_ABORTED, "the group was aborted");
}

static kd_status group_status(kd_group *group) {
  kd_status status = cuda_lost(group->devices[0]);
  if (status != KD_OK || !group->members) return status;
  if (pthread_mutex_trylock(&group->lock) != 0) return KD_OK; /* it works */
  status = group->aborted ? given_up() : group_ask(group);
  if (status == KD_BUSY && group->whole) status = KD_OK; /* with a call */
  pthread_mutex_unlock(&group->lock);
  return status;
}

static void group_abort(kd_group *group) {
  if (!group->members) return;
  pthread_mutex_lock(&group->lock);
  abort_all(group, "its group was aborted");
  pthread_mutex_unlock(&group->lock);
}

/* ---- work ------------------------------------------------------------------------------ */

static int group_type_of(kd_dtype dtype) {
  static const int types[KD_DTYPE_COUNT] = {
      [KD_F32] = NCCL_F32 + 1, [KD_U8] = NCCL_U8 + 1,
      [KD_I8] = NCCL_I8 + 1,   [KD_I32] = NCCL_I32 + 1,
      [KD_I64] = NCCL_I64 + 1, [KD_F16] = NCCL_F16 + 1,
      [KD_F64] = NCCL_F64 + 1, [KD_U32] = NCCL_U32 + 1,
      [KD_U64] = NCCL_U64 + 1, [KD_BF16] = NCCL_BF16 + 1};
  return dtype < KD_DTYPE_COUNT ? types[dtype] - 1 : -1;
}

static kd_status cuda_group_check(const kd_group *group,
                                  const kd_collective *what) {
  bool reduces = what->kind == KD_ALL_REDUCE || what->kind == KD_REDUCE_SCATTER;
  if (what->flags || what->kind > KD_ALL_TO_ALL)
    return FAIL(KD_UNIMPLEMENTED, "no collective %u with flags 0x%x",
                what->kind, what->flags);
  if (reduces && what->reduction > KD_REDUCE_MAX)
    return FAIL(KD_UNIMPLEMENTED, "no reduction %u", what->reduction);
  if (reduces && group_type_of(what->outputs[0].dtype) < 0)
    return FAIL(KD_UNIMPLEMENTED, "NCCL reduces no elements of type %u",
                what->outputs[0].dtype);
  for (uint32_t i = 0; i < group->count; i++) {
    kd_status status = cuda_lost(group->devices[i]);
    if (status != KD_OK) return status;
    if (!what->streams[i] || what->streams[i]->common.recording)
      return FAIL(KD_UNIMPLEMENTED,
                  "work of several devices is in no recording, and in streams");
  }
  return group->aborted
             ? group->members
                   ? given_up()
                   : FAIL(KD_ABORTED, "a member was lost: make the group anew")
             : KD_OK;
}

static void *group_place_of(const kd_tensor *tensor) {
  return tensor->dtype == KD_NONE
             ? NULL
             : (void *)(uintptr_t)(tensor->buffer->memory + tensor->offset);
}

static bool goes_on(int code) {
  return code == NCCL_OK || code == NCCL_IN_PROGRESS;
}

/* A part to each member, and one from each. */
static int group_turn(uint32_t members, const kd_tensor *in,
                      const kd_tensor *out, nccl_comm comm, cu_stream queue) {
  size_t part = (size_t)in->size / members;
  const char *from = group_place_of(in);
  char *to = group_place_of(out);
  int code = NCCL_OK;
  for (uint32_t i = 0; i < members && goes_on(code); i++) {
    code = nccl.Send(from + i * part, part, NCCL_U8, (int)i, comm, queue);
    if (goes_on(code))
      code = nccl.Recv(to + i * part, part, NCCL_U8, (int)i, comm, queue);
  }
  return code;
}

/* One member's part; what is only moved goes as bytes. */
static int call(const kd_group *group, const kd_collective *what, uint32_t i) {
  static const int reductions[] = {NCCL_SUM, NCCL_PRODUCT, NCCL_MIN, NCCL_MAX};
  const kd_tensor *in = &what->inputs[i], *out = &what->outputs[i];
  void *from = group_place_of(in), *to = group_place_of(out);
  nccl_comm comm = group->comms[i];
  cu_stream queue = what->streams[i]->lane.queue;
  int type = group_type_of(out->dtype);
  switch (what->kind) {
    case KD_ALL_REDUCE:
      return nccl.AllReduce(from, to, (size_t)kd_elements(out), type,
                            reductions[what->reduction], comm, queue);
    case KD_REDUCE_SCATTER:
      return nccl.ReduceScatter(from, to, (size_t)kd_elements(out), type,
                                reductions[what->reduction], comm, queue);
    case KD_ALL_GATHER:
      return nccl.AllGather(from, to, (size_t)in->size, NCCL_U8, comm, queue);
    case KD_ALL_TO_ALL:
      return group_turn(group->members ? group->members : group->count, in, out,
                        comm, queue);
    default:
      return nccl.Broadcast(i + group->rank == what->root ? from : to, to,
                            (size_t)out->size, NCCL_U8, (int)what->root, comm,
                            queue);
  }
}

/* NCCL begins nothing before the end of its group. */
static kd_status call_all(const kd_group *group, const kd_collective *what) {
  CU_ENTER(group->devices[0]);
  int code = nccl.GroupStart();
  for (uint32_t i = 0; i < group->count && goes_on(code); i++)
    code = call(group, what, i);
  int end = nccl.GroupEnd();
  cuda_leave();
  if (goes_on(code)) code = end;
  return goes_on(code) ? KD_OK : group_failed(code, "a collective");
}

static kd_status mark_ends(const kd_group *group, const kd_collective *what) {
  for (uint32_t i = 0; i < group->count; i++) {
    CU_ENTER(group->devices[i]);
    cu_result code =
        cu.EventRecord(group->ends[i], what->streams[i]->lane.queue);
    kd_status status = cuda_left(group->devices[i], code, "cuEventRecord");
    if (status != KD_OK) return status;
  }
  return KD_OK;
}

static kd_status group_enqueue(kd_group *group, const kd_collective *what) {
  pthread_mutex_lock(&group->lock);
  kd_status status = cuda_group_check(group, what);
  if (status == KD_OK && !group->pending) status = call_all(group, what);
  if (status == KD_OK && group->members) status = group_ask(group);
  group->pending = status == KD_BUSY; /* the host makes the call again */
  if (status == KD_OK) status = mark_ends(group, what);
  if (atomic_load(&group->doomed)) look_after(group);
  pthread_mutex_unlock(&group->lock);
  return status;
}

const kd_collective_table cuda_collectives = {
    .struct_size = sizeof(kd_collective_table),
    .create = group_create,
    .destroy = group_destroy,
    .enqueue = group_enqueue,
    .make_id = group_make_id,
    .join = group_join,
    .status = group_status,
    .abort = group_abort,
};
