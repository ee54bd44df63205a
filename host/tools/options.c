/* options.c - a command's options: read by a table, and shown by it. */
#include "tool.h"

#define COLUMN 22 /* where what an option does begins */

/* ---- the help --------------------------------------------------------------- */

static void show(const option *one) {
  int width = printf("  %s%s%s", one->name, one->value ? " " : "",
                     one->value ? one->value : "");
  if (!*one->help) printf("\n");
  for (const char *at = one->help; *at;) {
    size_t size = strcspn(at, "\n");
    bool breaks = width >= COLUMN; /* no room beside it */
    printf("%s%*s%.*s\n", breaks ? "\n" : "", breaks ? COLUMN : COLUMN - width,
           "", (int)size, at);
    width = 0;
    at += size + (at[size] != 0);
  }
}

/* Shows the help where a word asks for it, wherever it stands. */
static bool helps(const command *command, int argc, char **argv) {
  for (int i = 0; i < argc; i++) {
    bool debug = !strcmp(argv[i], "--help-debug");
    if (!debug && !is_help(argv[i])) continue;
    printf("%s", debug ? "For tests and comparison:\n\n" : command->help);
    bool more = false;
    for (const option *at = command->options; at->name; at++) {
      if (at->help && at->debug == debug) show(at);
      more |= at->debug;
    }
    if (debug && !more)
      printf("  keel %s has none\n", command->common->command);
    if (!debug) common_help(command->common);
    if (!debug && more)
      printf("  --help-debug        options for tests and comparison\n");
    return true;
  }
  return false;
}

/* ---- reading ------------------------------------------------------------------ */

bool word_add(const command *command, const char *name, word_list *list,
              const char *word) {
  if (list->count == WORDS_MOST) {
    usage_error(command->common->command, "%s can be given at most %d times",
                name, WORDS_MOST);
    return false;
  }
  list->words[list->count++] = word;
  return true;
}

bool place_add(const command *command, word_list *places, bool *by_cost,
               const char *value) {
  if (strcmp(value, "auto") != 0)
    return word_add(command, "--place", places, value);
  *by_cost = true;
  return true;
}

static bool tools_options_take(const command *command, const option *one,
                               const char *value) {
  const char *name = command->common->command;
  if (one->take) return one->take(value);
  if (one->list) return word_add(command, one->name, one->list, value);
  if (one->number) return read_number(name, one->name, value, one->number);
  if (one->count)
    return read_count(name, one->name, value, one->least,
                      one->most ? one->most : UINT64_MAX, one->count);
  *one->text = value;
  return true;
}

/* 0: taken, -1: it is another word, else what to exit with. */
static int take_option(const command *command, int argc, char **argv, int *at) {
  for (const option *one = command->options; one->name; one++) {
    bool missing = false;
    if (one->flag) {
      if (strcmp(argv[*at], one->name) != 0) continue;
      *one->flag = true;
      return 0;
    }
    const char *value = option_value(argc, argv, at, one->name, &missing);
    if (missing) return EXIT_USAGE;
    if (value) return tools_options_take(command, one, value) ? 0 : EXIT_USAGE;
  }
  return -1;
}

int options_read(const command *command, int argc, char **argv) {
  const char *name = command->common->command;
  if (helps(command, argc, argv)) return 0;
  for (int i = 0; i < argc; i++) {
    if (common_option(command->common, argc, argv, &i)) {
      if (command->common->failed) return EXIT_USAGE;
      continue;
    }
    int taken = take_option(command, argc, argv, &i);
    if (taken > 0) return taken;
    if (taken == 0) continue;
    if (is_option(argv[i]))
      return usage_error(name, "unknown option \"%s\"", argv[i]);
    if (!command->words)
      return usage_error(name, "it takes only options, not \"%s\"", argv[i]);
    if (command->one_word && command->words->count)
      return usage_error(name, "one model at a time, not also \"%s\"", argv[i]);
    command->words->words = argv;
    argv[command->words->count++] = argv[i];
  }
  return -1;
}
