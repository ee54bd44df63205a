/* records.c - the record of a run that passed everything, and files that tests change. */
#include "records.h"

#include "suite/suite.h"
#include "tests.h"

kc_results record_sound(void) {
  char digest[65];
  kc_rules_digest(digest);
  kc_results results = {
      .suite = strdup("0.9"),
      .rules_digest = strdup(digest),
      .plugin_digest = strdup("00"),
      .name = strdup("sound"),
      .vendor = strdup("Acme"),
      .version = strdup("1"),
      .device = strdup("one"),
      .plugin_path = strdup("sound.so"),
      .level = KC_COMPILE,
      .complete = true,
  };
  const kc_rule *rule = NULL;
  results.rule_count = kc_rule_count();
  results.rules = calloc(results.rule_count, sizeof *results.rules);
  for (uint32_t i = 0; (rule = kc_rule_at(i)); i++) {
    kc_rule_result *result = &results.rules[i];
    *result = (kc_rule_result){.rule = rule,
                               .id = strdup(rule->id),
                               .severity = rule->severity,
                               .level = rule->level,
                               .judged = true,
                               .checks = 3};
    kc_results_case(result, rule->id)->checks = 3;
  }
  return results;
}

void record_write(kc_results *results, const char *path) {
  assert_true(kc_results_begin(results, path));
  for (uint32_t i = 0; i < results->rule_count; i++)
    if (results->rules[i].id[0])
      kc_results_write_rule(results, &results->rules[i]);
  kc_results_end(results);
  kc_results_free(results);
}

char *file_content(const char *path, size_t *out_size) {
  FILE *file = fopen(path, "rbe");
  assert_non_null(file);
  char *text = calloc(1, 1 << 20);
  *out_size = fread(text, 1, (1 << 20) - 1, file);
  fclose(file);
  return text;
}

void file_write(const char *path, const char *text, size_t size) {
  FILE *file = fopen(path, "wbe");
  assert_non_null(file);
  assert_int_equal(fwrite(text, 1, size, file), size);
  fclose(file);
}
