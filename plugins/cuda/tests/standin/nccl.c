/* nccl.c - a stand-in for NCCL: the members' streams meet in host functions, and the last
 * that comes does the work of all. It refuses what is not as NCCL's header has it. */
#include <pthread.h>

#include "part.h"

NCCL_FUNCTIONS(DECLARE)
NCCL_JOINING(DECLARE)
API int ncclGetVersion(int *version);
API const char *ncclGetErrorString(int status);
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

static void meet(void *argument);

TELL("nccl: %u rounds\n")

API int ncclGetVersion(int *version) {
  *version = 22800;
  return OK;
}

API const char *ncclGetErrorString(int status) {
  return status == INVALID ? "invalid argument" : "unhandled cuda error";
}

/* ---- communicators ----------------------------------------------------------------- */

static party *party_new(int size) {
  party *shared = calloc(1, sizeof *shared);
  if (!shared) return NULL;
  pthread_mutex_init(&shared->lock, NULL);
  pthread_cond_init(&shared->changed, NULL);
  shared->size = size;
  return shared;
}

API int ncclCommInitAll(nccl_comm *comms, int count, const int *devices) {
  if (getenv("STANDIN_NO_NCCL")) return UNHANDLED;
  if (count < 1 || count > MOST) return INVALID;
  party *shared = party_new(count);
  if (!shared) return UNHANDLED;
  shared->users = count;
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
  shared = party_new(size);
  if (!shared) return NULL;
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

/* Gives a member's part to its stream. */
static bool give(meeting *r, int member) {
  call *c = &r->calls[member];
  cu_context before = NULL;
  c->meeting = r;
  c->party = c->comm->party;
  cuCtxPushCurrent_v2(c->comm->context);
  int code = cuLaunchHostFunc(c->stream, meet, c);
  cuCtxPopCurrent_v2(&before);
  return code == CU_OK;
}

/* The call is the next of its communicator; its stream begins it at once. */
static int begin_joined(const call *what) {
  nccl_comm comm = what->comm;
  party *shared = comm->party;
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
  return give(r, comm->rank) ? BUSY : UNHANDLED;
}

static int let_go(nccl_comm comm, bool aborted) {
  party *shared = comm->party;
  pthread_mutex_lock(&shared->lock);
  shared->aborted |= aborted;
  bool last = --shared->users == 0;
  pthread_cond_broadcast(&shared->changed);
  pthread_mutex_unlock(&shared->lock);
  /* streams may still be in an aborted one, and ids know those of members that joined */
  if (last && !aborted && !shared->joined) free(shared);
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

static const number numbers[] = {
    [NCCL_I8] = I8,   [NCCL_U8] = U8,    [NCCL_I32] = I32, [NCCL_U32] = U32,
    [NCCL_I64] = I64, [NCCL_U64] = U64,  [NCCL_F16] = F16, [NCCL_F32] = F32,
    [NCCL_F64] = F64, [NCCL_BF16] = BF16};

static double reduced(const meeting *r, size_t at) {
  const call *c = &r->calls[0];
  double all = load(numbers[c->type], c->from, (int64_t)at);
  for (int i = 1; i < r->size; i++) {
    double x = load(numbers[c->type], r->calls[i].from, (int64_t)at);
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
  size_t size = number_size(numbers[c->type]), bytes = c->count * size;
  size_t begin = c->kind == SCATTER ? (size_t)rank * c->count : 0;
  if (c->kind == BROADCAST) memcpy(to, r->calls[c->root].from, bytes);
  for (int i = 0; c->kind == GATHER && i < r->size; i++)
    memcpy(to + (size_t)i * bytes, r->calls[i].from, bytes);
  for (size_t i = 0; c->kind <= SCATTER && i < c->count; i++)
    store(numbers[c->type], to, (int64_t)i, reduced(r, begin + i));
}

/* Each send has its receive. */
static void turn(const meeting *r) {
  for (int i = 0; i < r->size; i++) {
    const call *c = &r->calls[i];
    size_t bytes = c->count * number_size(numbers[c->type]);
    for (int k = 0; k < r->size; k++)
      if (c->sent[k] && r->calls[k].received[i])
        memcpy(r->calls[k].received[i], c->sent[k], bytes);
  }
}

static void do_all(meeting *r) {
  __atomic_fetch_add(&done_count, 1, __ATOMIC_RELAXED);
  if (r->calls[0].kind == TURN) {
    turn(r);
    return;
  }
  const call *c = &r->calls[0];
  size_t bytes = c->count * number_size(numbers[c->type]) *
                 (size_t)(c->kind == GATHER ? r->size : 1);
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
  for (int i = 0; i < size; i++)
    if (!give(r, i)) status = UNHANDLED;
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

static int collect(call what, const void *from, void *to, size_t count,
                   int type, nccl_comm comm, cu_stream stream) {
  what.from = from;
  what.to = to;
  what.count = count;
  what.type = type;
  what.comm = comm;
  what.stream = stream;
  return add(what);
}

API int ncclAllReduce(const void *from, void *to, size_t count, int type,
                      int reduction, nccl_comm comm, cu_stream stream) {
  return collect((call){.kind = REDUCE, .reduction = reduction}, from, to,
                 count, type, comm, stream);
}

API int ncclReduceScatter(const void *from, void *to, size_t count, int type,
                          int reduction, nccl_comm comm, cu_stream stream) {
  return collect((call){.kind = SCATTER, .reduction = reduction}, from, to,
                 count, type, comm, stream);
}

API int ncclAllGather(const void *from, void *to, size_t count, int type,
                      nccl_comm comm, cu_stream stream) {
  return collect((call){.kind = GATHER}, from, to, count, type, comm, stream);
}

API int ncclBroadcast(const void *from, void *to, size_t count, int type,
                      int root, nccl_comm comm, cu_stream stream) {
  return collect((call){.kind = BROADCAST, .root = root}, from, to, count, type,
                 comm, stream);
}

/* Those of one communicator are one call, whose other ends are in the others' calls. */
static call *turn_of(size_t count, int type, nccl_comm comm, cu_stream stream) {
  for (int i = 0; i < count_waiting; i++)
    if (waiting[i].kind == TURN && waiting[i].comm == comm) return &waiting[i];
  call what = {.kind = TURN,
               .type = type,
               .count = count,
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
