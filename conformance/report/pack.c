/* pack.c - a report to hand in, and the check of one. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "main.h"
#include "suite/suite.h"

static int run_tar(const char *const *argv) {
  int status = 0;
  fflush(NULL);
  pid_t pid = fork();
  if (pid == 0) {
    execvp("tar", (char *const *)(uintptr_t)argv);
    _exit(127);
  }
  if (pid < 0 || waitpid(pid, &status, 0) != pid) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static bool copy_file(const char *from, const char *to) {
  char buffer[16384];
  size_t got = 0;
  FILE *in = fopen(from, "rbe"), *out = in ? fopen(to, "wbe") : NULL;
  bool good = out != NULL;
  while (good && (got = fread(buffer, 1, sizeof buffer, in)) > 0)
    good = fwrite(buffer, 1, got, out) == got;
  if (in) fclose(in);
  if (out) good &= fclose(out) == 0;
  return good;
}

static void write_environment(const kc_results *r, const char *path) {
  struct utsname host;
  FILE *file = fopen(path, "we");
  if (!file) return;
  uname(&host);
  fputs("{\"kernel\":", file);
  kc_json_string(file, host.release);
  fputs(",\"machine\":", file);
  kc_json_string(file, host.machine);
  fputs(",\"suite\":", file);
  kc_json_string(file, r->suite);
  fputs(",\"suite_sha256\":", file);
  kc_json_string(file, r->suite_digest);
  fputs(",\"rules_sha256\":", file);
  kc_json_string(file, r->rules_digest);
  fputs(",\"plugin_sha256\":", file);
  kc_json_string(file, r->plugin_digest);
  fputs(",\"command\":", file);
  kc_json_string(file, r->command);
  fprintf(file, ",\"seed\":%llu}\n", (unsigned long long)r->seed);
  fclose(file);
}

static void write_product(const kc_results *r, const char *path) {
  FILE *file = fopen(path, "we");
  if (!file) return;
  fprintf(file,
          "# fill in what is empty\nvendor: %s\nproduct: %s\nversion: %s\n"
          "devices: %s\ncontact:\nurl:\n",
          r->vendor, r->name, r->version, r->device);
  fclose(file);
}

static const char *const files[] = {"results.jsonl", "environment.json",
                                    "product.yaml"};

static bool write_sums(const char *folder) {
  char path[4400], digest[65];
  snprintf(path, sizeof path, "%s/SHA256SUMS", folder);
  FILE *sums = fopen(path, "we");
  bool good = sums != NULL;
  for (size_t i = 0; i < KC_COUNT_OF(files) && good; i++) {
    snprintf(path, sizeof path, "%s/%s", folder, files[i]);
    good = kc_sha_file(path, digest);
    if (good) fprintf(sums, "%s  %s\n", digest, files[i]);
  }
  if (sums) fclose(sums);
  return good;
}

/* What keeps results from being a claim; NULL where nothing does. */
static const char *unfit(const kc_results *r) {
  static char text[300];
  if (r->tampered) return "its lines are not as they were written";
  if (!r->complete) return "it has no end: the run was cut off";
  if (r->partial) return "it is of a part of the rules or cases";
  char digest[65];
  kc_rules_digest(digest);
  if (!r->rules_digest || strcmp(digest, r->rules_digest) != 0)
    return "its list of rules is another suite's";
  const kc_rule *rule = NULL;
  for (uint32_t i = 0; (rule = kc_rule_at(i)); i++) {
    const kc_rule_result *result = NULL;
    for (uint32_t k = 0; k < r->rule_count; k++)
      if (!strcmp(r->rules[k].id, rule->id)) result = &r->rules[k];
    if (!result || !result->written) {
      snprintf(text, sizeof text, "rule %s is missing", rule->id);
      return text;
    }
    if ((result->status == KC_PASS || result->status == KC_WARNING) &&
        result->checks == 0) {
      snprintf(text, sizeof text, "rule %s passed without a check", rule->id);
      return text;
    }
    bool level = rule->level <= KC_COMPILE
                     ? (int)rule->level <= r->level
                     : (r->options >> (rule->level - KC_PROFILE) & 1) != 0;
    if (level && (result->status == KC_NOT_RUN)) {
      snprintf(text, sizeof text, "rule %s was not run", rule->id);
      return text;
    }
  }
  return NULL;
}

int kc_verb_pack(int argc, char **argv) {
  kc_results r;
  char folder[] = "/tmp/keel-pack.XXXXXX", path[4400], name[400];
  if (argc == 1 && !strcmp(argv[0], "--help")) {
    puts(
        "usage: keel-conformance pack RESULTS.jsonl [FILE.tar.gz]\n\nWrites"
        " NAME-VERSION-keelX.Y.tar.gz: the results, the environment, "
        "product.yaml"
        " to\nfill in, and SHA256SUMS. Sign it with ssh-keygen -Y sign.");
    return 0;
  }
  if (argc < 1 || argc > 2) return kc_usage("pack", "which results.jsonl?");
  if (!kc_results_read(argv[0], &r)) return KC_EXIT_USAGE;
  const char *why = unfit(&r);
  if (why || r.failed) {
    fprintf(stderr, "keel-conformance pack: %s is no claim: %s\n", argv[0],
            why ? why : "rules failed");
    return KC_EXIT_NOT;
  }
  snprintf(name, sizeof name, "%s-%s-keel%u.%u.tar.gz", r.name, r.version,
           KD_ABI_MAJOR, KD_ABI_MINOR);
  const char *target = argc == 2 ? argv[1] : name;
  if (!mkdtemp(folder)) return KC_EXIT_SUITE;
  snprintf(path, sizeof path, "%s/results.jsonl", folder);
  bool good = copy_file(argv[0], path);
  snprintf(path, sizeof path, "%s/environment.json", folder);
  write_environment(&r, path);
  snprintf(path, sizeof path, "%s/product.yaml", folder);
  write_product(&r, path);
  good &= write_sums(folder);
  const char *tar[] = {"tar",
                       "czf",
                       target,
                       "-C",
                       folder,
                       "results.jsonl",
                       "environment.json",
                       "product.yaml",
                       "SHA256SUMS",
                       NULL};
  good &= run_tar(tar) == 0;
  if (good)
    printf("%s\n", target);
  else
    fprintf(stderr, "keel-conformance pack: %s can't be written\n", target);
  kc_results_free(&r);
  return good ? 0 : KC_EXIT_SUITE;
}

/* ---- verify ------------------------------------------------------------------------------ */

static bool sums_fit(const char *folder) {
  char path[4400], line[400], digest[65];
  snprintf(path, sizeof path, "%s/SHA256SUMS", folder);
  FILE *sums = fopen(path, "re");
  uint32_t seen = 0;
  bool good = sums != NULL;
  if (!sums) fprintf(stderr, "the report has no SHA256SUMS\n");
  while (good && fgets(line, sizeof line, sums)) {
    char want[65], name[200];
    if (sscanf(line, "%64s %199s", want, name) != 2 || strchr(name, '/')) break;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    good = kc_sha_file(path, digest) && !strcmp(want, digest);
    if (!good) fprintf(stderr, "%s is not what SHA256SUMS says\n", name);
    seen++;
  }
  if (sums) fclose(sums);
  return good && seen >= KC_COUNT_OF(files);
}

/* Runs a sample of the rules again, and compares. */
static bool replay(const kc_results *r, const char *plugin, double percent) {
  static kc_options options;
  static kc_results again;
  kc_random random = {kc_now()};
  memset(&options, 0, sizeof options);
  snprintf(options.plugin, sizeof options.plugin, "%s", plugin);
  options.device = r->device_index;
  options.level = -1;
  options.seed = r->seed;
  options.max_memory = UINT64_C(512) << 20;
  options.time_scale = 1;
  options.jobs = 2;
  for (uint32_t i = 0; i < r->rule_count && options.glob_count < KC_GLOBS; i++)
    if (r->rules[i].status == KC_PASS &&
        (double)kc_below(&random, 10000) < percent * 100)
      options.globs[options.glob_count++] = r->rules[i].id;
  if (!options.glob_count && r->rule_count)
    options.globs[options.glob_count++] = r->rules[0].id;
  kc_run_all(&options, &again);
  bool good = true;
  for (uint32_t i = 0; i < again.rule_count; i++) {
    const kc_rule_result *now = &again.rules[i];
    for (uint32_t k = 0; k < r->rule_count; k++)
      if (!strcmp(r->rules[k].id, now->id) &&
          kc_status_failed(now->status) !=
              kc_status_failed(r->rules[k].status)) {
        fprintf(stderr, "%s is %s here, the report says %s\n", now->id,
                kc_status_name(now->status),
                kc_status_name(r->rules[k].status));
        good = false;
      }
  }
  printf("%u rules were run again\n", options.glob_count);
  kc_results_free(&again);
  return good;
}

int kc_verb_verify(int argc, char **argv) {
  static kc_results r;
  const char *report = NULL, *plugin = NULL;
  double percent = 0;
  char folder[] = "/tmp/keel-verify.XXXXXX", path[4400], digest[65];
  static char found[4096];
  for (int i = 0; i < argc; i++) {
    const char *value = i + 1 < argc ? argv[i + 1] : NULL;
    if (!strcmp(argv[i], "--help")) {
      puts(
          "usage: keel-conformance verify REPORT [--plugin P] [--replay N%]\n\n"
          "Checks a packed report, or a results.jsonl: no line was changed, "
          "every"
          " rule is\nthere and made checks, the plugin is the one that was "
          "tested."
          " --replay runs a\nrandom part of the rules again on P.");
      return 0;
    }
    if (!strcmp(argv[i], "--plugin") && value) {
      if (!kc_find_plugin(value, found)) return KC_EXIT_USAGE;
      plugin = found;
      i++;
    } else if (!strcmp(argv[i], "--replay") && value) {
      percent = strtod(value, NULL);
      if (percent <= 0 || percent > 100)
        return kc_usage("verify", "--replay %s is no part like 5%%", value);
      i++;
    } else if (argv[i][0] == '-' || report) {
      return kc_usage("verify", "\"%s\" is not understood", argv[i]);
    } else {
      report = argv[i];
    }
  }
  if (!report) return kc_usage("verify", "which report?");
  if (percent > 0 && !plugin)
    return kc_usage("verify", "--replay needs --plugin");
  snprintf(path, sizeof path, "%s", report);
  size_t size = strlen(report);
  if (size > 7 && !strcmp(report + size - 7, ".tar.gz")) {
    if (!mkdtemp(folder)) return KC_EXIT_SUITE;
    const char *tar[] = {"tar", "xzf", report, "-C", folder, "--no-same-owner",
                         NULL};
    if (run_tar(tar) != 0 || !sums_fit(folder)) {
      fprintf(stderr, "%s: not a whole report\n", report);
      return KC_EXIT_NOT;
    }
    snprintf(path, sizeof path, "%s/results.jsonl", folder);
  }
  if (!kc_results_read(path, &r)) return KC_EXIT_NOT;
  const char *why = unfit(&r);
  bool good = !why && !r.failed;
  if (why)
    fprintf(stderr, "%s: refused: %s\n", report, why);
  else if (r.failed)
    fprintf(stderr, "%s: refused: %u rules failed\n", report, r.failed);
  if (good && plugin) {
    good = kc_sha_file(plugin, digest) && r.plugin_digest &&
           !strcmp(digest, r.plugin_digest);
    if (!good)
      fprintf(stderr, "%s: refused: %s is not the plugin that was tested\n",
              report, plugin);
  }
  if (good && percent > 0) good = replay(&r, plugin, percent);
  if (good)
    printf("%s %s: valid, level %d %s, %u passed\n", r.name, r.version, r.level,
           kc_level_name((kc_level)r.level), r.passed + r.warnings);
  kc_results_free(&r);
  return good ? 0 : KC_EXIT_NOT;
}
