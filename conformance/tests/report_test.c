/* report_test.c - what reports and verbs say of a record: the same everywhere, and nothing
 * of one that was cut off or changed. */
#include <unistd.h>

#include "records.h"
#include "report/report.h"
#include "runner/scratch.h"
#include "suite/suite.h"
#include "tests.h"
#include "verbs/verbs.h"

static char folder[256];

static void set_status(kc_results *results, const char *id, kc_status status) {
  kc_rule_result *rule = kc_results_rule(results, id);
  assert_non_null(rule);
  rule->status = rule->cases[0].status = status;
}

/* The path of a file in the test's folder, until the third call from here. */
static const char *at(const char *name) {
  static char paths[3][400];
  static int next;
  char *path = paths[next++ % 3];
  snprintf(path, sizeof paths[0], "%s/%s", folder, name);
  return path;
}

/* Writes results and frees them; returns where. */
static const char *write_down(kc_results *results, const char *name) {
  const char *path = at(name);
  record_write(results, path);
  return path;
}

static char *rendered(const kc_results *results, const char *format) {
  char *text = NULL;
  size_t size = 0;
  FILE *file = open_memstream(&text, &size);
  assert_true(kc_render(results, format, file));
  fclose(file);
  return text;
}

static void expect_in(const char *text, const char *want, const char *where) {
  if (!strstr(text, want)) fail_msg("no \"%s\" in %s: %s", want, where, text);
}

/* The words that every report has, and the badge's colour; frees the results. */
static void expect_all(kc_results *results, const char *want,
                       const char *colour) {
  static const char *const formats[] = {"html", "md", "badge", "text"};
  for (size_t i = 0; i < KC_COUNT_OF(formats); i++) {
    char *text = rendered(results, formats[i]);
    expect_in(text, want, formats[i]);
    if (!strcmp(formats[i], "badge")) expect_in(text, colour, "badge");
    bool claims = strstr(text, "onformant: level") != NULL;
    if (claims && strncmp(want, "level", 5) != 0)
      fail_msg("%s claims a level", formats[i]);
    free(text);
  }
  kc_results_free(results);
}

static const char green[] = "#2b7a3d", amber[] = "#9a7400", red[] = "#c4302b",
                  grey[] = "#6b7480";

TEST_THAT(all_reports_say_the_same) {
  kc_results results = record_sound();
  expect_all(&results, "level 3 compile", green);

  results = record_sound();
  set_status(&results, "copy.in-out", KC_XFAIL);
  expect_all(&results, "ot conformant", red);

  results = record_sound();
  set_status(&results, "copy.in-out", KC_NOT_RUN);
  expect_all(&results, "ot conformant", red);

  results = record_sound();
  set_status(&results, "copy.in-out", KC_FAIL);
  results.failed = 1;
  expect_all(&results, "ot conformant", red);

  results = record_sound();
  set_status(&results, "copy.in-out", KC_UNTESTED);
  expect_all(&results, "o level", amber);

  results = record_sound();
  results.partial = true;
  expect_all(&results, "art of the rules", amber);

  results = record_sound();
  results.complete = false;
  expect_all(&results, "ncomplete", grey);

  results = record_sound();
  results.complete = false;
  results.tampered = true;
  expect_all(&results, "hanged", grey);
}

/* A rule taken out of a record without its digest's leave is refused elsewhere; a record that
 * never had an area's rules proves nothing of it. */
TEST_THAT(an_area_without_rules_is_a_gap) {
  char why[600];
  kc_results results = record_sound();
  for (uint32_t i = 0; i < results.rule_count; i++)
    if (!strncmp(results.rules[i].id, "copy.", 5)) results.rules[i].id[0] = '-';
  assert_true(kc_claim_gap(&results, KC_CORE, why, sizeof why));
  expect_in(why, "no rule of copy", "the gap");
  kc_results_free(&results);
}

/* ---- formats ------------------------------------------------------------------------- */

/* Texts of a plugin that are no UTF-8, cut in the middle of a character, or a terminal's codes. */
TEST_THAT(what_is_no_text_is_replaced) {
  static const struct {
    const char *said, *shown;
  } texts[] = {
      {"1Acm\xff\xfe", "1Acm??"},
      {"caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80<",
       "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80&lt;"},
      {"cut \xe2\x82", "cut ??"},
      {"\xc0\xaf|", "??|"},
      {"\xed\xa0\x80|", "???|"},
      {"\xef\xbf\xbe|", "???|"},
      {"\xf4\x90\x80\x80|", "????|"},
      {"\x1b[31m\x07|", "?[31m?|"},
  };
  for (size_t i = 0; i < KC_COUNT_OF(texts); i++) {
    kc_results results = record_sound();
    kc_text_set(&results.version, "%s", texts[i].said);
    char *junit = rendered(&results, "junit"),
         *html = rendered(&results, "html");
    expect_in(junit, texts[i].shown, "JUnit");
    expect_in(html, texts[i].shown, "HTML");
    free(junit);
    free(html);
    kc_results_free(&results);
  }
}

TEST_THAT(tap_has_expected_failures_as_such) {
  char line[200];
  kc_results results = record_sound();
  set_status(&results, "copy.in-out", KC_XFAIL);
  set_status(&results, "copy.zero", KC_UNTESTED);
  kc_text_set(&kc_results_rule(&results, "copy.zero")->reason, "one\ntwo");
  uint32_t at_xfail =
      (uint32_t)(kc_results_rule(&results, "copy.in-out") - results.rules) + 1;
  char *text = rendered(&results, "tap");
  snprintf(line, sizeof line, "\nnot ok %u - copy.in-out # TODO ", at_xfail);
  expect_in(text, line, "TAP");
  expect_in(text, " - copy.zero # SKIP one\n", "TAP");
  assert_null(strstr(text, "\ntwo"));
  free(text);
  kc_results_free(&results);
}

/* ---- render ------------------------------------------------------------------------- */

static int rendered_badge(const char *record, const char *want) {
  char from[400], to[400], format[] = "badge";
  size_t size = 0;
  snprintf(from, sizeof from, "%s", record);
  snprintf(to, sizeof to, "%s", at("badge.svg"));
  unlink(to);
  char *words[] = {from, format, to};
  int status = kc_verb_render(3, words);
  if (want) {
    char *text = file_content(to, &size);
    expect_in(text, want, "badge");
    free(text);
  } else {
    assert_int_not_equal(access(to, F_OK), 0);
  }
  return status;
}

TEST_THAT(render_claims_nothing_of_half_a_record) {
  size_t size = 0;
  kc_results results = record_sound();
  const char *whole = write_down(&results, "whole.jsonl");
  assert_int_equal(rendered_badge(whole, "level 3 compile"), 0);
  char *text = file_content(at("whole.jsonl"), &size), *end = text;
  for (int i = 0; i < 123; i++) /* the suite's line, and 61 rules */
    end = strchr(end, '\n') + 1;
  file_write(at("cut.jsonl"), text, (size_t)(end - text));
  assert_int_equal(rendered_badge(at("cut.jsonl"), "incomplete"), 2);
  file_write(at("cut.jsonl"), text, (size_t)(strchr(text, '\n') + 1 - text));
  assert_int_equal(rendered_badge(at("cut.jsonl"), "incomplete"), 2);
  file_write(at("cut.jsonl"), text, (size_t)(end - text - 7));
  assert_int_equal(rendered_badge(at("cut.jsonl"), NULL), 2);
  char *checks = strstr(end, "\"checks\":3");
  checks[9] = '4';
  file_write(at("changed.jsonl"), text, size);
  assert_int_equal(rendered_badge(at("changed.jsonl"), "changed"), 2);
  free(text);
}

TEST_THAT(another_format_is_refused) {
  size_t size = 0;
  kc_results results = record_sound();
  write_down(&results, "format.jsonl");
  char *text = file_content(at("format.jsonl"), &size);
  strstr(text, "\"format\":1")[9] = '2';
  file_write(at("format.jsonl"), text, size);
  free(text);
  assert_int_equal(rendered_badge(at("format.jsonl"), NULL), 2);
  assert_int_equal(rendered_badge(at("none.jsonl"), NULL), 2);
  assert_int_equal(rendered_badge(folder, NULL), 2);
}

/* ---- compare ------------------------------------------------------------------------ */

/* The exit status of comparing a record where copy.in-out is `was` with one where it is
 * `is`; KC_STATUS_COUNT: gone. */
static int compared(kc_status was, kc_status is, bool partial) {
  char then[400], now[400];
  kc_results a = record_sound(), b = record_sound();
  set_status(&a, "copy.in-out", was);
  b.partial = partial;
  if (is == KC_STATUS_COUNT)
    kc_results_rule(&b, "copy.in-out")->id[0] = 0;
  else
    set_status(&b, "copy.in-out", is);
  snprintf(then, sizeof then, "%s", write_down(&a, "then.jsonl"));
  snprintf(now, sizeof now, "%s", write_down(&b, "now.jsonl"));
  char *words[] = {then, now};
  return kc_verb_compare(2, words);
}

static char *printed_by_compare(kc_status was, kc_status is) {
  size_t size = 0;
  fflush(stdout);
  int before = dup(STDOUT_FILENO);
  assert_non_null(freopen(at("printed"), "we", stdout));
  compared(was, is, false);
  fflush(stdout);
  dup2(before, STDOUT_FILENO);
  close(before);
  return file_content(at("printed"), &size);
}

TEST_THAT(what_passed_and_is_not_there_broke) {
  assert_int_equal(compared(KC_PASS, KC_PASS, false), 0);
  assert_int_equal(compared(KC_PASS, KC_FAIL, false), 1);
  assert_int_equal(compared(KC_PASS, KC_NOT_RUN, false), 1);
  assert_int_equal(compared(KC_PASS, KC_UNTESTED, false), 1);
  assert_int_equal(compared(KC_WARNING, KC_STATUS_COUNT, false), 1);
  assert_int_equal(compared(KC_PASS, KC_STATUS_COUNT, true), 0);
  assert_int_equal(compared(KC_PASS, KC_UNTESTED, true), 0);
  assert_int_equal(compared(KC_FAIL, KC_NOT_RUN, false), 0);
}

TEST_THAT(only_what_passes_is_fixed) {
  char *text = printed_by_compare(KC_FAIL, KC_PASS);
  expect_in(text, "1 fixed, 0 broken", "compare");
  free(text);
  text = printed_by_compare(KC_FAIL, KC_NOT_RUN);
  expect_in(text, "0 fixed, 0 broken, 1 otherwise", "compare");
  free(text);
}

TEST_THAT(half_a_record_is_not_compared) {
  size_t size = 0;
  char then[400], now[400];
  kc_results results = record_sound();
  snprintf(then, sizeof then, "%s", write_down(&results, "then.jsonl"));
  snprintf(now, sizeof now, "%s", at("now.jsonl"));
  char *text = file_content(then, &size), *words[] = {then, now};
  file_write(now, text, (size_t)(strstr(text, "{\"type\":\"end\"") - text));
  free(text);
  assert_int_equal(kc_verb_compare(2, words), 2);
}

/* ---- the folder ---------------------------------------------------------------------- */

SETUP(make_folder) {
  return kc_scratch_make(folder) ? 0 : -1;
}

SETUP(remove_folder) {
  kc_scratch_remove(folder);
  return 0;
}

RUN_TESTS(make_folder, remove_folder)
