/* run.h - `keel run` from inside: its arguments, its open objects, and its parts. */
#ifndef KEEL_RUN_H
#define KEEL_RUN_H

#include "parting.h"
#include "ranks.h"
#include "several.h"
#include "tool.h"

#define RUN_PORTS 256

typedef struct run_arguments {
  common common;
  operands models; /* one */
  const char *model, *device, *devices, *split, *output, *trace;
  word_list inputs, expects, shapes, dims, places, skips;
  uint64_t seed, repeat, ranks, parts;
  uint64_t exchange_timeout; /* milliseconds; 0: default */
  tolerance within;
  double timeout; /* milliseconds; 0: none */
  bool profile, json, by_cost, eager, no_replay;
} run_arguments;

typedef struct run_session {
  keel_context *context;
  keel_link *link;        /* to other ranks; NULL: there are none */
  keel_device *device;    /* the one asked for, or NULL */
  several several;        /* devices that are ranks */
  keel_split_facts facts; /* of a model that is split */
  uint64_t traced_from;   /* CLOCK_MONOTONIC, nanoseconds */
  keel_program *program;
  keel_plan *plan;
  uint32_t input_count, output_count;
  keel_tensor *inputs[RUN_PORTS], *outputs[RUN_PORTS];
  bool narrow; /* some plugins are not opened */
  bool told;   /* which inputs are random */
  double load_time, plan_time, first_time, best_time, total_time;
} run_session;

/* A part's result if more plugins must be opened first; else 0, or the exit status of a reported
 * error. */
#define RUN_WIDER (-1)

/* A failure. A device that was not opened yet may have the missing op. */
int run_fail_or_widen(const run_session *run, keel_status status);

/* ---- run_inputs.c ---- */

/* Fills dims by --shape for an input; false if none is given. */
bool run_given_shape(const run_arguments *all, const char *name, uint32_t *rank,
                     int64_t *dims);
/* Whether a program has a rank's handle among its inputs. */
bool run_exchanges(const keel_program *program);
/* Whether an input is the handle of this rank. */
bool run_is_member(const run_session *run, uint32_t index);
/* KEEL_FILE_* of an input or output. */
uint32_t run_file_kind(const keel_port *port);
/* Inputs from files, or at random. */
keel_status run_override(const run_arguments *all, run_session *run);
int run_load_inputs(const run_arguments *all, run_session *run);

/* ---- run_split.c ---- */

/* Each rank gets its program in place of the whole one. */
int run_split(const run_arguments *all, run_session *run);
/* All ranks' programs exchange the same; where they exchange nothing, each runs all of it. */
int run_check_ranks(const run_arguments *all, const run_session *run);

/* ---- run_results.c ---- */

/* Compares outputs with --expect: whether each agrees, in words, too. */
int run_compare(const run_arguments *all, run_session *run, bool *agree,
                char (*texts)[256]);
/* Writes what --output asks for. */
int run_save(const run_arguments *all, run_session *run);
void run_print_text(const run_arguments *all, run_session *run,
                    const bool *agree, char (*texts)[256]);
void run_print_json(const run_arguments *all, run_session *run,
                    const bool *agree, char (*texts)[256]);

#endif /* KEEL_RUN_H */
