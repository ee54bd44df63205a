/* basis.c - causes before effects: the order of failures, and what is not judged as what it
 * stands on failed. */
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "runner/results.h"

/* Bytes that come back, and are there when waiting has ended. */
#define BYTES "copy.in-out mem.alloc-free "
#define DATA  BYTES "stream.sync-complete "

/* The rules that others stand on: must-rules, in the order in which they are looked at. */
static const struct {
  const char *rules, *bases;
} table[] = {
    {"load.copy-and-rename", DATA},
    {"option.*", DATA},
    {"mem.oom-busy", DATA},
    {"mem.no-overrun", DATA},
    {"mem.reuse", DATA},
    {"mem.*", BYTES},
    {"copy.*", BYTES "stream.sync-complete"},
    {"stream.*", BYTES "stream.sync-complete"},
    {"event.*", DATA "stream.in-order"},
    {"kernel.*", DATA},
    {"op.*", DATA},
    {"own.*", DATA},
    {"layout.*", DATA},
    {"dev.run-hooks", DATA},
    {"dev.two-*", DATA},
    {"dev.works-*", DATA},
    {"capture.*", DATA "stream.in-order"},
    {"region.*", DATA},
    {"prof.*", DATA "stream.in-order"},
    {"peer.*", DATA},
    {"group.*", DATA},
    {"native.*", DATA},
    {"err.*", DATA},
    {"thread.*", DATA},
    {"life.*", DATA},
    {"state.*", DATA},
    {"robust.*", DATA},
    {"host.*", DATA},
    {"perf.*", DATA},
    {"abi.host-*", DATA},
    {"abi.launch-*", DATA},
};

/* Areas, the causes first. */
static const char *const order[] = {
    "load",   "option", "mem",    "copy", "stream",  "event",  "kernel",
    "op",     "own",    "layout", "dev",  "capture", "region", "prof",
    "peer",   "group",  "native", "err",  "thread",  "life",   "state",
    "robust", "host",   "abi",    "perf"};
#define AREAS (sizeof order / sizeof *order)

const char *kc_basis_at(const char *id, uint32_t index, char *out,
                        size_t capacity) {
  for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
    if (fnmatch(table[i].rules, id, 0) != 0) continue;
    const char *at = table[i].bases;
    for (; *at; index--) {
      size_t size = strcspn(at, " ");
      snprintf(out, capacity, "%.*s", (int)size, at);
      if (!index) return strcmp(out, id) ? out : NULL; /* it is one itself */
      if (!strcmp(out, id)) return NULL;
      at += size + strspn(at + size, " ");
    }
    return NULL;
  }
  return NULL;
}

/* Not an unexpected pass, nor what the suite could not do. */
static bool has_failed(kc_status status) {
  return status == KC_FAIL || status == KC_CRASH || status == KC_HANG;
}

const char *kc_basis_failed(const kc_results *results, const char *id,
                            bool *out_open) {
  static char basis[64];
  *out_open = false;
  for (uint32_t i = 0; kc_basis_at(id, i, basis, sizeof basis); i++) {
    const kc_rule_result *rule = kc_results_rule(results, basis);
    if (!rule) continue;
    if (rule->judged && has_failed(rule->status)) return basis;
    *out_open |= !rule->judged && !rule->written;
  }
  return NULL;
}

/* ---- order --------------------------------------------------------------------------- */

static size_t area_of(const char *id) {
  size_t size = strcspn(id, "."), i = 0;
  while (i < AREAS && (strncmp(order[i], id, size) != 0 || order[i][size]))
    i++;
  return i;
}

static uint32_t basis_place_of(const kc_rule *rule) {
  uint32_t i = 0;
  for (const kc_rule *at = NULL; (at = kc_rule_at(i)) && at != rule;)
    i++;
  return i;
}

static int by_cause(const void *left, const void *right) {
  const kc_rule_result *a = left, *b = right;
  size_t x = area_of(a->id), y = area_of(b->id);
  if (x != y) return x < y ? -1 : 1;
  uint32_t i = basis_place_of(a->rule), k = basis_place_of(b->rule);
  return i < k ? -1 : i > k ? 1 : strcmp(a->id, b->id);
}

void kc_results_order(kc_results *results) {
  if (results->rule_count)
    qsort(results->rules, results->rule_count, sizeof *results->rules,
          by_cause);
}
