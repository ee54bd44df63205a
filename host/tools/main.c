/* main.c - the `keel` command: which subcommand, and help. */
#include "end.h"
#include "system/locale.h"
#include "tool.h"

static const struct {
  const char *name;
  int (*main)(int argc, char **argv);
  const char *text;
} commands[] = {
    {"plugins", keel_main_plugins,
     "list every plugin candidate, and why it was refused"},
    {"devices", keel_main_devices, "list the devices"},
    {"ops", keel_main_ops, "list the ops and types that a device supports"},
    {"passes", keel_main_passes,
     "list the passes that transform a model before it runs"},
    {"compile", keel_main_compile,
     "compile a model to a file in Keel's own format"},
    {"run", keel_main_run, "run a model"},
    {"tune", keel_main_tune, "search for a device's fastest kernels"},
    {"onnx-test", keel_main_onnx_test, "run ONNX backend-test folders"},
    {"doctor", keel_main_doctor,
     "check plugins, libraries and devices, and report problems"},
    {"new-plugin", keel_main_new_plugin, "write a new plugin's project"},
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
      "  --help     print this text; `keel COMMAND --help` has more\n\n"
      "Environment variables:\n"
      "  KEEL_PLUGIN_PATH      plugins, or folders of plugins, separated by "
      "':'\n"
      "  KEEL_DEVICE           the default device\n"
      "  KEEL_VISIBLE_DEVICES  shows or hides devices (keel devices --help)\n"
      "  KEEL_THREADS          the number of threads, including the caller's\n"
      "  KEEL_CACHE_SIZE       MiB of each plugin's compiled kernels that are "
      "kept (4096)\n"
      "  KEEL_LOG              error, warning (the default), info, debug\n"
      "  KEEL_LAYERS           layers between Keel and plugins, separated by "
      "',':\n"
      "                        validation  reports misuse of the ABI\n"
      "                        trace       logs each call with its time\n"
      "                        fault:SLOT=N:STATUS  makes the N-th call of a "
      "slot fail\n\n"
      "Exit status: 0 success, 1 failure, 2 wrong usage.\n");
}

/* The command of that name, or -1. */
static int tools_find(const char *name) {
  for (size_t i = 0; i < COMMANDS; i++)
    if (!strcmp(name, commands[i].name)) return (int)i;
  return -1;
}

static int run_command(int argc, char **argv) {
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
  int found = tools_find(argv[about ? 2 : 1]);
  if (found >= 0 && about) return commands[found].main(1, words);
  if (found >= 0) return commands[found].main(argc - 2, argv + 2);
  if (is_option(argv[1]) && !about)
    fprintf(stderr,
            "keel: the command must come first, and \"%s\" is an option; `keel"
            " --help` lists the commands\n",
            shown(argv[1]));
  else
    fprintf(stderr, "keel: unknown command \"%s\"; `keel --help` lists them\n",
            shown(argv[about ? 2 : 1]));
  return EXIT_USAGE;
}

int main(int argc, char **argv) {
  end_prepare();
  (void)keel_plain_begin(); /* a plugin may set the locale */
  return end_with(run_command(argc, argv));
}
