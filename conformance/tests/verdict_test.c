/* verdict_test.c - what a run says of what broke: causes before effects, what is not judged, a
 * sanitizer's report, levels without most of their rules, the time that is left. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "records.h"
#include "runner/running.h"
#include "suite/suite.h"
/**/
#include "suite/channel.h"
#include "tests.h"

static uint32_t place_of(const kc_results *results, const char *id) {
  return (uint32_t)(kc_results_rule(results, id) - results->rules);
}

/* ---- causes and effects -------------------------------------------------------------- */

TEST_THAT(causes_come_first) {
  static const char *const ids[] = {
      "load.open",    "mem.alloc-free", "copy.in-out",    "stream.in-order",
      "kernel.reuse", "capture.order",  "thread.foreign", "abi.host-smaller"};
  kc_results results = record_sound();
  kc_results_order(&results);
  for (size_t i = 1; i < KC_COUNT_OF(ids); i++)
    assert_true(place_of(&results, ids[i - 1]) < place_of(&results, ids[i]));
  assert_true(place_of(&results, "copy.in-out") <
              place_of(&results, "copy.zero"));
  kc_results_free(&results);
}

TEST_THAT(what_stands_on_a_failed_rule_is_not_judged) {
  bool open = false;
  kc_results results = record_sound();
  kc_rule_result *copies = kc_results_rule(&results, "copy.in-out");
  assert_null(kc_basis_failed(&results, "abi.host-smaller", &open));
  assert_false(open);
  copies->judged = false;
  assert_null(kc_basis_failed(&results, "abi.host-smaller", &open));
  assert_true(open);
  copies->judged = true;
  copies->status = KC_FAIL;
  assert_string_equal(kc_basis_failed(&results, "abi.host-smaller", &open),
                      "copy.in-out");
  assert_null(kc_basis_failed(&results, "copy.in-out", &open));
  assert_null(kc_basis_failed(&results, "load.name-valid", &open));
  const kc_status others[] = {KC_XFAIL, KC_XPASS, KC_ERROR};
  for (int i = 0; i < 3;
       i++) { /* what is expected, or passed, excuses nothing */
    copies->status = others[i];
    assert_null(kc_basis_failed(&results, "abi.host-smaller", &open));
  }
  kc_results_free(&results);
}

static bool stands_on(const char *id, const char *basis) {
  char other[64];
  for (uint32_t i = 0; kc_basis_at(id, i, other, sizeof other); i++)
    if (!strcmp(other, basis)) return true;
  return false;
}

/* So that what is not judged has a failed must-rule to show for it. */
TEST_THAT(bases_are_must_rules_and_go_one_way) {
  const kc_rule *rule = NULL;
  uint32_t found = 0;
  char basis[64];
  for (uint32_t i = 0; (rule = kc_rule_at(i)); i++)
    for (uint32_t k = 0; kc_basis_at(rule->id, k, basis, sizeof basis); k++) {
      const kc_rule *below = kc_rule_find(basis);
      assert_non_null(below);
      assert_int_equal(below->severity, KC_MUST);
      assert_false(stands_on(basis, rule->id));
      found++;
    }
  assert_true(found > 500);
}

/* ---- levels -------------------------------------------------------------------------- */

/* What is proven where so many of an area's must-rules are skipped. */
static const char *proven_without(const char *area, uint32_t skipped) {
  static char text[200];
  kc_results results = record_sound();
  for (uint32_t i = 0; i < results.rule_count; i++) {
    kc_rule_result *rule = &results.rules[i];
    if (strncmp(rule->id, area, strlen(area)) != 0 || !skipped ||
        rule->severity != KC_MUST)
      continue;
    rule->status = KC_UNCLAIMED;
    skipped--;
  }
  kc_claim_text(&results, text, sizeof text);
  kc_results_free(&results);
  return text;
}

TEST_THAT(a_level_needs_most_of_its_rules) {
  uint32_t count = 0;
  const kc_rule *rule = NULL;
  for (uint32_t i = 0; (rule = kc_rule_at(i)); i++)
    count += !strncmp(rule->id, "region.", 7) && rule->severity == KC_MUST;
  assert_true(count > 10);
  assert_string_equal(proven_without("region.", (count - 1) / 2),
                      "level 3 compile");
  assert_string_equal(proven_without("region.", (count + 1) / 2),
                      "level 2 replay");
  assert_string_equal(proven_without("layout.", 100), "level 3 compile");
  assert_string_equal(proven_without("copy.", 100), "no level");
}

TEST_THAT(what_is_not_proven_is_named) {
  char why[600];
  kc_results results = record_sound();
  assert_false(kc_claim_gap(&results, KC_COMPILE, why, sizeof why));
  for (uint32_t i = 0; i < results.rule_count; i++)
    if (!strncmp(results.rules[i].id, "region.", 7))
      results.rules[i].status = KC_UNCLAIMED;
  assert_true(kc_claim_gap(&results, KC_COMPILE, why, sizeof why));
  assert_non_null(strstr(why, "rules of region were skipped: region."));
  kc_results_free(&results);
}

/* ---- a sanitizer's report -------------------------------------------------------------- */

static const char asan[] =
    "hello\n"
    "=================================================================\n"
    "==4711==ERROR: AddressSanitizer: heap-buffer-overflow on address 0x60 at"
    " pc 0x7f bp 0x7f sp 0x7f\n"
    "READ of size 8 at 0x60 thread T0\n"
    "    #0 0x7f1 in __interceptor_memcpy"
    " ../../../../src/libsanitizer/asan/asan_interceptors.cpp:827\n"
    "    #1 0x7f2 in acme_copy_in /src/acme.c:210\n"
    "    #2 0x7f3 in main /src/main.c:3\n\n"
    "SUMMARY: AddressSanitizer: heap-buffer-overflow /src/acme.c:210\n"
    "Shadow bytes around the buggy address:\n"
    "  0x0c: fa fa fa\n";
static const char tsan[] =
    "==================\n"
    "WARNING: ThreadSanitizer: data race (pid=4711)\n"
    "  Write of size 4 at 0x7f by thread T1:\n"
    "    #0 acme_run /src/acme.c:77 (acme.so+0x1234)\n\n"
    "SUMMARY: ThreadSanitizer: data race /src/acme.c:77 in acme_run\n";

/* Reads it in pieces of so many bytes. */
static char *said_of(const char *text, size_t piece, kc_report *out) {
  char *line = NULL, *copy = strdup(text);
  memset(out, 0, sizeof *out);
  for (size_t at = 0, size = strlen(text); at < size; at += piece)
    kc_report_read(out, copy + at, size - at < piece ? size - at : piece);
  free(copy);
  kc_report_says(out, &line);
  return line;
}

TEST_THAT(a_report_is_found_in_the_output) {
  static kc_report report;
  for (size_t piece = 1; piece < 500; piece += 83) {
    char *line = said_of(asan, piece, &report);
    assert_string_equal(
        line,
        "AddressSanitizer: heap-buffer-overflow on address 0x60:"
        " acme_copy_in /src/acme.c:210");
    assert_null(strstr(report.text, "hello"));
    assert_null(strstr(report.text, "fa fa"));
    assert_true(report.whole);
    free(line);
    line = said_of(tsan, piece, &report);
    assert_string_equal(line,
                        "ThreadSanitizer: data race (pid=4711): acme_run"
                        " /src/acme.c:77 (acme.so+0x1234)");
    free(line);
  }
  assert_null(said_of("all is well\nERROR: no such file\n", 7, &report));
}

TEST_THAT(a_report_belongs_to_the_case_before_it) {
  kc_report report = {.nonce = "4711"};
  char first[] = "\0014711 copy.in-out/size=7\nhello\n\0014711 copy.in",
       second[] =
           "-out/size=8\na.c:7: runtime error: overflow\n"
           "SUMMARY: UndefinedBehaviorSanitizer\n\0014711 copy.in-out/size=9\n";
  size_t left = kc_report_read(&report, first, strlen(first));
  assert_int_equal(left, 6);
  assert_memory_equal(first, "hello\n", left);
  assert_string_equal(report.at, "copy.in-out/size=7");
  left = kc_report_read(&report, second, strlen(second));
  assert_memory_equal(second, "a.c:7", 5);
  assert_int_equal(second[left - 1], '\n');
  assert_true(report.whole);
  assert_string_equal(report.at, "copy.in-out/size=8");
}

TEST_THAT(what_only_looks_like_a_report_is_none) {
  static kc_report report;
  static const char *const others[] = {
      "acme: OpenCL runtime error: -5, retried\n",
      "CUDA runtime error: out of memory (1: 2)\n",
      "7:3: runtime error: no file\n", "no ERROR: AddressSanitizer here\n"};
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    assert_null(said_of(others[i], 5, &report));
  char *line = said_of("a.c:7:3: runtime error: overflow\n", 5, &report);
  assert_string_equal(line, "a.c:7:3: runtime error: overflow");
  free(line);
}

/* What begins as a mark does, and is none, is what the plugin printed. */
TEST_THAT(only_the_suites_marks_are_taken_out) {
  kc_report plain = {0}, report = {.nonce = "4711"};
  char first[] = "\0016acme: filling\n", second[] = "\0016acme: filling\n";
  char endless[5000];
  assert_int_equal(kc_report_read(&plain, first, strlen(first)),
                   strlen("\0016acme: filling\n"));
  assert_int_equal(kc_report_read(&report, second, strlen(second)), 0);
  assert_int_equal(report.strange, strlen("\0016acme: filling\n"));
  assert_string_equal(report.at, "");
  report.strange = 0;
  memset(endless, 'x', sizeof endless);
  endless[0] = '\1';
  size_t left = kc_report_read(&report, endless, sizeof endless);
  assert_true(report.strange + left > 4900);
}

/* ---- deadlines ------------------------------------------------------------------------- */

static pid_t start_computing(void) {
  pid_t pid = fork();
  if (pid == 0)
    for (volatile uint32_t i = 0;; i++)
      ;
  return pid;
}

/* Two children compute, one of them in a call of the plugin: side by side, so that the
 * machine's load is the same for both. */
TEST_THAT(the_suites_own_work_counts_for_little) {
  static kc_page pages[2];
  kc_child children[2] = {{.page = &pages[0]}, {.page = &pages[1]}};
  atomic_store(&pages[1].in[3], true);
  for (int i = 0; i < 2; i++) {
    children[i].pid = start_computing();
    assert_true(children[i].pid > 0);
    children[i].clock.looked = children[i].clock.sign = kc_now();
  }
  for (int k = 0; k < 30; k++) {
    kc_sleep(110 * KC_MS);
    for (int i = 0; i < 2; i++)
      kc_clock_look(&children[i], 3);
  }
  for (int i = 0; i < 2; i++) {
    kill(children[i].pid, SIGKILL);
    waitpid(children[i].pid, NULL, 0);
    assert_true(atomic_load(&pages[i].patience) >= 3000);
  }
  assert_true(children[0].clock.silent * 2 < children[1].clock.silent);
  assert_true(children[0].clock.spent * 2 < children[1].clock.spent);
  atomic_fetch_add(&pages[1].beat, 1);
  kc_sleep(110 * KC_MS);
  kc_clock_look(&children[1], 3);
  assert_true(children[1].clock.silent == 0);
}

/* ---- progress ---------------------------------------------------------------------------- */

TEST_THAT(the_time_left_follows_the_last_run) {
  static kc_running run;
  kc_results results = record_sound(), last = record_sound();
  kc_options options = {.last = &last};
  run = (kc_running){.options = &options, .results = &results, .jobs = 2};
  uint32_t count = 0;
  for (uint32_t i = 0; i < results.rule_count; i++) {
    bool watched = results.rules[i].rule->flags & KC_WATCHED;
    bool alone = results.rules[i].rule->flags & KC_ALONE;
    results.rules[i].judged = false;
    last.rules[i].time = alone ? 1 : 4 * KC_S;
    count += !watched && !alone;
  }
  kc_progress_plan(&run);
  /* four seconds each, two at once */
  assert_int_equal((int)(kc_progress_left(&run, 0) + 0.5), 2 * count);
  for (uint32_t i = 0; i < results.rule_count; i++)
    results.rules[i].judged = i % 2;
  assert_true(kc_progress_left(&run, count) < 1.2 * count);
  assert_true(kc_progress_left(&run, 4.0 * count) > 1.5 * count);
  for (uint32_t i = 0; i < results.rule_count; i++)
    results.rules[i].judged = true;
  assert_true(kc_progress_left(&run, count) < 0.1);
  kc_results_free(&results);
  kc_results_free(&last);
}

RUN_TESTS(NULL, NULL)
