/* claim_test.c - what becomes of a rule by its cases, and what can't stand for a
 * plugin: the record of a run, however it was changed. */
#include <unistd.h>

#include "records.h"
#include "runner/scratch.h"
#include "suite/suite.h"
#include "tests.h"

/* Of a record's lines, those that are edited: all, or every seventh and the last. */
#ifdef KEEL_SANITIZED
#define EACH_LINE 7
#else
#define EACH_LINE 1
#endif

/* ---- judging ------------------------------------------------------------------------ */

/* A rule with cases of these statuses, of `checks` each, judged. */
static kc_status judged(kc_severity severity, uint64_t checks, uint32_t count,
                        const kc_status *cases,
                        const kc_expectations *expectations) {
  const kc_expectations none = {0};
  kc_rule_result rule = {.id = strdup("area.rule"), .severity = severity};
  for (uint32_t i = 0; i < count; i++) {
    char name[32];
    snprintf(name, sizeof name, "area.rule/n=%u", i);
    kc_case_result *one = kc_results_case(&rule, name);
    one->status = cases[i];
    one->checks = checks;
  }
  kc_judge(expectations ? expectations : &none, &rule);
  assert_int_equal(rule.checks, checks * count);
  kc_status status = rule.status;
  kc_results results = {.rules = calloc(1, sizeof rule), .rule_count = 1};
  results.rules[0] = rule;
  kc_results_free(&results);
  return status;
}

TEST_THAT(no_check_is_no_pass) {
  const kc_status two[] = {KC_PASS, KC_PASS}, one[] = {KC_UNCLAIMED};
  assert_int_equal(judged(KC_MUST, 1, 2, two, NULL), KC_PASS);
  assert_int_equal(judged(KC_MUST, 0, 2, two, NULL), KC_ERROR);
  assert_int_equal(judged(KC_SHOULD, 0, 2, two, NULL), KC_ERROR);
  assert_int_equal(judged(KC_MUST, 0, 1, one, NULL), KC_UNCLAIMED);
  assert_int_equal(judged(KC_MUST, 0, 0, NULL, NULL), KC_UNCLAIMED);
}

TEST_THAT(nothing_to_test_is_no_pass) {
  const kc_status some[] = {KC_UNCLAIMED, KC_UNTESTED, KC_UNCLAIMED};
  const kc_status passed[] = {KC_UNTESTED, KC_PASS};
  const kc_status failed[] = {KC_FAIL, KC_UNTESTED};
  assert_int_equal(judged(KC_MUST, 0, 3, some, NULL), KC_UNTESTED);
  assert_int_equal(judged(KC_MUST, 1, 2, passed, NULL), KC_PASS);
  assert_int_equal(judged(KC_MUST, 1, 2, failed, NULL), KC_FAIL);
}

TEST_THAT(the_worst_case_counts) {
  const kc_status failed[] = {KC_PASS, KC_FAIL, KC_PASS};
  const kc_status crashed[] = {KC_FAIL, KC_CRASH, KC_HANG};
  const kc_status some[] = {KC_UNCLAIMED, KC_PASS};
  assert_int_equal(judged(KC_MUST, 1, 3, failed, NULL), KC_FAIL);
  assert_int_equal(judged(KC_SHOULD, 1, 3, failed, NULL), KC_WARNING);
  assert_int_equal(judged(KC_SHOULD, 1, 3, crashed, NULL), KC_CRASH);
  assert_int_equal(judged(KC_MUST, 1, 2, some, NULL), KC_PASS);
}

TEST_THAT(expected_failures_are_none) {
  const kc_status failed[] = {KC_PASS, KC_FAIL}, passed[] = {KC_PASS, KC_PASS};
  char name[] = "area.rule/n=1", why[] = "known", on[] = "2020-01-31";
  kc_expectation one = {
      .name = name, .reason = why, .link = why, .expires = on};
  const kc_expectations all = {&one, 1};
  assert_int_equal(judged(KC_MUST, 1, 2, failed, &all), KC_XFAIL);
  assert_true(one.seen);
  assert_int_equal(judged(KC_MUST, 1, 2, passed, &all), KC_XPASS);
  one.expired = true;
  assert_int_equal(judged(KC_MUST, 1, 2, failed, &all), KC_FAIL);
  assert_int_equal(judged(KC_MUST, 1, 2, passed, &all), KC_XPASS);
}

/* ---- claims -------------------------------------------------------------------------- */

/* Writes, reads, and compares the flaw with `want` (NULL: none). */
static void expect_flaw(kc_results *results, const char *want) {
  char folder[256], path[300];
  assert_true(kc_scratch_make(folder));
  snprintf(path, sizeof path, "%s/results.jsonl", folder);
  record_write(results, path);
  kc_results read;
  assert_true(kc_results_read(path, &read));
  const char *flaw = kc_claim_flaw(&read);
  if (want && (!flaw || !strstr(flaw, want)))
    fail_msg("\"%s\" instead of \"%s\"", flaw ? flaw : "no flaw", want);
  if (!want) assert_null(flaw);
  kc_results_free(&read);
  kc_scratch_remove(folder);
}

TEST_THAT(a_sound_record_stands) {
  kc_results results = record_sound();
  expect_flaw(&results, NULL);
}

TEST_THAT(a_record_that_lacks_something_is_refused) {
  kc_results results = record_sound();
  results.rules[7].id[0] = 0; /* not written */
  expect_flaw(&results, "is missing");

  results = record_sound();
  results.rules[9].checks = results.rules[9].cases[0].checks = 0;
  expect_flaw(&results, "passed without a check");

  results = record_sound();
  results.rules[9].cases[0].checks = 1;
  expect_flaw(&results, "is not what its cases make it");

  results = record_sound();
  results.rules[9].cases[0].status = KC_FAIL;
  expect_flaw(&results, "is not what its cases make it");

  results = record_sound();
  results.rules[9].status = KC_NOT_RUN;
  expect_flaw(&results, "was not run");

  results = record_sound();
  results.rules[9].status = results.rules[9].cases[0].status = KC_XFAIL;
  expect_flaw(&results, "no claim can be made");

  results = record_sound();
  results.rules[9].severity = KC_INFO;
  expect_flaw(&results, "severity");

  results = record_sound();
  results.rules_digest[5] ^= 1;
  expect_flaw(&results, "another suite");

  results = record_sound();
  results.partial = true;
  expect_flaw(&results, "part of the rules");
}

/* The first must-rule of a level, and then all of them, as a status. */
static const char *proven_with(kc_results *results, kc_level level,
                               kc_status status, bool all) {
  static char text[200];
  for (uint32_t i = 0, found = 0; i < results->rule_count; i++) {
    kc_rule_result *rule = &results->rules[i];
    if (rule->level == level && rule->severity == KC_MUST && (all || !found++))
      rule->status = status;
  }
  kc_claim_text(results, text, sizeof text);
  kc_results_free(results);
  return text;
}

TEST_THAT(a_level_is_proven_by_its_must_rules) {
  kc_results results = record_sound();
  results.options = ~0u;
  assert_string_equal(
      proven_with(&results, KC_COMPILE, KC_PASS, false),
      "level 3 compile + profile + peer + collective + external");

  results = record_sound();
  assert_string_equal(proven_with(&results, KC_COMPILE, KC_UNTESTED, false),
                      "level 2 replay");

  results = record_sound();
  assert_string_equal(proven_with(&results, KC_COMPILE, KC_UNCLAIMED, false),
                      "level 3 compile");

  results = record_sound();
  assert_string_equal(proven_with(&results, KC_COMPILE, KC_UNCLAIMED, true),
                      "level 2 replay");

  results = record_sound();
  assert_string_equal(proven_with(&results, KC_ASYNC, KC_NOT_RUN, false),
                      "level 0 core + compile");

  results = record_sound();
  results.options = ~0u;
  results.level = KC_CORE;
  assert_string_equal(proven_with(&results, KC_PEER, KC_UNTESTED, false),
                      "level 0 core + profile + collective + external");

  results = record_sound();
  assert_string_equal(proven_with(&results, KC_CORE, KC_UNTESTED, false),
                      "no level");
}

static bool stands(const char *path, const char *text, size_t size) {
  file_write(path, text, size);
  kc_results results;
  bool good = kc_results_read(path, &results) && !kc_claim_flaw(&results);
  kc_results_free(&results);
  return good;
}

/* Each line of the record changed by a character, taken out, or the last. */
TEST_THAT(no_line_can_be_edited) {
  char folder[256], path[300];
  size_t size = 0;
  kc_results results = record_sound();
  assert_true(kc_scratch_make(folder));
  snprintf(path, sizeof path, "%s/results.jsonl", folder);
  record_write(&results, path);
  char *text = file_content(path, &size), *other = calloc(1, size + 1);
  assert_true(stands(path, text, size));
  uint32_t lines = 0;
  assert_int_equal(dup2(STDERR_FILENO, 20), 20); /* all are complained of */
  assert_non_null(freopen("/dev/null", "we", stderr));
  for (size_t at = 0, line; at < size; lines++, at += line) {
    line = (size_t)((char *)memchr(text + at, '\n', size - at) - text) + 1 - at;
    bool last = at + line == size;
    char *digit = NULL;
    if (lines % EACH_LINE && !last) continue;
    memcpy(other, text, size);
    for (size_t i = at; i < at + line; i++)
      if (other[i] >= '0' && other[i] <= '9') digit = &other[i];
    *digit = *digit == '9' ? '8' : (char)(*digit + 1);
    assert_false(stands(path, other, size));
    assert_false(stands(path, text, at));
    memcpy(other, text, at);
    memcpy(other + at, text + at + line, size - at - line);
    assert_false(stands(path, other, size - line));
    if (last) { /* and a line behind the end */
      char *more = calloc(1, size + line);
      memcpy(more, text, size);
      memcpy(more + size, text + at, line);
      assert_false(stands(path, more, size + line));
      free(more);
    }
  }
  fflush(stderr);
  dup2(20, STDERR_FILENO);
  close(20);
  assert_int_equal(lines, 2 * kc_rule_count() + 2);
  free(text);
  free(other);
  kc_scratch_remove(folder);
}

RUN_TESTS(NULL, NULL)
