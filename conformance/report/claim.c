/* claim.c - whether results can stand for a plugin, and for what. */
#include "report/claim.h"

#include <stdlib.h>
#include <string.h>

#include "runner/run.h"
#include "suite/suite.h"

static char text[300];

static bool claimed(const kc_results *results, kc_level level) {
  if (level <= KC_COMPILE) return (int)level <= results->level;
  return (results->options >> (level - KC_PROFILE) & 1) != 0;
}

bool kc_claim_proven(const kc_results *results, kc_level level) {
  bool any = false;
  if (!claimed(results, level)) return false;
  for (uint32_t i = 0; i < results->rule_count; i++) {
    const kc_rule_result *rule = &results->rules[i];
    if (rule->level != level || rule->severity != KC_MUST) continue;
    if (rule->status == KC_UNTESTED || rule->status == KC_NOT_RUN) return false;
    any |= rule->status == KC_PASS;
  }
  return any;
}

/* The highest level that is proven with all below it; -1: none. */
static int claim_level(const kc_results *results) {
  int level = -1;
  while (level < KC_COMPILE && kc_claim_proven(results, (kc_level)(level + 1)))
    level++;
  return level;
}

void kc_claim_text(const kc_results *results, char *out, size_t size) {
  int level = claim_level(results);
  if (level < 0) { /* nothing stands without the core */
    snprintf(out, size, "no level");
    return;
  }
  int used =
      snprintf(out, size, "level %d %s", level, kc_level_name((kc_level)level));
  for (int i = KC_COMPILE; i < KC_LEVEL_COUNT; i++)
    if (i > level && kc_claim_proven(results, (kc_level)i) && used > 0 &&
        (size_t)used < size)
      used += snprintf(out + used, size - (size_t)used, " + %s",
                       kc_level_name((kc_level)i));
}

/* Expected failures stand in the cases as such, so that judging needs no file of
 * expectations. */
static bool follows_from_cases(const kc_rule_result *result) {
  const kc_expectations none = {0};
  kc_rule_result again = *result;
  again.reason = NULL;
  kc_judge(&none, &again);
  bool same = again.status == result->status &&
              again.checks == result->checks && again.failed == result->failed;
  free(again.reason);
  return same;
}

static const char *flaw_of(const kc_results *results, const kc_rule *rule) {
  const kc_rule_result *result = kc_results_rule(results, rule->id);
  if (!result || !result->written) return "is missing";
  bool passed = result->status == KC_PASS || result->status == KC_WARNING;
  if (passed && result->checks == 0) return "passed without a check";
  if (result->status == KC_NOT_RUN)
    return claimed(results, rule->level) ? "was not run" : NULL;
  if (result->severity != rule->severity || result->level != rule->level)
    return "is of another severity or level in this suite";
  if (result->status == KC_XFAIL && result->severity == KC_MUST)
    return "fails, as was expected: no claim can be made over it";
  if (!follows_from_cases(result)) return "is not what its cases make it";
  return NULL;
}

const char *kc_claim_flaw(const kc_results *results) {
  if (results->tampered) return "its lines are not as they were written";
  if (!results->complete) return "it has no end: the run was cut off";
  if (results->partial) return "it is of a part of the rules or cases";
  char digest[65];
  kc_rules_digest(digest);
  if (!results->rules_digest || strcmp(digest, results->rules_digest) != 0)
    return "its list of rules is another suite's";
  const kc_rule *rule = NULL;
  for (uint32_t i = 0; (rule = kc_rule_at(i)); i++) {
    const char *flaw = flaw_of(results, rule);
    if (!flaw) continue;
    snprintf(text, sizeof text, "rule %s %s", rule->id, flaw);
    return text;
  }
  return NULL;
}
