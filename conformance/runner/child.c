/* child.c - one child process: starting it, reading its events, its end. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runner/run.h"
#include "runner/scratch.h"
#include "suite/suite.h"
/**/
#include "suite/channel.h"

/* ---- starting ---------------------------------------------------------------------- */

static bool make_page(kc_child *child, int *out_fd) {
  int fd = memfd_create("keel-conformance", MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, sizeof(kc_page)) != 0) return false;
  void *page =
      mmap(NULL, sizeof(kc_page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (page == MAP_FAILED) {
    close(fd);
    return false;
  }
  child->page = page;
  static uint64_t count;
  kc_random random = {kc_now() ^ ((uint64_t)getpid() << 32) ^ count++};
  snprintf(child->page->nonce, sizeof child->page->nonce, "%016llx",
           (unsigned long long)kc_next(&random));
  *out_fd = fd;
  return true;
}

static void limit(int what, uint64_t value) {
  struct rlimit now;
  if (getrlimit(what, &now) != 0) return;
  if (now.rlim_max != RLIM_INFINITY && value > now.rlim_max)
    value = now.rlim_max;
  now.rlim_cur = value;
  setrlimit(what, &now);
}

static void child_limits(const kc_options *options) {
  limit(RLIMIT_CORE, 0);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  /* writable private memory: address space that a driver only reserves is
   * not counted; a plugin built with a sanitizer, whose library is preloaded, takes terabytes */
  if (!kc_is_sanitized())
    limit(RLIMIT_DATA, options->max_memory * 2 + (UINT64_C(3) << 30));
#else
  (void)options;
#endif
}

static void child_add(char **argv, int *count, const char *word) {
  if (*count < 254) argv[(*count)++] = (char *)(uintptr_t)word;
}

static void child_pair(char **argv, int *count, const char *name,
                       const char *value) {
  child_add(argv, count, name);
  child_add(argv, count, value);
}

static char *child_number(char *room, uint64_t value) {
  sprintf(room, "%llu", (unsigned long long)value);
  return room;
}

static void become(const kc_options *options, const kc_child *child,
                   uint32_t from, const char *only, double factor,
                   const char *scratch) {
  const kc_rule *rule = child->rule;
  char *argv[256], from_text[24], seed_text[24], memory_text[24], soak_text[24];
  char device_text[24], factor_text[32], shard_text[24], shards_text[24];
  int n = 0;
  snprintf(factor_text, sizeof factor_text, "%.3f", factor);
  child_add(argv, &n, "keel-conformance");
  child_add(argv, &n, "__rule");
  child_add(argv, &n, options->plugin);
  child_add(argv, &n, rule->id);
  const char *const pairs[][2] = {
      {"--from", child_number(from_text, from)},
      {"--seed", child_number(seed_text, options->seed)},
      {"--max-memory", child_number(memory_text, options->max_memory)},
      {"--soak",
       child_number(soak_text, kc_rule_soaks(rule) ? options->soak : 0)},
      {"--device", child_number(device_text, options->device)},
      {"--shard", child_number(shard_text, options->shard)},
      {"--shards", child_number(shards_text, options->shards)},
      {"--factor", factor_text},
      {"--scratch", scratch},
      {"--case", only},
      {"--op", options->op},
      {"--dtype", options->dtype},
      {"--dump", options->dump}};
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
    if (pairs[i][1]) child_pair(argv, &n, pairs[i][0], pairs[i][1]);
  if (options->quick) child_add(argv, &n, "--quick");
  for (uint32_t i = 0; i < options->plugin_option_count; i++)
    child_pair(argv, &n, "--option", options->plugin_options[i]);
  for (uint32_t i = 0; i < child->queue_count; i++)
    child_pair(argv, &n, "--then", child->queue[i]->id);
  argv[n] = NULL;
  execv("/proc/self/exe", argv);
  _exit(98);
}

/* Where a sanitizer's library is preloaded: its own report of a crash, none of what a case that
 * was left did not free, and none of the suite, which is not built with it. A user's settings
 * stand. */
static void set_sanitizers(void) {
  setenv("ASAN_OPTIONS",
         "detect_leaks=0:handle_segv=1:allow_user_segv_handler=0", 0);
  setenv("TSAN_OPTIONS", "ignore_noninstrumented_modules=1", 0);
  setenv("UBSAN_OPTIONS", "print_stacktrace=1:print_summary=1", 0);
}

static void set_up(const kc_options *options, int events, int output, int page,
                   const char *scratch) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG,
        SIGKILL); /* not to outlive a runner that was killed */
  int nothing = open("/dev/null", O_RDONLY);
  int keep_events = fcntl(events, F_DUPFD, 10),
      keep_page = fcntl(page, F_DUPFD, 10);
  int keep_output = fcntl(output, F_DUPFD, 10);
  if (nothing < 0 || keep_events < 0 || keep_page < 0 || keep_output < 0)
    _exit(97); /* the process may have too few files open */
  dup2(nothing, 0);
  dup2(keep_output, 1);
  dup2(keep_output, 2);
  dup2(keep_events, KC_EVENT_FD);
  dup2(keep_page, KC_PAGE_FD);
  for (int fd = 5; fd < 64; fd++)
    close(fd);
  setenv("TMPDIR", scratch, 1);
  char home[300];
  snprintf(home, sizeof home, "%s/home", scratch);
  if (mkdir(home, 0700) != 0) _exit(97);
  setenv("HOME", home, 1);
  /* what one child compiled the next ones find: a driver's compiler may take most of
   * the time of a run */
  setenv("XDG_CACHE_HOME", options->cache[0] ? options->cache : scratch, 1);
  /* where nothing lies: files are found wherever the suite is started, or never */
  char empty[300];
  snprintf(empty, sizeof empty, "%s/cwd", scratch);
  if (mkdir(empty, 0700) != 0 || chdir(empty) != 0) _exit(97);
  if (kc_is_sanitized()) set_sanitizers();
  signal(SIGPIPE, SIG_DFL);
  signal(SIGXFSZ, SIG_DFL);
  child_limits(options);
}

static void close_all(int *pair) {
  for (int i = 0; i < 2; i++)
    if (pair[i] >= 0) close(pair[i]);
}

/* There is no process: nothing of it stays, and `errno` says why. */
static bool child_give_up(kc_child *child, int *events, int *output, int page) {
  int error = errno;
  close_all(events);
  close_all(output);
  if (page >= 0) close(page);
  if (child->page) munmap(child->page, sizeof *child->page);
  if (child->scratch[0]) kc_scratch_remove(child->scratch);
  child->page = NULL;
  child->pid = 0;
  errno = error;
  return false;
}

bool kc_child_start(kc_child *child, const kc_options *options,
                    const kc_rule *rule, kc_rule_result *result, uint32_t from,
                    const char *only, double factor) {
  int events[2] = {-1, -1}, output[2] = {-1, -1}, page = -1;
  kc_child before = *child;
  memset(child, 0, sizeof *child);
  child->crashes = before.crashes;
  child->restarts = before.restarts;
  memcpy(child->queue, before.queue, sizeof child->queue);
  child->queue_count = before.queue_count;
  memcpy(child->past, before.past, sizeof child->past);
  child->past_count = before.past_count;
  if (!kc_scratch_make(child->scratch) || !make_page(child, &page) ||
      pipe2(events, O_CLOEXEC) != 0 || pipe2(output, O_CLOEXEC) != 0)
    return child_give_up(child, events, output, page);
  child->rule = rule;
  child->result = result;
  child->events = events[0];
  child->output = output[0];
  fcntl(events[0], F_SETFL, O_NONBLOCK);
  fcntl(output[0], F_SETFL, O_NONBLOCK);
  child->began = child->case_began = kc_now();
  child->clock.looked = child->clock.sign = child->began;
  fflush(NULL);
  child->report.nonce = kc_is_sanitized() ? child->page->nonce : NULL;
  child->pid = fork();
  if (child->pid < 0) return child_give_up(child, events, output, page);
  if (child->pid == 0) {
    set_up(options, events[1], output[1], page, child->scratch);
    become(options, child, from, only, factor, child->scratch);
  }
  setpgid(child->pid, child->pid);
  close(events[1]);
  close(output[1]);
  close(page);
  return true;
}

/* ---- its events ------------------------------------------------------------------------ */

/* The array that holds the running case may move. */
static kc_case_result *case_in(kc_child *child, kc_rule_result *rule,
                               const char *name) {
  char now[300] = "";
  if (rule == child->result && child->now)
    snprintf(now, sizeof now, "%s", child->now->name);
  kc_case_result *one = kc_results_case(rule, name);
  if (now[0]) child->now = kc_results_case(rule, now);
  return one;
}

static void note_violation(kc_child *child, kc_results *all, const char *text) {
  char id[64], name[400];
  const char *space = strchr(text, ' ');
  if (!space || space - text >= (long)sizeof id) return;
  snprintf(id, sizeof id, "%.*s", (int)(space - text), text);
  kc_rule_result *rule = all ? kc_results_rule(all, id) : NULL;
  if (!rule) return;
  snprintf(name, sizeof name, "%s/during=%s", id,
           child->now ? child->now->name : child->rule->id);
  kc_case_result *one = case_in(child, rule, name);
  one->status = KC_FAIL;
  one->checks++;
  if (!one->message || strlen(one->message) < 1000)
    kc_text_more(&one->message, "%s", space + 1);
}

static void read_output(kc_child *child) {
  char buffer[8192];
  ssize_t got = 0;
  for (int i = 0;
       i < 64 && (got = read(child->output, buffer, sizeof buffer - 1)) > 0;
       i++) {
    got = (ssize_t)kc_report_read(&child->report, buffer, (size_t)got);
    child->flood += child->report.strange;
    child->report.strange = 0;
    child->flood += (uint64_t)got;
    buffer[got] = 0;
    size_t room = sizeof child->said - 1, used = strlen(child->said);
    const char *from = buffer;
    if ((size_t)got > room) from = buffer + got - (ssize_t)room;
    size_t size = strlen(from);
    if (used + size > room) {
      size_t drop = used + size - room;
      if (drop > used) drop = used;
      memmove(child->said, child->said + drop, used - drop + 1);
      used -= drop;
    }
    memcpy(child->said + used, from, size + 1);
  }
  child->output_ended |= got == 0;
}

/* What was printed so far belongs to the rule that ends. */
static void report_stdio(kc_child *child, kc_results *all) {
  kc_rule_result *rule = all ? kc_results_rule(all, "err.no-stdio") : NULL;
  if (!child->flood || !rule || child->report.begun) return;
  char name[200];
  snprintf(name, sizeof name, "err.no-stdio/during=%s", child->rule->id);
  kc_case_result *one = kc_results_case(rule, name);
  one->status = KC_FAIL;
  one->checks++;
  kc_text_set(&one->message, "%llu bytes were printed: %.300s",
              (unsigned long long)child->flood, child->said);
}

void kc_child_report(kc_child *child) {
  kc_report *report = &child->report;
  char name[300];
  if (!report->begun || report->noted) return;
  if (report->at[0])
    snprintf(name, sizeof name, "%s", report->at);
  else
    snprintf(name, sizeof name, "%s/%s", child->rule->id,
             child->done ? "exit" : "begin");
  kc_case_result *one = case_in(child, child->result, name);
  kc_report_says(report, &one->message);
  report->noted = true;
  one->status = KC_FAIL;
  one->checks++;
  kc_text_more(&one->detail, "%s", report->text);
}

void kc_child_leave_rule(kc_child *child, kc_results *all) {
  read_output(child);
  kc_child_report(child);
  report_stdio(child, all);
  child->result->time += kc_now() - child->began;
}

/* The next rule of the queue; one that is not there was not sent by the suite. */
static void next_rule(kc_child *child, kc_results *all, const char *id) {
  if (!child->done || !child->queue_count ||
      strcmp(child->queue[0]->id, id) != 0) {
    child->garbage += strlen(id) + 1;
    return;
  }
  kc_child_leave_rule(child, all);
  child->past[child->past_count++] = child->result;
  child->result = child->queue[0];
  child->rule = child->result->rule;
  child->queue_count--;
  memmove(child->queue, child->queue + 1,
          child->queue_count * sizeof *child->queue);
  child->done = false;
  child->now = NULL;
  child->flood = child->crashes = child->restarts = 0;
  child->said[0] = 0;
  child->report = (kc_report){.nonce = child->report.nonce};
  child->began = kc_now();
}

/* An event of the case at hand; false: it is of none, or unknown. */
static bool take_case_event(kc_child *child, char kind, const char *text) {
  kc_case_result *now = child->now;
  bool known = strchr("EFUSNT", kind) != NULL;
  if (!known || !now) return known;
  if (kind == 'E') {
    now->checks += strtoull(text, NULL, 10);
    now->time += kc_now() - child->case_began;
    child->now = NULL;
  } else if (kind == 'F') {
    now->status = KC_FAIL;
    now->failed |=
        !now->late; /* what fails behind a deadline may be due to that */
    kc_text_more(&now->message, "%s", text);
  } else if (kind == 'N') {
    kc_text_more(&now->note, "%s", text);
  } else if (kind == 'T') {
    now->late = true;
    now->load = kc_load_of_machine();
  } else if (now->status != KC_FAIL) { /* what failed, failed */
    now->status = kind == 'S' ? KC_UNTESTED : KC_UNCLAIMED;
    kc_text_set(&now->message, "%s", text);
  }
  return true;
}

static void begin_case(kc_child *child, const char *text) {
  const char *name = strchr(text, ' ');
  if (!name) return;
  child->now = kc_results_case(child->result, name + 1);
  child->now->status = KC_PASS;
  child->case_began = kc_now();
  child->clock.spent = 0;
}

/* A line of the pipe: an event, by the letters that suite/channel.h lists. */
static void take_line(kc_child *child, kc_results *all, char *text) {
  size_t size = strlen(child->page->nonce);
  if (strncmp(text, child->page->nonce, size) != 0 || text[size] != ' ' ||
      !text[size + 1] || text[size + 2] != ' ') {
    child->garbage += strlen(text) + 1;
    return;
  }
  char kind = text[size + 1];
  text += size + 3;
  if (take_case_event(child, kind, text)) return;
  if (kind == 'B') {
    begin_case(child, text);
  } else if (kind == 'W') {
    note_violation(child, all, text);
  } else if (kind == 'D') {
    child->done = true;
    child->cases = (uint32_t)strtoul(text, NULL, 10);
  } else if (kind == 'R') {
    next_rule(child, all, text);
  } else if (kind == 'X') {
    child->stopped = true;
    child->stop_at = (uint32_t)strtoul(text, NULL, 10);
  } else {
    child->garbage += strlen(text);
  }
}

static void read_events(kc_child *child, kc_results *all) {
  char buffer[8192];
  ssize_t got = 0;
  while ((got = read(child->events, buffer, sizeof buffer)) > 0) {
    for (ssize_t i = 0; i < got; i++) {
      char c = buffer[i];
      if (c == '\n') {
        child->line[child->line_size] = 0;
        if (!child->overlong) take_line(child, all, child->line);
        child->line_size = 0;
        child->overlong = false;
      } else if (child->line_size + 1 < sizeof child->line) {
        child->line[child->line_size++] = c ? c : ' ';
      } else {
        child->overlong = true;
        child->garbage++;
      }
    }
    if (child->garbage > (1 << 20)) return; /* the flood is dealt with later */
  }
  child->events_ended |= got == 0;
}

void kc_child_poll(const kc_child *child, struct pollfd *out) {
  int events = child->events_ended ? -1 : child->events;
  int output = child->output_ended ? -1 : child->output;
  out[0] = (struct pollfd){events, POLLIN, 0};
  out[1] = (struct pollfd){output, POLLIN, 0};
}

void kc_child_read(kc_child *child, kc_results *all) {
  read_events(child, all);
  read_output(child);
}

/* ---- its end ---------------------------------------------------------------------------- */

bool kc_child_ended(const kc_child *child, int *out_status) {
  int got = waitpid(child->pid, out_status, WNOHANG);
  if (got == 0 || (got < 0 && errno != ECHILD)) return false;
  if (got < 0) *out_status = 255 << 8; /* somebody else has what became of it */
  return true;
}

void kc_child_kill(kc_child *child) {
  if (child->pid <= 0) return;
  kill(-child->pid, SIGKILL);
  kill(child->pid, SIGKILL);
}

void kc_child_stacks(kc_child *child, char **text) {
  char command[256], line[400];
  if (access("/usr/bin/gdb", X_OK) != 0) {
    kc_text_more(text, "(gdb would show the stacks; it is not installed)");
    return;
  }
  snprintf(command, sizeof command,
           "timeout -s KILL 8 gdb -nx -p %d -batch -ex 'set pagination off'"
           " -ex 'thread apply all bt 12' 2>/dev/null",
           child->pid);
  FILE *pipe = popen(command, "re");
  int lines = 0;
  while (pipe && fgets(line, sizeof line, pipe) && lines < 60) {
    if (line[0] != '#' && strncmp(line, "Thread", 6) != 0) continue;
    line[strcspn(line, "\n")] = 0;
    kc_text_more(text, "  %s", line);
    lines++;
  }
  if (pipe) pclose(pipe);
}

void kc_child_close(kc_child *child) {
  if (child->pid <= 0) return;
  kill(-child->pid, SIGKILL); /* what it left behind */
  close(child->events);
  close(child->output);
  munmap(child->page, sizeof *child->page);
  kc_scratch_remove(child->scratch);
  child->pid = 0;
}
