/* coverage.c - the cases of an op and an element type in results. */
#include <string.h>

#include "report/report.h"

bool kc_coverage_op(const char *name, char *op, char *dtype, size_t capacity) {
  const char *o = strstr(name, "op="), *t = strstr(name, "dtype=");
  if (!o || !t) return false;
  snprintf(op, capacity, "%.*s", (int)strcspn(o + 3, ","), o + 3);
  snprintf(dtype, capacity, "%.*s", (int)strcspn(t + 6, ","), t + 6);
  return true;
}

/* Whether a case's name has the key with the value: "op=Add,dtype=f32" has "op=" with "Add". A
 * report asks this for each case, op and type. */
static bool says(const char *name, const char *key, size_t key_size,
                 const char *value) {
  const char *at = strncmp(name, key, key_size) ? strstr(name, key) : name;
  size_t size = strlen(value);
  if (!at || strncmp(at + key_size, value, size) != 0) return false;
  char end = at[key_size + size];
  return !end || end == ',';
}

kc_cell kc_coverage_cell(const kc_results *results, const char *op,
                         const char *dtype) {
  kc_cell cell = {0};
  for (uint32_t r = 0; r < results->rule_count; r++)
    for (uint32_t c = 0; c < results->rules[r].case_count; c++) {
      const kc_case_result *one = &results->rules[r].cases[c];
      if (!says(one->name, "op=", 3, op) ||
          (dtype ? !says(one->name, "dtype=", 6, dtype)
                 : !strstr(one->name, "dtype=")))
        continue;
      if (kc_status_skipped(one->status))
        cell.absent++;
      else
        cell.cases++;
      cell.failed += kc_status_failed(one->status);
    }
  return cell;
}
