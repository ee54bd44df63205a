/* common.c - options, messages and progress of all subcommands. */
#include <stdarg.h>
#include <time.h>
#include <unistd.h>

#include "tool.h"

int complain(void) {
  progress_end();
  fprintf(stderr, "keel: %s\n", keel_message());
  return 1;
}

int usage_error(const char *command, const char *format, ...) {
  va_list args;
  va_start(args, format);
  fprintf(stderr, "keel %s: ", command);
  vfprintf(stderr, format, args);
  fprintf(stderr, "; `keel %s --help` says more\n", command);
  va_end(args);
  return EXIT_USAGE;
}

bool is_help(const char *word) {
  return !strcmp(word, "--help") || !strcmp(word, "-h");
}

const char *option_value(int argc, char **argv, int *at, const char *name,
                         bool *out_missing) {
  size_t size = strlen(name);
  if (strncmp(argv[*at], name, size) != 0) return NULL;
  if (argv[*at][size] == '=') return argv[*at] + size + 1;
  if (argv[*at][size]) return NULL;
  if (*at + 1 >= argc) {
    fprintf(stderr, "keel: %s needs a value\n", name);
    *out_missing = true;
    return NULL;
  }
  return argv[++*at];
}

const char common_help[] =
    "  --plugin PATH       look at this plugin, or folder of plugins, first\n"
    "  --only              load no plugins but those\n"
    "  --option P.N=V      give plugin P the option N\n"
    "  --help              this text\n";

bool common_option(common *common, int argc, char **argv, int *at) {
  const char *value = NULL;
  if (!strcmp(argv[*at], "--only")) {
    common->only = true;
    return true;
  }
  if ((value = option_value(argc, argv, at, "--plugin", &common->failed))) {
    if (common->plugin_count < 32)
      common->plugins[common->plugin_count++] = value;
    return true;
  }
  if ((value = option_value(argc, argv, at, "--option", &common->failed))) {
    if (common->option_count < 32)
      common->options[common->option_count++] = value;
    return true;
  }
  return common->failed;
}

keel_context *common_open(const common *common, uint32_t flags) {
  keel_context *context = NULL;
  keel_context_params params = {
      .struct_size = sizeof params,
      .flags = flags | (common->only ? KEEL_ONLY_NAMED : 0),
      .plugins = common->plugins,
      .plugin_count = common->plugin_count,
      .options = common->options,
      .option_count = common->option_count,
  };
  if (keel_open(&params, &context) != KD_OK) complain();
  return context;
}

/* ---- progress ------------------------------------------------------------- */

static bool line_open;

void progress(const char *format, ...) {
  if (!isatty(STDERR_FILENO)) return;
  va_list args;
  va_start(args, format);
  fputs("\r\033[K", stderr);
  vfprintf(stderr, format, args);
  fflush(stderr);
  va_end(args);
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

void print_json_string(FILE *file, const char *string) {
  fputc('"', file);
  for (const unsigned char *at = (const unsigned char *)string; *at; at++) {
    if (*at == '"' || *at == '\\')
      fprintf(file, "\\%c", *at);
    else if (*at < 32)
      fprintf(file, "\\u%04x", *at);
    else
      fputc(*at, file);
  }
  fputc('"', file);
}
