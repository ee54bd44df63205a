/* text.c - what the terminal shows: failures, areas, the last line. */
#include <string.h>

#include "report/claim.h"
#include "report/report.h"

static void indent(const char *text, const char *with, int most) {
  for (int lines = 0; *text && lines < most; lines++) {
    size_t size = strcspn(text, "\n");
    printf("%s%.*s\n", with, (int)size, text);
    text += size + (text[size] == '\n');
  }
}

static void print_rule(const kc_results *results, const kc_rule_result *rule,
                       bool verbose) {
  const kc_rule *known = rule->rule;
  const char *label = rule->status == KC_WARNING ? "WARN"
                      : rule->status == KC_CRASH ? "CRASH"
                      : rule->status == KC_HANG  ? "HANG"
                      : rule->status == KC_ERROR ? "ERROR"
                      : rule->status == KC_XPASS ? "XPASS"
                                                 : "FAIL";
  printf("%s %s  (%u of %u cases)\n", label, rule->id, rule->failed,
         rule->case_count);
  if (known) printf("      kd/%s: \"%s\"\n", known->header, known->sentence);
  if (rule->reason && *rule->reason) printf("      %s\n", rule->reason);
  uint32_t shown = 0;
  for (uint32_t i = 0; i < rule->case_count; i++) {
    const kc_case_result *one = &rule->cases[i];
    if (!kc_status_failed(one->status) && one->status != KC_XFAIL) continue;
    if (shown++ >= (verbose ? 1000u : 2u)) {
      if (shown == 3) printf("      ...\n");
      continue;
    }
    printf("      case %s\n", one->name);
    if (one->message) indent(one->message, "        seen: ", verbose ? 50 : 2);
    if (one->detail) indent(one->detail, "        ", verbose ? 100 : 4);
    const char *during = strstr(one->name, "/during=");
    bool no_case = kc_is_no_case(rule, one->name);
    const char *again = during ? during + 8 : no_case ? rule->id : one->name;
    printf("        again: keel-conformance %s", results->plugin_path);
    if (results->device_index) printf(" --device %u", results->device_index);
    printf(" --%s '%s'", no_case ? "rule" : "case", again);
    if (results->seed != 1)
      printf(" --seed %llu", (unsigned long long)results->seed);
    putchar('\n');
  }
  printf("      learn: keel-conformance explain %s\n", rule->id);
}

void kc_print_failures(const kc_results *results, bool verbose) {
  for (uint32_t i = 0; i < results->rule_count; i++) {
    kc_status status = results->rules[i].status;
    if (kc_status_failed(status) || status == KC_WARNING)
      print_rule(results, &results->rules[i], verbose);
  }
}

static void print_areas(const kc_results *results) {
  for (uint32_t a = 0; a < kc_area_count; a++) {
    uint32_t passed = 0, all = 0, skipped = 0;
    for (uint32_t i = 0; i < results->rule_count; i++) {
      const kc_rule_result *rule = &results->rules[i];
      size_t size = strlen(kc_areas[a]->name);
      if (strncmp(rule->id, kc_areas[a]->name, size) != 0 ||
          rule->id[size] != '.')
        continue;
      all++;
      passed += rule->status == KC_PASS;
      skipped += kc_status_skipped(rule->status);
    }
    if (!all) continue;
    printf(" %s %u/%u", kc_areas[a]->name, passed, all);
    if (skipped) printf("(-%u)", skipped);
  }
  putchar('\n');
}

static bool same_reason(const kc_rule_result *a, const kc_rule_result *b) {
  return kc_status_skipped(b->status) &&
         !strcmp(a->reason ? a->reason : "", b->reason ? b->reason : "");
}

/* The first rule from `from` on that is skipped for the same reason; rule_count: none. */
static uint32_t next_alike(const kc_results *results,
                           const kc_rule_result *rule, uint32_t from) {
  while (from < results->rule_count &&
         !same_reason(rule, &results->rules[from]))
    from++;
  return from;
}

/* A line a reason: how many rules, why, and which where they are few. */
static void print_skips(const kc_results *results) {
  for (uint32_t i = 0; i < results->rule_count; i++) {
    const kc_rule_result *rule = &results->rules[i];
    uint32_t count = 0, all = results->rule_count;
    if (!kc_status_skipped(rule->status) || next_alike(results, rule, 0) < i)
      continue; /* its reason has a line */
    for (uint32_t k = i; k < all; k = next_alike(results, rule, k + 1))
      count++;
    const char *reason = rule->reason && *rule->reason ? rule->reason : "-";
    printf("%4u skipped: %.*s", count, (int)strcspn(reason, "\n"), reason);
    uint32_t most = rule->failed ? 12 : 3; /* what broke and is not judged */
    for (uint32_t k = i; k < all && count <= most;
         k = next_alike(results, rule, k + 1))
      printf("%s%s", k == i ? " (" : " ", results->rules[k].id);
    puts(count <= most ? ")" : "");
  }
}

/* What the tables claim that is not proven, and what is. */
static void print_claim(const kc_results *results) {
  char text[200], why[600];
  kc_claim_kind kind = kc_claim_verdict(results, text, sizeof text);
  for (int i = 0; i < KC_LEVEL_COUNT && kind <= KC_CLAIM_NONE; i++)
    if (kc_claim_gap(results, (kc_level)i, why, sizeof why))
      printf("not proven: %s, %s\n", kc_level_name((kc_level)i), why);
  if (kind <= KC_CLAIM_NONE)
    printf("conformant: %s\n", text);
  else if (kind == KC_CLAIM_BAD)
    printf("%s\n", text);
  if (results->partial)
    printf("a part of the rules or cases: not valid for a claim\n");
  else if (kind > KC_CLAIM_BAD)
    printf("%s: not valid for a claim\n", text);
}

void kc_print_summary(const kc_results *results) {
  uint64_t checks = 0, cases = 0;
  uint32_t expected = 0;
  for (uint32_t i = 0; i < results->rule_count; i++) {
    const kc_rule_result *rule = &results->rules[i];
    checks += rule->checks;
    cases += rule->case_count;
    expected += rule->status == KC_XFAIL;
  }
  print_areas(results);
  print_skips(results);
  printf("%llu checks in %llu cases of %u rules, %.1f s\n",
         (unsigned long long)checks, (unsigned long long)cases,
         results->rule_count, (double)results->time / 1e9);
  print_claim(results);
  if (expected) printf("%u failed as expected\n", expected);
  if (results->warnings)
    printf("%u warnings: should-rules that do not hold\n", results->warnings);
  printf("%u passed, %u failed, %u skipped\n",
         results->passed + results->warnings, results->failed,
         results->skipped);
}
