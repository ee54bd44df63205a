/* pool.c - workers that take tasks, steal them, share loops, and then sleep. */
#include "threads/pool.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "threads/blocking.h"
#include "threads/cancel.h"
#include "threads/deque.h"
#include "trace/trace.h"

#define LOOPS  64
#define GUESTS 4  /* application threads that have a deque while they wait */
#define ROUNDS 64 /* attempts to find work before the clock is read */

/* Nanoseconds that a thread looks for work before it sleeps: waking it takes tens of
 * microseconds. The longer time applies if its last wait was shorter than that. If it was
 * preempted meanwhile, another thread wants its processor: it sleeps, and its waker lets
 * the kernel place it elsewhere. */
#define SHORT_WAIT 200000
#define LONG_WAIT  2000000
#define PUT_ASIDE  500000

/* The untaken pieces [begin, end) of a loop in one word, begin in the upper half. Relaxed:
 * a compare-exchange gives each piece to one thread, and a stale read only means no
 * help. */
typedef struct range {
  _Alignas(64) _Atomic uint64_t left;
} range;

/* A parallel loop that is running: the caller's, shared by idle threads. Each thread has a range of
 * its own, the same one in each loop, so that what it wrote in the last one is still in its cache;
 * when that is done it takes from the others' ends. A helper sees a loop's fields by `running`
 * (run_loop sets its bit after the rest, seq_cst; join_loop reads the bit after it has counted
 * itself in). */
typedef struct loop {
  _Alignas(64) atomic_bool over; /* no piece is left; relaxed: a hint */
  int64_t count, piece;          /* items; those of a piece */
  bool single;                   /* pieces are taken one at a time */
  range *ranges;                 /* the pool's */
  uint32_t range_count;
  kd_loop_body body;
  void *context;
  _Alignas(64) atomic_uint users; /* helpers inside */
} loop;

typedef struct worker {
  _Alignas(64) keel_deque deque;
  keel_pool *pool;
  uint32_t index;
  pthread_t thread;
} worker;

struct keel_pool {
  uint32_t worker_count;
  uint32_t holders;       /* under `opening` */
  struct keel_pool *next; /* of all pools; under `opening` */
  worker *workers;        /* then guests: application threads */
  uint32_t deque_count;   /* of all of them */
  atomic_uint guests; /* bits: in use; acquired and released as `taken` is */
  /* running loops that idle threads may join */
  _Alignas(64) _Atomic uint64_t running;
  /* loops whose slot is in use; taken with acquire, freed with release, so that successive
   * uses of a slot are ordered */
  _Atomic uint64_t taken;
  loop loops[LOOPS];
  range *ranges;               /* of each loop, one per thread */
  keel_queue queue;            /* tasks submitted from outside the pool */
  _Atomic(keel_task *) posted; /* tasks that found the queue full */
  /* A thread that publishes work reads `sleepers` after it, and a sleeper counts itself in before
   * it looks for work, all of it seq_cst: one of the two sees the other. They sleep on `epoch`; its
   * release pairs with the acquire of a thread that goes to sleep. */
  _Alignas(64) atomic_uint sleepers;
  atomic_uint epoch;
  /* threads that wait and do not work, and their futex; seq_cst: either they see that their
   * condition is true, or they are seen */
  atomic_uint waiting, news;
  /* The processor of the last waker that continues working, or -1; relaxed: a hint. */
  atomic_int rung_on;
  atomic_bool stop;              /* then `wake_all` */
  atomic_bool crowded;           /* relaxed: a hint */
  _Alignas(64) atomic_uint runs; /* of application threads; relaxed: a hint */
  keel_blocking *blocking;
  keel_timer *timer;
};

static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;
static keel_pool *pools; /* under `opening` */
static _Thread_local worker *self;
static _Thread_local keel_pool *in_use; /* by this thread's loops */

static inline void relax(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

/* ---- sleeping ------------------------------------------------------------- */

static void ring(keel_pool *pool, int count, int processor) {
  atomic_store_explicit(&pool->rung_on, processor, memory_order_relaxed);
  atomic_fetch_add_explicit(&pool->epoch, 1, memory_order_release);
  syscall(SYS_futex, &pool->epoch, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}

/* After work was published by a seq_cst operation on what has_work reads. No thread writes the line
 * of `sleepers` meanwhile, so that submitting many tasks costs next to nothing.
 *
 * stays  the caller works on, where it is */
static void wake(keel_pool *pool, int count, bool stays) {
  if (atomic_load_explicit(&pool->sleepers, memory_order_seq_cst))
    ring(pool, count, stays ? sched_getcpu() : -1);
}

/* The same after anything else was published, with any memory order. Either this update
 * comes before the one by which a sleeper counts itself in, and the sleeper sees what was
 * published; or it comes after, and we see the sleeper. */
static void wake_all(keel_pool *pool) {
  if (atomic_fetch_add_explicit(&pool->sleepers, 0, memory_order_acq_rel))
    ring(pool, INT32_MAX, -1);
}

/* Whether this thread belongs to the pool; application threads are left alone. */
static bool is_worker(const keel_pool *pool) {
  return self && self->pool == pool && self->index < pool->worker_count;
}

/* A kernel may wake a thread on its waker's processor, though another one is idle (a halted
 * one of a virtual machine counts as taken), and leave both there for milliseconds. The
 * woken one goes elsewhere, if it may, and from there wherever it is put. */
static void leave_processor(int processor) {
  cpu_set_t all, others;
  if (processor < 0 || processor >= CPU_SETSIZE ||
      sched_getcpu() != processor || sched_getaffinity(0, sizeof all, &all))
    return;
  others = all;
  CPU_CLR((size_t)processor, &others);
  if (!CPU_COUNT(&others) || sched_setaffinity(0, sizeof others, &others))
    return;
  sched_setaffinity(0, sizeof all, &all);
}

static bool has_work(keel_pool *pool);

/* How long it is until then, for a futex; 0: NULL, for ever. */
static struct timespec *time_until(uint64_t deadline, struct timespec *room) {
  uint64_t now = deadline ? keel_now() : 0;
  uint64_t time = deadline > now ? deadline - now : 0;
  *room = (struct timespec){(time_t)(time / 1000000000u),
                            (long)(time % 1000000000u)};
  return deadline ? room : NULL;
}

static void sleep_unless(keel_pool *pool, bool (*done)(void *), void *context,
                         uint64_t deadline) {
  struct timespec least, *limit = time_until(deadline, &least);
  atomic_fetch_add_explicit(&pool->sleepers, 1, memory_order_seq_cst);
  uint32_t epoch = atomic_load_explicit(&pool->epoch, memory_order_acquire);
  if (!done(context) && !has_work(pool) &&
      !syscall(SYS_futex, &pool->epoch, FUTEX_WAIT_PRIVATE, epoch, limit, NULL,
               0) &&
      is_worker(pool))
    leave_processor(atomic_load_explicit(&pool->rung_on, memory_order_relaxed));
  atomic_fetch_sub_explicit(&pool->sleepers, 1, memory_order_relaxed);
}

/* ---- loops ---------------------------------------------------------------- */

/* Takes chunks of one range, from its begin or its end: a quarter of the rest, so that threads end
 * at about the same time, though one may be slower or get longer items. False: none is left. */
static bool take_from(loop *at, uint32_t which, bool front, uint32_t *begin,
                      uint32_t *end) {
  _Atomic uint64_t *left = &at->ranges[which].left;
  uint64_t old = atomic_load_explicit(left, memory_order_relaxed);
  for (;;) {
    uint32_t b = (uint32_t)(old >> 32), e = (uint32_t)old;
    if (b >= e) return false;
    uint32_t some = at->single || e - b < 8 ? 1 : (e - b) / 4;
    *begin = front ? b : e - some;
    *end = *begin + some;
    b += front ? some : 0;
    e -= front ? 0 : some;
    if (atomic_compare_exchange_weak_explicit(left, &old, (uint64_t)b << 32 | e,
                                              memory_order_relaxed,
                                              memory_order_relaxed))
      return true;
  }
}

static bool pool_take(loop *at, uint32_t own, uint32_t *begin, uint32_t *end) {
  uint32_t count = at->range_count;
  if (own < count && take_from(at, own, true, begin, end)) return true;
  for (uint32_t i = 1; i <= count; i++)
    if (take_from(at, (own + i) % count, false, begin, end)) return true;
  atomic_store_explicit(&at->over, true, memory_order_relaxed);
  return false;
}

/* This thread's range: its worker's, or the one that all other threads share. */
static uint32_t own_range(const keel_pool *pool) {
  return is_worker(pool) ? self->index + 1 : 0;
}

static void pool_share(loop *at, uint32_t own) {
  uint32_t begin = 0, end = 0;
  while (pool_take(at, own, &begin, &end)) {
    int64_t last = end * at->piece;
    at->body(at->context, begin * at->piece,
             last < at->count ? last : at->count);
  }
}

static bool join_loop(keel_pool *pool) {
  uint64_t running = atomic_load_explicit(&pool->running, memory_order_relaxed);
  while (running) {
    unsigned slot = (unsigned)__builtin_ctzll(running);
    uint64_t bit = UINT64_C(1) << slot;
    loop *at = &pool->loops[slot];
    running &= ~bit;
    if (atomic_load_explicit(&at->over, memory_order_relaxed)) continue;
    /* seq_cst, pairs with run_loop: either it sees us inside, or we see that the loop is
     * over */
    atomic_fetch_add_explicit(&at->users, 1, memory_order_seq_cst);
    bool joined =
        atomic_load_explicit(&pool->running, memory_order_seq_cst) & bit;
    uint64_t began = joined && keel_tracing() ? keel_now() : 0;
    if (joined) pool_share(at, own_range(pool));
    /* release: publishes what the body wrote; pairs with the owner's acquire */
    atomic_fetch_sub_explicit(&at->users, 1, memory_order_release);
    /* when no thread waits for it */
    if (began) keel_trace_span("part of a loop", NULL, NULL, began);
    if (joined) return true;
  }
  return false;
}

static int claim_loop(keel_pool *pool) {
  uint64_t taken = atomic_load_explicit(&pool->taken, memory_order_relaxed);
  while (~taken) {
    int slot = __builtin_ctzll(~taken);
    if (atomic_compare_exchange_weak_explicit(
            &pool->taken, &taken, taken | UINT64_C(1) << slot,
            memory_order_acquire, memory_order_relaxed))
      return slot;
  }
  return -1;
}

void keel_pool_begin_run(keel_pool *pool) {
  atomic_fetch_add_explicit(&pool->runs, 1, memory_order_relaxed);
}

void keel_pool_end_run(keel_pool *pool) {
  atomic_fetch_sub_explicit(&pool->runs, 1, memory_order_relaxed);
}

/* How many threads a loop gets: those of the pool, shared by the runs that there are. */
static uint32_t pool_part(const keel_pool *pool) {
  uint32_t runs = atomic_load_explicit(&pool->runs, memory_order_relaxed);
  uint32_t threads = pool->worker_count + 1;
  uint32_t part = runs > 1 ? (threads + runs / 2) / runs : threads;
  return part ? part : 1;
}

/* Whether runs have all processors. */
static bool pool_is_full(const keel_pool *pool) {
  uint32_t runs = atomic_load_explicit(&pool->runs, memory_order_relaxed);
  return runs > 1 && runs > pool->worker_count;
}

/* Pieces, in ranges of about one size; more than one. */
static void deal(loop *at, uint32_t pieces, uint32_t threads) {
  at->range_count = pieces < threads ? pieces : threads;
  for (uint32_t i = 0, begin = 0; i < at->range_count; i++) {
    uint32_t end = begin + (pieces - begin) / (at->range_count - i);
    atomic_store_explicit(&at->ranges[i].left, (uint64_t)begin << 32 | end,
                          memory_order_relaxed);
    begin = end;
  }
}

static void run_loop(keel_pool *pool, int slot, uint32_t threads, int64_t count,
                     int64_t piece, bool single, kd_loop_body body,
                     void *context) {
  loop *at = &pool->loops[slot];
  uint64_t bit = UINT64_C(1) << slot;
  uint32_t pieces = (uint32_t)((count - 1) / piece + 1);
  at->count = count;
  at->piece = piece;
  at->single = single;
  at->ranges = pool->ranges + (size_t)slot * (pool->worker_count + 1);
  at->body = body;
  at->context = context;
  deal(at, pieces, threads);
  atomic_store_explicit(&at->over, false, memory_order_relaxed);
  atomic_fetch_or_explicit(&pool->running, bit, memory_order_seq_cst);
  wake(pool, (int)at->range_count - 1, true);
  pool_share(at, own_range(pool));
  atomic_fetch_and_explicit(&pool->running, ~bit, memory_order_seq_cst);
  /* acquire: pairs with the helpers' release */
  for (unsigned spins = 0;
       atomic_load_explicit(&at->users, memory_order_seq_cst); spins++) {
    if (spins < 10000)
      relax();
    else
      sched_yield();
  }
  atomic_fetch_and_explicit(&pool->taken, ~bit, memory_order_release);
}

keel_pool *keel_pool_use(keel_pool *pool) {
  keel_pool *before = in_use;
  in_use = pool;
  return before;
}

/* The smallest pool, for a thread of a plugin's own, which has a kernel's memory for at least
 * as many threads; retained. NULL: there is none. */
static keel_pool *borrow(void) {
  pthread_mutex_lock(&opening);
  keel_pool *least = pools;
  for (keel_pool *one = pools; one; one = one->next)
    if (one->worker_count < least->worker_count) least = one;
  if (least) least->holders++;
  pthread_mutex_unlock(&opening);
  return least;
}

static void loop_over(keel_pool *pool, int64_t count, int64_t piece,
                      bool single, kd_loop_body body, void *context) {
  if (count <= 0) return;
  if (piece < 1) piece = 1;
  while (count / piece >= INT32_MAX) /* a range counts 32 bits */
    piece *= 2;
  int slot = -1;
  const uint32_t threads = pool ? pool_part(pool) : 1;
  if (threads > 1 && count > piece) slot = claim_loop(pool);
  if (slot < 0)
    body(context, 0, count);
  else
    run_loop(pool, slot, threads, count, piece, single, body, context);
}

void keel_parallel_for(int64_t count, int64_t grain, kd_loop_body body,
                       void *context) {
  keel_pool *borrowed = in_use ? NULL : borrow();
  loop_over(in_use ? in_use : borrowed, count, grain, false, body, context);
  keel_pool_release(borrowed);
}

void keel_parallel_pieces(keel_pool *pool, int64_t count, int64_t piece,
                          kd_loop_body body, void *context) {
  loop_over(pool, count, piece, true, body, context);
}

uint32_t keel_parallel_width(void) {
  keel_pool *borrowed = in_use ? NULL : borrow();
  const keel_pool *pool = in_use ? in_use : borrowed;
  uint32_t width = pool ? pool->worker_count + 1 : 1;
  keel_pool_release(borrowed);
  return width;
}

/* ---- tasks ---------------------------------------------------------------- */

static bool has_work(keel_pool *pool) {
  /* seq_cst, all that work is published by: see `sleepers` */
  uint64_t running = atomic_load_explicit(&pool->running, memory_order_seq_cst);
  for (; running; running &= running - 1) {
    loop *at = &pool->loops[__builtin_ctzll(running)];
    if (!atomic_load_explicit(&at->over, memory_order_relaxed)) return true;
  }
  if (atomic_load_explicit(&pool->queue.head, memory_order_relaxed) !=
          atomic_load_explicit(&pool->queue.tail, memory_order_seq_cst) ||
      atomic_load_explicit(&pool->posted, memory_order_seq_cst))
    return true;
  for (uint32_t i = 0; i < pool->deque_count; i++) {
    keel_deque *deque = &pool->workers[i].deque;
    if (atomic_load_explicit(&deque->top, memory_order_relaxed) <
        atomic_load_explicit(&deque->bottom, memory_order_seq_cst))
      return true;
  }
  return false;
}

static void push_posted(keel_pool *pool, keel_task *first, keel_task *last) {
  keel_task *head = atomic_load_explicit(&pool->posted, memory_order_relaxed);
  do
    last->next = head;
  /* publishes the tasks before they are linked; seq_cst because `wake` follows */
  while (!atomic_compare_exchange_weak_explicit(
      &pool->posted, &head, first, memory_order_seq_cst, memory_order_relaxed));
}

/* Takes one posted task. All are taken at once, to avoid the ABA problem; the others go
 * into the queue as far as it has room. */
static keel_task *take_posted(keel_pool *pool) {
  if (!atomic_load_explicit(&pool->posted, memory_order_relaxed)) return NULL;
  keel_task *first =
      atomic_exchange_explicit(&pool->posted, NULL, memory_order_acquire);
  keel_task *rest = first ? first->next : NULL;
  for (keel_task *next; rest; rest = next) {
    next = rest->next;
    if (!keel_queue_put(&pool->queue, rest)) break;
  }
  keel_task *last = rest;
  while (last && last->next)
    last = last->next;
  if (rest) push_posted(pool, rest, last);
  return first;
}

static keel_task *find_task(keel_pool *pool) {
  bool inside = self && self->pool == pool;
  keel_task *task = inside ? keel_deque_pop(&self->deque) : NULL;
  if (!task) task = keel_queue_take(&pool->queue);
  if (!task) task = take_posted(pool);
  uint32_t first = inside ? self->index + 1 : 0;
  for (uint32_t i = 0; i < pool->deque_count && !task; i++)
    task =
        keel_deque_steal(&pool->workers[(first + i) % pool->deque_count].deque);
  return task;
}

/* About how many tasks wait. */
static void trace_depth(keel_pool *pool) {
  int64_t depth =
      (int64_t)(atomic_load_explicit(&pool->queue.tail, memory_order_relaxed) -
                atomic_load_explicit(&pool->queue.head, memory_order_relaxed));
  for (uint32_t i = 0; i < pool->deque_count; i++)
    depth +=
        atomic_load_explicit(&pool->workers[i].deque.bottom,
                             memory_order_relaxed) -
        atomic_load_explicit(&pool->workers[i].deque.top, memory_order_relaxed);
  keel_trace_count("tasks that wait", depth > 0 ? (uint64_t)depth : 0);
}

static bool help(keel_pool *pool) {
  if (join_loop(pool)) return true;
  keel_task *task = find_task(pool);
  if (task) task->run(task);
  if (task && keel_tracing()) trace_depth(pool);
  return task != NULL;
}

/* The task may be another run's, which this thread's cancellation does not concern. */
bool keel_pool_help(keel_pool *pool) {
  keel_pool *before = keel_pool_use(pool);
  const keel_cancellation *own = keel_cancellation_use(NULL);
  bool helped = help(pool);
  keel_cancellation_use(own);
  keel_pool_use(before);
  return helped;
}

void keel_pool_submit(keel_pool *pool, keel_task *task) {
  bool inside = self && self->pool == pool;
  if (keel_tracing()) trace_depth(pool);
  if (!(inside && keel_deque_push(&self->deque, task)) &&
      !keel_queue_put(&pool->queue, task)) {
    task->run(task);
    return;
  }
  wake(pool, 1, inside);
}

keel_task *keel_pool_next(keel_pool *pool,
                          bool (*fits)(const keel_task *task,
                                       const void *context),
                          const void *context) {
  if (!self || self->pool != pool) return NULL;
  keel_task *task = keel_deque_pop(&self->deque);
  if (!task || fits(task, context)) return task;
  keel_deque_push(&self->deque, task); /* it has room, since we took one out */
  wake(pool, 1, true); /* a thread that fell asleep meanwhile has not seen it */
  return NULL;
}

void keel_pool_submit_blocking(keel_pool *pool, keel_task *task) {
  if (pool->worker_count)
    keel_pool_submit_apart(pool, task);
  else
    keel_pool_submit(pool, task);
}

void keel_pool_submit_apart(keel_pool *pool, keel_task *task) {
  keel_blocking_submit(pool->blocking, task);
}

void keel_pool_post(keel_pool *pool, keel_task *task) {
  if (!keel_queue_put(&pool->queue, task)) push_posted(pool, task, task);
  wake(pool, 1, false);
}

void keel_pool_set_crowded(keel_pool *pool, bool crowded) {
  atomic_store_explicit(&pool->crowded, crowded, memory_order_relaxed);
}

void keel_pool_wake_waiters(keel_pool *pool) {
  wake_all(pool);
  atomic_fetch_add(&pool->news, 1);
  if (atomic_load(&pool->waiting))
    syscall(SYS_futex, &pool->news, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL,
            0);
}

bool keel_pool_enter(keel_pool *pool) {
  uint32_t all = (1u << GUESTS) - 1;
  uint32_t taken = atomic_load_explicit(&pool->guests, memory_order_relaxed);
  if (self || !pool->worker_count) return false;
  while ((taken & all) != all) {
    uint32_t slot = (uint32_t)__builtin_ctz(~taken);
    if (!atomic_compare_exchange_weak_explicit(
            &pool->guests, &taken, taken | 1u << slot, memory_order_acquire,
            memory_order_relaxed))
      continue;
    self = &pool->workers[pool->worker_count + slot];
    return true;
  }
  return false;
}

void keel_pool_leave(keel_pool *pool) {
  uint32_t slot = self->index - pool->worker_count;
  self = NULL;
  /* release: hands the deque over; pairs with the acquire of its next owner */
  atomic_fetch_and_explicit(&pool->guests, ~(1u << slot), memory_order_release);
}

void keel_pool_wait_limited(keel_pool *pool, bool (*done)(void *),
                            void *context, uint64_t deadline, bool limited) {
  if (!limited || !pool->worker_count || (self && self->pool == pool)) {
    keel_pool_wait_until(pool, done, context, deadline);
    return;
  }
  atomic_fetch_add(&pool->waiting, 1);
  for (;;) {
    struct timespec room;
    uint32_t news = atomic_load(&pool->news);
    if (done(context)) break;
    syscall(SYS_futex, &pool->news, FUTEX_WAIT_PRIVATE, news,
            time_until(deadline, &room), NULL, 0);
  }
  atomic_fetch_sub(&pool->waiting, 1);
}

void keel_pool_wait(keel_pool *pool, bool (*done)(void *), void *context) {
  keel_pool_wait_until(pool, done, context, 0);
}

void keel_pool_wait_until(keel_pool *pool, bool (*done)(void *), void *context,
                          uint64_t deadline) {
  unsigned idle = 0;
  uint64_t since = 0, last = 0, patience = SHORT_WAIT;
  while (!done(context)) {
    if (keel_pool_help(pool)) {
      idle = 0;
    } else if (atomic_load_explicit(&pool->crowded, memory_order_relaxed) ||
               pool_is_full(pool)) {
      /* the thread that this one waits for may want its core, and need not wake it then */
      if (!idle++) {
        sched_yield();
        continue;
      }
      sleep_unless(pool, done, context, deadline);
      idle = 0;
    } else if (++idle % ROUNDS) {
      relax();
    } else {
      uint64_t now = keel_now();
      if (idle == ROUNDS) since = last = now;
      bool aside = now - last >= PUT_ASIDE;
      last = now;
      if (now - since < patience && !aside) continue;
      sleep_unless(pool, done, context, deadline);
      bool soon = keel_now() - since < LONG_WAIT;
      patience = soon && !aside ? LONG_WAIT : SHORT_WAIT;
      idle = 0;
    }
  }
}

/* ---- life ----------------------------------------------------------------- */

static bool stopped(void *pool) {
  return atomic_load_explicit(&((keel_pool *)pool)->stop, memory_order_acquire);
}

static void *threads_pool_work(void *argument) {
  self = argument;
  keel_trace_thread("worker", self->index + 1);
  keel_pool_wait(self->pool, stopped, self->pool);
  return NULL;
}

static void free_pool(keel_pool *pool) {
  keel_timer_destroy(pool->timer);
  keel_blocking_destroy(pool->blocking);
  free(pool->workers);
  free(pool->ranges);
  free(pool);
}

static void stop_workers(keel_pool *pool, uint32_t started) {
  atomic_store_explicit(&pool->stop, true, memory_order_release);
  wake_all(pool);
  for (uint32_t i = 0; i < started; i++)
    pthread_join(pool->workers[i].thread, NULL);
  free_pool(pool);
}

static keel_status pool_make(uint32_t workers, keel_pool **out_pool) {
  keel_pool *pool = aligned_alloc(64, (sizeof *pool + 63) & ~(size_t)63);
  if (!pool) return keel_no_memory(sizeof *pool);
  memset(pool, 0, sizeof *pool);
  keel_queue_init(&pool->queue);
  keel_status status = keel_blocking_create(&pool->blocking);
  if (status == KD_OK) status = keel_timer_create(&pool->timer);
  if (status != KD_OK) {
    free_pool(pool);
    return status;
  }
  pool->worker_count = workers;
  pool->deque_count = workers ? workers + GUESTS : 0;
  size_t size = pool->deque_count * sizeof(worker);
  if (size) {
    pool->workers = aligned_alloc(64, size);
    pool->ranges =
        aligned_alloc(64, LOOPS * (workers + (size_t)1) * sizeof(range));
    if (!pool->workers || !pool->ranges) {
      free_pool(pool);
      return keel_no_memory(size);
    }
  }
  for (uint32_t i = 0; i < pool->deque_count; i++) {
    worker *one = &pool->workers[i];
    keel_deque_init(&one->deque);
    one->pool = pool;
    one->index = i;
  }
  for (uint32_t i = 0; i < workers; i++) {
    int error = pthread_create(&pool->workers[i].thread, NULL,
                               threads_pool_work, &pool->workers[i]);
    if (error) {
      stop_workers(pool, i);
      return keel_fail(KD_UNAVAILABLE, "can't start worker thread %u of %u: %s",
                       i + 1, workers, strerror(error));
    }
  }
  *out_pool = pool;
  return KD_OK;
}

keel_status keel_pool_retain(uint32_t workers, keel_pool **out_pool) {
  pthread_mutex_lock(&opening);
  keel_pool *pool = pools;
  while (pool && pool->worker_count != workers)
    pool = pool->next;
  keel_status status = pool ? KD_OK : pool_make(workers, &pool);
  if (status == KD_OK) {
    if (!pool->holders++) {
      pool->next = pools;
      pools = pool;
    }
    *out_pool = pool;
  }
  pthread_mutex_unlock(&opening);
  return status;
}

void keel_pool_release(keel_pool *pool) {
  if (!pool) return;
  pthread_mutex_lock(&opening);
  bool last = --pool->holders == 0;
  keel_pool **at = &pools;
  while (last && *at != pool)
    at = &(*at)->next;
  if (last) *at = pool->next;
  pthread_mutex_unlock(&opening);
  if (last) stop_workers(pool, pool->worker_count);
}

keel_timer *keel_pool_timer(const keel_pool *pool) {
  return pool->timer;
}

uint32_t keel_pool_size(const keel_pool *pool) {
  return pool->worker_count + 1;
}
