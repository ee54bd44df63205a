/* judge.c - what became of a rule, from its cases and what was expected of them. */
#include "runner/run.h"

static void judge_expected(const kc_expectations *expectations,
                           kc_rule_result *rule) {
  for (uint32_t i = 0; i < rule->case_count; i++) {
    kc_case_result *one = &rule->cases[i];
    kc_expectation *expected = kc_expectations_find(expectations, one->name);
    if (!expected || kc_status_skipped(one->status)) continue;
    expected->seen = true;
    if (expected->expired) {
      kc_text_more(&one->message,
                   "the expectation of its failure expired on %s",
                   expected->expires);
      if (one->status == KC_PASS) one->status = KC_XPASS;
    } else if (one->status == KC_PASS) {
      one->status = KC_XPASS;
      kc_text_set(&one->message,
                  "passes, though a failure is expected (%s, %s): take the"
                  " expectation away",
                  expected->reason, expected->link);
    } else {
      one->status = KC_XFAIL;
      kc_text_more(&one->message, "expected until %s: %s (%s)",
                   expected->expires, expected->reason, expected->link);
    }
  }
}

static int badness(kc_status status) {
  static const int order[KC_STATUS_COUNT] = {
      [KC_UNCLAIMED] = 0, [KC_UNTESTED] = 1, [KC_PASS] = 2,
      [KC_XFAIL] = 3,     [KC_XPASS] = 4,    [KC_FAIL] = 5,
      [KC_HANG] = 6,      [KC_CRASH] = 7,    [KC_ERROR] = 8};
  return order[status];
}

void kc_judge(const kc_expectations *expectations, kc_rule_result *rule) {
  judge_expected(expectations, rule);
  kc_status worst = KC_UNCLAIMED;
  rule->checks = 0;
  rule->failed = 0;
  for (uint32_t i = 0; i < rule->case_count; i++) {
    const kc_case_result *one = &rule->cases[i];
    rule->checks += one->checks;
    rule->failed += kc_status_failed(one->status);
    bool worse = badness(one->status) > badness(worst);
    if (worse) worst = one->status;
    if (kc_status_skipped(one->status) && (worse || !rule->reason))
      kc_text_set(&rule->reason, "%s", one->message ? one->message : "");
  }
  if (!kc_status_skipped(worst)) kc_text_set(&rule->reason, "%s", "");
  if (worst == KC_PASS && rule->checks == 0) {
    worst = KC_ERROR;
    kc_text_set(&rule->reason, "the rule made no checks");
  }
  if (!rule->case_count)
    kc_text_set(&rule->reason, "nothing that the plugin has fits the rule");
  if (worst == KC_FAIL && rule->severity != KC_MUST) worst = KC_WARNING;
  rule->status = worst;
}
