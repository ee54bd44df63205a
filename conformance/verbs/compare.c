/* compare.c - what two records differ in. */
#include <string.h>

#include "suite/suite.h"
#include "verbs/verbs.h"

typedef enum change { SAME, FIXED, BROKEN, CHANGED, SLOWER, CHANGES } change;

static bool good(kc_status status) {
  return status == KC_PASS || status == KC_WARNING;
}

/* whole: the new run is of all rules and cases, so that what has no result has lost it. */
static change change_of(const kc_rule_result *then, const kc_rule_result *now,
                        bool whole) {
  kc_status was = then->status, is = now->status;
  if (was == is)
    return now->time > 2 * then->time && now->time > 500 * KC_MS ? SLOWER
                                                                 : SAME;
  if (kc_status_failed(is)) return kc_status_failed(was) ? CHANGED : BROKEN;
  if (good(is))
    return kc_status_failed(was) || was == KC_XFAIL ? FIXED : CHANGED;
  bool lost = is == KC_NOT_RUN || (is == KC_UNTESTED && whole);
  return good(was) && lost ? BROKEN : CHANGED;
}

static void print_change(const kc_rule_result *then, const kc_rule_result *now,
                         change kind) {
  static const char *const names[] = {
      [FIXED] = "fixed", [BROKEN] = "broken", [CHANGED] = "changed"};
  if (kind == SLOWER)
    printf("slower   %s: %.1f s, was %.1f s\n", now->id,
           (double)now->time / 1e9, (double)then->time / 1e9);
  else if (kind != SAME)
    printf("%-8s %s: %s, was %s\n", names[kind], now->id,
           kc_status_name(now->status), kc_status_name(then->status));
}

/* Prints what differs; returns how much broke. */
static uint32_t compare_it(const kc_results *a, const kc_results *b) {
  uint32_t counts[CHANGES] = {0};
  for (uint32_t i = 0; i < b->rule_count; i++) {
    const kc_rule_result *now = &b->rules[i];
    const kc_rule_result *then = kc_results_rule(a, now->id);
    if (then) {
      change kind = change_of(then, now, !b->partial);
      print_change(then, now, kind);
      counts[kind]++;
    } else {
      printf("new      %s (%s)\n", now->id, kc_status_name(now->status));
      counts[CHANGED]++;
    }
  }
  for (uint32_t i = 0; i < a->rule_count; i++) {
    const kc_rule_result *then = &a->rules[i];
    if (kc_results_rule(b, then->id)) continue;
    printf("gone     %s, was %s\n", then->id, kc_status_name(then->status));
    counts[good(then->status) && !b->partial ? BROKEN : CHANGED]++;
  }
  printf("%u fixed, %u broken, %u otherwise changed, %u slower\n",
         counts[FIXED], counts[BROKEN], counts[CHANGED], counts[SLOWER]);
  return counts[BROKEN];
}

/* A part of the rules can be compared; what was cut off or changed can't. */
static bool read_whole(const char *path, kc_results *out) {
  return kc_record_read(path, out) && kc_record_whole(path, out);
}

int kc_verb_compare(int argc, char **argv) {
  static kc_results a, b;
  kc_words words = {
      .verb = "compare",
      .help =
          "usage: keel-conformance compare OLD.jsonl NEW.jsonl\n\nWhat was"
          " fixed, what broke, what is new, and what takes twice as"
          " long. What passed and\nis not run, untested or gone now broke,"
          " unless NEW is a part of the rules.\nExit status 1 where something"
          " broke, 2 where one of them is not complete.\n",
      .most = 2};
  int status = kc_words_read(&words, argc, argv);
  if (status >= 0) return status;
  if (words.count != 2)
    return kc_usage("compare", "two results.jsonl are compared");
  status = KC_EXIT_USAGE;
  if (read_whole(words.others[0], &a) && read_whole(words.others[1], &b))
    status = compare_it(&a, &b) ? KC_EXIT_NOT : 0;
  kc_results_free(&a);
  kc_results_free(&b);
  return status;
}
