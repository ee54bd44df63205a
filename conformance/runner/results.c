/* results.c - results in memory, and as lines of JSON. */
#include "runner/results.h"

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "system/json.h"
#include "system/printable.h"

static const char *const names[KC_STATUS_COUNT] = {
    "pass",    "warning", "fail",  "crash", "hang",    "skipped",
    "not-run", "xfail",   "xpass", "error", "untested"};

const char *kc_status_name(kc_status status) {
  return status < KC_STATUS_COUNT ? names[status] : "?";
}

static kc_status status_of(const char *name) {
  for (int i = 0; i < KC_STATUS_COUNT; i++)
    if (name && !strcmp(name, names[i])) return (kc_status)i;
  return KC_ERROR;
}

bool kc_status_failed(kc_status status) {
  return status == KC_FAIL || status == KC_CRASH || status == KC_HANG ||
         status == KC_XPASS || status == KC_ERROR;
}

bool kc_status_skipped(kc_status status) {
  return status == KC_UNCLAIMED || status == KC_UNTESTED ||
         status == KC_NOT_RUN;
}

/* ---- text ------------------------------------------------------------------------- */

/* A text of its own, fit for a terminal; NULL: there is no memory. */
static char *make_text(const char *format, va_list args) {
  char *fresh = NULL;
  if (vasprintf(&fresh, format, args) < 0) return NULL;
  return keel_make_printable(fresh, "\n\t");
}

void kc_text_set(char **text, const char *format, ...) {
  va_list args;
  va_start(args, format);
  char *fresh = make_text(format, args);
  va_end(args);
  free(*text);
  *text = fresh;
}

void kc_text_more(char **text, const char *format, ...) {
  char *joined = NULL;
  va_list args;
  va_start(args, format);
  char *fresh = make_text(format, args);
  va_end(args);
  if (!*text || !fresh) {
    free(*text);
    *text = fresh;
    return;
  }
  if (strlen(*text) < 8000 && asprintf(&joined, "%s\n%s", *text, fresh) >= 0) {
    free(*text);
    *text = joined;
  }
  free(fresh);
}

/* ---- in memory ----------------------------------------------------------------------- */

kc_rule_result *kc_results_rule(const kc_results *results, const char *id) {
  for (uint32_t i = 0; i < results->rule_count; i++)
    if (!strcmp(results->rules[i].id, id)) return &results->rules[i];
  return NULL;
}

kc_case_result *kc_results_case(kc_rule_result *rule, const char *name) {
  for (uint32_t i = rule->case_count; i-- > 0;)
    if (!strcmp(rule->cases[i].name, name)) return &rule->cases[i];
  if (rule->case_count == rule->case_capacity) {
    uint32_t capacity = rule->case_capacity * 2 + 8;
    kc_case_result *cases = realloc(rule->cases, capacity * sizeof *cases);
    if (!cases) abort();
    rule->cases = cases;
    rule->case_capacity = capacity;
  }
  kc_case_result *made = &rule->cases[rule->case_count++];
  memset(made, 0, sizeof *made);
  made->name = strdup(name);
  return made;
}

bool kc_is_no_case(const kc_rule_result *rule, const char *name) {
  size_t size = strlen(rule->id);
  return !strncmp(name, rule->id, size) &&
         (!strcmp(name + size, "/begin") || !strcmp(name + size, "/exit"));
}

static void count_rules(kc_results *results) {
  results->passed = results->failed = results->skipped = results->warnings = 0;
  for (uint32_t i = 0; i < results->rule_count; i++) {
    kc_status status = results->rules[i].status;
    if (kc_status_failed(status))
      results->failed++;
    else if (status == KC_PASS)
      results->passed++;
    else if (status == KC_WARNING)
      results->warnings++;
    else
      results->skipped++;
  }
}

/* The texts of a run, by the name that results.jsonl has for them. */
static const struct {
  const char *name;
  size_t at;
} texts[] = {
    {"suite", offsetof(kc_results, suite)},
    {"suite_sha256", offsetof(kc_results, suite_digest)},
    {"rules_sha256", offsetof(kc_results, rules_digest)},
    {"plugin", offsetof(kc_results, plugin_path)},
    {"plugin_sha256", offsetof(kc_results, plugin_digest)},
    {"name", offsetof(kc_results, name)},
    {"vendor", offsetof(kc_results, vendor)},
    {"version", offsetof(kc_results, version)},
    {"device", offsetof(kc_results, device)},
    {"command", offsetof(kc_results, command)},
    {"started", offsetof(kc_results, started)},
    {"host", offsetof(kc_results, host)},
};
#define TEXTS (sizeof texts / sizeof *texts)

static char **text_at(kc_results *results, size_t index) {
  return (char **)(void *)((char *)results + texts[index].at);
}

void kc_results_free(kc_results *results) {
  for (uint32_t i = 0; i < results->rule_count; i++) {
    kc_rule_result *rule = &results->rules[i];
    for (uint32_t c = 0; c < rule->case_count; c++) {
      free(rule->cases[c].name);
      free(rule->cases[c].message);
      free(rule->cases[c].note);
      free(rule->cases[c].detail);
    }
    free(rule->cases);
    free(rule->id);
    free(rule->reason);
  }
  free(results->rules);
  for (size_t i = 0; i < TEXTS; i++)
    free(*text_at(results, i));
  free(results->digest);
  memset(results, 0, sizeof *results);
}

/* ---- writing --------------------------------------------------------------------------- */

/* A line goes into a buffer first, so that the digest sees what is written. */
typedef struct line {
  char *text;
  size_t size;
  FILE *file;
} line;

static FILE *begin_line(line *line) {
  line->text = NULL;
  line->file = open_memstream(&line->text, &line->size);
  return line->file;
}

static void end_line(kc_results *results, line *line) {
  fputc('\n', line->file);
  fclose(line->file);
  if (results->file) {
    kc_sha_add(results->digest, line->text, line->size);
    fwrite(line->text, 1, line->size, results->file);
  }
  free(line->text);
}

static void put_text(FILE *file, const char *name, const char *text) {
  if (!text) return;
  fprintf(file, ",\"%s\":", name);
  keel_write_json(file, text);
}

bool kc_results_begin(kc_results *results, const char *path) {
  line line;
  results->digest = calloc(1, sizeof *results->digest);
  if (!results->digest) return false;
  kc_sha_begin(results->digest);
  if (!keel_save_begin(&results->save, path, 0666)) return false;
  results->file = results->save.file;
  FILE *file = begin_line(&line);
  fprintf(file, "{\"type\":\"suite\",\"format\":1");
  for (size_t i = 0; i < TEXTS; i++)
    put_text(file, texts[i].name, *text_at(results, i));
  fprintf(file,
          ",\"abi\":%u,\"abi_min\":%u,\"device_index\":%u,\"seed\":%llu"
          ",\"level\":%d,\"options\":%u,\"partial\":%s,\"factor\":%.3f}",
          results->abi_version, results->abi_min, results->device_index,
          (unsigned long long)results->seed, results->level, results->options,
          results->partial ? "true" : "false", results->factor);
  end_line(results, &line);
  return true;
}

static void write_case(kc_results *results, const kc_rule_result *rule,
                       const kc_case_result *one) {
  line line;
  FILE *file = begin_line(&line);
  fprintf(file, "{\"type\":\"case\",\"rule\":\"%s\",\"case\":", rule->id);
  keel_write_json(file, one->name);
  fprintf(file, ",\"status\":\"%s\",\"checks\":%llu,\"time\":%llu",
          kc_status_name(one->status), (unsigned long long)one->checks,
          (unsigned long long)one->time);
  put_text(file, "message", one->message);
  put_text(file, "note", one->note);
  put_text(file, "detail", one->detail);
  if (one->runs)
    fprintf(file, ",\"runs\":%u,\"failed_runs\":%u", one->runs,
            one->failed_runs);
  fputc('}', file);
  end_line(results, &line);
}

void kc_results_write_rule(kc_results *results, kc_rule_result *rule) {
  if (rule->written) return;
  rule->written = true;
  line line;
  for (uint32_t i = 0; i < rule->case_count; i++)
    write_case(results, rule, &rule->cases[i]);
  FILE *file = begin_line(&line);
  fprintf(file,
          "{\"type\":\"rule\",\"rule\":\"%s\",\"status\":\"%s\",\"severity\":"
          "\"%s\",\"level\":\"%s\",\"cases\":%u,\"failed\":%u,\"checks\":%llu,"
          "\"time\":%llu",
          rule->id, kc_status_name(rule->status),
          kc_severity_name(rule->severity), kc_level_name(rule->level),
          rule->case_count, rule->failed, (unsigned long long)rule->checks,
          (unsigned long long)rule->time);
  put_text(file, "reason", rule->reason);
  fputc('}', file);
  end_line(results, &line);
}

void kc_results_keep(kc_results *results) {
  if (results->file && !keel_save_end(&results->save, true))
    fprintf(stderr,
            "keel-conformance: the results can't be written: %s; the file has"
            " what it had before\n",
            strerror(errno));
  results->file = NULL;
}

void kc_results_end(kc_results *results) {
  line line;
  char digest[65];
  count_rules(results);
  if (results->file) {
    kc_sha copy = *results->digest;
    kc_sha_end(&copy, digest);
    FILE *file = begin_line(&line);
    fprintf(file,
            "{\"type\":\"end\",\"passed\":%u,\"failed\":%u,\"skipped\":%u"
            ",\"warnings\":%u,\"time\":%llu,\"lines_sha256\":\"%s\"}",
            results->passed, results->failed, results->skipped,
            results->warnings, (unsigned long long)results->time, digest);
    end_line(results, &line);
  }
  kc_results_keep(results);
  results->complete = true;
}

/* ---- reading --------------------------------------------------------------------------- */

static char *get_text(const cJSON *object, const char *name) {
  const char *text =
      cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, name));
  char *copy = text ? strdup(text) : NULL;
  return copy ? keel_make_printable(copy, "\n\t") : NULL;
}

static double get_number(const cJSON *object, const char *name) {
  const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
  return cJSON_IsNumber(item) ? item->valuedouble : 0;
}

static int index_of(const char *name, const char *(*names_of)(int), int count) {
  for (int i = 0; i < count; i++)
    if (name && !strcmp(name, names_of(i))) return i;
  return 0;
}

static const char *severity_at(int i) {
  return kc_severity_name((kc_severity)i);
}

static const char *level_at(int i) {
  return kc_level_name((kc_level)i);
}

static void read_suite(const cJSON *object, kc_results *out) {
  for (size_t i = 0; i < TEXTS; i++)
    *text_at(out, i) = get_text(object, texts[i].name);
  out->abi_version = (uint32_t)get_number(object, "abi");
  out->abi_min = (uint32_t)get_number(object, "abi_min");
  out->device_index = (uint32_t)get_number(object, "device_index");
  out->seed = (uint64_t)get_number(object, "seed");
  out->level = (int)get_number(object, "level");
  out->options = (uint32_t)get_number(object, "options");
  out->factor = get_number(object, "factor");
  out->partial =
      cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(object, "partial"));
}

static kc_rule_result *rule_for(kc_results *out, const char *id) {
  kc_rule_result *rule = kc_results_rule(out, id);
  if (rule) return rule;
  kc_rule_result *rules =
      realloc(out->rules, (out->rule_count + 1) * sizeof *rules);
  if (!rules) abort();
  out->rules = rules;
  rule = &rules[out->rule_count++];
  memset(rule, 0, sizeof *rule);
  rule->id = strdup(id);
  rule->rule = kc_rule_find(id);
  rule->status = KC_NOT_RUN;
  return rule;
}

static void read_case(const cJSON *object, kc_results *out) {
  char *id = get_text(object, "rule"), *name = get_text(object, "case");
  char *status = get_text(object, "status");
  if (id && name) {
    kc_case_result *one = kc_results_case(rule_for(out, id), name);
    one->status = status_of(status);
    one->checks = (uint64_t)get_number(object, "checks");
    one->time = (uint64_t)get_number(object, "time");
    one->message = get_text(object, "message");
    one->note = get_text(object, "note");
    one->detail = get_text(object, "detail");
    one->runs = (uint32_t)get_number(object, "runs");
    one->failed_runs = (uint32_t)get_number(object, "failed_runs");
  }
  free(id);
  free(name);
  free(status);
}

static bool read_rule(const cJSON *object, kc_results *out) {
  char *id = get_text(object, "rule"), *status = get_text(object, "status");
  char *severity = get_text(object, "severity");
  char *level = get_text(object, "level");
  bool fresh = id != NULL;
  if (id) {
    kc_rule_result *rule = rule_for(out, id);
    fresh = !rule->written;
    rule->written = true;
    rule->status = status_of(status);
    rule->severity = (kc_severity)index_of(severity, severity_at, 3);
    rule->level = (kc_level)index_of(level, level_at, KC_LEVEL_COUNT);
    rule->checks = (uint64_t)get_number(object, "checks");
    rule->time = (uint64_t)get_number(object, "time");
    rule->failed = (uint32_t)get_number(object, "failed");
    rule->reason = get_text(object, "reason");
  }
  free(id);
  free(status);
  free(severity);
  free(level);
  return fresh;
}

static void read_end(const cJSON *object, kc_results *out, const kc_sha *sha) {
  char digest[65], *said = get_text(object, "lines_sha256");
  kc_sha copy = *sha;
  kc_sha_end(&copy, digest);
  out->tampered = !said || strcmp(said, digest) != 0;
  out->complete = !out->tampered;
  out->time = (uint64_t)get_number(object, "time");
  free(said);
}

bool kc_results_read(const char *path, kc_results *out) {
  memset(out, 0, sizeof *out);
  FILE *file = fopen(path, "rbe");
  if (!file) {
    fprintf(stderr, "keel-conformance: %s can't be read\n", path);
    return false;
  }
  char *text = NULL;
  size_t capacity = 0;
  ssize_t size = 0;
  kc_sha sha;
  uint32_t number = 0;
  bool good = true;
  kc_sha_begin(&sha);
  while (good && (size = getline(&text, &capacity, file)) > 0) {
    cJSON *object = cJSON_Parse(text);
    char *type = object ? get_text(object, "type") : NULL;
    number++;
    if (!type) {
      good = false;
      fprintf(stderr, "keel-conformance: %s:%u is not a line of results\n",
              path, number);
    } else if (number == 1 && strcmp(type, "suite") != 0) {
      good = false;
      fprintf(stderr, "keel-conformance: %s is not a results.jsonl\n", path);
    } else if (out->complete || out->tampered) {
      out->tampered = true; /* something stands behind the end */
      out->complete = false;
    } else if (!strcmp(type, "suite")) {
      read_suite(object, out);
    } else if (!strcmp(type, "case")) {
      read_case(object, out);
    } else if (!strcmp(type, "rule")) {
      out->tampered |= !read_rule(object, out);
    } else if (!strcmp(type, "end")) {
      read_end(object, out, &sha);
    }
    kc_sha_add(&sha, text, (uint64_t)size);
    free(type);
    cJSON_Delete(object);
  }
  free(text);
  fclose(file);
  if (good && !number) {
    good = false;
    fprintf(stderr, "keel-conformance: %s is empty\n", path);
  }
  kc_results_order(out);
  count_rules(out);
  return good;
}
