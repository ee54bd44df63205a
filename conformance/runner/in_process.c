/* in_process.c - rules in this very process, for a debugger. */
#include <string.h>

#include "runner/run.h"
#include "suite/suite.h"
/**/
#include "suite/channel.h"

static void set_up(const kc_options *options) {
  kc.plugin = options->plugin;
  kc.only = options->only;
  kc.seed = options->seed;
  kc.max_memory = options->max_memory;
  kc.device = options->device;
  kc.op = options->op;
  kc.dtype = options->dtype;
  kc.dump = options->dump;
  kc.quick = options->quick;
  kc.options = options->plugin_options;
  kc.option_count = options->plugin_option_count;
  kc.in_process = true;
  kc.from = 0;
  kc_host_reset();
  if (!kc_shared) kc_channel_open(true);
}

/* Whether the rule is of tables that the plugin has; says why not. */
static bool applies(const kc_facts *facts, const kc_rule *rule) {
  if (facts->claims >> rule->level & 1) return true;
  printf("%s\n    not claimed: the plugin has no table for %s\n", rule->id,
         kc_level_name(rule->level));
  return false;
}

int kc_in_process(const kc_options *options) {
  kc_facts facts;
  const kc_rule *rule = NULL;
  uint32_t ran = 0, failed = 0;
  if (!kc_globs_match(options)) return KC_EXIT_USAGE;
  kc_probe(options, &facts); /* in a child: this process is for the rules */
  if (!facts.open) {
    fprintf(stderr, "%s could not be %s: %s\n", options->plugin,
            facts.loaded ? "opened" : "loaded", facts.why);
    return KC_EXIT_NOT_LOADABLE;
  }
  for (uint32_t i = 0; (rule = kc_rule_at(i)); i++) {
    if (!kc_chosen(options, rule) || !applies(&facts, rule)) continue;
    set_up(options);
    printf("%s\n", rule->id);
    uint32_t before = kc_channel_failures();
    kc_run_rule(rule);
    bool bad = kc_channel_failures() != before;
    failed += bad && rule->severity == KC_MUST;
    ran += kc_channel_cases() > 0;
  }
  printf("%u rule%s ran in this process, %u failed\n", ran, ran == 1 ? "" : "s",
         failed);
  return failed ? KC_EXIT_NOT : ran ? 0 : KC_EXIT_NOTHING;
}
