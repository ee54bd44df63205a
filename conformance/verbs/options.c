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

#include "ops/schema.h"
#include "report/report.h"
#include "suite/suite.h"
#include "system/environment.h"
#include "verbs/verbs.h"

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
  /* of the build; KC_LIBDIR: of the install, from the folder of programs */
  static const char *const folders[] = {"../lib/keel", "../conformance",
                                        "../samples", KC_LIBDIR "/keel",
                                        KC_LIBDIR "/keel-conformance"};
  char plain[128];
  if ((strchr(name, '/') || strstr(name, ".so")) && realpath(name, out_path))
    return true;
  if (!strchr(name, '/') && strlen(name) < sizeof plain) {
    snprintf(plain, sizeof plain, "%s", name);
    plain[strcspn(plain, ":")] = 0;
    for (size_t i = 0; i < KC_COUNT_OF(folders); i++)
      if (look_in(folders[i], plain, out_path)) return true;
    const char *list = keel_environment("KEEL_PLUGIN_PATH");
    char *copy = list ? strdup(list) : NULL;
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

/* ---- options with a value: each returns NULL where it takes it, else what is wrong --- */

static const char *options_add(const char **list, uint32_t *count,
                               uint32_t capacity, const char *value) {
  if (*count == capacity) return "is one too many";
  list[(*count)++] = value;
  return NULL;
}

static const char *take_level(kc_options *o, const char *value) {
  o->level = read_level(value);
  return o->level < 0 ? "is none of core, async, replay, compile (0 to 3)"
                      : NULL;
}

static const char *take_rule(kc_options *o, const char *value) {
  return options_add(o->globs, &o->glob_count, KC_GLOBS, value);
}

static const char *take_not(kc_options *o, const char *value) {
  return options_add(o->not_globs, &o->not_count, KC_GLOBS, value);
}

static const char *take_plugin_option(kc_options *o, const char *value) {
  if (!strchr(value, '=')) return "is not like name=value";
  return options_add(o->plugin_options, &o->plugin_option_count,
                     (uint32_t)KC_COUNT_OF(o->plugin_options), value);
}

static const char *take_report(kc_options *o, const char *value) {
  if (!kc_is_format(value))
    return "is none of html, junit, tap, md, badge, text";
  return options_add(o->reports, &o->report_count,
                     (uint32_t)KC_COUNT_OF(o->reports), value);
}

/* That every reader of results.jsonl has exactly: its numbers are doubles. */
#define MOST_SEED (UINT64_C(1) << 53)

static const char *take_seed(kc_options *o, const char *value) {
  if (!strcmp(value, "random")) {
    o->seed = (kc_now() ^ (uint64_t)getpid() << 20) % 1000000007u;
    printf("seed %llu\n", (unsigned long long)o->seed);
    return NULL;
  }
  bool good = kc_read_number(value, &o->seed) && o->seed <= MOST_SEED;
  return good ? NULL : "is neither a number up to 9007199254740992 nor random";
}

static const char *take_jobs(kc_options *o, const char *value) {
  uint64_t number = 0;
  bool good = kc_read_number(value, &number) && number >= 1 && number <= 16;
  o->jobs = (uint32_t)number;
  return good ? NULL : "is not a number from 1 to 16";
}

static const char *take_shard(kc_options *o, const char *value) {
  return kc_read_part(value, &o->shard, &o->shards) ? NULL : "is not like 2/5";
}

/* A case that the plugin doesn't have shows when it runs; a rule that is none at once. */
static const char *take_case(kc_options *o, const char *value) {
  static char wrong[200], id[64];
  size_t size = strcspn(value, "/");
  o->only = value;
  if (!value[size]) return "is not like RULE/CASE, as a failure names it";
  snprintf(id, sizeof id, "%.*s", size < sizeof id ? (int)size : 0, value);
  if (kc_rule_find(id)) return NULL;
  snprintf(wrong, sizeof wrong,
           "is of no rule: there is no rule \"%.*s\", and keel-conformance"
           " list has them all",
           size < 64 ? (int)size : 64, value);
  return wrong;
}

static const char *take_group(kc_options *o, const char *value) {
  o->by_area = !strcmp(value, "area");
  return o->by_area || !strcmp(value, "rule") ? NULL
                                              : "is neither rule nor area";
}

static const char *take_soak(kc_options *o, const char *value) {
  o->soak = read_time(value);
  return o->soak ? NULL : "is not a time like 10m";
}

static const char *take_max_memory(kc_options *o, const char *value) {
  o->max_memory = read_size(value);
  return o->max_memory ? NULL : "is not a size like 512M";
}

static const char *take_time_scale(kc_options *o, const char *value) {
  o->time_scale = read_scale(value);
  return o->time_scale > 0 ? NULL : "is not a number above 0";
}

static const char *options_take_device(kc_options *o, const char *value) {
  uint64_t number = 0;
  bool good = kc_read_number(value, &number) && number < KC_MAX_DEVICES;
  o->device = (uint32_t)number;
  return good ? NULL : "is not the index of a device";
}

static const char *take_op(kc_options *o, const char *value) {
  o->op = value;
  return is_op(value) ? NULL : "is not an op that the host knows";
}

static const char *take_dtype(kc_options *o, const char *value) {
  o->dtype = value;
  return is_dtype(value) ? NULL : "is not an element type (f32, i64 ...)";
}

/* An option is taken by a function, or its value is kept as it is. */
typedef struct valued {
  const char *name;
  const char *(*take)(kc_options *o, const char *value);
  size_t kept; /* where in kc_options */
} valued;

static const valued *find_valued(const char *name) {
  static const valued all[] = {
      {"--level", take_level, 0},
      {"--rule", take_rule, 0},
      {"--not", take_not, 0},
      {"--option", take_plugin_option, 0},
      {"--report", take_report, 0},
      {"--seed", take_seed, 0},
      {"--jobs", take_jobs, 0},
      {"--shard", take_shard, 0},
      {"--group", take_group, 0},
      {"--soak", take_soak, 0},
      {"--max-memory", take_max_memory, 0},
      {"--time-scale", take_time_scale, 0},
      {"--device", options_take_device, 0},
      {"--op", take_op, 0},
      {"--dtype", take_dtype, 0},
      {"--case", take_case, 0},
      {"--dump", NULL, offsetof(kc_options, dump)},
      {"--out", NULL, offsetof(kc_options, out)},
      {"--expectations", NULL, offsetof(kc_options, expectations)},
  };
  for (size_t i = 0; i < KC_COUNT_OF(all); i++)
    if (!strcmp(name, all[i].name)) return &all[i];
  return NULL;
}

static const char *verbs_options_take(kc_options *o, const valued *option,
                                      const char *value) {
  if (option->take) return option->take(o, value);
  memcpy((char *)o + option->kept, &value, sizeof value);
  return NULL;
}

/* ---- the others ------------------------------------------------------------------- */

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
  const valued *option = find_valued(name);
  if (!option) {
    bool known = !strchr(word, '=') && take_flag(o, name);
    if (known && (!allowed || listed(allowed, name))) return -1;
  } else if (!allowed || listed(allowed, name)) {
    int status = kc_option_value(words->verb, name, argc, argv, at, &value);
    if (status >= 0) return status;
    const char *wrong = verbs_options_take(o, option, value);
    return wrong ? kc_usage(words->verb, "%s %s %s", name, value, wrong) : -1;
  }
  return kc_usage(words->verb, "unknown option \"%s\"", word);
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
  if (o->only && o->shards > 1)
    return kc_usage(words->verb,
                    "--shard and --case exclude each other, as one case is in"
                    " one part only; leave --shard out");
  return -1;
}
