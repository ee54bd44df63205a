/* case.c - cases, checks and their events, on the child's side. */
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "suite/suite.h"
/**/
#include "suite/channel.h"
#include "system/environment.h"
#include "system/printable.h"

kc_setup kc = {.seed = 1, .factor = 1};
kc_page *kc_shared;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool on_stdout;
static uint32_t printed_failures;
static sigjmp_buf leaving;
static pthread_t main_thread;
static uint64_t case_seed;
static bool in_case;
static uint32_t numbers;     /* cases counted */
static uint32_t numbers_run; /* those of the rule that ran */
static uint32_t failures;
static bool outside; /* what was skipped last was of the whole rule */
static uint32_t soak_round;
static bool spread; /* the rule's cases, over the parts of a run */
static bool others; /* some of its cases are in other parts */
static bool
    announced; /* the running case; in later rounds, only one that fails */

/* ---- events ----------------------------------------------------------------- */

void kc_channel_open(bool in_process) {
  on_stdout = in_process;
  void *page = in_process ? MAP_FAILED
                          : mmap(NULL, sizeof(kc_page), PROT_READ | PROT_WRITE,
                                 MAP_SHARED, KC_PAGE_FD, 0);
  if (page == MAP_FAILED) {
    page = calloc(1, sizeof(kc_page));
    on_stdout = true;
  }
  kc_shared = page;
  if (!on_stdout) {
    close(KC_PAGE_FD);
    fcntl(KC_EVENT_FD, F_SETFD, FD_CLOEXEC);
  }
}

/* The event in words, in a process of its own. */
static void print_event(char kind, const char *text) {
  const char *case_name = strchr(text, ' ');
  switch (kind) {
    case 'B':
      if (kc.in_process) printf("  %s\n", case_name ? case_name + 1 : text);
      break;
    case 'F':
      printf("    failed: %s\n", text);
      break;
    case 'W':
      printf("    broke another rule: %s\n", text);
      break;
    case 'N':
      printf("    note: %s\n", text);
      break;
    case 'U':
      printf("    not claimed: %s\n", text);
      break;
    case 'S':
      printf("    not tested: %s\n", text);
      break;
    case 'X':
      puts("    stopped; the other cases of the rule were not run");
      break;
    default:
      break;
  }
  fflush(stdout);
  printed_failures += kind == 'F' || kind == 'W';
}

uint32_t kc_channel_failures(void) {
  return printed_failures;
}

uint32_t kc_channel_cases(void) {
  return numbers_run;
}

void kc_send(char kind, const char *text) {
  if (on_stdout) {
    print_event(kind, text);
    return;
  }
  char line[2048];
  int size =
      snprintf(line, sizeof line, "%s %c %s", kc_shared->nonce, kind, text);
  if (size < 0) return;
  if ((size_t)size > sizeof line - 2) size = (int)sizeof line - 2;
  for (int i = 0; i < size; i++)
    if ((unsigned char)line[i] < ' ') line[i] = ' ';
  line[size++] = '\n';
  const char *at = line;
  while (size > 0) {
    ssize_t wrote = write(KC_EVENT_FD, at, (size_t)size);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) _exit(99); /* nobody listens any more */
    at += wrote;
    size -= (int)wrote;
  }
}

static void case_say(char kind, const char *format, va_list args) {
  char text[1800];
  vsnprintf(text, sizeof text, format, args);
  keel_make_printable(text, "\n\t");
  pthread_mutex_lock(&lock);
  kc_send(kind, text);
  pthread_mutex_unlock(&lock);
}

void kc_beat(void) {
  atomic_fetch_add_explicit(&kc_shared->beat, 1, memory_order_relaxed);
}

bool kc_is_sanitized(void) {
  static const char *const names[] = {"libasan", "libtsan",   "libubsan",
                                      "liblsan", "libhwasan", "libclang_rt."};
  const char *preloaded = keel_environment("LD_PRELOAD");
  bool is = false;
  for (size_t i = 0; preloaded && i < KC_COUNT_OF(names); i++)
    is |= strstr(preloaded, names[i]) != NULL;
  return is;
}

double kc_patience(void) {
  uint32_t thousandths = kc_shared ? atomic_load(&kc_shared->patience) : 0;
  return thousandths > 1000 ? thousandths / 1000.0 : 1;
}

/* ---- cases ------------------------------------------------------------------ */

/* For the runner, in what is printed: which case a sanitizer's report belongs to. */
static void mark_output(const char *name) {
  if (kc_is_sanitized() && kc_shared)
    dprintf(STDERR_FILENO, "%c%s %s\n", KC_MARK, kc_shared->nonce, name);
}

static void announce(void) {
  char text[300];
  if (announced || !in_case) return;
  announced = true;
  snprintf(text, sizeof text, "%llu %s",
           (unsigned long long)atomic_load(&kc_shared->number),
           kc_shared->name);
  kc_send('B', text);
  mark_output(kc_shared->name);
}

static void end_case(void) {
  if (!in_case) return;
  char text[32];
  in_case = false;
  if (!announced) return;
  snprintf(text, sizeof text, "%llu",
           (unsigned long long)atomic_exchange(&kc_shared->checks, 0));
  kc_send('E', text);
}

uint32_t kc_shard_of(const char *name, uint32_t shards) {
  return (uint32_t)((kc_hash(KC_HASH, name) >> 20) % shards);
}

uint64_t kc_hash(uint64_t hash, const char *text) {
  for (; *text; text++)
    hash = (hash ^ (uint8_t)*text) * UINT64_C(0x100000001b3);
  return hash;
}

bool kc_case(const char *format, ...) {
  char name[256];
  int used = snprintf(name, sizeof name, "%s/", kc.rule);
  va_list args;
  va_start(args, format);
  vsnprintf(name + used, sizeof name - (size_t)used, format, args);
  va_end(args);
  used = (int)strlen(name);
  if (soak_round)
    snprintf(name + used, sizeof name - (size_t)used, "/soak=%u", soak_round);
  keel_make_printable(name, ""); /* a plugin's words may be in it */
  end_case();
  uint32_t number = numbers++;
  if (number < kc.from || (kc.only && strcmp(kc.only, name) != 0)) return false;
  if (spread && kc_shard_of(name, kc.shards) != kc.shard) {
    others = true;
    return false;
  }
  in_case = true;
  numbers_run++;
  failures = 0;
  case_seed = kc_hash(KC_HASH ^ kc.seed, name);
  atomic_store(&kc_shared->number, number);
  snprintf(kc_shared->name, sizeof kc_shared->name, "%s", name);
  announced = false;
  if (!soak_round || kc.only) announce();
  kc_beat();
  return true;
}

bool kc_check(bool holds, const char *format, ...) {
  atomic_fetch_add_explicit(&kc_shared->checks, 1, memory_order_relaxed);
  kc_beat();
  if (holds) return true;
  va_list args;
  va_start(args, format);
  announce();
  if (failures++ < 5) case_say('F', format, args);
  va_end(args);
  return false;
}

void kc_stop(const char *format, ...) {
  atomic_fetch_add_explicit(&kc_shared->checks, 1, memory_order_relaxed);
  announce();
  va_list args;
  va_start(args, format);
  case_say('F', format, args);
  va_end(args);
  if (!pthread_equal(pthread_self(), main_thread)) pthread_exit(NULL);
  siglongjmp(leaving, 1);
}

/* Whether the case that is skipped, or one for the whole rule, is to be told of. */
static bool skips(void) {
  outside = !in_case;
  if (outside && others) return false; /* what there is, is not here */
  return (!outside || kc_case("none")) && announced;
}

void kc_unclaimed(const char *format, ...) {
  va_list args;
  va_start(args, format);
  if (skips()) case_say('U', format, args);
  va_end(args);
  siglongjmp(leaving, 2);
}

void kc_untested(const char *format, ...) {
  va_list args;
  va_start(args, format);
  if (skips()) case_say('S', format, args);
  va_end(args);
  siglongjmp(leaving, 2);
}

void kc_note(const char *format, ...) {
  va_list args;
  va_start(args, format);
  if (announced) case_say('N', format, args);
  va_end(args);
}

void kc_violation(const char *rule, const char *format, ...) {
  char text[1600];
  int used = snprintf(text, sizeof text, "%s ", rule);
  va_list args;
  va_start(args, format);
  vsnprintf(text + used, sizeof text - (size_t)used, format, args);
  va_end(args);
  pthread_mutex_lock(&lock);
  kc_send('W', text);
  pthread_mutex_unlock(&lock);
}

/* ---- a rule ------------------------------------------------------------------ */

/* The round that "area.rule/case/soak=N" names; 0 for other names. */
static uint32_t round_of(const char *name) {
  const char *at = name ? strstr(name, "/soak=") : NULL;
  return at ? (uint32_t)strtoul(at + 6, NULL, 10) : 0;
}

/* One round over the rule's cases. A case that kc_stop left may have spoilt the
 * process: the runner goes on behind it in a fresh child. One that is not claimed
 * did nothing yet, so the check is called again and passes over what ran before.
 * False where it stopped. */
static bool run_round(const kc_rule *rule) {
  char text[32];
  for (;;) {
    numbers = 0;
    int left = sigsetjmp(leaving, 1);
    if (left == 0) {
      kc_watch_begin();
      if (!(rule->flags & KC_CASES) && !kc_case("all")) return true;
      if (!(rule->flags & KC_CLOSED)) kc_device();
      rule->check();
      kc_tidy();
      kc_watch_end();
      end_case();
      return true;
    }
    uint32_t at = atomic_load(&kc_shared->number);
    end_case();
    if (left == 1) {
      snprintf(text, sizeof text, "%u", at);
      kc_send('X', text);
      return false;
    }
    kc.from = at + 1;
    kc_tidy();
    if (outside || !(rule->flags & KC_CASES)) return true;
  }
}

bool kc_run_rule(const kc_rule *rule) {
  char text[32];
  uint64_t began = kc_now();
  main_thread = pthread_self();
  kc.rule = rule->id;
  spread = (rule->flags & KC_SPREAD) && kc.shards > 1 && !kc.only;
  others = false;
  kc_shared->name[0] = 0;
  outside = false;
  numbers_run = 0;
  for (soak_round = round_of(kc.only);; soak_round++) {
    if (!run_round(rule)) return false;
    if (kc.only || kc_now() - began >= kc.soak_time) break;
    kc.from = 0;
  }
  snprintf(text, sizeof text, "%u", numbers);
  mark_output("");
  kc_send('D', text);
  return true;
}

/* ---- crashes ------------------------------------------------------------------ */

static void on_crash(int number, siginfo_t *info, void *context) {
  (void)context;
  void *frames[24];
  char *at = kc_shared->crash, *end = at + sizeof kc_shared->crash;
  int count = backtrace(frames, 24);
  at += snprintf(at, (size_t)(end - at), "%s at address %p\n",
                 strsignal(number), info->si_addr);
  for (int i = 2; i < count && end - at > 200; i++) {
    Dl_info where;
    if (dladdr(frames[i], &where) && where.dli_fname) {
      const char *slash = strrchr(where.dli_fname, '/');
      at += snprintf(
          at, (size_t)(end - at), "  %s %s+0x%lx\n",
          slash ? slash + 1 : where.dli_fname,
          where.dli_sname ? where.dli_sname : "",
          (unsigned long)((char *)frames[i] - (char *)(where.dli_sname
                                                           ? where.dli_saddr
                                                           : where.dli_fbase)));
    }
  }
  signal(number, SIG_DFL);
  raise(number);
}

void kc_watch_crashes(void) {
  static const int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};
  static char stack[65536];
  void *warm[4];
  backtrace(warm, 4); /* loads what it needs now, not in the handler */
  stack_t other = {.ss_sp = stack, .ss_size = sizeof stack};
  sigaltstack(&other, NULL);
  struct sigaction action = {.sa_sigaction = on_crash,
                             .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
  for (size_t i = 0; i < KC_COUNT_OF(signals); i++)
    sigaction(signals[i], &action, NULL);
}

/* ---- numbers, time, threads ----------------------------------------------------- */

kc_random kc_seed(void) {
  return (kc_random){case_seed ? case_seed : 1};
}

uint64_t kc_next(kc_random *random) { /* splitmix64 */
  uint64_t z = random->state += UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return z ^ (z >> 31);
}

uint64_t kc_below(kc_random *random, uint64_t below) {
  return below ? kc_next(random) % below : 0;
}

uint64_t kc_now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (uint64_t)time.tv_sec * KC_S + (uint64_t)time.tv_nsec;
}

void kc_sleep(uint64_t time) {
  for (; time > KC_S && kc_shared; time -= KC_S) { /* the suite's own time */
    kc_sleep(KC_S);
    kc_beat();
  }
  struct timespec rest = {.tv_sec = (time_t)(time / KC_S),
                          .tv_nsec = (long)(time % KC_S)};
  while (nanosleep(&rest, &rest) != 0 && errno == EINTR)
    continue;
}

typedef struct thread_job {
  void (*body)(void *, uint32_t);
  void *context;
  uint32_t index;
} thread_job;

static void *run_thread(void *argument) {
  thread_job *job = argument;
  job->body(job->context, job->index);
  return NULL;
}

void kc_threads(uint32_t count, void (*body)(void *context, uint32_t index),
                void *context) {
  pthread_t threads[64];
  thread_job jobs[64];
  uint32_t made = 0;
  for (uint32_t i = 0; i < count && i < 64; i++) {
    jobs[i] = (thread_job){body, context, i};
    if (pthread_create(&threads[made], NULL, run_thread, &jobs[i]) != 0) break;
    made++;
  }
  for (uint32_t i = 0; i < made; i++)
    pthread_join(threads[i], NULL);
  KC_NEED(made == count, "the suite could make %u threads only", made);
}
