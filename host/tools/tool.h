/* tool.h - shared by the parts of the `keel` command. */
#ifndef KEEL_TOOL_H
#define KEEL_TOOL_H

#include <keel/keel.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXIT_USAGE 2

/* The subcommands; each gets the words behind its name. */
int keel_main_plugins(int argc, char **argv);
int keel_main_devices(int argc, char **argv);
int keel_main_ops(int argc, char **argv);
int keel_main_passes(int argc, char **argv);
int keel_main_compile(int argc, char **argv);
int keel_main_run(int argc, char **argv);
int keel_main_tune(int argc, char **argv);
int keel_main_onnx_test(int argc, char **argv);
int keel_main_new_plugin(int argc, char **argv);
int keel_main_doctor(int argc, char **argv);

/* Prints "keel: " and this thread's message; returns 1. */
int complain(void);

/* Prints "keel WHAT: " and the text, and where help is; returns EXIT_USAGE. */
int usage_error(const char *command, const char *format, ...) KD_PRINTF(2, 3);

/* The value of option argv[*at], "--name VALUE" or "--name=VALUE"; NULL where argv[*at] is another
 * word. Moves *at to the last word taken. A missing value is reported, and *out_missing set; an
 * option is not a value. */
const char *option_value(int argc, char **argv, int *at, const char *name,
                         bool *out_missing);

/* Reads the value of an option: a number from 0, a whole one of a range. Else it is
 * reported, and false. */
bool read_number(const char *command, const char *name, const char *value,
                 double *out_number);
bool read_count(const char *command, const char *name, const char *value,
                uint64_t least, uint64_t most, uint64_t *out_count);

bool is_option(const char *word);
bool is_help(const char *word);

/* Options that every command has, for keel_open. */
typedef struct common {
  const char *command; /* "run": for what is wrong */
  bool runs;           /* it takes --threads, too */
  bool plain;      /* it opens no context: none of these options but --help */
  int32_t workers; /* as keel_context_params has it */
  const char *plugins[32];
  const char *options[32];
  uint32_t plugin_count, option_count;
  bool only;           /* only the plugins that --plugin names */
  const char *visible; /* as keel_context_params has it */
  bool failed;         /* a common option was wrong; it was reported */
} common;
bool common_option(common *common, int argc, char **argv, int *at);
keel_context *common_open(const common *common, uint32_t flags);
/* Shows what they do. */
void common_help(const common *common);

/* ---- a command's options ---- */

#define WORDS_MOST 256

/* A value that may be given several times. */
typedef struct word_list {
  const char *words[WORDS_MOST];
  uint32_t count;
} word_list;

/* An option, and where its value goes: one of the pointers is set. */
typedef struct option {
  const char *name;  /* "--device"; NULL ends a list */
  const char *value; /* as the help shows it: "D" */
  const char *help;  /* its help, in lines; NULL: another row has it */
  bool debug;        /* shown by --help-debug */
  bool *flag;        /* it has no value */
  const char **text;
  word_list *list;
  double *number;  /* from 0 */
  uint64_t *count; /* from least to most (0: any) */
  uint64_t least, most;
  bool (*take)(const char *value); /* false: it was wrong, which was reported */
} option;

/* Words that are not options, in their order. */
typedef struct operands {
  char **words;
  uint32_t count;
} operands;

typedef struct command {
  const char *help; /* what stands before the options */
  const option *options;
  common *common;
  operands *words; /* NULL: it takes options alone */
  bool one_word;   /* a model */
} command;

/* Reads a command line. Returns -1: go on; else what to exit with. */
int options_read(const command *command, int argc, char **argv);

/* One more; false where there are too many, which is reported. */
bool word_add(const command *command, const char *name, word_list *list,
              const char *word);

/* A value of --place: a rule, or "auto", which is none. */
bool place_add(const command *command, word_list *places, bool *by_cost,
               const char *value);

/* The size in "NAME=4", where NAME is the dimension's; else -1. */
int64_t size_for(const char *word, const char *name);

/* A line on a terminal's standard error that the next one overwrites; nothing if standard error is
 * not a terminal. */
void progress(const char *format, ...) KD_PRINTF(1, 2);
void progress_end(void);

/* Seconds of a clock that never goes back. */
double now(void);

/* Bytes of memory that the process has resident, now and at most: its own, and what it reads
 * of files. False where the system does not say. */
bool resident(uint64_t *out_now, uint64_t *out_most);

/* Between the two, the command ends with an error where it takes twice so many seconds and
 * one more: for what has a limit of its own, which something under way may not look at.
 * Not nested. 0: no limit. */
void guard_begin(const char *what, double seconds);
void guard_end(void);

/* A copy of a text that a device, a file or a model has brought, on one line and fit for a
 * terminal: the eighth call after takes its place. Cut with "..." after 1020 bytes. */
const char *shown(const char *text);

/* ---- random inputs ------------------------------------------------------- */

/* Fills `count` elements; zeroed room, where a type is smaller than a byte. Floats are in
 * [-1, 1), integers 0 or 1, which are indices in many models. `state` goes on. */
void random_fill(void *data, kd_dtype dtype, int64_t count, uint64_t *state);

/* ---- comparing ------------------------------------------------------------ */

/* How ONNX's backend test compares: |got - want| <= atol + rtol * |want|. */
typedef struct tolerance {
  double rtol, atol;
  double norm; /* atol is at least this part of the largest |want| */
} tolerance;

/* Whether two values agree; text has the first difference. */
bool values_agree(keel_tensor *got, keel_tensor *want, tolerance within,
                  char *text, size_t size);

/* ---- ONNX's cases ------------------------------------------------------------ */

typedef enum outcome { PASS, FAIL, SKIP } outcome;

/* Where and how a case is run. */
typedef struct onnx_case {
  keel_context *context;
  keel_device *device;
  tolerance within;
  bool eager; /* op by op */
  /* "text", "binary", "compiled": saved so and loaded again; or NULL */
  const char *through;
} onnx_case;

/* How much of a case ran on the device that was asked for: all of its ops that are
 * not the runtime's own, some, or none. */
typedef enum extent { WHOLE, PART, NONE } extent;

/* Runs the case in a folder; why has the failure, or what is missing. out_extent, where it passed,
 * may be NULL. */
outcome onnx_case_run(const onnx_case *how, const char *folder,
                      extent *out_extent, char *why, size_t size);

#endif /* KEEL_TOOL_H */
