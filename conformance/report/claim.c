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

/* The areas that a level or option is nothing without; the core's others are about slots that a
 * plugin may leave NULL. */
static const struct {
  kc_level level;
  const char *area;
} needs[] = {
    {KC_CORE, "load"},      {KC_CORE, "copy"},        {KC_CORE, "err"},
    {KC_CORE, "life"},      {KC_ASYNC, "stream"},     {KC_ASYNC, "event"},
    {KC_REPLAY, "capture"}, {KC_COMPILE, "region"},   {KC_PROFILE, "prof"},
    {KC_PEER, "peer"},      {KC_COLLECTIVE, "group"}, {KC_EXTERNAL, "mem"},
};

static bool is_need(const kc_rule_result *rule, kc_level level,
                    const char *area) {
  size_t size = strlen(area);
  return rule->level == level && rule->severity == KC_MUST &&
         !strncmp(rule->id, area, size) && rule->id[size] == '.';
}

/* Whether half of an area's rules or more were skipped, and which, or there are none. */
static bool has_gap(const kc_results *results, kc_level level, const char *area,
                    char *out, size_t size) {
  uint32_t all = 0, skipped = 0;
  size_t used = 0;
  for (uint32_t i = 0; i < results->rule_count; i++) {
    const kc_rule_result *rule = &results->rules[i];
    if (!is_need(rule, level, area)) continue;
    all++;
    skipped += rule->status == KC_UNCLAIMED;
  }
  if (!all) {
    snprintf(out, size, "no rule of %s is in the record", area);
    return true;
  }
  if (2 * skipped < all) return false;
  used += (size_t)snprintf(
      out, size, "%u of %u rules of %s were skipped:", skipped, all, area);
  for (uint32_t i = 0; i < results->rule_count; i++) {
    const kc_rule_result *rule = &results->rules[i];
    if (is_need(rule, level, area) && rule->status == KC_UNCLAIMED &&
        used < size)
      used += (size_t)snprintf(out + used, size - used, " %s", rule->id);
  }
  return true;
}

bool kc_claim_gap(const kc_results *results, kc_level level, char *out,
                  size_t size) {
  bool any = false;
  out[0] = 0;
  if (!claimed(results, level)) return false;
  for (uint32_t i = 0; i < results->rule_count; i++) {
    const kc_rule_result *rule = &results->rules[i];
    if (rule->level != level || rule->severity != KC_MUST) continue;
    if (rule->status == KC_UNTESTED || rule->status == KC_NOT_RUN) {
      snprintf(out, size, "for want of something to test %s with", rule->id);
      return true;
    }
    any |= rule->status == KC_PASS;
  }
  for (size_t i = 0; i < sizeof needs / sizeof *needs; i++)
    if (needs[i].level == level &&
        has_gap(results, level, needs[i].area, out, size))
      return true;
  if (!any) snprintf(out, size, "no rule of it passed");
  return !any;
}

bool kc_claim_proven(const kc_results *results, kc_level level) {
  char why[600];
  return claimed(results, level) &&
         !kc_claim_gap(results, level, why, sizeof why);
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

/* Whether a must-rule fails, be it as expected. */
static bool fails(const kc_results *results) {
  bool bad = results->failed > 0;
  for (uint32_t i = 0; i < results->rule_count; i++)
    bad |= results->rules[i].status == KC_XFAIL &&
           results->rules[i].severity == KC_MUST;
  return bad;
}

static bool left_out(const kc_results *results) {
  for (uint32_t i = 0; i < results->rule_count; i++)
    if (results->rules[i].status == KC_NOT_RUN) return true;
  return false;
}

kc_claim_kind kc_claim_verdict(const kc_results *results, char *out,
                               size_t size) {
  kc_claim_kind kind = results->tampered          ? KC_CLAIM_CHANGED
                       : !results->complete       ? KC_CLAIM_CUT
                       : fails(results)           ? KC_CLAIM_BAD
                       : results->partial         ? KC_CLAIM_PART
                       : left_out(results)        ? KC_CLAIM_BAD
                       : claim_level(results) < 0 ? KC_CLAIM_NONE
                                                  : KC_CLAIM_OK;
  static const char *const says[] = {
      [KC_CLAIM_PART] = "part of the rules",
      [KC_CLAIM_BAD] = "not conformant",
      [KC_CLAIM_CUT] = "incomplete",
      [KC_CLAIM_CHANGED] = "changed",
  };
  if (says[kind])
    snprintf(out, size, "%s", says[kind]);
  else
    kc_claim_text(results, out, size);
  return kind;
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
