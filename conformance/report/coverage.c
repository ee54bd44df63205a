/* coverage.c - the cases of an op and an element type in results. */
#include <string.h>

#include "report/report.h"

bool kc_coverage_op(const char *name, char *op, char *dtype, size_t room) {
  const char *o = strstr(name, "op="), *t = strstr(name, "dtype=");
  if (!o || !t) return false;
  snprintf(op, room, "%.*s", (int)strcspn(o + 3, ","), o + 3);
  snprintf(dtype, room, "%.*s", (int)strcspn(t + 6, ","), t + 6);
  return true;
}

kc_cell kc_coverage_cell(const kc_results *results, const char *op,
                         const char *dtype) {
  char a[64], b[64];
  kc_cell cell = {0};
  for (uint32_t r = 0; r < results->rule_count; r++)
    for (uint32_t c = 0; c < results->rules[r].case_count; c++) {
      const kc_case_result *one = &results->rules[r].cases[c];
      if (!kc_coverage_op(one->name, a, b, sizeof a) || strcmp(a, op) != 0 ||
          (dtype && strcmp(b, dtype) != 0))
        continue;
      if (kc_status_skipped(one->status))
        cell.absent++;
      else
        cell.cases++;
      cell.failed += kc_status_failed(one->status);
    }
  return cell;
}
