/* main.c - the `keel` command: which subcommand, and help. */
#include "tool.h"

static const struct {
  const char *name;
  int (*main)(int argc, char **argv);
  const char *text;
} commands[] = {
    {"plugins", keel_main_plugins,
     "what became of each plugin, and what to do"},
    {"devices", keel_main_devices, "the devices there are"},
    {"ops", keel_main_ops, "what a device can do, op by op and type by type"},
    {"passes", keel_main_passes, "what a model goes through before it runs"},
    {"compile", keel_main_compile, "write a model as a program of Keel's own"},
    {"run", keel_main_run, "run a model"},
    {"tune", keel_main_tune, "search for a device's fastest kernels"},
    {"onnx-test", keel_main_onnx_test, "run ONNX backend-test folders"},
};

#define COMMANDS (sizeof commands / sizeof *commands)

static void help(FILE *file) {
  fprintf(file,
          "usage: keel COMMAND [OPTION]...\n\n"
          "Runs models on devices that plugins provide.\n\n");
  for (size_t i = 0; i < COMMANDS; i++)
    fprintf(file, "  %-10s %s\n", commands[i].name, commands[i].text);
  fprintf(
      file,
      "\n  --version  print the version\n"
      "  --help     this text; `keel COMMAND --help` says more\n\n"
      "Variables:\n"
      "  KEEL_PLUGIN_PATH      plugins, or folders of them, with ':' between\n"
      "  KEEL_DEVICE           the device that is taken where none is named\n"
      "  KEEL_VISIBLE_DEVICES  shows or hides devices (keel devices --help)\n"
      "  KEEL_THREADS          threads, the caller's among them\n"
      "  KEEL_LOG              error, warning (as it is without), info, debug\n"
      "  KEEL_LAYERS           what stands between Keel and plugins, with ','"
      " between:\n"
      "                        validation  tells of misuse of the ABI\n"
      "                        trace       prints each call, with its time\n"
      "                        fault:SLOT=N:STATUS  the N-th call of a slot"
      " fails\n\n"
      "Exit status: 0 all went well, 1 something failed, 2 wrong usage.\n");
}

/* The command of that name, or -1. */
static int find(const char *name) {
  for (size_t i = 0; i < COMMANDS; i++)
    if (!strcmp(name, commands[i].name)) return (int)i;
  return -1;
}

int main(int argc, char **argv) {
  static char help_word[] = "--help";
  char *words[] = {help_word, NULL};
  if (argc < 2) {
    help(stderr);
    return EXIT_USAGE;
  }
  bool about = is_help(argv[1]) || !strcmp(argv[1], "help");
  if (about && argc == 2) {
    help(stdout);
    return 0;
  }
  if (!strcmp(argv[1], "--version")) {
    printf("keel %s, device ABI %d.%d\n", keel_version(), KD_ABI_MAJOR,
           KD_ABI_MINOR);
    return 0;
  }
  int found = find(argv[about ? 2 : 1]);
  if (found >= 0 && about) return commands[found].main(1, words);
  if (found >= 0) return commands[found].main(argc - 2, argv + 2);
  if (is_option(argv[1]) && !about)
    fprintf(stderr,
            "keel: the command comes first, and \"%s\" is an option; `keel"
            " --help` lists the commands\n",
            argv[1]);
  else
    fprintf(stderr, "keel: unknown command \"%s\"; `keel --help` lists them\n",
            argv[about ? 2 : 1]);
  return EXIT_USAGE;
}
