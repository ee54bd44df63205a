/* exchange.c - one exchange between ranks: its subgroup, and MPI's operations. */
#include <sched.h>
#include <time.h>

#include "device/context.h"
#include "memory/access.h"
#include "ranks/group/group.h"
#include "ranks/link/link.h"

#include <kd/help.h>

/* How long a wait polls, yields to others, and then sleeps between two tests. */
#define ASKS         2000
#define CROWDED_ASKS 100
#define YIELDS       4000
#define SLEEP        50000 /* nanoseconds */

#define CALLS_MOST 1025 /* a rank sends to each of 1024, and receives once */

void keel_link_rest(const keel_link *link, uint64_t asked) {
  const struct timespec nap = {0, SLEEP};
  if (asked < (link->crowded ? CROWDED_ASKS : ASKS)) return;
  if (asked < YIELDS)
    sched_yield();
  else
    nanosleep(&nap, NULL);
}

void keel_link_busy(keel_link *link, bool begins) {
  uint64_t now = keel_now();
  if (begins && !link->busy++) link->busy_since = now;
  if (!begins && !--link->busy)
    atomic_fetch_add_explicit(&link->waited, now - link->busy_since,
                              memory_order_relaxed);
}

/* Whether all have ended; those that have are gone. */
static keel_status test_all(keel_link *link, void **requests, uint32_t count,
                            bool *out_ended) {
  *out_ended = true;
  for (uint32_t i = 0; i < count; i++) {
    int ended = 0;
    if (!requests[i]) continue;
    int error = link->mpi->test(requests[i], &ended);
    if (error) return keel_link_error(link, error, "an exchange fails");
    if (ended) requests[i] = NULL;
    *out_ended &= ended != 0;
  }
  return KD_OK;
}

/* Looks, from time to time, whether waiting has a sense. */
static keel_status look_around(keel_link *link, uint64_t began) {
  pthread_mutex_lock(&link->lock);
  bool ends = link->last_words != NULL;
  pthread_mutex_unlock(&link->lock);
  if (ends) keel_link_end(link);
  keel_link_notice_lost(link);
  if (keel_link_hear(link)) return keel_tensor_query(link->failure);
  return keel_now() - began > link->timeout ? keel_link_ask(link) : KD_OK;
}

keel_status keel_link_between(keel_link *link, uint32_t asked, uint64_t began) {
  if (atomic_load_explicit(&link->pair_count, memory_order_relaxed))
    keel_link_step_pairs(link);
  if (link->failure) return keel_tensor_query(link->failure);
  keel_link_rest(link, asked);
  return asked >= CROWDED_ASKS && asked % 256 == 0 ? look_around(link, began)
                                                   : KD_OK;
}

static keel_status exchange_wait_for(keel_link *link, void **requests,
                                     uint32_t count) {
  uint64_t began = keel_now();
  bool ended = false;
  for (uint32_t asked = 0;; asked++) {
    KEEL_TRY(test_all(link, requests, count, &ended));
    if (ended) return KD_OK;
    KEEL_TRY(keel_link_between(link, asked, began));
  }
}

keel_status keel_link_run(keel_link *link, const keel_link_call *calls,
                          uint32_t count) {
  void *few[4] = {NULL};
  void **requests = count <= 4 ? few : calloc(count, sizeof *requests);
  if (!requests) return keel_no_memory(count * sizeof *requests);
  keel_status status = KD_OK;
  for (uint32_t i = 0; i < count && status == KD_OK; i++) {
    int error = link->mpi->start(&calls[i], &requests[i]);
    if (error)
      status = keel_link_error(link, error, "an exchange cannot begin");
  }
  keel_link_busy(link, true);
  if (status == KD_OK) status = exchange_wait_for(link, requests, count);
  keel_link_busy(link, false);
  if (requests != few) free(requests);
  return status;
}

/* The memory that a gather reads and writes: its own, since the caller's is freed when it fails,
 * and the module may write after that. */
typedef struct gathering {
  struct gathering *next;
  char bytes[];
} gathering;

static _Atomic(gathering *) gave_up; /* they stay as long as the process */

keel_status keel_link_collect(keel_link *link, void *comm, uint32_t ranks,
                              const void *given, uint64_t size, void *taken) {
  uint64_t all = 0, capacity = 0;
  gathering *own = NULL;
  if (!__builtin_mul_overflow(size, ranks, &all) &&
      !__builtin_add_overflow(all, size + sizeof *own, &capacity))
    own = malloc(capacity);
  if (!own) return keel_no_memory(capacity);
  const keel_link_call call = {.struct_size = sizeof call,
                               .kind = KEEL_LINK_ALL_GATHER,
                               .count = size,
                               .comm = comm,
                               .send = own->bytes + all,
                               .receive = own->bytes};
  if (size) memcpy(own->bytes + all, given, size);
  keel_status status = keel_link_run(link, &call, 1);
  if (status != KD_OK) {
    own->next = atomic_exchange(&gave_up, own);
    return status;
  }
  if (size) memcpy(taken, own->bytes, all);
  free(own);
  return KD_OK;
}

/* ---- parts ------------------------------------------------------------------------------ */

static bool is_of(const keel_link_part *part, const keel_exchange *what) {
  return part->size == what->size && part->rank_count == what->rank_count &&
         !memcmp(part->ranks, what->ranks,
                 (size_t)what->rank_count * sizeof *what->ranks);
}

/* The communicator of this rank's subgroup; all ranks get here in one order. MPI makes it in one
 * call that waits, so all ranks arrive here first: a rank that waits for them still sends and
 * receives. */
static keel_status make_part(keel_link *link, const keel_exchange *what,
                             keel_link_part **out_part) {
  size_t bytes = (size_t)what->rank_count * sizeof(int64_t);
  keel_link_part *part = calloc(1, sizeof *part + bytes);
  if (!part) return keel_no_memory(sizeof *part + bytes);
  uint32_t place = 0;
  while (what->ranks[place] != link->world.rank)
    place++;
  part->size = what->size;
  part->rank_count = what->rank_count;
  part->ranks = memcpy(part + 1, what->ranks, bytes);
  part->root = (uint32_t)what->ranks[place - place % what->size];
  const keel_link_call all_here = {.struct_size = sizeof all_here,
                                   .kind = KEEL_LINK_BARRIER};
  keel_status status = keel_link_run(link, &all_here, 1);
  if (status != KD_OK) {
    free(part);
    return status;
  }
  int error =
      link->mpi->split(place / what->size, place % what->size, &part->comm);
  if (error) {
    free(part);
    return keel_link_error(link, error, "ranks are not parted");
  }
  part->next = link->parts;
  link->parts = part;
  *out_part = part;
  return keel_link_join_part(link, part);
}

/* Whether all ranks do it as one, and their order does not matter. */
static bool is_of_all(const keel_link *link, const keel_exchange *what) {
  return !what->rank_count ||
         (what->size == link->world.size &&
          (what->kind == KEEL_BROADCAST || what->kind == KEEL_ALL_REDUCE));
}

keel_status keel_link_find_part(keel_link *link, const keel_exchange *what,
                                keel_link_part **out_part) {
  *out_part = NULL;
  if (is_of_all(link, what)) return KD_OK;
  for (keel_link_part *part = link->parts; part; part = part->next)
    if (is_of(part, what)) {
      *out_part = part;
      return KD_OK;
    }
  return make_part(link, what, out_part);
}

/* ---- kinds ------------------------------------------------------------------------------- */

keel_status keel_link_type_of(const keel_exchange *what, uint32_t size,
                              const keel_type *type,
                              const keel_type **out_type) {
  int64_t dims[KD_MAX_RANK];
  *out_type = type;
  if (!kd_dtype_size(type->dtype))
    return keel_fail(KD_UNIMPLEMENTED,
                     "elements of %s, smaller than a byte, can't be"
                     " exchanged",
                     keel_dtype_name(type->dtype));
  bool gathers = what->kind == KEEL_ALL_GATHER;
  if (!gathers && what->kind != KEEL_REDUCE_SCATTER) return KD_OK;
  memcpy(dims, type->dims, type->rank * sizeof *dims);
  if (!type->rank || (!gathers && dims[0] % size) ||
      (gathers && !keel_mul_i64(dims[0], size, &dims[0])))
    return keel_fail(KD_INVALID_ARGUMENT,
                     "the rows of X are not exchanged among %u ranks",
                     (unsigned)size);
  if (!gathers) dims[0] /= size;
  return keel_type_of(type->dtype, type->rank, dims, out_type);
}

static void permutation(const keel_link *link, const keel_link_job *job,
                        const keel_tensor *from, const keel_tensor *to,
                        keel_link_call *calls, uint32_t *out_count) {
  for (int64_t i = 0; i < job->what.rank_count; i += 2) {
    int64_t source = job->what.ranks[i], target = job->what.ranks[i + 1];
    keel_link_call call = {.struct_size = sizeof call,
                           .count = from->type->bytes,
                           .send = from->data,
                           .receive = to->data,
                           .tag = (uint32_t)(job->number & 0x7fff)};
    if (source == link->world.rank && *out_count < CALLS_MOST) {
      call.kind = KEEL_LINK_SEND;
      call.peer = (uint32_t)target;
      calls[(*out_count)++] = call;
    }
    if (target == link->world.rank && *out_count < CALLS_MOST) {
      call.kind = KEEL_LINK_RECEIVE;
      call.peer = (uint32_t)source;
      calls[(*out_count)++] = call;
    }
  }
}

static keel_status permute(keel_link *link, const keel_link_job *job,
                           const keel_tensor *from, keel_tensor *to) {
  keel_link_call *calls = calloc(CALLS_MOST, sizeof *calls);
  uint32_t count = 0;
  if (!calls) return keel_no_memory(CALLS_MOST * sizeof *calls);
  memset(to->data, 0, to->type->bytes);
  permutation(link, job, from, to, calls, &count);
  keel_status status = count ? keel_link_run(link, calls, count) : KD_OK;
  free(calls);
  return status;
}

uint32_t keel_link_root(const keel_link_part *part, const keel_exchange *what) {
  return part ? part->root : what->rank_count ? (uint32_t)what->ranks[0] : 0;
}

static keel_status run_kind(keel_link *link, const keel_link_job *job,
                            const keel_link_part *part, uint32_t size,
                            const keel_tensor *from, keel_tensor *to) {
  const keel_exchange *what = &job->what;
  uint64_t bytes = from->type->bytes;
  uint32_t root = 0;
  keel_link_call call = {.struct_size = sizeof call,
                         .reduction = what->reduction,
                         .dtype = from->type->dtype,
                         .comm = part ? part->comm : NULL,
                         .send = from->data,
                         .receive = to->data};
  if (!bytes) return KD_OK; /* of all ranks */
  switch (what->kind) {
    case KEEL_ALL_REDUCE:
      call.kind = KEEL_LINK_ALL_REDUCE;
      call.count = (uint64_t)from->type->elements;
      break;
    case KEEL_ALL_GATHER:
      call.kind = KEEL_LINK_ALL_GATHER;
      call.count = bytes;
      break;
    case KEEL_REDUCE_SCATTER:
      call.kind = KEEL_LINK_REDUCE_SCATTER;
      call.count = (uint64_t)to->type->elements;
      break;
    case KEEL_ALL_TO_ALL:
      call.kind = KEEL_LINK_ALL_TO_ALL;
      call.count = bytes / size;
      break;
    case KEEL_BROADCAST:
      call.kind = KEEL_LINK_BROADCAST;
      call.count = bytes;
      root = keel_link_root(part, what);
      call.peer = part ? 0 : root;
      if (root == link->world.rank) memcpy(to->data, from->data, bytes);
      break;
    default:
      return permute(link, job, from, to);
  }
  return keel_link_run(link, &call, 1);
}

/* Memory that an unfinished operation may still read or write: it is kept until the process
 * ends. */
typedef struct abandoned {
  struct abandoned *next;
  keel_tensor *tensor;
} abandoned;

static _Atomic(abandoned *) all_abandoned;

void keel_link_abandon(keel_tensor *tensor) {
  abandoned *made = malloc(sizeof *made);
  keel_tensor_retain(tensor); /* without memory for a note of it, it leaks */
  if (!made) return;
  made->tensor = tensor;
  made->next = atomic_exchange(&all_abandoned, made);
}

/* In host memory. */
static keel_status run_here(keel_link *link, const keel_link_job *job,
                            keel_tensor *from, keel_tensor **out_tensor) {
  keel_link_part *part = NULL;
  const keel_type *type = NULL;
  keel_tensor *to = NULL;
  uint32_t size = job->what.rank_count ? job->what.size : link->world.size;
  KEEL_TRY(keel_link_type_of(&job->what, size, from->type, &type));
  if (job->what.kind != KEEL_PERMUTE)
    KEEL_TRY(keel_link_find_part(link, &job->what, &part));
  KEEL_TRY(keel_tensor_on(&link->context->host, type, &to));
  keel_status status = run_kind(link, job, part, size, from, to);
  if (status == KD_OK) {
    *out_tensor = to;
    return KD_OK;
  }
  keel_link_abandon(from);
  keel_link_abandon(to);
  keel_tensor_release(to);
  return status;
}

static keel_status exchange_run(keel_link *link, const keel_link_job *job,
                                keel_tensor **out_tensor) {
  keel_tensor *here = NULL, *made = NULL;
  KEEL_TRY(keel_tensor_query(job->value)); /* ready, or failed */
  keel_status status = keel_link_direct(link, job, out_tensor);
  if (status == KD_UNIMPLEMENTED)
    status = keel_link_pieces(link, job, out_tensor);
  if (status != KD_UNIMPLEMENTED) return status;
  KEEL_TRY(keel_tensor_to_host(job->value, &here));
  status = run_here(link, job, here, &made);
  atomic_fetch_add_explicit(&link->bytes, here->type->bytes,
                            memory_order_relaxed);
  keel_tensor_release(here);
  if (status != KD_OK) return status;
  if (!job->device) {
    *out_tensor = made;
    return KD_OK;
  }
  status = keel_group_move(job->device, made, out_tensor);
  keel_tensor_release(made);
  return status;
}

void keel_link_exchange(keel_link *link, keel_link_job *job) {
  keel_tensor *made = NULL;
  keel_status status = link->failure ? keel_tensor_query(link->failure)
                                     : exchange_run(link, job, &made);
  if (status != KD_OK) {
    /* a rank that waited too long has reported its position */
    bool given = keel_tensor_state(job->value) != KEEL_FAILED;
    if (!link->failure && !(given && status == KD_DEADLINE_EXCEEDED))
      keel_while(status, "%s exchange %llu, %s", given ? "in" : "before",
                 (unsigned long long)job->number, link->at);
    keel_link_fail(link, status, true);
    keel_tensor_follow(job->promise, link->failure);
    return;
  }
  atomic_fetch_add_explicit(&link->exchanges, 1, memory_order_relaxed);
  keel_tensor_follow(job->promise, made);
  keel_tensor_release(made);
}
