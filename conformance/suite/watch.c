/* watch.c - the process's state, compared around every call into the plugin. */
#include <fcntl.h>
#include <fenv.h>
#include <locale.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "suite/suite.h"
/**/
#include "suite/channel.h"

extern char **environ;

/* ---- what costs nothing: around each call ------------------------------------ */

typedef struct quick_state {
  uint32_t control, x87; /* rounding, flush-to-zero, exception masks */
  uint32_t direction;
} quick_state;

static quick_state quick(void) {
  quick_state now = {0};
#if defined(__x86_64__)
  now.control = _mm_getcsr() & ~0x3fu; /* without the sticky flags */
  uint16_t word = 0;
  __asm__ volatile("fnstcw %0" : "=m"(word));
  now.x87 = word;
  uint64_t flags = 0;
  __asm__ volatile("pushfq; popq %0" : "=r"(flags));
  now.direction = (flags >> 10) & 1;
#elif defined(__aarch64__)
  uint64_t word = 0;
  __asm__ volatile("mrs %0, fpcr" : "=r"(word));
  now.control = (uint32_t)word;
#endif
  return now;
}

static void restore(quick_state state) {
#if defined(__x86_64__)
  _mm_setcsr(state.control);
  uint16_t word = (uint16_t)state.x87;
  __asm__ volatile("fldcw %0" : : "m"(word));
  __asm__ volatile("cld");
#elif defined(__aarch64__)
  uint64_t word = state.control;
  __asm__ volatile("msr fpcr, %0" : : "r"(word));
#endif
}

/* ---- what costs a system call: now and then, and around each rule ------------- */

typedef struct slow_state {
  sigset_t mask;
  struct sigaction actions[32];
  stack_t stack;
  uint64_t environment;
  char cwd[512], locale[128];
  mode_t creation;
  cpu_set_t cpus;
  int nice_value, policy, cancel;
  struct rlimit files;
} slow_state;

static uint64_t hash_environment(void) {
  uint64_t hash = KC_HASH;
  for (char **at = environ; at && *at; at++)
    hash = kc_hash(hash, *at);
  return hash;
}

static void watch_look(slow_state *now) {
  memset(now, 0, sizeof *now);
  pthread_sigmask(SIG_BLOCK, NULL, &now->mask);
  for (int i = 1; i < 32; i++)
    sigaction(i, NULL, &now->actions[i]);
  sigaltstack(NULL, &now->stack);
  now->environment = hash_environment();
  if (!getcwd(now->cwd, sizeof now->cwd)) now->cwd[0] = 0;
  const char *locale = setlocale(LC_ALL, NULL);
  snprintf(now->locale, sizeof now->locale, "%s", locale ? locale : "");
  now->creation = umask(022);
  umask(now->creation);
  sched_getaffinity(0, sizeof now->cpus, &now->cpus);
  now->nice_value = getpriority(PRIO_PROCESS, 0);
  now->policy = sched_getscheduler(0);
  pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &now->cancel);
  pthread_setcancelstate(now->cancel, NULL);
  getrlimit(RLIMIT_NOFILE, &now->files);
}

static bool same_masks(const sigset_t *a, const sigset_t *b) {
  for (int i = 1; i < 32; i++)
    if (sigismember(a, i) != sigismember(b, i)) return false;
  return true;
}

static void watch_compare(const slow_state *then, const slow_state *now,
                          const char *where) {
  if (!same_masks(&then->mask, &now->mask))
    kc_violation("state.signals", "%s changed the thread's signal mask", where);
  for (int i = 1; i < 32; i++)
    if (then->actions[i].sa_handler != now->actions[i].sa_handler)
      kc_violation("state.signals", "%s changed the handler of signal %d (%s)",
                   where, i, strsignal(i));
  if (then->stack.ss_sp != now->stack.ss_sp)
    kc_violation("state.signals", "%s changed the alternate signal stack",
                 where);
  if (then->environment != now->environment)
    kc_violation("state.environment", "%s changed the environment", where);
  if (strcmp(then->cwd, now->cwd) != 0)
    kc_violation("state.directory", "%s changed the working directory to %s",
                 where, now->cwd);
  if (strcmp(then->locale, now->locale) != 0)
    kc_violation("state.locale", "%s changed the locale to %s", where,
                 now->locale);
  if (then->creation != now->creation)
    kc_violation("state.umask", "%s changed the umask to %03o", where,
                 (unsigned)now->creation);
  if (!CPU_EQUAL(&then->cpus, &now->cpus))
    kc_violation("thread.no-affinity-change",
                 "%s changed the calling thread's affinity", where);
  if (then->nice_value != now->nice_value || then->policy != now->policy)
    kc_violation("thread.no-priority-change",
                 "%s changed the calling thread's priority", where);
  if (then->cancel != now->cancel)
    kc_violation("thread.no-priority-change",
                 "%s changed the calling thread's cancel state", where);
  if (then->files.rlim_cur != now->files.rlim_cur)
    kc_violation("state.limits", "%s changed a resource limit", where);
}

/* ---- around a call -------------------------------------------------------------- */

static _Thread_local quick_state before;
static _Thread_local uint32_t inside;
static _Thread_local uint32_t counter;
static _Thread_local uint32_t my_call; /* its line in the ring */
static _Thread_local uint32_t my_line; /* among the calls that are open */
static slow_state first;
static char since[KC_RING_TEXT]; /* the first call after that look */
static unsigned calls_since;
static pthread_t watched;
static bool watching;

/* Threads that are a whole ring apart may write one line at once: it is then
 * garbled, and nothing else. */
#if defined(__SANITIZE_THREAD__)
__attribute__((no_sanitize_thread))
#endif
static void
put_call(volatile char *to, const char *text) {
  while ((*to++ = *text++))
    continue;
}

void kc_enter(const char *format, ...) {
  char text[KC_RING_TEXT];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  my_call = atomic_fetch_add(&kc_shared->at, 1) % KC_RING;
  put_call(kc_shared->calls[my_call], text);
  kc_beat();
  if (inside++) return;
  for (my_line = 0; my_line < KC_CALLERS; my_line++)
    if (!atomic_exchange(&kc_shared->in[my_line], true)) break;
  if (my_line < KC_CALLERS) put_call(kc_shared->open[my_line], text);
  before = quick();
}

bool kc_inside(void) {
  return inside > 0;
}

static const char *last_call(void) {
  return kc_shared->calls[my_call];
}

/* Looks at what is slow to look at: it was any call since the last look. */
static void look_again(void) {
  char where[2 * KC_RING_TEXT + 64] = "the rule itself";
  slow_state now;
  watch_look(&now);
  if (calls_since == 1)
    snprintf(where, sizeof where, "%s", since);
  else if (calls_since)
    snprintf(where, sizeof where, "one of %u calls, %s to %s,", calls_since,
             since, last_call());
  watch_compare(&first, &now, where);
  first = now;
  calls_since = 0;
}

static void note_call(void) {
  if (!calls_since++) snprintf(since, sizeof since, "%s", last_call());
  if (counter++ % 64 == 0) look_again();
}

void kc_leave(void) {
  if (--inside) return;
  if (my_line < KC_CALLERS) atomic_store(&kc_shared->in[my_line], false);
  quick_state now = quick();
  if (now.control != before.control || now.x87 != before.x87) {
    kc_violation("state.fpu",
                 "%s changed the floating-point control word from %x/%x to"
                 " %x/%x",
                 last_call(), before.control, before.x87, now.control, now.x87);
    restore(before);
  }
  if (now.direction != before.direction) {
    kc_violation("state.direction-flag", "%s left the direction flag set",
                 last_call());
    restore(before);
  }
  if (watching && pthread_equal(pthread_self(), watched)) note_call();
}

/* ---- around the loading of the library ----------------------------------------- */

static quick_state unloaded;

void kc_watch_load(void) {
  unloaded = quick();
}

void kc_watch_loaded(void) {
  quick_state now = quick();
  if (now.control == unloaded.control && now.x87 == unloaded.x87) return;
  kc_violation("state.fpu",
               "after loading the library the floating-point control word is"
               " %x/%x, and was %x/%x: -ffast-math at link time?",
               now.control, now.x87, unloaded.control, unloaded.x87);
  restore(unloaded);
}

/* ---- around a rule ---------------------------------------------------------------- */

void kc_watch_begin(void) {
  watch_look(&first);
  watched = pthread_self();
  calls_since = 0;
  watching = true;
}

void kc_watch_end(void) {
  look_again();
  if (atomic_load(&kc_host.zones) != 0)
    kc_violation("host.zones-balanced", "%u zones were begun and not ended",
                 atomic_load(&kc_host.zones));
  watching = false;
}
