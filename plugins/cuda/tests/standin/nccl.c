/* nccl.c - a stand-in for NCCL: the members' streams meet in host functions, and the last
 * that comes does the work of all. It refuses what is not as NCCL's header has it. */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "library.h"
#include "numbers.h"

#define API                               __attribute__((visibility("default")))
#define DECLARE(field, symbol, arguments) API int symbol arguments;
NCCL_FUNCTIONS(DECLARE)
NCCL_JOINING(DECLARE)
#undef DECLARE
API int ncclGetVersion(int *version);
API const char *ncclGetErrorString(int status);
extern cu_result cuLaunchHostFunc(cu_stream stream, cu_host_function call,
                                  void *context);
extern cu_result cuDevicePrimaryCtxRetain(cu_context *context,
                                          cu_device device);
extern cu_result cuCtxPushCurrent_v2(cu_context context);
extern cu_result cuCtxPopCurrent_v2(cu_context *context);

enum { OK = 0, UNHANDLED = 1, INVALID = 4, REMOTE = 6, BUSY = 7, MOST = 8 };
enum { REDUCE, SCATTER, GATHER, BROADCAST, TURN };

/* What the communicators of one call of ncclCommInitAll, or with one id, share. */
typedef struct party {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  int size, users;
  bool aborted;
  /* whose members join one by one: */
  struct party *next;
  nccl_id id;
  bool joined, has[MOST];
  struct meeting *open; /* meetings to which some members have not come yet */
} party;

struct nccl_comm_of {
  party *party;
  int rank;
  cu_context context;
  unsigned calls; /* so far */
  bool asked;     /* after the last one: it is in progress once */
};

typedef struct call {
  int kind, type, reduction, root;
  size_t count;
  const void *from;
  void *to;
  nccl_comm comm;
  cu_stream stream;
  struct meeting *meeting;
  party *party; /* which outlives the communicator where that is aborted */
  /* of sends and receives, by their other member */
  const void *sent[MOST];
  void *received[MOST];
} call;

/* All members' parts of one collective. */
typedef struct meeting {
  call calls[MOST];
  struct meeting *next; /* of those of members that joined */
  unsigned number;
  int size, added, come, gone;
  bool done;
} meeting;

static _Thread_local call waiting[64];
static _Thread_local int depth, count_waiting;
static unsigned done_count;

static void meet(void *argument);

__attribute__((destructor)) static void tell(void) {
  if (getenv("STANDIN_TELL")) fprintf(stderr, "nccl: %u rounds\n", done_count);
}

API int ncclGetVersion(int *version) {
  *version = 22800;
  return OK;
}

API const char *ncclGetErrorString(int status) {
  return status == INVALID ? "invalid argument" : "unhandled cuda error";
}

/* ---- communicators ----------------------------------------------------------------- */

API int ncclCommInitAll(nccl_comm *comms, int count, const int *devices) {
  if (getenv("STANDIN_NO_NCCL")) return UNHANDLED;
  if (count < 1 || count > MOST) return INVALID;
  party *shared = calloc(1, sizeof *shared);
  if (!shared) return UNHANDLED;
  pthread_mutex_init(&shared->lock, NULL);
  pthread_cond_init(&shared->changed, NULL);
  shared->size = shared->users = count;
  for (int i = 0; i < count; i++) {
    comms[i] = calloc(1, sizeof **comms);
    if (!comms[i]) return UNHANDLED;
    comms[i]->party = shared;
    comms[i]->rank = i;
    cuDevicePrimaryCtxRetain(&comms[i]->context, devices[i]);
  }
  return OK;
}

/* ---- communicators of members that join ------------------------------------------------- */

static pthread_mutex_t parties_lock = PTHREAD_MUTEX_INITIALIZER;
static party *parties;

API int ncclGetUniqueId(nccl_id *id) {
  static unsigned made;
  memset(id, 0, sizeof *id);
  snprintf(id->bytes, sizeof id->bytes, "stand-in %u",
           __atomic_add_fetch(&made, 1, __ATOMIC_RELAXED));
  return getenv("STANDIN_NO_NCCL") ? UNHANDLED : OK;
}

/* With the lock. */
static party *party_of(const nccl_id *id, int size) {
  party *shared = parties;
  while (shared && memcmp(&shared->id, id, sizeof *id) != 0)
    shared = shared->next;
  if (shared) return shared;
  shared = calloc(1, sizeof *shared);
  if (!shared) return NULL;
  pthread_mutex_init(&shared->lock, NULL);
  pthread_cond_init(&shared->changed, NULL);
  shared->size = size;
  shared->joined = true;
  shared->id = *id;
  shared->next = parties;
  parties = shared;
  return shared;
}

API int ncclCommInitRankConfig(nccl_comm *comm, int count, nccl_id id, int rank,
                               nccl_config *config) {
  cu_context current = NULL;
  if (count < 1 || count > MOST || rank < 0 || rank >= count || !config ||
      config->magic != NCCL_CONFIG_MAGIC || config->size < sizeof *config ||
      config->blocking)
    return INVALID;
  if (cuCtxPopCurrent_v2(&current) != CU_OK) return UNHANDLED;
  cuCtxPushCurrent_v2(current);
  nccl_comm made = calloc(1, sizeof *made);
  pthread_mutex_lock(&parties_lock);
  party *shared = made ? party_of(&id, count) : NULL;
  bool fits = shared && shared->size == count && !shared->has[rank];
  if (fits) {
    pthread_mutex_lock(&shared->lock);
    shared->has[rank] = true;
    shared->users++;
    pthread_mutex_unlock(&shared->lock);
  }
  pthread_mutex_unlock(&parties_lock);
  if (!fits) {
    free(made);
    return INVALID;
  }
  made->party = shared;
  made->rank = rank;
  made->context = current;
  *comm = made;
  return BUSY;
}

API int ncclCommGetAsyncError(nccl_comm comm, int *code) {
  party *shared = comm->party;
  int come = 0;
  pthread_mutex_lock(&shared->lock);
  for (int i = 0; i < MOST; i++)
    come += shared->has[i];
  *code = shared->aborted                                              ? REMOTE
          : shared->joined && come < shared->size                      ? BUSY
          : __atomic_exchange_n(&comm->asked, false, __ATOMIC_RELAXED) ? BUSY
                                                                       : OK;
  pthread_mutex_unlock(&shared->lock);
  return OK;
}

/* The call is the next of its communicator; its stream begins it at once. */
static int begin_joined(const call *what) {
  nccl_comm comm = what->comm;
  party *shared = comm->party;
  cu_context before = NULL;
  pthread_mutex_lock(&shared->lock);
  meeting *r = shared->open;
  while (r && r->number != comm->calls)
    r = r->next;
  if (!r && (r = calloc(1, sizeof *r))) {
    r->number = comm->calls;
    r->size = shared->size;
    r->next = shared->open;
    shared->open = r;
  }
  if (r) {
    r->calls[comm->rank] = *what;
    r->calls[comm->rank].meeting = r;
    r->calls[comm->rank].party = shared;
    if (++r->added == r->size) {
      meeting **at = &shared->open;
      while (*at != r)
        at = &(*at)->next;
      *at = r->next;
    }
    comm->calls++;
    comm->asked = true;
  }
  pthread_mutex_unlock(&shared->lock);
  if (!r) return UNHANDLED;
  cuCtxPushCurrent_v2(comm->context);
  int code = cuLaunchHostFunc(what->stream, meet, &r->calls[comm->rank]);
  cuCtxPopCurrent_v2(&before);
  return code == CU_OK ? BUSY : UNHANDLED;
}

static int let_go(nccl_comm comm, bool aborted) {
  party *shared = comm->party;
  if (shared->joined) { /* parties stay: streams and ids know them */
    pthread_mutex_lock(&shared->lock);
    shared->aborted |= aborted;
    pthread_cond_broadcast(&shared->changed);
    pthread_mutex_unlock(&shared->lock);
    free(comm);
    return OK;
  }
  pthread_mutex_lock(&shared->lock);
  shared->aborted |= aborted;
  bool last = --shared->users == 0;
  pthread_cond_broadcast(&shared->changed);
  pthread_mutex_unlock(&shared->lock);
  if (last && !aborted) free(shared); /* streams may still be in it */
  free(comm);
  return OK;
}

API int ncclCommDestroy(nccl_comm comm) {
  return let_go(comm, false);
}

API int ncclCommAbort(nccl_comm comm) {
  return let_go(comm, true);
}

/* ---- the work of all ------------------------------------------------------------------ */

static size_t size_of(int type) {
  return type == NCCL_I8 || type == NCCL_U8                         ? 1
         : type == NCCL_F16 || type == NCCL_BF16                    ? 2
         : type == NCCL_I64 || type == NCCL_U64 || type == NCCL_F64 ? 8
                                                                    : 4;
}

static double get(int type, const void *data, size_t i) {
  switch (type) {
    case NCCL_U8:
      return ((const uint8_t *)data)[i];
    case NCCL_U32:
      return ((const uint32_t *)data)[i];
    case NCCL_I64:
      return (double)((const int64_t *)data)[i];
    case NCCL_U64:
      return (double)((const uint64_t *)data)[i];
    default:
      return load(type == NCCL_F32    ? F32
                  : type == NCCL_F64  ? F64
                  : type == NCCL_F16  ? F16
                  : type == NCCL_BF16 ? BF16
                  : type == NCCL_I8   ? I8
                                      : I32,
                  data, (int64_t)i);
  }
}

static void put(int type, void *data, size_t i, double value) {
  switch (type) {
    case NCCL_U8:
      ((uint8_t *)data)[i] = (uint8_t)value;
      break;
    case NCCL_U32:
      ((uint32_t *)data)[i] = (uint32_t)value;
      break;
    case NCCL_I64:
      ((int64_t *)data)[i] = (int64_t)value;
      break;
    case NCCL_U64:
      ((uint64_t *)data)[i] = (uint64_t)value;
      break;
    default:
      store(type == NCCL_F32    ? F32
            : type == NCCL_F64  ? F64
            : type == NCCL_F16  ? F16
            : type == NCCL_BF16 ? BF16
            : type == NCCL_I8   ? I8
                                : I32,
            data, (int64_t)i, value);
  }
}

static double reduced(const meeting *r, size_t at) {
  const call *c = &r->calls[0];
  double all = get(c->type, c->from, at);
  for (int i = 1; i < r->size; i++) {
    double x = get(c->type, r->calls[i].from, at);
    all = c->reduction == NCCL_SUM       ? all + x
          : c->reduction == NCCL_PRODUCT ? all * x
          : c->reduction == NCCL_MIN     ? (x < all ? x : all)
                                         : (x > all ? x : all);
  }
  return all;
}

/* Of member `rank`; inputs may be outputs, too, so it goes elsewhere first. */
static void make(const meeting *r, int rank, char *to) {
  const call *c = &r->calls[rank];
  size_t size = size_of(c->type), bytes = c->count * size;
  size_t begin = c->kind == SCATTER ? (size_t)rank * c->count : 0;
  if (c->kind == BROADCAST) memcpy(to, r->calls[c->root].from, bytes);
  for (int i = 0; c->kind == GATHER && i < r->size; i++)
    memcpy(to + (size_t)i * bytes, r->calls[i].from, bytes);
  for (size_t i = 0; c->kind <= SCATTER && i < c->count; i++)
    put(c->type, to, i, reduced(r, begin + i));
}

/* Each send has its receive. */
static void turn(const meeting *r) {
  for (int i = 0; i < r->size; i++)
    for (int k = 0; k < r->size; k++)
      if (r->calls[i].sent[k] && r->calls[k].received[i])
        memcpy(r->calls[k].received[i], r->calls[i].sent[k], r->calls[i].count);
}

static void do_all(meeting *r) {
  __atomic_fetch_add(&done_count, 1, __ATOMIC_RELAXED);
  if (r->calls[0].kind == TURN) {
    turn(r);
    return;
  }
  const call *c = &r->calls[0];
  size_t bytes =
      c->count * size_of(c->type) * (size_t)(c->kind == GATHER ? r->size : 1);
  char *made = malloc(bytes * (size_t)r->size + 1);
  for (int i = 0; made && i < r->size; i++)
    make(r, i, made + (size_t)i * bytes);
  for (int i = 0; made && i < r->size; i++)
    memcpy(r->calls[i].to, made + (size_t)i * bytes, bytes);
  free(made);
}

/* On the thread of a member's stream. */
static void meet(void *argument) {
  call *c = argument;
  meeting *r = c->meeting;
  party *shared = c->party;
  pthread_mutex_lock(&shared->lock);
  if (++r->come == r->size && !shared->aborted) {
    do_all(r);
    r->done = true;
    pthread_cond_broadcast(&shared->changed);
  }
  while (!r->done && !shared->aborted)
    pthread_cond_wait(&shared->changed, &shared->lock);
  bool last = ++r->gone == r->size;
  pthread_mutex_unlock(&shared->lock);
  if (last) free(r);
}

/* ---- calls ------------------------------------------------------------------------------ */

/* Gives a meeting to the streams when all its members have come. */
static int begin(meeting *r) {
  int status = OK, size = r->size; /* the last one's stream may free it */
  for (int i = 0; i < size; i++) {
    call *c = &r->calls[i];
    cu_context before = NULL;
    c->meeting = r;
    c->party = c->comm->party;
    cuCtxPushCurrent_v2(c->comm->context);
    if (cuLaunchHostFunc(c->stream, meet, c) != CU_OK) status = UNHANDLED;
    cuCtxPopCurrent_v2(&before);
  }
  return status;
}

static int flush(void) {
  int n = count_waiting;
  count_waiting = 0;
  if (!n) return OK;
  if (waiting[0].comm->party->joined)
    return n == 1 ? begin_joined(&waiting[0]) : INVALID;
  if (n != waiting[0].comm->party->size) return INVALID; /* it would hang */
  meeting *r = calloc(1, sizeof *r);
  if (!r) return UNHANDLED;
  r->size = n;
  for (int i = 0; i < n; i++) {
    const call *c = &waiting[i];
    if (c->kind != waiting[0].kind || c->type != waiting[0].type ||
        c->count != waiting[0].count || c->root != waiting[0].root ||
        c->comm->party != waiting[0].comm->party) {
      free(r);
      return INVALID;
    }
    r->calls[c->comm->rank] = *c;
  }
  return begin(r); // NOLINT(clang-analyzer-unix.Malloc): meet frees it
}

static int add(call what) {
  if (!what.comm || !what.stream || (!what.to && what.kind != TURN) ||
      what.type < NCCL_I8 || what.type > NCCL_BF16 || count_waiting == 64)
    return INVALID;
  waiting[count_waiting++] = what;
  return depth ? OK : flush();
}

API int ncclGroupStart(void) {
  depth++;
  return OK;
}

API int ncclGroupEnd(void) {
  if (!depth) return INVALID;
  return --depth ? OK : flush();
}

API int ncclAllReduce(const void *from, void *to, size_t count, int type,
                      int reduction, nccl_comm comm, cu_stream stream) {
  return add((call){.kind = REDUCE,
                    .type = type,
                    .reduction = reduction,
                    .count = count,
                    .from = from,
                    .to = to,
                    .comm = comm,
                    .stream = stream});
}

API int ncclReduceScatter(const void *from, void *to, size_t count, int type,
                          int reduction, nccl_comm comm, cu_stream stream) {
  return add((call){.kind = SCATTER,
                    .type = type,
                    .reduction = reduction,
                    .count = count,
                    .from = from,
                    .to = to,
                    .comm = comm,
                    .stream = stream});
}

API int ncclAllGather(const void *from, void *to, size_t count, int type,
                      nccl_comm comm, cu_stream stream) {
  return add((call){.kind = GATHER,
                    .type = type,
                    .count = count,
                    .from = from,
                    .to = to,
                    .comm = comm,
                    .stream = stream});
}

API int ncclBroadcast(const void *from, void *to, size_t count, int type,
                      int root, nccl_comm comm, cu_stream stream) {
  return add((call){.kind = BROADCAST,
                    .type = type,
                    .root = root,
                    .count = count,
                    .from = from,
                    .to = to,
                    .comm = comm,
                    .stream = stream});
}

/* Those of one communicator are one call, whose other ends are in the others' calls. */
static call *turn_of(size_t count, int type, nccl_comm comm, cu_stream stream) {
  for (int i = 0; i < count_waiting; i++)
    if (waiting[i].kind == TURN && waiting[i].comm == comm) return &waiting[i];
  call what = {.kind = TURN,
               .type = type,
               .count = count * size_of(type),
               .comm = comm,
               .stream = stream};
  return depth && add(what) == OK ? &waiting[count_waiting - 1] : NULL;
}

API int ncclSend(const void *from, size_t count, int type, int peer,
                 nccl_comm comm, cu_stream stream) {
  call *c = turn_of(count, type, comm, stream);
  if (!c || !from || peer < 0 || peer >= comm->party->size || c->sent[peer])
    return INVALID;
  c->sent[peer] = from;
  return OK;
}

API int ncclRecv(void *to, size_t count, int type, int peer, nccl_comm comm,
                 cu_stream stream) {
  call *c = turn_of(count, type, comm, stream);
  if (!c || !to || peer < 0 || peer >= comm->party->size || c->received[peer])
    return INVALID;
  c->received[peer] = to;
  return OK;
}
