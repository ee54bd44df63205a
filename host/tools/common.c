/* common.c - options, messages and progress of all subcommands. */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <time.h>
#include <unistd.h>

#include "system/printable.h"
#include "tool.h"
#include "watched.h"

int complain(void) {
  progress_end();
  tell("keel: %s", keel_message());
  return 1;
}

int usage_error(const char *command, const char *format, ...) {
  char text[4096];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  fprintf(stderr, "keel %s: %s; `keel %s --help` says more\n", command,
          keel_make_printable(text, "\n"), command);
  return EXIT_USAGE;
}

bool is_help(const char *word) {
  return !strcmp(word, "--help") || !strcmp(word, "-h");
}

/* "-" alone and negative numbers are none. */
bool is_option(const char *word) {
  return word[0] == '-' && (word[1] == '-' || isalpha((unsigned char)word[1]));
}

const char *option_value(int argc, char **argv, int *at, const char *name,
                         bool *out_missing) {
  size_t size = strlen(name);
  if (strncmp(argv[*at], name, size) != 0) return NULL;
  if (argv[*at][size] == '=') return argv[*at] + size + 1;
  if (argv[*at][size]) return NULL;
  bool last = *at + 1 >= argc;
  if (!last && !is_option(argv[*at + 1])) return argv[++*at];
  *out_missing = true;
  if (last)
    fprintf(stderr, "keel: %s needs a value\n", name);
  else
    fprintf(stderr,
            "keel: %s needs a value, and \"%s\" is an option (%s=%s takes it"
            " as the value)\n",
            name, argv[*at + 1], name, argv[*at + 1]);
  return NULL;
}

bool read_number(const char *command, const char *name, const char *value,
                 double *out_number) {
  char *end = NULL;
  *out_number = strtod(value, &end);
  if (end != value && !*end && isfinite(*out_number) && *out_number >= 0)
    return true;
  usage_error(command, "%s is \"%s\"; it must be a number, 0 or more", name,
              value);
  return false;
}

bool read_count(const char *command, const char *name, const char *value,
                uint64_t least, uint64_t most, uint64_t *out_count) {
  char *end = NULL;
  errno = 0;
  *out_count = strtoull(value, &end, 10);
  if (isdigit((unsigned char)*value) && !*end && !errno &&
      *out_count >= least && *out_count <= most)
    return true;
  usage_error(command,
              "%s is \"%s\"; it must be a whole number from %llu to %llu", name,
              value, (unsigned long long)least, (unsigned long long)most);
  return false;
}

void common_help(const common *common) {
  if (common->runs)
    printf(
        "  --threads N         run on N threads, the calling one among them;"
        " 0 or 1:\n"
        "                      on the calling one alone (KEEL_THREADS, or as"
        " many\n"
        "                      as there are processors)\n");
  if (!common->plain)
    printf(
        "  --plugin PATH       look at this plugin, or folder of plugins,"
        " first\n"
        "  --only              load no plugins but those\n"
        "  --option P.N=V      give plugin P the option N\n");
  printf("  --help              this text\n");
}

#define THREADS_MOST 1025u /* 1024 beside the caller */

static bool take_threads(common *common, const char *value) {
  uint64_t threads = 0;
  if (!read_count(common->command, "--threads", value, 0, THREADS_MOST,
                  &threads))
    return false;
  common->workers = threads < 2 ? KEEL_NO_WORKERS : (int32_t)threads - 1;
  return true;
}

/* One more of a list of 32. */
static bool common_add(const common *common, const char *name,
                       const char **list, uint32_t *count, const char *value) {
  if (*count == 32) {
    usage_error(common->command, "%s can be given at most 32 times", name);
    return false;
  }
  list[(*count)++] = value;
  return true;
}

bool common_option(common *common, int argc, char **argv, int *at) {
  const char *value = NULL;
  bool *failed = &common->failed;
  if (common->plain) return false;
  if (!strcmp(argv[*at], "--only")) {
    common->only = true;
    return true;
  }
  if ((value = option_value(argc, argv, at, "--plugin", failed)))
    *failed = !common_add(common, "--plugin", common->plugins,
                          &common->plugin_count, value);
  else if (!*failed &&
           (value = option_value(argc, argv, at, "--option", failed)))
    *failed = !common_add(common, "--option", common->options,
                          &common->option_count, value);
  else if (!*failed && common->runs &&
           (value = option_value(argc, argv, at, "--threads", failed)))
    *failed = !take_threads(common, value);
  return value || *failed;
}

keel_context *common_open(const common *common, uint32_t flags) {
  keel_context *context = NULL;
  keel_context_params params = {
      .struct_size = sizeof params,
      .flags = flags | (common->only ? KEEL_ONLY_NAMED : 0),
      .workers = common->workers,
      .plugins = common->plugins,
      .plugin_count = common->plugin_count,
      .options = common->options,
      .option_count = common->option_count,
      .visible = common->visible,
      .log = watched_log,
      .step = watched_step,
  };
  if (keel_open(&params, &context) != KD_OK) complain();
  watched_own();
  return context;
}

/* ---- progress ------------------------------------------------------------- */

static bool line_open;

void progress(const char *format, ...) {
  if (!isatty(STDERR_FILENO)) return;
  char text[4096];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  fprintf(stderr, "\r\033[K%s", keel_make_printable(text, ""));
  fflush(stderr);
  line_open = true;
}

void progress_end(void) {
  if (line_open) fputs("\r\033[K", stderr);
  line_open = false;
}

double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

bool resident(uint64_t *out_now, uint64_t *out_most) {
  FILE *file = fopen("/proc/self/status", "r");
  char line[256];
  *out_now = *out_most = 0;
  while (file && fgets(line, sizeof line, file)) {
    uint64_t kib = strtoull(line + strcspn(line, "0123456789"), NULL, 10);
    if (!strncmp(line, "VmRSS:", 6)) *out_now = kib << 10;
    if (!strncmp(line, "VmHWM:", 6)) *out_most = kib << 10;
  }
  if (file) fclose(file);
  return *out_now && *out_most;
}

const char *shown(const char *text) {
  static char rooms[8][1024];
  static unsigned turn;
  char *room = rooms[turn++ % (sizeof rooms / sizeof *rooms)];
  size_t size = sizeof rooms[0];
  if ((size_t)snprintf(room, size, "%s", text) >= size) {
    size_t end = size - 4; /* between two characters, if it is UTF-8 */
    while (end > size - 8 && ((unsigned char)room[end] & 0xc0) == 0x80)
      end--;
    memcpy(room + end, "...", 4);
  }
  return keel_make_printable(room, "");
}

int64_t size_for(const char *word, const char *name) {
  size_t length = strlen(name);
  char *end = NULL;
  if (strncmp(word, name, length) != 0 || word[length] != '=') return -1;
  errno = 0;
  int64_t size = strtoll(word + length + 1, &end, 10);
  return !errno && !*end && end != word + length + 1 && size >= 0 ? size : -1;
}
