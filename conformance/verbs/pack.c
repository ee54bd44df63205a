/* pack.c - a report to hand in, and the check of one. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "report/claim.h"
#include "runner/scratch.h"
#include "suite/suite.h"
#include "system/printable.h"
#include "system/save.h"
#include "verbs/verbs.h"

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
  FILE *in = fopen(from, "rbe");
  keel_save out;
  bool good = in && keel_save_begin(&out, to, 0666);
  while (good && (got = fread(buffer, 1, sizeof buffer, in)) > 0)
    fwrite(buffer, 1, got, out.file);
  good = good && keel_save_end(&out, !ferror(in));
  if (in) fclose(in);
  return good;
}

static bool write_environment(const kc_results *r, const char *path) {
  struct utsname host;
  keel_save save;
  if (!keel_save_begin(&save, path, 0666)) return false;
  FILE *file = save.file;
  uname(&host);
  const char *const texts[][2] = {{"kernel", host.release},
                                  {"machine", host.machine},
                                  {"suite", r->suite},
                                  {"suite_sha256", r->suite_digest},
                                  {"rules_sha256", r->rules_digest},
                                  {"plugin_sha256", r->plugin_digest},
                                  {"command", r->command}};
  for (size_t i = 0; i < KC_COUNT_OF(texts); i++) {
    fprintf(file, "%s\"%s\":", i ? "," : "{", texts[i][0]);
    keel_write_json(file, texts[i][1]);
  }
  fprintf(file, ",\"seed\":%llu}\n", (unsigned long long)r->seed);
  return keel_save_end(&save, true);
}

static bool write_product(const kc_results *r, const char *path) {
  keel_save save;
  if (!keel_save_begin(&save, path, 0666)) return false;
  fprintf(save.file,
          "# fill in what is empty\nvendor: %s\nproduct: %s\nversion: %s\n"
          "devices: %s\ncontact:\nurl:\n",
          r->vendor, r->name, r->version, r->device);
  return keel_save_end(&save, true);
}

static const char *const files[] = {"results.jsonl", "environment.json",
                                    "product.yaml"};

static bool write_sums(const char *folder) {
  char path[4400], digest[65];
  snprintf(path, sizeof path, "%s/SHA256SUMS", folder);
  keel_save save;
  bool good = keel_save_begin(&save, path, 0666);
  if (!good) return false;
  for (size_t i = 0; i < KC_COUNT_OF(files) && good; i++) {
    snprintf(path, sizeof path, "%s/%s", folder, files[i]);
    good = kc_sha_file(path, digest);
    if (good) fprintf(save.file, "%s  %s\n", digest, files[i]);
  }
  return keel_save_end(&save, good) && good;
}

int kc_verb_pack(int argc, char **argv) {
  kc_results r;
  char folder[256], path[4400], name[400];
  kc_words words = {
      .verb = "pack",
      .help =
          "usage: keel-conformance pack RESULTS.jsonl [FILE.tar.gz]\n\n"
          "Writes NAME-VERSION-keelX.Y.tar.gz: the results, the"
          " environment, product.yaml to\nfill in, and SHA256SUMS. Sign it"
          " with ssh-keygen -Y sign.\n",
      .most = 2};
  int status = kc_words_results(&words, NULL, argc, argv, &r);
  if (status >= 0) return status;
  const char *why = kc_claim_flaw(&r);
  if (why || r.failed) {
    fprintf(stderr, "keel-conformance pack: %s can not be a claim: %s\n",
            words.others[0], why ? why : "rules failed");
    return KC_EXIT_NOT;
  }
  snprintf(name, sizeof name, "%s-%s-keel%u.%u.tar.gz", r.name, r.version,
           KD_ABI_MAJOR, KD_ABI_MINOR);
  const char *target = words.count == 2 ? words.others[1] : name;
  if (!kc_scratch_make(folder)) return KC_EXIT_SUITE;
  snprintf(path, sizeof path, "%s/results.jsonl", folder);
  bool good = copy_file(words.others[0], path);
  snprintf(path, sizeof path, "%s/environment.json", folder);
  good &= write_environment(&r, path);
  snprintf(path, sizeof path, "%s/product.yaml", folder);
  good &= write_product(&r, path);
  good &= write_sums(folder);
  snprintf(path, sizeof path, "%s/%s", folder, name);
  const char *tar[] = {"tar",
                       "czf",
                       path,
                       "-C",
                       folder,
                       "results.jsonl",
                       "environment.json",
                       "product.yaml",
                       "SHA256SUMS",
                       NULL};
  good = good && run_tar(tar) == 0 && copy_file(path, target);
  if (good)
    printf("%s\n", target);
  else
    fprintf(stderr, "keel-conformance pack: %s can't be written\n", target);
  kc_scratch_remove(folder);
  kc_results_free(&r);
  return good ? 0 : KC_EXIT_SUITE;
}

/* ---- verify ------------------------------------------------------------------------------ */

/* The digest that SHA256SUMS has for a file; false where it has none. */
static bool pack_sum_of(const char *folder, const char *name,
                        char out_hex[65]) {
  char path[4400], line[400], of[200];
  snprintf(path, sizeof path, "%s/SHA256SUMS", folder);
  FILE *sums = fopen(path, "re");
  bool found = false;
  while (sums && !found && fgets(line, sizeof line, sums))
    found = sscanf(line, "%64s %199s", out_hex, of) == 2 && !strcmp(of, name);
  if (sums) fclose(sums);
  return found;
}

static bool sums_fit(const char *folder) {
  for (size_t i = 0; i < KC_COUNT_OF(files); i++) {
    char path[4400], want[65], digest[65];
    snprintf(path, sizeof path, "%s/%s", folder, files[i]);
    if (!kc_sha_file(path, digest)) {
      fprintf(stderr, "it has no %s\n", files[i]);
      return false;
    }
    if (!pack_sum_of(folder, files[i], want) || strcmp(want, digest) != 0) {
      fprintf(stderr, "%s is not what SHA256SUMS says\n", files[i]);
      return false;
    }
  }
  return true;
}

/* Unpacks a report into a folder; false with a message. */
static bool unpack(const char *report, const char *folder) {
  const char *tar[] = {"tar", "xzf", report, "-C", folder, "--no-same-owner",
                       NULL};
  if (run_tar(tar) == 0 && sums_fit(folder)) return true;
  fprintf(stderr, "%s: refused: not a whole report\n", report);
  return false;
}

/* The --option values of the run, from its command; a value with spaces is cut there, and the
 * plugin is to refuse it. Points into `words`, which it changes. */
static void recorded_options(kc_options *options, char *words) {
  char *save = NULL;
  bool value = false;
  for (char *at = strtok_r(words, " ", &save); at;
       at = strtok_r(NULL, " ", &save)) {
    const char *text = value                          ? at
                       : !strncmp(at, "--option=", 9) ? at + 9
                                                      : NULL;
    value = !value && !strcmp(at, "--option");
    if (text &&
        options->plugin_option_count < KC_COUNT_OF(options->plugin_options))
      options->plugin_options[options->plugin_option_count++] = text;
  }
}

static bool passed(const kc_rule_result *rule) {
  return rule->status == KC_PASS || rule->status == KC_WARNING;
}

/* Chooses a random part of what passed; one rule at the least, if any passed. */
static void pack_choose(const kc_results *r, double percent,
                        kc_options *options) {
  kc_random random = {kc_now()};
  const char *one = NULL;
  uint32_t count = 0;
  for (uint32_t i = 0; i < r->rule_count && options->glob_count < KC_GLOBS;
       i++) {
    if (!passed(&r->rules[i])) continue;
    if (kc_below(&random, ++count) == 0) one = r->rules[i].id;
    if ((double)kc_below(&random, 10000) < percent * 100)
      options->globs[options->glob_count++] = r->rules[i].id;
  }
  if (!options->glob_count && one) options->globs[options->glob_count++] = one;
}

static bool chosen(const kc_options *options, const char *id) {
  for (uint32_t i = 0; i < options->glob_count; i++)
    if (!strcmp(options->globs[i], id)) return true;
  return false;
}

/* Whether each rule that was chosen ran again and passed, and no other that is watched in all
 * of them failed; says which did not. */
static bool passed_again(const kc_options *options, const kc_results *r,
                         const kc_results *again, uint32_t *out_ran) {
  bool good = true;
  for (uint32_t i = 0; i < options->glob_count; i++) {
    const char *id = options->globs[i];
    const kc_rule_result *now = kc_results_rule(again, id);
    *out_ran += now && !kc_status_skipped(now->status);
    if (now && passed(now)) continue;
    fprintf(stderr, "%s is %s here, the report says %s\n", id,
            now ? kc_status_name(now->status) : "missing",
            kc_status_name(kc_results_rule(r, id)->status));
    good = false;
  }
  for (uint32_t i = 0; i < again->rule_count; i++) {
    const kc_rule_result *now = &again->rules[i];
    const kc_rule_result *then = kc_results_rule(r, now->id);
    if (!kc_status_failed(now->status) || chosen(options, now->id) || !then ||
        kc_status_failed(then->status))
      continue;
    fprintf(stderr, "%s is %s here, the report says %s\n", now->id,
            kc_status_name(now->status), kc_status_name(then->status));
    good = false;
  }
  return good;
}

/* Runs a sample of the rules again, and compares. Returns an exit status; KC_EXIT_NOT: they
 * ran, and it's not what the report says. */
static int replay(const kc_results *r, const char *plugin, double percent) {
  static kc_options options;
  static kc_results again;
  uint32_t ran = 0;
  memset(&options, 0, sizeof options);
  snprintf(options.plugin, sizeof options.plugin, "%s", plugin);
  options.device = r->device_index;
  options.level = -1;
  options.seed = r->seed;
  options.max_memory = UINT64_C(512) << 20;
  options.time_scale = 1;
  options.jobs = 2;
  pack_choose(r, percent, &options);
  if (!options.glob_count) {
    fputs("nothing passed that could be run again\n", stderr);
    return KC_EXIT_NOT;
  }
  char *command = strdup(r->command ? r->command : "");
  if (command) recorded_options(&options, command);
  int status = kc_run_all(&options, &again);
  bool over = status == KC_EXIT_CONFORMANT || status == KC_EXIT_NOT ||
              (status == KC_EXIT_SUITE && again.complete);
  if (over) {
    over = passed_again(&options, r, &again, &ran);
    printf("%u of %u chosen rules were run again\n", ran, options.glob_count);
    status = over ? 0 : KC_EXIT_NOT;
  } else {
    fprintf(stderr,
            "the rules that were chosen did not run again (status %d): nothing"
            " is shown by that\n",
            status);
  }
  free(command);
  kc_results_free(&again);
  return status;
}

static bool pack_is_packed(const char *report) {
  size_t size = strlen(report);
  return size > 7 && !strcmp(report + size - 7, ".tar.gz");
}

static bool same_plugin(const kc_results *r, const char *plugin) {
  char digest[65];
  return kc_sha_file(plugin, digest) && r->plugin_digest &&
         !strcmp(digest, r->plugin_digest);
}

/* Whether results hold for a plugin, or by themselves where it's NULL: an exit status. */
static int holds(const char *report, const char *path, const char *plugin,
                 double percent) {
  static kc_results r;
  char proven[200];
  int status = KC_EXIT_NOT;
  if (!kc_record_read(path, &r)) return KC_EXIT_USAGE;
  const char *why = kc_claim_flaw(&r);
  if (why)
    fprintf(stderr, "%s: refused: %s\n", report, why);
  else if (r.failed)
    fprintf(stderr, "%s: refused: %u rules failed\n", report, r.failed);
  else if (plugin && !same_plugin(&r, plugin))
    fprintf(stderr, "%s: refused: %s is not the plugin that was tested\n",
            report, plugin);
  else
    status = percent > 0 ? replay(&r, plugin, percent) : 0;
  kc_claim_text(&r, proven, sizeof proven);
  if (status == 0)
    printf("%s %s: valid, %s, %u passed\n", r.name, r.version, proven,
           r.passed + r.warnings);
  kc_results_free(&r);
  return status;
}

static const char verify_help[] =
    "usage: keel-conformance verify REPORT [--plugin P] [--replay N%]\n\n"
    "Checks a packed report, or a results.jsonl: no line was changed, every"
    " rule is\nthere, made checks and is what its cases make it, the plugin is"
    " the one that was\ntested. --replay runs a random part of the rules again"
    " on P.\n\nExit status: 0 valid, 1 refused, 2 not a file that can be read;"
    " others, as run\nhas them, where the replay did not run.\n";

int kc_verb_verify(int argc, char **argv) {
  const char *plugin = NULL, *replayed = NULL, *end = NULL;
  static char found[4096];
  double percent = 0;
  const kc_word options[] = {
      {"--plugin", .value = &plugin}, {"--replay", .value = &replayed}, {0}};
  kc_words words = {
      .verb = "verify", .help = verify_help, .options = options, .most = 1};
  int status = kc_words_read(&words, argc, argv);
  if (status >= 0) return status;
  if (plugin && !kc_find_plugin(plugin, found)) return KC_EXIT_USAGE;
  if (plugin) plugin = found;
  if (replayed && (!kc_read_factor(replayed, &end, &percent) || percent > 100 ||
                   (*end && strcmp(end, "%") != 0)))
    return kc_usage("verify", "--replay %s is not a part like 5%%", replayed);
  const char *report = words.count ? words.others[0] : NULL;
  if (!report) return kc_usage("verify", "which report?");
  if (percent > 0 && !plugin)
    return kc_usage("verify", "--replay needs --plugin");
  if (!pack_is_packed(report)) return holds(report, report, plugin, percent);
  char folder[256], path[4400];
  if (!kc_readable(report)) return KC_EXIT_USAGE;
  if (!kc_scratch_make(folder)) return KC_EXIT_SUITE;
  snprintf(path, sizeof path, "%s/results.jsonl", folder);
  status = unpack(report, folder) ? holds(report, path, plugin, percent)
                                  : KC_EXIT_NOT;
  kc_scratch_remove(folder);
  return status;
}
