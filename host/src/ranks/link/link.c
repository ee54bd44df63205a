/* link.c - opens and closes links: selects the module, and checks that it is the launcher's. */
#include "ranks/link/link.h"

#include <dlfcn.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

#include "base/params.h"
#include "base/refs.h"
#include "device/context.h"
#include "system/environment.h"

/* A process has one link at a time: MPI is initialised once. */
static atomic_bool taken;

/* The link that this process has opened, and has not closed yet. */
static _Atomic(keel_link *) open_link;
static pid_t opener;

/* ---- launchers ----------------------------------------------------------------------- */

/* Modules for a launcher: of its own MPI, and of MPI's standard ABI, where Keel was built without
 * that. */
enum { OWN, STANDARD, MODULES };

/* Variables by which launchers say how many ranks there are. Slurm's is there for each step: its
 * tasks are ranks where they have a rank of PMIx, and are several. */
static const struct {
  const char *size, *besides;
  long least;
  bool here; /* the number is of this machine's ranks */
  const char *modules[MODULES];
} launchers[] = {
    {"OMPI_COMM_WORLD_SIZE", NULL, 1, false, {"openmpi", "mpi"}},
    {"PMI_SIZE", NULL, 1, false, {"mpich", "mpi"}},
    {"MPI_LOCALNRANKS", NULL, 1, true, {"mpich", "mpi"}}, /* -pmi-port */
    {"SLURM_STEP_NUM_TASKS", "PMIX_RANK", 2, false, {"openmpi", "mpi"}}};

typedef struct launch {
  const char *const *modules; /* NULL: no launcher has started this process */
  uint32_t size;
  bool here;
} launch;

static launch find_launcher(void) {
  for (size_t i = 0; i < KEEL_COUNT_OF(launchers); i++) {
    const char *text = keel_environment(launchers[i].size);
    long size = text ? strtol(text, NULL, 10) : 0;
    if (size < launchers[i].least || size > INT32_MAX) continue;
    if (launchers[i].besides && !keel_environment(launchers[i].besides))
      continue;
    return (launch){launchers[i].modules, (uint32_t)size, launchers[i].here};
  }
  return (launch){NULL, 0, false};
}

uint32_t keel_link_launched(void) {
  return find_launcher().size;
}

/* ---- the module ------------------------------------------------------------------------ */

/* The path of a module, which the caller frees. */
static keel_status find_path(const char *name, char **out_path) {
  keel_text path = {0};
  Dl_info facts;
  if (strchr(name, '/')) {
    keel_text_add(&path, "%s", name);
  } else if (dladdr((void *)(uintptr_t)keel_link_open, &facts) &&
             facts.dli_fname) {
    const char *slash = strrchr(facts.dli_fname, '/');
    keel_text_add(&path, "%.*s/keel-link/keel_%s.so",
                  slash ? (int)(slash - facts.dli_fname) : 1,
                  slash ? facts.dli_fname : ".", name);
  }
  *out_path = path.data;
  return path.data && !path.failed ? KD_OK : keel_no_memory(path.size);
}

static keel_status link_load(keel_link *link, const char *name) {
  KEEL_TRY(find_path(name, &link->path));
  if (access(link->path, R_OK) != 0)
    return keel_fail(
        KD_NOT_FOUND,
        "there is no module %s; Keel is built with mpi, and one for each MPI"
        " whose mpicc is found",
        link->path);
  link->library = dlopen(link->path, RTLD_NOW | RTLD_LOCAL);
  if (!link->library)
    return keel_fail(KD_UNAVAILABLE, "%s can't be opened: %s", link->path,
                     dlerror());
  keel_link_module_function function = NULL;
  /* POSIX has functions in data pointers here */
  *(void **)(void *)&function = dlsym(link->library, KEEL_LINK_MODULE_SYMBOL);
  link->mpi = function ? function() : NULL;
  if (!link->mpi || link->mpi->version != KEEL_LINK_VERSION ||
      link->mpi->struct_size < sizeof(keel_link_table))
    return keel_fail(KD_INVALID_ARGUMENT,
                     "%s is not a link module of version %u", link->path,
                     KEEL_LINK_VERSION);
  return KD_OK;
}

/* Whether there is a module of that name. */
static bool link_is_there(const char *name) {
  char *path = NULL;
  bool there = find_path(name, &path) == KD_OK && access(path, R_OK) == 0;
  free(path);
  return there;
}

typedef struct choice {
  const char *name, *missed; /* missed: the launcher's own, or NULL */
  launch by;
} choice;

static keel_status link_choose(const keel_link_params *params, choice *out) {
  out->by = find_launcher();
  const char *const *modules = out->by.modules;
  const char *said = keel_environment("KEEL_LINK_MODULE");
  out->missed = NULL;
  out->name = params->module ? params->module : said && *said ? said : NULL;
  if (out->name) return KD_OK;
  if (!modules)
    return keel_fail(
        KD_FAILED_PRECONDITION,
        "no launcher of MPI has started this process (mpirun -n 4 ..."
        " does), and no module is named");
  bool other = !link_is_there(modules[OWN]) && link_is_there(modules[STANDARD]);
  out->name = modules[other ? STANDARD : OWN];
  if (other) out->missed = modules[OWN];
  return KD_OK;
}

/* A launcher of another MPI starts N processes that each think they are alone. */
static keel_status check_size(const keel_link *link, const launch *by) {
  uint32_t seen = by->here ? link->world.local_size : link->world.size;
  if (!by->size || seen == by->size) return KD_OK;
  return keel_fail(
      KD_FAILED_PRECONDITION,
      "the launcher has started %u ranks%s, and %s (%s) sees %u: start"
      " it with the mpirun of that MPI, or name the module of the"
      " launcher's",
      (unsigned)by->size, by->here ? " on this machine" : "",
      link->world.library, link->path, (unsigned)seen);
}

/* ---- ending --------------------------------------------------------------------------- */

/* How long the thread may take for it: it may be in a plugin's call, or wait for a device. */
#define EXIT_SECONDS 5

time_t keel_link_abort_most = 10;

/* Gives the thread last words, with which it ends all. False: it has some already. */
static bool give_last_words(keel_link *link, int status, const char *text) {
  pthread_mutex_lock(&link->lock);
  bool first = !link->last_words;
  if (first) {
    link->last_words = text ? text : "";
    link->last_status = status ? status : 1;
  }
  pthread_cond_signal(&link->work);
  pthread_mutex_unlock(&link->lock);
  return first;
}

static void await_end(const keel_link *link, time_t seconds) {
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += seconds;
  pthread_timedjoin_np(link->thread, NULL, &until);
}

void keel_link_abort(keel_link *link, int status, const char *text) {
  if (!give_last_words(link, status, text))
    for (;;) /* the first thread here ends the process */
      pause();
  await_end(link, keel_link_abort_most);
  /* the thread is stuck; the launcher ends the other ranks when this one goes */
  keel_link_print_last(link->last_words, link->world.rank);
  _exit(link->last_status);
}

static bool is_ending(keel_link *link) {
  pthread_mutex_lock(&link->lock);
  bool ends = link->last_words != NULL;
  pthread_mutex_unlock(&link->lock);
  return ends || pthread_equal(pthread_self(), link->thread);
}

/* The process exits with its link open. Launchers end the other ranks then, and some of them report
 * neither the reason nor a failure. Earlier failures were reported. */
static void leave_nobody_waiting(void) {
  keel_link *link = atomic_load(&open_link);
  if (!link || getpid() != opener || is_ending(link)) return;
  pthread_mutex_lock(&link->lock);
  bool failed = link->failure != NULL;
  pthread_mutex_unlock(&link->lock);
  if (give_last_words(link, 1,
                      failed ? NULL
                             : "the process exits without leaving the other "
                               "ranks (keel_link_close)"))
    await_end(link, EXIT_SECONDS);
}

/* Before MPI's own handlers, which are older. */
static void watch_exit(void) {
  atexit(leave_nobody_waiting);
}

static void mark_open(keel_link *link) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  opener = getpid();
  atomic_store(&open_link, link);
  pthread_once(&once, watch_exit);
}

/* ---- opening ------------------------------------------------------------------------- */

uint64_t keel_link_join_least = UINT64_C(10) * 1000000000;

static struct timespec join_deadline(const keel_link *link) {
  uint64_t limit = link->timeout > keel_link_join_least ? link->timeout
                                                        : keel_link_join_least;
  struct timespec until;
  clock_gettime(CLOCK_MONOTONIC, &until);
  until.tv_sec += (time_t)(limit / 1000000000);
  until.tv_nsec += (long)(limit % 1000000000);
  until.tv_sec += until.tv_nsec / 1000000000;
  until.tv_nsec %= 1000000000;
  return until;
}

static keel_status wait_until_open(keel_link *link) {
  struct timespec until = join_deadline(link);
  uint64_t began = keel_now();
  int late = 0;
  pthread_mutex_lock(&link->lock);
  while (link->opening == OPENING && !late)
    late = pthread_cond_timedwait(&link->done, &link->lock, &until);
  if (link->opening == OPENING) link->opening = GIVEN_UP;
  while (link->opening == JOINED)
    pthread_cond_wait(&link->done, &link->lock);
  bool opened = link->opening == OPENED;
  pthread_mutex_unlock(&link->lock);
  if (opened) return KD_OK;
  return keel_fail(KD_DEADLINE_EXCEEDED,
                   "%s: not all other ranks have joined after %.3g s",
                   link->path, (double)(keel_now() - began) * 1e-9);
}

static void stop_thread(keel_link *link) {
  pthread_mutex_lock(&link->lock);
  link->stop = true;
  pthread_cond_signal(&link->work);
  pthread_mutex_unlock(&link->lock);
  pthread_join(link->thread, NULL);
}

void keel_link_free(keel_link *link) {
  while (atomic_load_explicit(&link->wakers, memory_order_acquire))
    sched_yield();
  keel_tensor_release(link->failure);
  keel_tensor_release(link->spare);
  keel_tensor_release(link->lost);
  /* the module stays loaded: MPI has threads and handlers of its own at exit */
  pthread_cond_destroy(&link->work);
  pthread_cond_destroy(&link->done);
  pthread_mutex_destroy(&link->lock);
  free(link->sent);
  free(link->received);
  free(link->path);
  free(link);
}

static keel_status begin_thread(keel_link *link) {
  if (pthread_create(&link->thread, NULL, keel_link_thread, link) != 0)
    return keel_fail(KD_UNAVAILABLE, "no thread can be started for a link");
  KEEL_TRY(wait_until_open(link));
  if (link->open_status == KD_OK) return KD_OK;
  stop_thread(link);
  return keel_tensor_query(link->failure);
}

static keel_status link_begin(keel_link *link, const keel_link_params *params) {
  choice chosen;
  KEEL_TRY(link_choose(params, &chosen));
  KEEL_TRY(link_load(link, chosen.name));
  keel_status status = begin_thread(link);
  if (status != KD_OK)
    return chosen.missed ? keel_while(status,
                                      "keel_%s.so, the module of the"
                                      " launcher's MPI, is not there",
                                      chosen.missed)
                         : status;
  status = check_size(link, &chosen.by);
  if (status != KD_OK) stop_thread(link);
  return status;
}

keel_status keel_link_open(keel_context *context,
                           const keel_link_params *params,
                           keel_link **out_link) {
  keel_link_params all;
  pthread_condattr_t clock;
  *out_link = NULL;
  KEEL_TRY(KEEL_READ_PARAMS(keel_link_params, params,
                            offsetof(keel_link_params, module), &all));
  if (atomic_exchange(&taken, true))
    return keel_fail(KD_ALREADY_EXISTS, "this process has a link already");
  keel_link *link = calloc(1, sizeof *link);
  if (!link) {
    atomic_store(&taken, false);
    return keel_no_memory(sizeof *link);
  }
  link->context = context;
  link->spare =
      keel_tensor_failed(context, keel_no_memory(sizeof *link->spare));
  link->last = &link->first;
  link->last_pair = &link->pairs;
  link->position = 1;
  link->timeout = all.timeout ? all.timeout : UINT64_C(300) * 1000000000;
  pthread_mutex_init(&link->lock, NULL);
  pthread_condattr_init(&clock);
  pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
  pthread_cond_init(&link->work, &clock);
  pthread_cond_init(&link->done, &clock);
  pthread_condattr_destroy(&clock);
  keel_status status = link->spare ? link_begin(link, &all) : KD_OUT_OF_MEMORY;
  if (status == KD_OK) {
    mark_open(link);
    *out_link = link;
    return KD_OK;
  }
  if (status == KD_DEADLINE_EXCEEDED) return status; /* its thread waits on */
  keel_link_free(link);
  atomic_store(&taken, false);
  return status;
}

void keel_link_close(keel_link *link) {
  if (!link) return;
  atomic_store(&open_link, NULL);
  stop_thread(link);
  atomic_store(&taken, false);
  pthread_mutex_lock(&link->lock);
  link->closed = true;
  bool last = !link->members;
  pthread_mutex_unlock(&link->lock);
  if (last) keel_link_free(link);
}

void keel_link_look(keel_link *link, keel_link_facts *out_facts) {
  *out_facts = (keel_link_facts){
      .rank = link->world.rank,
      .size = link->world.size,
      .local_rank = link->world.local_rank,
      .local_size = link->world.local_size,
      .library = link->world.library,
      .module = link->path,
      .exchanges = atomic_load_explicit(&link->exchanges, memory_order_relaxed),
      .bytes = atomic_load_explicit(&link->bytes, memory_order_relaxed),
      .waited = atomic_load_explicit(&link->waited, memory_order_relaxed),
      .direct = atomic_load_explicit(&link->direct, memory_order_relaxed),
      .levels = atomic_load_explicit(&link->levels, memory_order_relaxed),
      .pieces = atomic_load_explicit(&link->pieces, memory_order_relaxed),
  };
}

/* ---- jobs ------------------------------------------------------------------------------ */

/* Of the exchanges that a job is one of. */
static uint64_t *counter(keel_link *link, const keel_link_job *job) {
  switch (job->what.kind) {
    case KEEL_SEND:
      return &link->sent[job->what.peer];
    case KEEL_RECEIVE:
      return &link->received[job->what.peer];
    default:
      return &link->posted;
  }
}

keel_status keel_link_post(keel_link *link, keel_link_job *job) {
  pthread_mutex_lock(&link->lock);
  keel_status status = link->failure ? keel_tensor_query(link->failure) : KD_OK;
  if (status == KD_OK && link->stop)
    status = keel_fail(KD_FAILED_PRECONDITION,
                       "the link to other ranks has been closed");
  if (status == KD_OK) {
    bool of_two = job->promise && keel_exchange_is_of_two(&job->what);
    if (job->promise) job->number = ++*counter(link, job);
    job->next = NULL;
    if (of_two) {
      *link->last_pair = job;
      link->last_pair = &job->next;
      link->news = true;
      atomic_fetch_add_explicit(&link->pair_count, 1, memory_order_relaxed);
    } else {
      *link->last = job;
      link->last = &job->next;
    }
  }
  /* one whose value is not there wakes the thread when it is: once, not twice */
  bool wakes = status == KD_OK && job->arrived;
  pthread_mutex_unlock(&link->lock);
  if (wakes) pthread_cond_signal(&link->work);
  return status;
}

keel_status keel_link_gather(keel_link *link, const void *bytes, uint64_t size,
                             void *out_bytes) {
  keel_link_job job = {.link = link,
                       .name = "gather",
                       .given = bytes,
                       .taken = out_bytes,
                       .size = size,
                       .arrived = true};
  KEEL_TRY(keel_link_post(link, &job));
  pthread_mutex_lock(&link->lock);
  while (!job.ended)
    pthread_cond_wait(&link->done, &link->lock);
  pthread_mutex_unlock(&link->lock);
  return job.status == KD_OK ? KD_OK : keel_tensor_query(link->failure);
}
