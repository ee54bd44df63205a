/* options.c - reading the command line of a run, and finding the plugin. */
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <kd/help.h>

#include "main.h"
#include "ops/schema.h"
#include "suite/suite.h"

/* FOLDER/NAME.so where it is; a folder that begins with a dot is beside the
 * program: of the build, or the install. */
static bool look_in(const char *folder, const char *name, char *out_path) {
  char self[PATH_MAX] = "", path[2 * PATH_MAX];
  if (folder[0] == '.') {
    ssize_t size = readlink("/proc/self/exe", self, sizeof self - 2);
    if (size <= 0) return false;
    char *slash = memrchr(self, '/', (size_t)size);
    if (slash) slash[1] = 0;
  }
  int size = snprintf(path, sizeof path, "%s%s/%s.so", self, folder, name);
  return size > 0 && (size_t)size < sizeof path && realpath(path, out_path);
}

bool kc_find_plugin(const char *name, char out_path[4096]) {
  static const char *const folders[] = {"../lib/keel", "../conformance",
                                        "../samples"};
  char plain[128];
  if ((strchr(name, '/') || strstr(name, ".so")) && realpath(name, out_path))
    return true;
  if (!strchr(name, '/') && strlen(name) < sizeof plain) {
    snprintf(plain, sizeof plain, "%s", name);
    plain[strcspn(plain, ":")] = 0;
    for (size_t i = 0; i < KC_COUNT_OF(folders); i++)
      if (look_in(folders[i], plain, out_path)) return true;
    char *list = getenv("KEEL_PLUGIN_PATH"), *copy = list ? strdup(list) : NULL;
    char *save = NULL;
    bool found = false;
    for (char *at = copy ? strtok_r(copy, ":", &save) : NULL; at && !found;
         at = strtok_r(NULL, ":", &save))
      found = look_in(at, plain, out_path);
    free(copy);
    if (found) return true;
  }
  out_path[0] = 0;
  if (strchr(name, '/') || strstr(name, ".so"))
    fprintf(stderr, "keel-conformance: %s: %s\n", name, strerror(ENOENT));
  else
    fprintf(stderr,
            "keel-conformance: there is no verb and no plugin \"%s\": give the"
            " path of a library (./lib%s.so), or the name of a device that Keel"
            " has (cpu); --help has the verbs\n",
            name, name);
  return false;
}

/* "10m", "30s", "500ms", "2h" in nanoseconds; 0 where it is none. */
static uint64_t read_time(const char *text) {
  const char *end = NULL;
  double value = 0;
  if (!kc_read_factor(text, &end, &value)) return 0;
  double unit = !strcmp(end, "ms")           ? 1e6
                : !strcmp(end, "s") || !*end ? 1e9
                : !strcmp(end, "m")          ? 60e9
                : !strcmp(end, "h")          ? 3600e9
                                             : 0;
  return value * unit < 1e18 ? (uint64_t)(value * unit) : 0;
}

/* "512M", "2G" in bytes; 0 where it is none. */
static uint64_t read_size(const char *text) {
  char *end = NULL;
  uint64_t value = strtoull(text, &end, 10);
  int shift = !*end                  ? 0
              : toupper(*end) == 'K' ? 10
              : toupper(*end) == 'M' ? 20
              : toupper(*end) == 'G' ? 30
                                     : -1;
  bool good = isdigit((unsigned char)*text) && shift >= 0 && value < 1ull << 32;
  return good ? value << shift : 0;
}

static double read_scale(const char *text) {
  const char *end = NULL;
  double value = 0;
  return kc_read_factor(text, &end, &value) && !*end ? value : 0;
}

static bool is_dtype(const char *name) {
  for (kd_dtype i = 1; i < KD_DTYPE_COUNT; i++)
    if (!strcmp(name, kd_dtype_name(i))) return true;
  return false;
}

static bool is_op(const char *name) {
  const keel_schema *schema = NULL;
  if (keel_schema_ready() != KD_OK) return true;
  for (uint32_t i = 0; (schema = keel_schema_at(i)); i++)
    if (!strcmp(name, schema->name)) return true;
  return false;
}

static int read_level(const char *text) {
  for (int i = 0; i <= KC_COMPILE; i++) {
    char digit[2] = {(char)('0' + i), 0};
    if (!strcmp(text, digit) || !strcmp(text, kc_level_name((kc_level)i)))
      return i;
  }
  return -1;
}

/* One option with a value. Returns NULL where it is taken, else what is wrong. */
static const char *take(kc_options *o, const char *name, const char *value) {
  uint64_t number = 0;
  if (!strcmp(name, "--level"))
    return (o->level = read_level(value)) < 0
               ? "is none of core, async, replay, compile (0 to 3)"
               : NULL;
  if (!strcmp(name, "--rule")) {
    if (o->glob_count == KC_GLOBS) return "is one too many";
    o->globs[o->glob_count++] = value;
    return NULL;
  }
  if (!strcmp(name, "--not")) {
    if (o->not_count == KC_GLOBS) return "is one too many";
    o->not_globs[o->not_count++] = value;
    return NULL;
  }
  if (!strcmp(name, "--option")) {
    if (o->plugin_option_count == 32) return "is one too many";
    o->plugin_options[o->plugin_option_count++] = value;
    return strchr(value, '=') ? NULL : "is not like name=value";
  }
  if (!strcmp(name, "--report")) {
    if (o->report_count == 16) return "is one too many";
    o->reports[o->report_count++] = value;
    return kc_is_format(value) ? NULL
                               : "is none of html, junit, tap, md, badge, text";
  }
  if (!strcmp(name, "--seed")) {
    if (!strcmp(value, "random")) {
      o->seed = (kc_now() ^ (uint64_t)getpid() << 20) % 1000000007u;
      printf("seed %llu\n", (unsigned long long)o->seed);
      return NULL;
    }
    return kc_read_number(value, &o->seed) ? NULL
                                           : "is neither a number nor random";
  }
  if (!strcmp(name, "--jobs")) {
    bool good = kc_read_number(value, &number) && number >= 1 && number <= 16;
    o->jobs = (uint32_t)number;
    return good ? NULL : "is not a number from 1 to 16";
  }
  if (!strcmp(name, "--shard")) {
    char *end = NULL;
    o->shard = (uint32_t)strtoul(value, &end, 10) - 1;
    bool good =
        *end == '/' && kc_read_number(end + 1, &number) && number <= 10000;
    o->shards = good ? (uint32_t)number : 0;
    good = good && o->shard < o->shards;
    return good ? NULL : "is not like 2/5";
  }
  if (!strcmp(name, "--group")) {
    o->by_area = !strcmp(value, "area");
    return o->by_area || !strcmp(value, "rule") ? NULL
                                                : "is neither rule nor area";
  }
  if (!strcmp(name, "--soak"))
    return (o->soak = read_time(value)) ? NULL : "is not a time like 10m";
  if (!strcmp(name, "--max-memory"))
    return (o->max_memory = read_size(value)) ? NULL
                                              : "is not a size like 512M";
  if (!strcmp(name, "--time-scale"))
    return (o->time_scale = read_scale(value)) > 0 ? NULL
                                                   : "is not a number above 0";
  if (!strcmp(name, "--device")) {
    bool good = kc_read_number(value, &number) && number < KC_MAX_DEVICES;
    o->device = (uint32_t)number;
    return good ? NULL : "is not the index of a device";
  }
  if (!strcmp(name, "--op") && !is_op(value))
    return "is not an op that the host knows";
  if (!strcmp(name, "--dtype") && !is_dtype(value))
    return "is not an element type (f32, i64 ...)";
  const struct {
    const char *name;
    const char **target;
  } words[] = {{"--op", &o->op},     {"--dtype", &o->dtype},
               {"--case", &o->only}, {"--dump", &o->dump},
               {"--out", &o->out},   {"--expectations", &o->expectations}};
  for (size_t i = 0; i < KC_COUNT_OF(words); i++)
    if (!strcmp(name, words[i].name)) {
      *words[i].target = value;
      return NULL;
    }
  return "?";
}

static bool takes_value(const char *name) {
  static const char *const names[] = {
      "--level",  "--rule",         "--not",        "--option", "--report",
      "--seed",   "--jobs",         "--shard",      "--soak",   "--max-memory",
      "--device", "--op",           "--dtype",      "--case",   "--dump",
      "--out",    "--expectations", "--time-scale", "--group"};
  for (size_t i = 0; i < KC_COUNT_OF(names); i++)
    if (!strcmp(name, names[i])) return true;
  return false;
}

static bool take_flag(kc_options *o, const char *name) {
  if (!strcmp(name, "--quick"))
    o->quick = true;
  else if (!strcmp(name, "--in-process"))
    o->in_process = true;
  else if (!strcmp(name, "--quiet"))
    o->quiet = true;
  else if (!strcmp(name, "--verbose"))
    o->verbose = true;
  else if (!strcmp(name, "--no-reruns"))
    o->no_reruns = true;
  else
    return false;
  return true;
}

/* Whether `name` is a word of a list. */
static bool listed(const char *list, const char *name) {
  size_t size = strlen(name);
  for (const char *at = list; (at = strstr(at, name)); at += size)
    if ((at == list || at[-1] == ' ') && (!at[size] || at[size] == ' '))
      return true;
  return false;
}

static void set_defaults(kc_options *o) {
  cpu_set_t set;
  memset(o, 0, sizeof *o);
  o->level = -1;
  o->seed = 1;
  o->max_memory = UINT64_C(512) << 20;
  o->time_scale = 1;
  o->jobs = sched_getaffinity(0, sizeof set, &set) == 0
                ? (uint32_t)CPU_COUNT(&set)
                : 1;
  if (o->jobs > 4) o->jobs = 4;
}

/* "./libacme.so", "cpu", "cpu:1" */
static int take_plugin(kc_options *o, const char *verb, const char *word) {
  uint64_t number = 0;
  if (o->plugin[0])
    return kc_usage(verb, "\"%s\" is one plugin too many", word);
  const char *colon = strchr(word, ':');
  if (colon && !strchr(word, '/')) {
    if (!kc_read_number(colon + 1, &number) || number >= KC_MAX_DEVICES)
      return kc_usage(verb, "\"%s\": \"%s\" is not the index of a device", word,
                      colon + 1);
    o->device = (uint32_t)number;
  }
  return kc_find_plugin(word, o->plugin) ? -1 : KC_EXIT_USAGE;
}

/* One option of a run. -1: go on. */
static int take_option(kc_options *o, const kc_words *words,
                       const char *allowed, int argc, char **argv, int *at) {
  static char name[64];
  const char *word = argv[*at], *value = NULL;
  const kc_word *own = kc_word_find(words->options, word);
  if (own) return kc_word_take(words->verb, own, argc, argv, at);
  snprintf(name, sizeof name, "%.*s", (int)strcspn(word, "="), word);
  if (!takes_value(name)) {
    bool known = !strchr(word, '=') && take_flag(o, name);
    if (known && (!allowed || listed(allowed, name))) return -1;
  } else if (!allowed || listed(allowed, name)) {
    int status = kc_option_value(words->verb, name, argc, argv, at, &value);
    if (status >= 0) return status;
    const char *wrong = take(o, name, value);
    return wrong ? kc_usage(words->verb, "%s %s %s", name, value, wrong) : -1;
  }
  return kc_usage(words->verb, "there is no option \"%s\"", word);
}

int kc_options_read(kc_options *o, const kc_words *words, const char *allowed,
                    int argc, char **argv) {
  bool more_options = true;
  set_defaults(o);
  if (kc_helps(words->help, argc, argv)) return 0;
  for (int i = 0; i < argc; i++) {
    int status = -1;
    if (more_options && !strcmp(argv[i], "--")) {
      more_options = false;
    } else if (more_options && argv[i][0] == '-' && argv[i][1]) {
      status = take_option(o, words, allowed, argc, argv, &i);
    } else {
      status = take_plugin(o, words->verb, argv[i]);
    }
    if (status >= 0) return status;
  }
  return -1;
}
