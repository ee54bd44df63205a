/* terminate.c - RunOptions.terminate, while a partition runs.
 *
 * ONNX Runtime looks at it before each node, and has no function that says it to
 * a provider. So of runs that take longer than a moment a thread finds it out
 * with what there is: it runs a session of one node with the same options, which
 * takes some microseconds, and ends as the real one is to end. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bridge.h"

#define ROUND  25000000L /* nanoseconds between looks */
#define ROUNDS 40        /* without a run, before the thread sleeps */

/* What says that a session's run has ended so. */
static const char said[] = "terminate flag";

/* The node is RandomUniform, as nothing that is computed ahead would look. */
static const unsigned char model[] = {
    0x08, 0x07, 0x3a, 0x36, 0x0a, 0x20, 0x12, 0x01, 'y',  0x22, 0x0d,
    'R',  'a',  'n',  'd',  'o',  'm',  'U',  'n',  'i',  'f',  'o',
    'r',  'm',  0x2a, 0x0c, 0x0a, 0x05, 's',  'h',  'a',  'p',  'e',
    0x40, 0x01, 0xa0, 0x01, 0x07, 0x12, 0x01, 'g',  0x62, 0x0f, 0x0a,
    0x01, 'y',  0x12, 0x0a, 0x0a, 0x08, 0x08, 0x01, 0x12, 0x04, 0x0a,
    0x02, 0x08, 0x01, 0x42, 0x04, 0x0a, 0x00, 0x10, 0x0d};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* all of these under the lock */
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static terminable *runs;
static bool started, asleep;

/* ---- runs of sessions -------------------------------------------------------------- */

typedef struct session_run {
  struct session_run *next;
  const target *of;
  const ort_run_options *options;
  pthread_t thread;
} session_run;

static session_run *session_runs; /* under the lock */

void terminate_run_begins(const target *of, const ort_run_options *given) {
  session_run *one = calloc(1, sizeof *one);
  if (!one) return; /* it ends behind its partitions */
  *one = (session_run){.of = of, .options = given, .thread = pthread_self()};
  pthread_mutex_lock(&lock);
  one->next = session_runs;
  session_runs = one;
  pthread_mutex_unlock(&lock);
}

/* Not by its options: after a failure ONNX Runtime passes others. */
void terminate_run_ends(const target *of) {
  session_run *gone = NULL;
  pthread_mutex_lock(&lock);
  for (session_run **at = &session_runs; *at; at = &(*at)->next)
    if ((*at)->of == of && pthread_equal((*at)->thread, pthread_self())) {
      gone = *at;
      *at = gone->next;
      break;
    }
  pthread_mutex_unlock(&lock);
  free(gone);
}

/* With the lock. Of a partition that another thread runs, as ONNX Runtime has it in its
 * parallel mode, nothing says to which of several runs it belongs. */
static const ort_run_options *options_of(const target *of) {
  const ort_run_options *found = NULL;
  uint32_t count = 0;
  for (const session_run *one = session_runs; one; one = one->next) {
    if (one->of != of) continue;
    if (pthread_equal(one->thread, pthread_self())) return one->options;
    found = one->options;
    count++;
  }
  return count == 1 ? found : NULL;
}

/* ---- the session that looks: the thread's alone -------------------------------- */

static ort_env *env;
static ort_session *session;

static ort_status *open_with(ort_session_options *given) {
  TRY(ort->SetIntraOpNumThreads(given, 1));
  TRY(ort->SetInterOpNumThreads(given, 1));
  return ort->CreateSessionFromArray(env, model, sizeof model, given, &session);
}

static ort_status *open_session(void) {
  ort_session_options *given = NULL;
  TRY(ort->CreateEnv(ORT_LOGGING_LEVEL_WARNING, "keel", &env));
  TRY(ort->CreateSessionOptions(&given));
  ort_status *status = open_with(given);
  ort->ReleaseSessionOptions(given);
  return status;
}

/* So that the application's end is not ours to wait for. */
static void close_session(void) {
  if (session) ort->ReleaseSession(session);
  if (env) ort->ReleaseEnv(env);
  session = NULL;
  env = NULL;
}

/* Whether a run is to end. What can't be found out stays as it is. */
static bool is_due(const ort_run_options *given) {
  const char *output = "y";
  ort_value *made = NULL;
  ort_status *status =
      ort->Run(session, given, NULL, NULL, 0, &output, 1, &made);
  bool due = status && strstr(ort->GetErrorMessage(status), said);
  if (status) ort->ReleaseStatus(status);
  if (made) ort->ReleaseValue(made);
  return due;
}

/* ---- the thread ------------------------------------------------------------------ */

static void terminate_look(void) {
  for (terminable *run = runs; run; run = run->next) {
    bool first = !run->seen;
    run->seen = true;
    if (!first && !run->ended && is_due(run->options)) {
      run->ended = true;
      keel_cancel_request(run->cancel, "RunOptions.terminate is set");
    }
  }
}

static bool any_seen(void) {
  for (terminable *run = runs; run; run = run->next)
    if (run->seen) return true;
  return false;
}

/* With the lock, which is let go meanwhile: to open a session takes long. */
static void make_ready(void) {
  if (session || !any_seen()) return;
  pthread_mutex_unlock(&lock);
  ort_status *status = open_session();
  if (status) ort->ReleaseStatus(status);
  if (!session) close_session();
  pthread_mutex_lock(&lock);
}

static void pass_round(void) {
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_nsec += ROUND;
  until.tv_sec += until.tv_nsec / 1000000000L;
  until.tv_nsec %= 1000000000L;
  while (pthread_cond_timedwait(&changed, &lock, &until) != ETIMEDOUT)
    ;
}

static void *terminate_work(void *none) {
  int idle = 0;
  (void)none;
  pthread_mutex_lock(&lock);
  for (;;) {
    pass_round();
    make_ready();
    if (session)
      terminate_look();
    else
      for (terminable *run = runs; run; run = run->next)
        run->seen = true;
    idle = runs ? 0 : idle + 1;
    if (!runs && session) {
      pthread_mutex_unlock(&lock);
      close_session();
      pthread_mutex_lock(&lock);
    }
    while (idle >= ROUNDS && !runs) {
      asleep = true;
      pthread_cond_wait(&changed, &lock);
      asleep = false;
    }
  }
  return NULL;
}

static bool terminate_start(void) {
  pthread_t thread;
  if (started) return true;
  if (pthread_create(&thread, NULL, terminate_work, NULL)) return false;
  pthread_detach(thread);
  return started = true;
}

/* ---- runs ---------------------------------------------------------------------------- */

/* With the lock. */
static void terminate_watch(terminable *run) {
  if (!terminate_start()) return;
  run->next = runs;
  if (runs) runs->before = &run->next;
  run->before = &runs;
  runs = run;
  if (asleep) pthread_cond_signal(&changed);
}

keel_cancel *terminate_begin(terminable *run, const target *of) {
  *run = (terminable){0};
  pthread_mutex_lock(&lock);
  run->options = options_of(of);
  pthread_mutex_unlock(&lock);
  if (!run->options || keel_cancel_create(of->context, &run->cancel) != KD_OK)
    return NULL;
  pthread_mutex_lock(&lock);
  terminate_watch(run);
  pthread_mutex_unlock(&lock);
  return run->cancel;
}

void terminate_end(terminable *run) {
  if (!run->cancel) return;
  pthread_mutex_lock(&lock);
  if (run->before) *run->before = run->next;
  if (run->next) run->next->before = run->before;
  pthread_mutex_unlock(&lock);
  keel_cancel_release(run->cancel);
}
