/* plan.c - which rules a run is of, and what is known before it. */
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>

#include "runner/running.h"
#include "suite/suite.h"

/* ---- choosing ---------------------------------------------------------------------- */

static bool matches(const char *glob, const char *id) {
  return fnmatch(glob, id, 0) == 0;
}

bool kc_chosen(const kc_options *options, const kc_rule *rule) {
  bool chosen = options->glob_count == 0;
  for (uint32_t i = 0; i < options->glob_count; i++)
    chosen |= matches(options->globs[i], rule->id);
  for (uint32_t i = 0; i < options->not_count; i++)
    chosen &= !matches(options->not_globs[i], rule->id);
  if (options->only) {
    size_t size = strlen(rule->id);
    chosen =
        !strncmp(options->only, rule->id, size) && options->only[size] == '/';
  }
  if (options->level >= 0 && rule->level <= KC_COMPILE &&
      (int)rule->level > options->level)
    return false;
  if (options->quick && (rule->flags & KC_LONG)) return false;
  return chosen;
}

bool kc_globs_match(const kc_options *options) {
  for (uint32_t i = 0; i < options->glob_count; i++) {
    const kc_rule *rule = NULL;
    for (uint32_t k = 0; (rule = kc_rule_at(k)); k++)
      if (matches(options->globs[i], rule->id)) break;
    if (rule) continue;
    fprintf(stderr,
            "keel-conformance: no rule's id is like \"%s\"; keel-conformance"
            " list has them all\n",
            options->globs[i]);
    return false;
  }
  return true;
}

/* ---- the plan ------------------------------------------------------------------ */

static bool in_shard(const kc_options *options, const kc_rule *rule) {
  return options->shards < 2 || (rule->flags & KC_SPREAD) ||
         kc_shard_of(rule->id, options->shards) == options->shard;
}

void kc_plan(kc_running *run, const kc_facts *facts) {
  const kc_options *options = run->options;
  kc_results *results = run->results;
  const kc_rule *rule = NULL;
  results->rules = calloc(kc_rule_count() + 1, sizeof *results->rules);
  for (uint32_t i = 0; (rule = kc_rule_at(i)); i++) {
    bool watched = (rule->flags & KC_WATCHED) && !options->only;
    for (uint32_t k = 0; k < options->not_count; k++)
      watched &= !matches(options->not_globs[k], rule->id);
    if (!kc_chosen(options, rule) && !watched) continue;
    if (!watched && !in_shard(options, rule)) continue;
    kc_rule_result *result = &results->rules[results->rule_count++];
    result->rule = rule;
    result->id = strdup(rule->id);
    result->severity = rule->severity;
    result->level = rule->level;
    result->status = KC_NOT_RUN;
    if (facts->loaded && KD_VERSION_MAJOR(facts->abi_version) == KD_ABI_MAJOR &&
        rule->since > facts->abi_version) {
      result->status = KC_UNCLAIMED;
      kc_text_set(&result->reason,
                  "the rule came with ABI %u.%u, and the"
                  " plugin was built for %u.%u",
                  KD_VERSION_MAJOR(rule->since), KD_VERSION_MINOR(rule->since),
                  KD_VERSION_MAJOR(facts->abi_version),
                  KD_VERSION_MINOR(facts->abi_version));
    } else if (facts->loaded && !(facts->claims >> rule->level & 1)) {
      result->status = KC_UNCLAIMED;
      kc_text_set(&result->reason,
                  "the plugin doesn't claim %s: its table is"
                  " NULL",
                  kc_level_name(rule->level));
    } else if (!facts->open && !(rule->flags & KC_CLOSED)) {
      kc_text_set(&result->reason, "the plugin could not be %s: %s",
                  facts->loaded ? "opened" : "loaded", facts->why);
    }
    if (result->status == KC_UNCLAIMED) {
      run->finished++;
      kc_results_write_rule(results, result);
    }
  }
}

void kc_describe(const kc_running *run, const kc_facts *facts) {
  kc_results *results = run->results;
  char digest[65], when[32];
  time_t now = time(NULL);
  struct tm broken;
  struct utsname host;
  gmtime_r(&now, &broken);
  strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", &broken);
  uname(&host);
  kc_text_set(&results->suite, "keel-conformance %s", KEEL_VERSION);
  kc_text_set(&results->plugin_path, "%s", run->options->plugin);
  if (kc_sha_file(run->options->plugin, digest))
    kc_text_set(&results->plugin_digest, "%s", digest);
  if (kc_sha_file("/proc/self/exe", digest))
    kc_text_set(&results->suite_digest, "%s", digest);
  kc_rules_digest(digest);
  kc_text_set(&results->rules_digest, "%s", digest);
  kc_text_set(&results->name, "%s", facts->name);
  kc_text_set(&results->vendor, "%s", facts->vendor);
  kc_text_set(&results->version, "%s", facts->version);
  kc_text_set(&results->device, "%s", facts->device);
  kc_text_set(&results->started, "%s", when);
  kc_text_set(&results->host, "%s %s %s", host.sysname, host.release,
              host.machine);
  results->abi_version = facts->abi_version;
  results->abi_min = facts->abi_min;
  results->device_index = run->options->device;
  results->seed = run->options->seed;
  results->factor = facts->factor;
  for (int i = 0; i <= KC_COMPILE && (facts->claims >> i & 1); i++)
    results->level = i;
  results->options = facts->claims >> KC_PROFILE;
  const kc_options *o = run->options;
  results->partial = o->quick || o->glob_count || o->not_count || o->only ||
                     o->op || o->dtype || o->shards > 1 ||
                     (o->level >= 0 && o->level < results->level);
}
