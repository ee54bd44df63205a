/* list.c - the text of conformance/README.md. */
#include <string.h>

#include <kd/kd.h>
#include "verbs/verbs.h"

const char *kc_defects_of(const char *rule, uint32_t index,
                          const char **out_text) {
  const kc_defect *defect = NULL;
  for (uint32_t i = 0; (defect = kc_defect_at(i)); i++)
    if (!strcmp(defect->rule, rule) && !index--) {
      *out_text = defect->text;
      return defect->name;
    }
  return NULL;
}

void kc_list_defects(void) {
  const kc_defect *defect = NULL;
  for (uint32_t i = 0; (defect = kc_defect_at(i)); i++)
    printf("%-28s %-30s %s\n", defect->name, defect->rule, defect->text);
}

void kc_list_markdown(void) {
  uint32_t counts[3] = {0};
  const kc_rule *rule = NULL;
  for (uint32_t i = 0; (rule = kc_rule_at(i)); i++)
    counts[rule->severity]++;
  printf(
      "# The conformance suite\n\n"
      "`keel-conformance PLUGIN.so` checks whether a plugin keeps the device"
      " ABI's\npromises. VENDOR_GUIDE.md explains its use; this file is"
      " the list of its rules,\nwritten by `sh"
      " conformance/tests/readme.sh`.\n\n"
      "%u rules: %u must, %u should, %u information. %u defects prove"
      " them\n(`keel-conformance self-test`).\n\n"
      "Each folder sees only those above it; main.c, beside them, sees"
      " all.\n\n"
      "| folder | contents |\n| --- | --- |\n"
      "| `reference/` | each op in long double; a plugin of its own"
      " |\n"
      "| `suite/` | the rules' tools: cases, checks, the host that"
      " the plugin sees, buffers with guards, work in streams, launches |\n"
      "| `rules/` | the rules and the defects that prove them, a file an area:"
      " `plugin`, `memory`, `streams`, `kernels`, `ops` (`cases.c` has each "
      "op's"
      " cases), `regions`, `groups` |\n"
      "| `mutants/` | the simulated device, with its defects and odd but legal"
      " variants, the fault layer around any plugin; `self-test --matrix`"
      " lists the failures of each defect |\n"
      "| `runner/` | choosing rules, children, deadlines, results.jsonl |\n"
      "| `report/` | terminal, HTML, JUnit, TAP, Markdown, badge |\n"
      "| `verbs/` | the verbs of keel-conformance and their"
      " options |\n"
      "| `tests/` | its own tests; stability.sh shows that results depend on"
      " nothing but the plugin |\n\n"
      "The suite sees libkeel's op schemas and shape functions "
      "(`host/src/opsets`)"
      " and, for\nONNX's stored cases, its public API; nothing else of the"
      " host, and no plugin's code.\n",
      kc_rule_count(), counts[0], counts[1], counts[2], kc_defect_count());
  for (uint32_t a = 0; a < kc_area_count; a++) {
    const kc_area *area = kc_areas[a];
    printf(
        "\n## %s (%u)\n\n%s.\n\n| rule | | level | sentence | defects |\n"
        "| --- | --- | --- | --- | --- |\n",
        area->name, area->count, area->title);
    for (uint32_t i = 0; i < area->count; i++) {
      const char *text = NULL, *name = NULL;
      rule = &area->rules[i];
      printf("| `%s` | %s | %s | %s |", rule->id,
             kc_severity_name(rule->severity), kc_level_name(rule->level),
             rule->sentence);
      for (uint32_t k = 0; (name = kc_defects_of(rule->id, k, &text)); k++)
        printf(" `%s`", name);
      printf(" |\n");
    }
  }
}
