/* keel/program.h - programs: building or loading one, and running it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef KEEL_PROGRAM_H
#define KEEL_PROGRAM_H

#include <keel/op.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Functions made of ops. A finished program does not change. */
typedef struct keel_program keel_program;

/* A program under construction. One thread at a time. */
typedef struct keel_builder keel_builder;

/* A value inside a builder; KEEL_ABSENT stands for an omitted argument. */
typedef uint32_t keel_value;
#define KEEL_ABSENT UINT32_MAX

/* Starts a program. Every builder call that fails makes it useless but for
 * keel_builder_destroy, and keel_builder_finish says the first failure again,
 * so that a long construction may check just once. */
KEEL_API keel_status keel_builder_create(keel_context *context,
                                         const char *name,
                                         KD_OWNED keel_builder **out_builder);
KEEL_API void keel_builder_destroy(keel_builder *builder);

/* Adds an input; a dimension of -1 is left open until the program runs. */
KEEL_API keel_value keel_builder_input(keel_builder *builder, const char *name,
                                       kd_dtype dtype, uint32_t rank,
                                       const int64_t *dims);

/* Adds an input that takes a resource (op.h). */
KEEL_API keel_value keel_builder_resource(keel_builder *builder,
                                          const char *name);

/* Adds a constant; the tensor is retained, or a copy where its memory does not
 * begin at a multiple of 64. */
KEEL_API keel_value keel_builder_constant(keel_builder *builder,
                                          keel_tensor *tensor);

/* Adds an op with one output and returns it. Where the calling thread has pushed a
 * device, the op runs on that, whatever the plan's device. */
KEEL_API keel_value keel_builder_op(keel_builder *builder, const char *op,
                                    const keel_attr *attrs, uint32_t attr_count,
                                    const keel_value *inputs,
                                    uint32_t input_count);

/* Adds an op with several outputs. */
KEEL_API keel_status keel_builder_op_n(
    keel_builder *builder, const char *op, const keel_attr *attrs,
    uint32_t attr_count, const keel_value *inputs, uint32_t input_count,
    keel_value *outputs, uint32_t output_count);

/* Names a value as the program's next output. */
KEEL_API keel_status keel_builder_output(keel_builder *builder,
                                         const char *name, keel_value value);

/* Checks the program and hands it over; the builder is then empty and still to
 * be destroyed. Returns KD_OK, or the first failure. */
KEEL_API keel_status keel_builder_finish(keel_builder *builder,
                                         KD_OWNED keel_program **out_program);

/* Loads a model file; its kind is told by its contents: Keel's binary form, its text
 * (MLIR), or, where Keel was built with protobuf-c, ONNX. The binary form is mapped:
 * the file must stay as it is while the program, its plans or their values live.
 * Returns KD_OK, KD_NOT_FOUND (the file, or a device it is compiled for),
 * KD_PERMISSION_DENIED, KD_DATA_LOSS (damaged; the message says where),
 * KD_INCOMPATIBLE (of a later Keel), KD_UNIMPLEMENTED (an op or feature that Keel
 * does not have), KD_OUT_OF_MEMORY. */
KEEL_API keel_status keel_program_load(keel_context *context, const char *path,
                                       KD_OWNED keel_program **out_program);

/* As MLIR in generic syntax, which mlir-opt reads with --allow-unregistered-dialect, and
 * which has no compiled forms of regions: its plans compile them. Without it, in Keel's
 * binary form, which opens at once: nothing in it is parsed, and constants and compiled
 * forms are used where they lie in the file. */
#define KEEL_SAVE_TEXT 0x1u

/* Writes a program to a file, which is replaced as a whole or not at all. `flags` is 0 or
 * KEEL_SAVE_TEXT.
 * Returns KD_OK, KD_UNIMPLEMENTED (a constant's type has no text), KD_PERMISSION_DENIED,
 * KD_UNAVAILABLE (can't be written), KD_OUT_OF_MEMORY. */
KEEL_API keel_status keel_program_save(const keel_program *program,
                                       const char *path, uint32_t flags);

KEEL_API void keel_program_release(keel_program *program);

/* An input or output of a program. */
typedef struct keel_port {
  const char *name;    /* lives as long as the program */
  kd_dtype dtype;      /* KD_NONE: no tensor (a sequence, say), or not known */
  uint32_t rank;       /* KEEL_RANK_UNKNOWN where it is not known */
  const int64_t *dims; /* -1: open */
  uint32_t flags;
  /* By dimension: what the model calls an open one ("batch"), or NULL; those of one name
   * are to be equal. NULL: none has a name. */
  const char *const *symbols;
} keel_port;

#define KEEL_RANK_UNKNOWN UINT32_MAX
/* The port takes a sequence, optional or resource. */
#define KEEL_PORT_SEQUENCE 0x1u
#define KEEL_PORT_OPTIONAL 0x2u
#define KEEL_PORT_RESOURCE 0x4u

/* Returns KD_OK, KD_OUT_OF_RANGE. Inputs that have an initial value in the
 * model are not counted: they are constants. */
KEEL_API uint32_t keel_program_input_count(const keel_program *program);
KEEL_API keel_status keel_program_input(const keel_program *program,
                                        uint32_t index, keel_port *out_port);
KEEL_API uint32_t keel_program_output_count(const keel_program *program);
KEEL_API keel_status keel_program_output(const keel_program *program,
                                         uint32_t index, keel_port *out_port);

/* 1: an op of it, nested functions included, gives random numbers (not by a seed and
 * a counter that are values). */
KEEL_API int keel_program_is_random(const keel_program *program);

/* Ops in it, nested functions included. */
KEEL_API uint32_t keel_program_op_count(const keel_program *program);

/* A program made ready for a device: pruned, folded, placed and laid out. Any
 * number of threads may run one at once. */
typedef struct keel_plan keel_plan;

/* Ops without a device of their own go where they end first, by costs that are
 * measured on each device once (some milliseconds; more where it compiles). */
#define KEEL_PLAN_BY_COST 0x8u

/* Each op is called as keel_call calls one, in the order of the values: no pass runs that
 * can be left out, and nothing is planned ahead. To compare with. */
#define KEEL_PLAN_EAGER 0x10u

/* Where a program leaves dimensions open, a plan is made anew for a set of input types that
 * comes again, as if the program said them: up to eight at a time. This one leaves that. */
#define KEEL_PLAN_ONE 0x20u

/* On a device that records, a function whose ops are all its kernels is recorded when it
 * has run a few times, and launched as one from then on. This plan launches each kernel. */
#define KEEL_PLAN_NO_REPLAY 0x40u

/* A request that runs, or planning, end early: one for any number of them. */
typedef struct keel_stop keel_stop;

/* How to make a plan; zero is the default of each field. */
typedef struct keel_plan_params {
  uint32_t struct_size; /* sizeof(keel_plan_params) */
  uint32_t flags;       /* KEEL_PLAN_* */
  keel_device *device;  /* NULL: the calling thread's scope, the device that the
                           program was compiled for, or the default */

  /* Where single ops run: "GLOB=DEVICE", GLOB of the names of nodes or of ops; the
   * first that matches stands, and comes before the scope in which a builder
   * added the op. "GLOB=@OTHER": where the first op is that OTHER matches; where costs
   * decide, in one function. Of a device "cuda" is enough for "cuda:0". */
  const char *const *places;
  uint32_t place_count;

  /* Passes that are left out, by their names. */
  uint32_t skip_count;
  const char *const *skip;

  /* Called on the calling thread after the pass `watch_pass` (NULL: after each) with
   * the program as it then is, as MLIR; constants of more than a few elements are left
   * out. NULL: none. */
  void (*watch)(void *watch_context, const char *pass, const char *text);
  void *watch_context;
  const char *watch_pass;

  /* What ends planning early, as keel_run_params has it: asked, NULL: nobody does; and
   * nanoseconds that it may take, 0: any number. A kernel that folds constants, or a device's
   * compiler, is waited for; no other begins. Neither holds for runs of the plan. */
  keel_stop *stop;
  uint64_t timeout;
} keel_plan_params;

/* The passes that make a plan of a program, in their order: names, and what they do, in
 * a few words; NULL past the last. One that runs twice stands there twice, and is left
 * out at both. Not all can be. */
KEEL_API const char *keel_pass_name(uint32_t index);
KEEL_API const char *keel_pass_about(uint32_t index);
/* 1: it can't be left out. */
KEEL_API int keel_pass_needed(uint32_t index);

/* 1: it changes plans only, and not what keel_program_compile gives: what it makes is of
 * one process's devices. */
KEEL_API int keel_pass_last(uint32_t index);

/* Runs the passes that a plan with these parameters begins with, and gives what they
 * make of the program as a program, to be saved. A plan of that is for the same device
 * where nothing names another.
 * Where devices have compilers of their own, they compile their regions now, unless the
 * pass "regions" is left out, and the program holds the compiled forms beside its ops, as
 * its binary file will: a plan of it, in this process or another, compiles nothing where
 * plugin, version, options, product and driver are the same. A form that does not fit, or
 * is damaged, costs a warning in the log, and the region is compiled from the ops.
 * Returns as keel_plan_create does, without KD_UNIMPLEMENTED. */
KEEL_API keel_status keel_program_compile(const keel_program *program,
                                          const keel_plan_params *params,
                                          KD_OWNED keel_program **out_program);

/* Tells of regions that keel_program_compile has made: of how many the program holds the
 * compiled form, once for equal ones, the bytes of these, and how many have none, since
 * their plugin gives none: each process compiles those. Of a program from a file the last
 * is not known: 0. Any may be NULL. */
KEEL_API void keel_program_regions(const keel_program *program,
                                   uint32_t *out_held, uint64_t *out_size,
                                   uint32_t *out_bare);

/* Makes a plan; the program may be released before the plan, which then runs inputs of the
 * shapes that the program declares, and keeps no weights that its kernels hold in a form of
 * their own: so a model is held once. Keep the program where inputs of other shapes may
 * come.
 * Returns KD_OK, KD_NOT_FOUND (a device, a pass), KD_INVALID_ARGUMENT (a
 * placement), KD_UNIMPLEMENTED (no device has a kernel for an op; the message
 * names op and types), KD_CANCELLED, KD_DEADLINE_EXCEEDED (the message says before
 * which op), KD_OUT_OF_MEMORY. */
KEEL_API keel_status keel_plan_create(keel_program *program,
                                      const keel_plan_params *params,
                                      KD_OWNED keel_plan **out_plan);
KEEL_API void keel_plan_release(keel_plan *plan);

/* What its program declares, as keel_program_input and the others tell it; strings are
 * valid as long as the plan. */
KEEL_API uint32_t keel_plan_input_count(const keel_plan *plan);
KEEL_API keel_status keel_plan_input(const keel_plan *plan, uint32_t index,
                                     keel_port *out_port);
KEEL_API uint32_t keel_plan_output_count(const keel_plan *plan);
KEEL_API keel_status keel_plan_output(const keel_plan *plan, uint32_t index,
                                      keel_port *out_port);

/* Runs it and waits.
 *
 * inputs   one a program input, in order; pending ones are waited for. One of another
 *          shape than the program declares is run with a plan that looks at none, which is
 *          made then. It is refused, as one of another type is, where the program is
 *          compiled, or was released and declares every size
 * outputs  receives one a program output; each is the caller's to release
 * Returns KD_OK, or the first failure, with the node's name, op and shapes
 * (outputs are then NULL). */
KEEL_API keel_status keel_plan_run(keel_plan *plan, keel_tensor *const *inputs,
                                   uint32_t input_count,
                                   KD_OWNED keel_tensor **outputs,
                                   uint32_t output_count);

KEEL_API keel_status keel_stop_create(keel_context *context,
                                      KD_OWNED keel_stop **out_stop);
/* Runs that somebody waits for and that have it must have ended. NULL does nothing. */
KEEL_API void keel_stop_release(keel_stop *stop);
/* Asks, once and for good; any thread. why: for the runs' error, or NULL; copied. */
KEEL_API void keel_stop_ask(keel_stop *stop, const char *why);

/* Outputs that do not depend on a failure are made and handed out, and the others as
 * failed values. */
#define KEEL_RUN_PARTIAL 0x1u

/* How to run; zero is the default of each field. */
typedef struct keel_run_params {
  uint32_t struct_size; /* sizeof(keel_run_params) */
  uint32_t flags;       /* KEEL_RUN_* */
  keel_stop *stop;      /* ends the run when it is asked; NULL: nobody does */
  uint64_t timeout;     /* nanoseconds that it may take; 0: any number */
} keel_run_params;

/* Runs it and waits, as keel_plan_run does. Where it is to stop, or its time is over,
 * ops that run are waited for, and no other begins: not in nested functions, and not
 * where a pending input is waited for. The plan can be run again.
 * Returns KD_OK, the first failure, KD_CANCELLED or KD_DEADLINE_EXCEEDED (the message
 * says before which op); outputs are then NULL, or, with KEEL_RUN_PARTIAL, all there: an
 * output that has failed says why (keel_tensor_query). */
KEEL_API keel_status keel_plan_run_with(keel_plan *plan,
                                        const keel_run_params *params,
                                        keel_tensor *const *inputs,
                                        uint32_t input_count,
                                        KD_OWNED keel_tensor **outputs,
                                        uint32_t output_count);

/* Begins a run and returns: outputs are pending, and each becomes known when it is made, or
 * fails with the run, or, with KEEL_RUN_PARTIAL, with what it depends on. Inputs may be
 * pending, but for resources, and are of the shape that is declared then: ops that do not
 * need them run before they come. Plan, inputs and stop may be released at once. A stop or
 * timeout fails the outputs that are not known by then, and ends the run before its next op,
 * or when the input comes that it waits for: keel_close waits for that.
 * Returns KD_OK, or why it can't begin (outputs are then NULL). */
KEEL_API keel_status keel_plan_begin(keel_plan *plan,
                                     const keel_run_params *params,
                                     keel_tensor *const *inputs,
                                     uint32_t input_count,
                                     KD_OWNED keel_tensor **outputs,
                                     uint32_t output_count);

/* How many times a function of the plan has been run by launching a recording: since the
 * plan was made, with its plans for other types that still stand. */
KEEL_API uint64_t keel_plan_replays(keel_plan *plan);

/* Memory that values of the plan's main function take in a run, beside its inputs,
 * outputs and constants: bytes that are planned, that they would take apart, and the
 * most that is needed at once where ops run in their order. Any may be NULL.
 * Returns KD_OK, KD_FAILED_PRECONDITION (it is not planned: no run has ended well
 * and been followed by another of its types, or the function has ops that are run value
 * by value). */
KEEL_API keel_status keel_plan_memory(keel_plan *plan, uint64_t *out_planned,
                                      uint64_t *out_apart, uint64_t *out_least);

/* Where the time of a run went: one line an op of the plan. */
typedef struct keel_profile_line {
  const char *node;   /* the model's name for it, or "" */
  const char *op;     /* "Copy in", "Copy out": to the device, from it */
  const char *device; /* "cpu:0"; "host" for the runtime's own ops */
  char types[96];     /* "f32[1,64,56,56] f32[64]" : of its inputs */
  uint64_t calls;
  uint64_t time;   /* nanoseconds, all calls, as the host saw them */
  uint64_t copies; /* nanoseconds of them spent moving inputs; all of them
                      for a copy, from its start until the data has come */
  uint64_t
      device_time; /* nanoseconds that its kernels took by the device's clock */
  uint32_t timed;  /* 1: device_time is known (KEEL_PROFILE_CLOCKS, and the
                           plugin has time stamps); what the host saw of an
                           asynchronous device is no more than the launch */
  uint32_t reserved;
} keel_profile_line;

#define KEEL_PROFILE_OPS 1u /* ops, as the host sees their calls */
#define KEEL_PROFILE_CLOCKS \
  2u /* ops and devices by the devices' own clocks, too */

/* Starts counting these, or stops (0); starting clears. One plan at a time with
 * KEEL_PROFILE_CLOCKS: the clocks are for all. */
KEEL_API void keel_plan_profile(keel_plan *plan, uint32_t what);

/* What a device did from the first profiled run to the stop: nanoseconds. */
typedef struct keel_profile_device {
  const char *name; /* "vulkan:0" */
  uint64_t calls;   /* of ops, without copies */
  uint64_t wall;    /* in all */
  uint64_t kernels; /* of it in kernels */
  uint64_t copies;  /* moving data */
  uint64_t idle;    /* neither */
  uint64_t bytes;   /* moved; 0: not known */
  uint32_t timed;   /* 1: by the clock of the plugin's devices, of all of them
                       together; 0: as the host saw the calls */
  uint32_t reserved;
} keel_profile_device;

/* Devices that ran ops, in the context's order, after the stop.
 * Returns KD_OK, KD_OUT_OF_RANGE (past the last). */
KEEL_API keel_status keel_plan_profile_device(keel_plan *plan, uint32_t index,
                                              keel_profile_device *out_device);

/* Lines of the profile, in the plan's order; nested functions follow theirs, and then come
 * those of plans that were made for input types that came again or are not declared. Valid
 * until the profile is started again or the plan released.
 * Returns KD_OK, KD_OUT_OF_RANGE (past the last). */
KEEL_API keel_status keel_plan_profile_line(keel_plan *plan, uint32_t index,
                                            keel_profile_line *out_line);

#ifdef __cplusplus
}
#endif
#endif /* KEEL_PROGRAM_H */
