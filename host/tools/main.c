/* main.c - the `keel` command: which subcommand, and help. */
#include "tool.h"

static const struct {
  const char *name;
  int (*main)(int argc, char **argv);
  const char *text;
} commands[] = {
    {"plugins", keel_main_plugins, "what became of each plugin, and the mend"},
    {"devices", keel_main_devices, "the devices there are"},
    {"ops", keel_main_ops, "what a device can do, op by op and type by type"},
    {"passes", keel_main_passes, "what a model goes through before it runs"},
    {"compile", keel_main_compile, "write a model as a program of Keel's own"},
    {"run", keel_main_run, "run a model"},
    {"onnx-test", keel_main_onnx_test, "run ONNX backend-test folders"},
};

#define COMMANDS (sizeof commands / sizeof *commands)

static void help(FILE *file) {
  fprintf(file,
          "usage: keel COMMAND [OPTION]...\n\n"
          "Runs models on devices that plugins bring.\n\n");
  for (size_t i = 0; i < COMMANDS; i++)
    fprintf(file, "  %-10s %s\n", commands[i].name, commands[i].text);
  fprintf(file,
          "\n  --version  print the version\n"
          "  --help     this text; `keel COMMAND --help` says more\n\n"
          "Exit status: 0 all went well, 1 something failed, 2 wrong usage.\n");
}

int main(int argc, char **argv) {
  if (argc < 2) {
    help(stderr);
    return EXIT_USAGE;
  }
  if (is_help(argv[1]) || !strcmp(argv[1], "help")) {
    help(stdout);
    return 0;
  }
  if (!strcmp(argv[1], "--version")) {
    printf("keel %s, device ABI %d.%d\n", keel_version(), KD_ABI_MAJOR,
           KD_ABI_MINOR);
    return 0;
  }
  for (size_t i = 0; i < COMMANDS; i++)
    if (!strcmp(argv[1], commands[i].name))
      return commands[i].main(argc - 2, argv + 2);
  fprintf(stderr,
          "keel: there is no command \"%s\"; `keel --help` lists them\n",
          argv[1]);
  return EXIT_USAGE;
}
